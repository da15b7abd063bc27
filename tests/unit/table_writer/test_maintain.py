"""Maintenance of a table: what is due is done, by call and by command, whatever interrupts it."""

import concurrent.futures
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hudi_catalog
import table_writer.maintain as maintenance
from hudi_catalog.cli.main import app
from table_format.errors import OptionError, StorageError, TransactionError, UnsupportedTableError
from table_format.instant import State
from table_format.table.client import TableClient
from table_writer.cluster import run_planned
from table_writer.commit.clustering import pending_clusterings
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.local import LocalExecutor
from table_writer.metadata.writer import remove_indexes
from table_writer.plan.options import WriteOptions
from tests.support.faults import FaultyStorage, dying
from tests.support.toy_table import assert_tidy

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
SHORT = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
POLICY = {**SHORT, "hoodie.clean.failed.writes.policy": "EAGER", "hoodie.metadata.compact.max.delta.commits": "3"}


def make(path: Path, writes: int = 9) -> hudi_catalog.Table:
    """A table that nobody has cleaned or archived, with a write that its writer left."""
    options = {**BY_HAND, "hoodie.metadata.compact.max.delta.commits": "100"}
    table = hudi_catalog.create_table(path, "id bigint, v bigint", record_key="id", buckets=1, options=options)
    for value in range(writes):
        table.upsert([{"id": 1, "v": value}])
    transaction = WriteTransaction.begin(TableClient.open(str(path)), "commit", "UPSERT", BY_HAND)
    transaction.mark_inflight()
    transaction._give_up()
    return table


def rows(path: Path) -> list[int]:
    return hudi_catalog.open_table(path).scan().to_arrow()["v"].to_pylist()


@pytest.fixture(scope="module")
def neglected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("neglected") / "t"
    make(path)
    return path


@pytest.fixture
def path(neglected: Path, tmp_path: Path) -> Path:
    shutil.copytree(neglected, tmp_path / "t")
    return tmp_path / "t"


def test_a_neglected_table(path: Path) -> None:
    table = hudi_catalog.open_table(path, options=POLICY)
    before = sorted(str(file) for file in path.rglob("*") if not file.name.endswith(".crc"))
    begun: list[str] = []
    planned = table.maintain(dry_run=True, progress=begun.append)
    assert begun == ["settle", "clean", "expire", "cluster", "index", "compact", "archive"]
    assert sorted(str(file) for file in path.rglob("*") if not file.name.endswith(".crc")) == before
    states = {step.service: step.state for step in planned.steps}
    # instants are archived once the metadata table is compacted, which is not foreseen
    assert states == {
        "settle": "planned",
        "expire": "skipped",
        "index": "nothing",
        "cluster": "skipped",
        "clean": "planned",
        "compact": "planned",
        "archive": "nothing",
    }
    done = table.maintain()
    assert {step.service: step.state for step in done.steps} == {
        "settle": "done",
        "expire": "skipped",
        "index": "nothing",
        "cluster": "skipped",
        "clean": "done",
        "compact": "done",
        "archive": "done",
    }
    assert not done.failed
    assert done.steps[0].summary == "1 dead write"
    assert done.steps[1].report.files == 7
    assert rows(path) == [8]
    assert len(TableClient.open(str(path)).timeline().writes) == 3
    assert table.maintain().idle
    assert_tidy(str(path))


def test_services_by_name(path: Path) -> None:
    table = hudi_catalog.open_table(path, options=POLICY)
    report = table.maintain({"hoodie.catalog.maintain.services": "clean, settle,repair"})
    assert [(step.service, step.state) for step in report.steps] == [
        ("settle", "done"),
        ("repair", "nothing"),
        ("clean", "done"),
    ]
    with pytest.raises(OptionError, match=r"no service 'claen' .did you mean clean"):
        table.maintain({"hoodie.catalog.maintain.services": "claen"})
    spaced = {**POLICY, "hoodie.clean.trigger.max.commits": "50"}
    table.upsert([{"id": 1, "v": 9}])
    assert {step.service: step.state for step in table.maintain(spaced).steps}["clean"] == "nothing"


