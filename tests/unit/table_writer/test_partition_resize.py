"""Resizes of some partitions: their rules, files and properties, undoing them, and a crash at any step."""

import contextlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.table import Table, create_table, open_table
from table_format.config.table_config import load_table_config, update_table_config
from table_format.errors import ArgumentError, ConflictError, OptionError, UnsupportedTableError
from table_format.instant import State
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.partition_buckets import EXPRESSIONS, RULE_TYPE
from table_format.storage import Storage
from table_format.table.bucket_counts import RULES
from table_format.table.client import TableClient
from table_writer import resize as job
from table_writer.commit.conflicts import foreign_writes
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.property.profile import STRIDE
from tests.support.bucketed_tables import (
    EAGER,
    QUIET,
    SCHEMA,
    assert_pruned_plans_find_all,
    bucket_verdict,
    content,
    faulty,
    rows_in,
    tables_of,
)
from tests.support.crashed_jobs import publishes
from tests.support.faults import Faults, FaultyStorage, Frozen, dying, overtaken
from tests.support.local_writes import EXECUTORS

FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta"
PARTITIONS = ("a=1/x", "b+c", "b+cd")
rows = rows_in(PARTITIONS)
make = tables_of(rows)


def check_files(table: Table, counts: tuple[int, int, int]) -> None:
    """Each row is in the bucket that its partition's count says."""
    of = dict(zip(PARTITIONS, counts, strict=True))
    read = table.scan(columns=["id", "p", "_hoodie_file_name"]).to_arrow().to_pylist()
    assert read
    for row in read:
        assert int(row["_hoodie_file_name"][:8]) == bucket_id_one([row["id"]], of[row["p"]]), row


def rule_files(path: Path) -> list[str]:
    return sorted(file.stem for file in (path / FOLDER / "configs").glob("*"))


@pytest.mark.parametrize("executor", ["threads", "files"])
@pytest.mark.parametrize(("before", "after", "way"), [(4, 8, "split"), (4, 2, "merge"), (4, 3, "overwrite")])
def test_one_partition_changes_and_no_other(tmp_path: Path, before: int, after: int, way: str, executor: str) -> None:
    table = make(tmp_path, before)
    rows_before = content(table)
    files = {split.path for split in table.scan().plan().splits if split.partition != "b+c"}
    request = job.ResizeRequest(after, ("b+c",))
    report = job.resize(table.client, WriteOptions.of(QUIET), EXECUTORS[executor](), request)
    table = open_table(tmp_path / "t")
    assert (report.way, report.before, report.after, report.partitions, report.rows) == (way, before, after, 1, 20)
    assert content(table) == rows_before
    assert_pruned_plans_find_all(table, rows_before)
    assert bucket_verdict(table).startswith(f"1 of {min(before, after)}, 1 of {max(before, after)} buckets")
    check_files(table, (before, after, before))
    assert files == {split.path for split in table.scan().plan().splits if split.partition != "b+c"}
    config = table.config
    assert (config.bucket_count, config.raw[EXPRESSIONS], config.raw[RULE_TYPE]) == (
        before,
        rf"^b\+c$,{after}",
        "regex",
    )
    assert rule_files(tmp_path / "t") == [report.instant] == [config.raw[RULES]]
    stored = json.loads((tmp_path / "t" / FOLDER / f"configs/{report.instant}.hashing_config").read_text())
    assert stored == {
        "expressions": rf"^b\+c$,{after}", "defaultBucketNumber": before, "rule": "regex", "version": 1,
        "instant": report.instant,
    }  # fmt: skip
    # an earlier state has other buckets, of which nothing is recorded
    first = table.client.timeline().writes[0].time
    assert content(table, as_of=first) == rows_before
    assert "they changed, and this is an earlier state" in bucket_verdict(table, as_of=first)
    table.upsert(rows(*range(10, 90), value=100), QUIET)
    check_files(table, (before, after, before))
    assert len(content(table)) == 90
    assert content(table, as_of=report.instant) == rows_before
    assert bucket_verdict(table, as_of=report.instant).startswith("1 of ")
    assert_pruned_plans_find_all(table, rows_before, as_of=report.instant)


