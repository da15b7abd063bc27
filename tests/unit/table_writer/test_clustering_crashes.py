"""Clusterings that die, fail or run beside others: what comes next goes on."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.table import Table, open_table
from table_format.errors import (
    HudiError,
    TransactionError,
)
from table_format.instant import State
from table_format.table.client import TableClient
from table_writer import clustering_job
from table_writer.cluster import run_planned
from table_writer.commit.clustering import pending_clusterings
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.property.profile import STRIDE
from tests.support.clustered_tables import (
    EACH_ITS_FILE,
    SIZE,
    assert_named,
    assert_whole,
    clustered,
    content,
    faulty,
    make,
    rows,
)
from tests.support.faults import Faults, FaultyStorage, Frozen, dying
from tests.support.paths import ROOT


def runs_the_plan(client: TableClient) -> None:
    run_planned(client, WriteOptions.of({"hoodie.catalog.write.progress": "false"}), LocalExecutor(1))


AFTER_A_CRASH: list[Callable[[Table], Any]] = [
    lambda table: table.upsert(rows(1, 30)),
    lambda table: table.cluster(["x", "y"], options=SIZE),
    lambda table: table.maintain(),
    lambda table: table.repair(),
    lambda table: table.run_clustering(),
]


def assert_goes_on(table: Table, before: list[dict[str, Any]], at: int) -> None:
    """Whatever comes next settles a clustering that died, by default options; then writes change its files."""
    AFTER_A_CRASH[at % len(AFTER_A_CRASH)](table)
    table.upsert(rows(1, 20))
    assert not table.client.timeline().pending
    table.refresh()
    assert [row["_hoodie_record_key"] for row in content(table)] == [row["_hoodie_record_key"] for row in before]
    if table.config.index_type != "BUCKET":
        assert table.verify_index().is_right
    assert_named(table)
    table.repair(minutes=0)
    assert not list(Path(table.client.storage.uri.removeprefix("file://")).glob(".hoodie/.temp/*"))
    assert table.files().num_rows


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [None, 1])
def test_a_crash_at_any_step(tmp_path: Path, buckets: int | None) -> None:
    """The process dies before a change of the storage: the rows are there, and whatever comes next goes on."""
    make(tmp_path, buckets=buckets, writes=2)
    before = content(open_table(tmp_path / "t"))
    for at in range(1, 400, STRIDE):
        copy = copied(tmp_path, at)
        FaultyStorage.faults = Faults()
        with dying(at):
            clustered(faulty(copy))
            break
        table = open_table(copy, options=EACH_ITS_FILE)
        assert content(table) == before
        assert len(pending_clusterings(table.client.timeline())) <= 1
        assert_goes_on(table, before, at)
    else:
        pytest.fail("it always died")
    assert at > 20


@pytest.mark.slow
def test_a_rollback_of_a_clustering_that_dies(tmp_path: Path) -> None:
    """However often it dies, the next write goes on."""
    make(tmp_path, writes=2)
    before = content(open_table(tmp_path / "t"))
    with dying(25):
        clustered(faulty(tmp_path / "t"))
    [pending] = pending_clusterings(TableClient.open(str(tmp_path / "t")).timeline())
    assert pending.state is State.INFLIGHT
    for at in range(1, 100, STRIDE):
        copy = copied(tmp_path, at)
        with dying(at):
            rollback_failed_writes(faulty(copy))
            break
        assert_goes_on(open_table(copy, options=EACH_ITS_FILE), before, at)
    else:
        pytest.fail("it always died")
    assert at > 5


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [None, 1])
def test_a_crash_of_a_plans_run_at_any_step(tmp_path: Path, buckets: int | None) -> None:
    """The process dies before a change of the storage: the rows are there, and the plan can be run or is done."""
    planned = make(tmp_path, buckets=buckets, writes=2).cluster(["x", "y"], "hilbert", options=SIZE, plan_only=True)
    before = content(open_table(tmp_path / "t"))
    for at in range(1, 400, STRIDE):
        copy = copied(tmp_path, at)
        FaultyStorage.faults = Faults()
        with dying(at):
            runs_the_plan(faulty(copy))
            break
        table = open_table(copy, options=EACH_ITS_FILE)
        assert content(table) == before
        pending = [one.time for one in pending_clusterings(table.client.timeline())]
        last = table.history()[-1]
        done = last.operation == "CLUSTER" and last.state == "COMPLETED"
        assert pending == ([] if done else [planned.instant])
        if pending:
            with pytest.raises(TransactionError, match=f"{planned.instant}.*cluster PATH --run"):
                table.upsert(rows(1, 30))
            table.maintain()
            assert [report.instant for report in table.run_clustering()] == pending
            assert not pending_clusterings(table.client.timeline())
        assert_goes_on(table, before, at)
    else:
        pytest.fail("it always died")
    assert at > 20


KILLED = """
import sys
from tests.support.faults import Faults, FaultyStorage
from tests.support.clustered_tables import clustered, faulty
client = faulty(sys.argv[1])
FaultyStorage.faults = Faults(int(sys.argv[2]), "before", "kill")
clustered(client)
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", range(6, 46, 8))
def test_a_process_that_is_killed(tmp_path: Path, at: int) -> None:
    """Its heartbeat names it, so that it is known to be dead at once."""
    table = make(tmp_path, writes=2)
    before = content(table)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "t"), str(at)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert_goes_on(open_table(tmp_path / "t", options=EACH_ITS_FILE), before, at // 8)


def test_a_clustering_that_runs_is_not_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by EAGER either, whose writers take clusterings to run beside them."""
    table = make(tmp_path)
    other = open_table(tmp_path / "t", options=EACH_ITS_FILE)
    rewrite, met = clustering_job._rewrite, []

    def meanwhile(*arguments: Any) -> Any:
        for policy in ("LAZY", "EAGER"):
            options = {"hoodie.clean.failed.writes.policy": policy}
            with pytest.raises(TransactionError, match="planned before this write began"):
                other.upsert(rows(1, 3), options)
            with pytest.raises(
                TransactionError, match=r"another writer runs clustering \d+\. Wait until it has ended$"
            ):
                other.run_clustering(options=options)
            met.append(other.maintain(options).failed)
        assert other.cluster("x").state == "nothing"
        return rewrite(*arguments)

    monkeypatch.setattr(clustering_job, "_rewrite", meanwhile)
    before = content(table)
    assert table.cluster(["x"], options=SIZE).state == "completed"
    assert met == [False, False]
    assert_whole(table, before)


def test_a_clustering_after_a_commit_that_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}
    make(tmp_path, writes=2)
    with monkeypatch.context() as patch, dying(0):
        patch.setattr(clustering_job, "_rewrite", dies)
        Table.open(FaultyStorage(str(tmp_path / "t")), options={**EACH_ITS_FILE, **inline}).insert(rows(2))
    table = open_table(tmp_path / "t", options=EACH_ITS_FILE)
    assert len(pending_clusterings(table.client.timeline())) == 1
    table.upsert(rows(0, 5), inline)
    assert [one.operation for one in table.history()][-2:] == ["UPSERT", "CLUSTER"]
    assert len(content(table)) == 1800


def dies(*_: object) -> Any:
    FaultyStorage.faults = Faults(1, "before", "freeze")
    raise Frozen


@pytest.mark.slow
def test_an_error_at_any_step(tmp_path: Path) -> None:
    """The storage fails once: the call fails and leaves no plan, or it succeeds."""
    make(tmp_path, writes=2)
    before = content(open_table(tmp_path / "t"))
    for at in range(2, 400, STRIDE):
        copy = copied(tmp_path, at)
        client = faulty(copy)
        FaultyStorage.faults = Faults(at)
        try:
            clustered(client)
            failed = False
        except HudiError:
            failed = True
        finally:
            count, FaultyStorage.faults = FaultyStorage.faults.count, Faults()
        table = open_table(copy, options=EACH_ITS_FILE)
        assert_whole(table, before)
        if failed:
            assert_goes_on(table, before, at)
        if not failed and count < at:
            break
    else:
        pytest.fail("it always failed")


@pytest.mark.slow
def test_a_rollback_to_the_plan_that_dies(tmp_path: Path) -> None:
    """However often it dies, the plan stays and can be run."""
    make(tmp_path, writes=2).cluster(["x", "y"], options=SIZE, plan_only=True)
    before = content(open_table(tmp_path / "t"))
    with dying(25):
        runs_the_plan(faulty(tmp_path / "t"))
    eager = WriteOptions.of({"hoodie.clean.failed.writes.policy": "EAGER", "hoodie.catalog.write.progress": "false"})
    for at in range(1, 100, STRIDE):
        copy = copied(tmp_path, at)
        [pending] = pending_clusterings(TableClient.open(str(copy)).timeline())
        assert pending.state is State.INFLIGHT
        with dying(at):
            run_planned(faulty(copy), eager, LocalExecutor(1))
        table = open_table(copy)
        assert content(table) == before
        if not pending_clusterings(table.client.timeline()):
            break
        reports = run_planned(TableClient.open(str(copy)), eager, LocalExecutor(1))
        assert [report.instant for report in reports] == [pending.time]
        assert_whole(open_table(copy), before)
    else:
        pytest.fail("it always died")


def test_plans_run_one_after_the_other_though_a_run_of_the_first_died(tmp_path: Path) -> None:
    """The rollback of that run is newer than the second plan, which sees the first one completed."""
    table = make(tmp_path, writes=2)
    table.cluster("x", plan_only=True, partitions="a")
    with dying(25):
        run_planned(faulty(tmp_path / "t"), WriteOptions.of({}), LocalExecutor(1))
    [first] = pending_clusterings(table.client.timeline())
    assert first.state is State.INFLIGHT
    second = table.cluster("x", plan_only=True, partitions="b")
    before = content(table)
    assert [report.instant for report in table.run_clustering()] == [first.time, second.instant]
    assert_whole(table, before)


def copied(folder: Path, number: int) -> Path:
    """A copy of the table, in place of earlier ones."""
    for earlier in folder.glob("copy*"):
        shutil.rmtree(earlier)
    target = folder / f"copy{number}"
    shutil.copytree(folder / "t", target)
    return target