def test_indexes_that_the_options_name(path: Path) -> None:
    table = hudi_catalog.open_table(path, options=POLICY)
    only = {"hoodie.catalog.maintain.services": "index"}
    named = {**only, "hoodie.metadata.index.bloom.filter.enable": "true"}
    assert table.maintain(only).steps[0].state == "nothing"
    table.drop_index("column_stats")
    assert table.maintain(only).steps[0].state == "nothing"  # the default is for new tables
    named["hoodie.metadata.index.column.stats.column.list"] = "v"
    planned = table.maintain(named, dry_run=True)
    assert planned.steps[0].summary == "column_stats: missing; bloom_filters: missing"
    [done] = table.maintain(named).steps
    assert (done.state, [report.files for report in done.report.reports]) == ("done", [9, 9])
    assert set(table.client.reload().metadata_partitions) == {"files", "column_stats", "bloom_filters"}
    assert table.maintain(named).idle
    named["hoodie.metadata.index.column.stats.column.list"] = "id,v"
    assert table.maintain(named).steps[0].summary == "built column_stats: columns are id, v by the options"
    assert table.maintain(named).idle
    assert len(table.scan("v = 3").plan()) == 0
    assert table.maintain({**named, "hoodie.metadata.index.column.stats.column.list": "w"}).failed


def test_a_lost_record_index_is_built(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint, v bigint", record_key="id", index="RECORD_INDEX")
    table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    remove_indexes(table.client, ["record_index"])
    report = table.maintain()
    step = next(step for step in report.steps if step.service == "index")
    assert (step.state, step.summary) == ("done", "built record_index: missing, and writers find records by it")
    table.upsert([{"id": 1, "v": 5}])
    assert table.verify_index().is_right
    assert table.maintain().idle


CLUSTERED = {"hoodie.clustering.async.max.commits": "2", "hoodie.parquet.small.file.limit": "0"}


def small_files(path: Path, index: str = "RECORD_INDEX") -> hudi_catalog.Table:
    table = hudi_catalog.create_table(
        path / "t", "id bigint, v bigint", record_key="id", index=index, options=CLUSTERED, buckets=None
    )
    for number in range(3):
        table.insert([{"id": number, "v": number}])
    return table


def step_of(table: hudi_catalog.Table, **options: str) -> tuple[str, str]:
    keys = {f"hoodie.clustering.{name.replace('_', '.')}": value for name, value in options.items()}
    [step] = table.maintain({"hoodie.catalog.maintain.services": "cluster", **keys}).steps
    return step.state, step.summary


def test_clustering_by_policy(tmp_path: Path) -> None:
    table = small_files(tmp_path)
    assert step_of(table)[0] == "skipped"
    assert "hoodie.clustering.inline" in step_of(table)[1]
    assert step_of(table, async_enabled="true", async_max_commits="9") == (
        "skipped",
        "3 of 9 commits since the last clustering",
    )
    state, summary = step_of(table, async_enabled="true")
    assert state == "done"
    assert "clustered 3 files" in summary
    assert step_of(table, async_enabled="true") == ("skipped", "0 of 2 commits since the last clustering")
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [0, 1, 2]
    with pytest.raises(OptionError, match=r"schedule.inline are both true"):
        table.insert(
            [{"id": 9, "v": 9}], {"hoodie.clustering.inline": "true", "hoodie.clustering.schedule.inline": "true"}
        )


def test_clusterings_that_writers_plan(tmp_path: Path) -> None:
    table = small_files(tmp_path)
    planning = {"hoodie.clustering.schedule.inline": "true"}
    for number in (3, 4, 5):
        table.insert([{"id": number, "v": number}], planning)
    [pending] = pending_clusterings(table.client.timeline())  # one, though commits enough came for two
    state, summary = step_of(table)
    off = "hoodie.clustering.inline, .schedule.inline and .async.enabled are off"
    assert (state, summary) == (
        "skipped",
        f"{off}, and {pending.time} is planned, which `hudi-catalog cluster PATH --run` runs",
    )
    planned = table.maintain({**planning, "hoodie.catalog.maintain.services": "cluster"}, dry_run=True)
    assert pending.time in planned.steps[0].summary
    assert step_of(table, schedule_inline="true")[0] == "done"
    assert step_of(table, schedule_inline="true") == ("skipped", "none is planned, which writers do")
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == list(range(6))


@pytest.mark.slow
def test_a_plan_holds_neither_an_index_nor_the_next_services_back(tmp_path: Path) -> None:
    """Indexes are built beside plans, also of a run that died; the plan, older than the index, then runs with it."""
    table = small_files(tmp_path)
    planned = table.cluster(plan_only=True)
    table.insert([{"id": 9, "v": 9}])
    remove_indexes(table.client, ["record_index", "column_stats"])
    with dying(10):
        run_planned(TableClient.open(FaultyStorage(str(tmp_path / "t"))), WriteOptions.of({}), LocalExecutor(1))
    table.refresh()
    [pending] = pending_clusterings(table.client.timeline())
    assert pending.state is State.INFLIGHT
    named = {"hoodie.metadata.index.column.stats.column.list": "v", "hoodie.metadata.index.bloom.filter.enable": "true"}
    foreseen = {step.service: step for step in table.maintain(named, dry_run=True).steps}
    assert foreseen["settle"].report.rolled_back == (planned.instant,)
    done = {step.service: step for step in table.maintain(named).steps}
    assert (done["settle"].state, done["cluster"].state, done["index"].state) == ("done", "skipped", "done")
    assert f"and {planned.instant} is planned" in done["cluster"].summary
    assert [need.index for need in done["index"].report.needs] == ["record_index", "column_stats", "bloom_filters"]
    assert table.maintain(named).idle
    assert table.maintain({**named, "hoodie.clustering.schedule.inline": "true"}).steps[3].state == "done"
    assert table.maintain(named).idle
    assert table.verify_index().is_right
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [0, 1, 2, 9]
    assert sum(len(table.scan(f"v = {value}").plan()) for value in (0, 9)) == 2
    table.upsert([{"id": 1, "v": 5}, {"id": 9, "v": 6}])
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [0, 2, 5, 6]


def test_a_plan_without_a_listing_of_files(tmp_path: Path) -> None:
    options = {**CLUSTERED, "hoodie.metadata.enable": "false"}
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, v bigint", record_key="id", buckets=1, options=options
    )
    for number in range(3):
        table.insert([{"id": number, "v": number}])
    table.cluster("v", plan_only=True)
    with pytest.raises(TransactionError, match=r"pending.*cluster PATH --run"):
        table.build_index("column_stats", wait_seconds=0)
    table.run_clustering()
    assert table.build_index("column_stats", wait_seconds=0).files == 4