def test_partitions_of_several_counts_and_patterns(tmp_path: Path) -> None:
    table = make(tmp_path, options={EXPRESSIONS: "^b,6"})
    before = content(table)
    with pytest.raises(UnsupportedTableError, match=r"own bucket counts, by the rules '\^b,6'; name those to resize"):
        table.resize(8, options=QUIET)
    with pytest.raises(ArgumentError, match=r"these partitions have 4, 6 buckets; resize those of one number"):
        table.resize(auto=True, partitions="*", options=QUIET)
    planned = table.resize(12, partitions=["b*", "a=1/x"], dry_run=True)
    assert (planned.state, planned.before, planned.way, planned.partitions) == ("dry run", 6, "split", 3)
    assert str(planned).startswith("would resize 6 to 12 buckets by split: ")
    report = table.resize(3, partitions="*", options=QUIET)
    assert (report.way, report.partitions) == ("mixed", 3)
    assert "6 to 3 buckets in several ways" in str(report)
    check_files(table, (3, 3, 3))
    assert table.config.raw[EXPRESSIONS] == r"^a=1/x$,3;^b\+c$,3;^b\+cd$,3;^b,6"
    assert (report.rules, content(table)) == (table.config.raw[EXPRESSIONS], before)
    # back by the rules that were there: only what differs is rewritten, and needs no rule of its own
    report = table.resize(6, partitions="b*", options=QUIET)
    assert (report.partitions, report.rules) == (2, "^a=1/x$,3;^b,6")
    assert table.resize(6, partitions="b*").state == "nothing"
    check_files(table, (3, 6, 6))
    assert_pruned_plans_find_all(table, before)


@pytest.mark.parametrize("partition", ["b+d", "b", "B+C", "[b]+c", "a=1/?"])
def test_a_partition_that_is_not_there(tmp_path: Path, partition: str) -> None:
    table = make(tmp_path)
    with pytest.raises(ArgumentError, match="no partition with files is named so"):
        table.resize(8, partitions=["b+c", partition])
    assert not (tmp_path / "t" / FOLDER).exists()


def test_tables_that_are_resized_otherwise(tmp_path: Path) -> None:
    whole = create_table(tmp_path / "whole", SCHEMA, record_key="id", buckets=4)
    whole.insert(rows(*range(9)), QUIET)
    with pytest.raises(UnsupportedTableError, match="a table without partitions is resized as a whole"):
        whole.resize(8, partitions="x")
    named = create_table(tmp_path / "named", SCHEMA, record_key="id", partition_by="p", buckets=4)
    named.insert([{"id": "k", "p": "x,y", "v": 1}], QUIET)
    with pytest.raises(UnsupportedTableError, match="'x,y': a path with a comma or a semicolon cannot have"):
        named.resize(8, partitions="x,y")
    assert bucket_verdict(named, "k").startswith("1 of 4")


def test_whole_and_part_in_turns(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = content(table)
    table.resize(2, options=QUIET)
    table.resize(8, partitions="b+cd", options=QUIET)
    check_files(table, (2, 2, 8))
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), before)
    first, whole, _ = (write.time for write in table.client.timeline().writes)
    table.restore(whole, QUIET)
    assert (table.config.raw[EXPRESSIONS], table.config.raw[RULES]) == ("", "")
    assert not (tmp_path / "t" / FOLDER).exists()
    assert bucket_verdict(table).startswith("1 of 2")
    table.upsert(rows(1, 2, 3, value=9), QUIET)
    check_files(table, (2, 2, 2))
    table.restore(first, QUIET)
    assert content(open_table(tmp_path / "t")) == before
    assert bucket_verdict(table).startswith("1 of 4")


def test_undone_resizes_bring_the_rules_before_back(tmp_path: Path) -> None:
    table = make(tmp_path, options={EXPRESSIONS: "^a,2"})
    times = [table.resize(count, partitions="b+c", options=QUIET).instant for count in (8, 16)]
    assert all(times)
    table.rollback(str(times[1]), QUIET)
    assert (table.config.raw[EXPRESSIONS], table.config.raw[RULES]) == (r"^b\+c$,8;^a,2", times[0])
    check_files(table, (2, 8, 4))
    assert bucket_verdict(table).startswith("1 of 2, 1 of 4, 1 of 8")
    table.rollback(str(times[0]), QUIET)
    assert (table.config.raw[EXPRESSIONS], table.config.raw[RULES]) == ("^a,2", "")
    assert rule_files(tmp_path / "t") == ["00000000000000"]
    assert bucket_verdict(table).startswith("1 of 2, 1 of 4")
    table.upsert(rows(*range(0, 60, 7), value=5), QUIET)
    check_files(table, (2, 4, 4))


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["", "^a,2"])
def test_a_restore_takes_several_resizes_back(tmp_path: Path, rules: str) -> None:
    table = make(tmp_path, options={EXPRESSIONS: rules} if rules else {})
    before, counts = content(table), (2 if rules else 4, 4, 4)
    first = table.client.timeline().writes[0].time
    for count in (8, 4, 16):
        table.resize(count, partitions="b*", options=QUIET)
    with dying_before_the_counts_are_settled():
        table.restore(first, QUIET)
    table = open_table(tmp_path / "t")  # the restore has taken effect, and the properties lag behind
    assert content(table) == before
    assert_pruned_plans_find_all(table, before)
    open_table(tmp_path / "t").upsert(rows_of_all(), QUIET)
    table = open_table(tmp_path / "t")
    check_files(table, counts)
    assert (table.config.raw[EXPRESSIONS], table.config.raw[RULES]) == (rules, "")
    assert rule_files(tmp_path / "t") == (["00000000000000"] if rules else [])
    for count in (8, 2):
        table.resize(count, partitions="b*", options=QUIET)
    table.restore(first, QUIET)
    assert (table.config.raw[EXPRESSIONS], table.config.raw[RULES]) == (rules, "")
    check_files(table, counts)