def test_a_plan_that_cannot_run_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_files(tmp_path)
    planned = table.cluster(plan_only=True)
    with monkeypatch.context() as patch:  # a writer that does not respect plans
        patch.setattr("table_writer.commit.conflicts.clustered_slots", lambda *_, **__: {})
        patch.setattr("table_writer.indexed_write.clustered_slots", lambda *_, **__: {})
        table.upsert([{"id": 1, "v": 7}])
    policy = {"hoodie.clustering.async.enabled": "true", "hoodie.catalog.maintain.services": "cluster"}
    [foreseen] = table.maintain(policy, dry_run=True).steps
    assert foreseen.summary == f"cannot run: {planned.instant}, of whose 3 files another tool has changed some"
    [done] = table.maintain(policy).steps
    assert (done.state, done.summary.split(":")[0]) == ("done", "cancelled")
    assert not pending_clusterings(table.client.timeline())
    assert "clustered 3 files" in table.maintain(policy).steps[0].summary
    assert table.maintain(policy).idle
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [0, 2, 7]


def test_tables_that_are_not_clustered(tmp_path: Path) -> None:
    table = small_files(tmp_path, "BUCKET")
    state, summary = step_of(table, async_enabled="true")
    assert (state, "buckets are not merged" in summary) == ("skipped", True)
    assert not table.maintain({"hoodie.clustering.async.enabled": "true"}).failed


def test_a_failing_service_leaves_the_others_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StorageError("the storage is away")

    table = hudi_catalog.open_table(path, options=POLICY)
    monkeypatch.setattr(maintenance, "clean", broken)
    report = table.maintain()
    assert report.failed
    assert {step.service: step.state for step in report.steps}["archive"] in ("done", "nothing")
    assert next(step for step in report.steps if step.service == "clean").summary == "the storage is away"
    monkeypatch.undo()
    monkeypatch.setattr(maintenance, "settle_locked", broken)
    assert [step.service for step in table.maintain().steps] == ["settle"]


@pytest.mark.slow
@pytest.mark.parametrize(("when", "first"), [("before", 1), ("after", 5)])
def test_killed_at_any_change_and_run_again(neglected: Path, tmp_path: Path, when: str, first: int) -> None:
    for at in range(first, 1000, 8):
        path = tmp_path / str(at)
        shutil.copytree(neglected, path)
        ended = False
        with dying(at, when):
            hudi_catalog.Table.open(FaultyStorage(str(path)), options=POLICY).maintain()
            ended = True
        table = hudi_catalog.open_table(path, options=POLICY)
        again = table.maintain()
        assert not again.failed, (at, again)
        assert table.maintain().idle, at
        assert rows(path) == [8]
        table.upsert([{"id": 1, "v": 10}])
        assert rows(path) == [10]
        if ended:
            break
    assert at > 20


def test_two_at_once(path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(hudi_catalog.open_table(path, options=POLICY).maintain) for _ in range(2)]
        reports = [run.result() for run in runs]
    assert not any(report.failed for report in reports)
    assert rows(path) == [8]
    assert hudi_catalog.open_table(path, options=POLICY).maintain().idle


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["maintain", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def test_the_command(path: Path, tmp_path: Path) -> None:
    config = tmp_path / "policy"
    config.write_text("".join(f"{key}={value}\n" for key, value in POLICY.items()))
    planned, _ = run(str(path), "--config", str(config), "--dry-run")
    assert planned.splitlines()[:2] == ["t: would do", "  settle   1 dead write"]
    text, _ = run(str(path), "--config", str(config), "--services", "settle,clean")
    assert [line.split()[0] for line in text.splitlines()] == ["t:", "settle", "clean"]
    table = json.loads(run(str(path), "--config", str(config), "--json")[0])
    assert [step["service"] for step in table["steps"]] == [
        "settle",
        "clean",
        "expire",
        "cluster",
        "index",
        "compact",
        "archive",
    ]
    assert table["steps"][6]["report"]["files"] > 0
    assert run(str(path), "--config", str(config)) == ("t: nothing to do\n", "")
    for wrong in (["--services", "claen"], ["-o", "hoodie.keep.min.commits=x"], ["-o", "hoodie.catalog.maintain=1"]):
        assert "hudi-catalog: " in run(str(path), *wrong, code=2)[1]


def test_a_warehouse(path: Path, tmp_path: Path) -> None:
    (tmp_path / "broken/.hoodie").mkdir(parents=True)
    (tmp_path / "broken/.hoodie/hoodie.properties").write_text("hoodie.table.name=b\nhoodie.table.version=99\n")
    make(tmp_path / "u", 2)
    newer = tmp_path / "newer"
    shutil.copytree(tmp_path / "u", newer)
    properties = newer / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "checksum" not in line]
    properties.write_text("\n".join(lines).replace("COPY_ON_WRITE", "MERGE_ON_READ") + "\n")
    policy = [word for key, value in POLICY.items() for word in ("-o", f"{key}={value}")]
    out, err = run(str(tmp_path), "--all", *policy, code=1)
    assert "t:\n  settle   1 dead write" in out
    assert "u:\n  settle   1 dead write" in out
    assert "newer: skipped: " in err
    assert "broken: " in err
    shutil.rmtree(tmp_path / "broken")
    tables = json.loads(run(str(tmp_path), "--all", "--json", *policy)[0])
    assert [(table["path"], "steps" in table) for table in tables] == [("newer", False), ("t", True), ("u", True)]
    with pytest.raises(UnsupportedTableError):
        run(str(newer))


@pytest.mark.slow
def test_what_a_dry_run_would_clean_is_cleaned_beside_a_clustering(tmp_path: Path) -> None:
    """A clean keeps all versions of a replaced group until the replacing commit is no longer retained."""
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, v bigint", record_key="id", index="RECORD_INDEX", options=BY_HAND
    )
    for value in range(6):
        table.upsert([{"id": 1, "v": value}])
    policy = {"hoodie.clean.commits.retained": "2", "hoodie.clustering.async.enabled": "true"}
    policy |= {"hoodie.clustering.async.max.commits": "2", "hoodie.clustering.plan.strategy.sort.columns": "v"}
    planned = {step.service: step for step in table.maintain(policy, dry_run=True).steps}
    done = {step.service: step for step in table.maintain(policy).steps}
    assert planned["clean"].report.files == done["clean"].report.files > 2
    assert done["cluster"].state == "done"