@contextlib.contextmanager
def dying_before_the_counts_are_settled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Frozen):

        def settle(*_: Any) -> None:
            raise Frozen

        patch.setattr("table_writer.commit.restore.settle_counts", settle)
        yield


def rows_of_all() -> pa.Table:
    return rows(*range(0, 60, 7), value=5)


def test_other_writers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job with older rules is warned; one of another tool wants somebody's word."""
    older = {EXPRESSIONS: "^a,2", **QUIET}
    table = make(tmp_path, options={EXPRESSIONS: "^a,2"})
    table.resize(8, partitions="a=1/x", options=QUIET)
    with caplog.at_level(logging.WARNING):
        table.upsert(rows(1, value=5), older)
    assert (
        "partitions of this table were resized, and hoodie.bucket.index.partition.expressions=^a=1/x$,8;^a,2 counts"
        in (caplog.text)
    )
    check_files(table, (8, 4, 4))
    commit = table.client.timeline().path(table.client.timeline().writes[-1])
    text = table.client.storage.read(commit).decode().replace("hoodie.catalog.table.properties", "of.somebody")
    table.client.storage.overwrite(commit, text.encode())
    with pytest.raises(OptionError, match="is of another tool"):
        table.refresh().resize(2, partitions="b+c", options=QUIET)
    table.resize(4, partitions="a=1/x", acknowledge_fixed_writers=True, options=QUIET)
    check_files(table, (4, 4, 4))


@pytest.mark.slow
def test_writes_beside_a_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that begins before it completes is tried again by the new rules."""
    table = make(tmp_path)
    for count in (8, 16):
        other = partial(open_table(tmp_path / "t").resize, count, partitions="b+c", options=QUIET)
        overtaken(monkeypatch, other)
        table.upsert(rows(*range(100, 140)), QUIET)
        check_files(open_table(tmp_path / "t"), (4, count, 4))
    assert len(content(table)) == 100


def resized(client: TableClient, count: int, *partitions: str) -> None:
    job.resize(client, WriteOptions.of(EAGER), LocalExecutor(1), job.ResizeRequest(count, partitions))


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["", "^a,2"])
def test_a_process_that_dies_at_any_step(tmp_path: Path, rules: str) -> None:
    """Readers that opened the table before or after, and the next writer, see one of the two states."""
    make(tmp_path, 4, 30, options={EXPRESSIONS: rules} if rules else {})
    before, template = content(open_table(tmp_path / "t")), tmp_path / "t"
    FaultyStorage.faults = Faults()
    shutil.copytree(template, tmp_path / "whole")
    resized(faulty(tmp_path / "whole"), 8, "b+c")
    steps = FaultyStorage.faults.log
    telling = [
        at
        for at, step in enumerate(steps, 1)
        if publishes(step) or "hoodie.properties" in step or "hashing_config" in step
    ]
    assert len(telling) >= 10
    ends = set()
    for at in sorted({*telling, *range(1, len(steps), 4 * STRIDE)}):
        copy = Path(shutil.copytree(template, tmp_path / f"copy{at}"))
        opened = open_table(copy)  # reads the properties
        with dying(at):
            resized(faulty(copy), 8, "b+c")
        for table in (opened, open_table(copy)):
            assert content(table) == before
            assert_pruned_plans_find_all(table, before)
        table = open_table(copy)
        table.upsert(rows(*range(5), 99, 100, value=7), EAGER)
        assert len(content(open_table(copy))) == len(before) + 2
        table = open_table(copy)
        first = 2 if rules else 4
        done = "b" in table.config.raw.get(EXPRESSIONS, "")
        ends.add(done)
        check_files(table, (first, 8 if done else 4, 4))
        assert bucket_verdict(table).startswith("1 of "), bucket_verdict(table)
        assert not table.config.raw.get(RULES, "").endswith("?")
        assert rule_files(copy) == (["00000000000000"] if rules else []) + ([table.config.raw[RULES]] if done else [])
        table.resize(8, partitions="b+c", options=EAGER)
        check_files(open_table(copy), (first, 8, 4))
        assert_pruned_plans_find_all(open_table(copy), content(table))
        shutil.rmtree(copy)
    assert ends == {False, True}


def test_a_write_of_ours_that_ends_meanwhile_is_not_taken_for_another_tools(tmp_path: Path) -> None:
    """Its heartbeat is gone, and the timeline was loaded while it was pending."""
    table = make(tmp_path)
    client = TableClient.open(str(tmp_path / "t"))
    with WriteTransaction.begin(client, "commit", "UPSERT", EAGER) as transaction:
        transaction.mark_inflight()
        loaded = table.client.timeline()
        assert [one.time for one in loaded.pending] == [transaction.instant]
        assert foreign_writes(loaded) == []
    assert foreign_writes(loaded) == []  # rolled back
    loaded = table.client.timeline()
    pending = loaded.writes[-1].at(State.INFLIGHT)
    assert foreign_writes(replace(loaded, instants=(*loaded.instants[:-1], pending))) == []  # completed
    table.client.storage.create(".hoodie/20200101000000000.commit.requested", b"")
    assert [one.time for one in foreign_writes(table.client.timeline())] == ["20200101000000000"]


def test_properties_that_another_tool_drops_come_back(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.resize(8, partitions="b+c", options=QUIET)
    raw = load_table_config(Storage(tmp_path / "t")).raw
    dropped = [key for key in raw if key.startswith(("hoodie.bucket.", "hoodie.catalog.", "hoodie.index."))]
    update_table_config(Storage(tmp_path / "t"), dict.fromkeys(dropped))
    before = content(open_table(tmp_path / "t"))
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), before)
    open_table(tmp_path / "t").upsert(rows(1, value=3), QUIET)
    check_files(open_table(tmp_path / "t"), (4, 8, 4))
    assert load_table_config(Storage(tmp_path / "t")).raw[RULES] == raw[RULES]


@pytest.mark.parametrize("fails", [True, False])
def test_a_resize_that_another_write_overtakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    table = make(tmp_path)
    plain = job._rewritten

    def rewritten(*arguments: Any) -> Any:
        monkeypatch.setattr(job, "_rewritten", plain)
        open_table(tmp_path / "t").upsert(rows(1, 100, value=3), QUIET)
        return plain(*arguments)

    monkeypatch.setattr(job, "_rewritten", rewritten)
    if fails:
        with pytest.raises(ConflictError):
            table.resize(8, partitions="b+c", options={**QUIET, "hoodie.catalog.write.retries": "0"})
    else:
        table.resize(8, partitions="b+c", options=QUIET)
    table = open_table(tmp_path / "t")
    assert (tmp_path / "t" / FOLDER).exists() is not fails
    assert bucket_verdict(table).startswith("1 of 4 " if fails else "1 of 4, 1 of 8 ")
    assert len(content(table)) == 61
    check_files(table, (4, 4 if fails else 8, 4))


@pytest.mark.slow
def test_a_write_of_another_partition_beside_a_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instant is later than the resize's, and it records the rules before."""
    table = make(tmp_path, 4)
    table.resize(2, partitions=PARTITIONS[0], options=QUIET)
    plain = job._rewritten

    def rewritten(*arguments: Any) -> Any:
        open_table(tmp_path / "t").upsert(pa.table([["new"], ["c"], [1]], schema=SCHEMA), QUIET)
        return plain(*arguments)

    monkeypatch.setattr(job, "_rewritten", rewritten)
    assert open_table(tmp_path / "t").resize(8, partitions=PARTITIONS[0], options=QUIET).state == "completed"
    monkeypatch.setattr(job, "_rewritten", plain)
    before = content(open_table(tmp_path / "t"))
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), before)
    open_table(tmp_path / "t").upsert(rows(6, value=5), QUIET)
    table = open_table(tmp_path / "t")
    assert f"{PARTITIONS[0]}$,8" in table.config.raw[EXPRESSIONS].replace("\\", "")
    assert_pruned_plans_find_all(table, content(table))
    assert table.resize(3, partitions="c", options=QUIET).state == "completed"
