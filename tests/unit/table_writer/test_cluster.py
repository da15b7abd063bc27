"""Clustering a table: what is planned, what is written, and what happens beside it and after a crash."""

import logging
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_catalog.table import create_table, open_table
from table_format.errors import (
    ArgumentError,
    ConflictError,
    OptionError,
    SchemaError,
    TransactionError,
    UnsupportedTableError,
)
from table_format.slices.file_names import bucket_of_file_id
from table_writer.commit.clustering import pending_clusterings, read_plan
from table_writer.execution.local import LocalExecutor
from tests.support.clustered_tables import (
    EACH_ITS_FILE,
    SCHEMA,
    SIZE,
    assert_whole,
    content,
    make,
    rows,
)
from tests.support.faults import InjectedError, overtaken


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["linear", "z-order", "hilbert", "zorder"])
def test_rows_move_and_nothing_else(tmp_path: Path, strategy: str) -> None:
    table = make(tmp_path)
    before, newest = content(table), table.history()[-1].instant
    planned = table.cluster(["x", "y"], strategy, options=SIZE, dry_run=True)
    assert (planned.state, planned.files_before, planned.groups, planned.instant) == ("dry run", 9, 3, None)
    assert content(table) == before
    report = table.cluster(["x", "y"], strategy, options=SIZE)
    assert (report.state, report.files_before, report.rows) == ("completed", 9, 1800)
    assert report.files_after == table.files().num_rows > 3
    assert dict(report.kept_after)["x"] < 0.7 < 0.9 < dict(report.kept_before)["x"]
    assert_whole(table, before)
    last = table.history()[-1]
    assert (last.action, last.operation) == ("replacecommit", "CLUSTER")
    assert content(table, as_of=newest) == before
    assert table.scan("x < 20").to_arrow().num_rows == sum(row["x"] < 20 for row in before)
    assert len(table.scan("x < 20").plan()) < table.files().num_rows
    assert table.scan(incremental=(newest, last.instant)).to_arrow().num_rows == 0
    table.upsert(rows(1, 30))
    assert_whole(table, content(table))
    assert len(content(table)) == 1800


def test_files_are_sorted_by_values_or_by_record_key(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.cluster("x")
    for path in table.files()["path"].to_pylist():
        values = pq.read_table(tmp_path / "t" / path)["x"].to_pylist()
        assert values == sorted(values)
    alone = {"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "false"}
    assert table.cluster("y", partitions="a", options=alone).state == "nothing"
    table.insert(rows(7, 30))
    report = table.cluster()
    assert (report.files_before, report.files_after, report.columns) == (6, 3, ())
    for path in table.files()["path"].to_pylist():
        keys = pq.read_table(tmp_path / "t" / path)["id"].to_pylist()
        assert keys == sorted(keys)
    assert table.cluster().state == "nothing"


@pytest.mark.slow
def test_files_stay_within_the_target_size_though_another_order_compresses_otherwise(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", index="RECORD_INDEX", options=EACH_ITS_FILE)
    shuffled = np.random.default_rng(7)
    for number in range(3):
        ids = [f"k{number}_{n:09d}" for n in range(15_000)]
        columns = [ids, [str(n // 500) for n in range(15_000)], shuffled.permutation(15_000), shuffled.random(15_000)]
        table.bulk_insert(pa.table(columns, schema=SCHEMA))
    target = sum(table.files()["bytes"].to_pylist()) // 3
    options = {"hoodie.clustering.plan.strategy.target.file.max.bytes": str(target)}
    planned = table.cluster(["x", "y"], "z-order", options=options, dry_run=True)
    report = table.cluster(["x", "y"], "z-order", options=options)
    sizes = sorted(table.files()["bytes"].to_pylist())
    # keys in another order are larger; as many files as planned would be too large
    assert target < report.bytes_after / planned.files_after
    assert 0.7 * target < sizes[0] <= sizes[-1] <= target, (target, sizes)
    assert table.verify_index().is_right
    # the order of keys needs less again
    options |= {"hoodie.clustering.plan.strategy.small.file.limit": str(2 * target)}
    back = table.cluster("_hoodie_record_key", options=options)
    assert back.files_after < report.files_after
    assert max(table.files()["bytes"].to_pylist()) <= target


@pytest.mark.slow
def test_nulls_and_all_types(tmp_path: Path) -> None:
    moment = pa.timestamp("us", "UTC")
    kinds = {"b": pa.bool_(), "d": pa.decimal128(9, 2), "t": moment, "n": pa.binary(), "f": pa.float32()}
    schema = pa.schema([("id", pa.string()), ("s", pa.string()), ("e", pa.date32()), *kinds.items()])
    table = create_table(tmp_path / "t", schema, record_key="id", index="RECORD_INDEX", options=EACH_ITS_FILE)
    some = pa.table(
        {
            "id": [f"k{n}" for n in range(400)],
            "s": [None if n % 5 == 0 else f"{n % 13}" for n in range(400)],
            "e": pa.array([None if n % 7 == 0 else n for n in range(400)], pa.int32()).cast(pa.date32()),
            "b": [None if n % 9 == 0 else n % 2 == 0 for n in range(400)],
            "d": pa.array([n * 3 % 50 for n in range(400)], pa.int32()).cast(pa.decimal128(12, 2)).cast(kinds["d"]),
            "t": pa.array([n * 10**6 for n in range(400)], pa.timestamp("us", "UTC")),
            "n": [None if n % 2 else str(n).encode() for n in range(400)],
            "f": pa.array([n / 3 for n in range(400)], pa.float32()),
        }
    )
    table.insert(some)
    before = table.scan(columns=schema.names).to_arrow().sort_by("id")
    for strategy in ("linear", "z-order", "hilbert"):
        report = table.cluster(["s", "e", "b", "d", "t", "n", "f", "id"], strategy, options={**SIZE, **SIZE})
        assert report.rows == 400
        assert table.scan(columns=schema.names).to_arrow().sort_by("id").equals(before)
    assert table.verify_index().is_right


def test_buckets_keep_their_rule_and_are_sorted_within(tmp_path: Path) -> None:
    table = make(tmp_path, buckets=2)
    before = content(table)
    buckets = sorted(bucket_of_file_id(name) for name in table.files()["file_id"].to_pylist())
    report = table.cluster(["y", "x"], "hilbert", options=SIZE)
    assert (report.files_before, report.files_after) == (6, 6)
    assert sorted(bucket_of_file_id(name) for name in table.files()["file_id"].to_pylist()) == buckets
    assert_whole(table, before)
    table.upsert(rows(0, 50))
    table.delete("id = 'k1_00003'")
    assert len(content(table)) == 1799
    with pytest.raises(UnsupportedTableError, match=r"buckets are not merged.*`hudi-catalog resize`"):
        table.cluster()


@pytest.mark.slow
def test_choosing_files_and_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    plan = "hoodie.clustering.plan.strategy."

    def chosen(options: dict[str, object] | None = None, **keywords: Any) -> tuple[int, int, int]:
        report = table.cluster("x", options=options, dry_run=True, **keywords)
        return report.partitions, report.groups, report.files_before

    assert chosen(partitions="a") == (1, 1, 3)
    assert chosen(partitions=["a", "*"]) == (3, 3, 9)
    with pytest.raises(ArgumentError, match=r"partition \[bc\]: no partition"):  # only * is special
        chosen(partitions=["a", "[bc]"])
    assert chosen({f"{plan}partition.selected": "a,c"}) == (2, 2, 6)
    assert chosen({f"{plan}partition.regex.pattern": "[bc]"}) == (2, 2, 6)
    mode = "hoodie.clustering.plan.partition.filter.mode"
    assert chosen({mode: "RECENT_DAYS", f"{plan}daybased.skipfromlatest.partitions": 1}) == (2, 2, 6)
    range_of = {f"{plan}cluster.begin.partition": "b", f"{plan}cluster.end.partition": "b"}
    assert chosen({mode: "SELECTED_PARTITIONS", **range_of}) == (1, 1, 3)
    assert chosen({f"{plan}max.num.groups": 2}) == (2, 2, 6)
    for hour, partitions in ((0, 1), (2, 1), (3, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(time, "localtime", lambda hour=hour: types.SimpleNamespace(tm_hour=hour))
            assert chosen({mode: "DAY_ROLLING"})[0] == partitions
    recent = "org.apache.hudi.client.clustering.plan.strategy.SparkRecentDaysClusteringPlanStrategy"
    assert chosen({f"{plan}class": recent}) == (2, 2, 6)
    assert chosen({f"{plan}class": "SparkSizeBasedClusteringPlanStrategy"}) == (3, 3, 9)
    with pytest.raises(OptionError, match=r"Consistent.* is not understood"):
        chosen({f"{plan}class": "org.apache.hudi.SparkConsistentBucketClusteringPlanStrategy"})
    run = "hoodie.clustering.execution.strategy.class"
    for name in ("SparkConsistentBucketClusteringExecutionStrategy", "a.b.SparkSingleFileSortExecutionStrategy"):
        with pytest.raises(OptionError, match=name):
            chosen({run: name})
    assert chosen({f"{plan}max.bytes.per.group": 1}) == (3, 9, 9)
    assert chosen({f"{plan}small.file.limit": 0}) == (0, 0, 0)
    with pytest.raises(OptionError, match="regex"):
        chosen({f"{plan}partition.regex.pattern": "("})
    with pytest.raises(OptionError, match="each once"):
        table.cluster(["x", "x"])
    with pytest.raises(SchemaError, match=r"no column 'z'"):
        table.cluster(["z"], plan_only=True)
    with pytest.raises(OptionError, match="spiral"):
        table.cluster(["x"], "spiral")
    assert not pending_clusterings(table.client.timeline())


def test_a_plan_is_apaches_and_runs_apart(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = content(table)
    planned = table.cluster(["x", "y"], "hilbert", options=SIZE, plan_only=True, partitions="a")
    [instant] = pending_clusterings(table.client.timeline())
    plan = read_plan(table.client.timeline(), instant)
    assert plan.parameters == {
        "hoodie.clustering.plan.strategy.sort.columns": "x,y",
        "hoodie.layout.optimize.strategy": "hilbert",
        **SIZE,
    }
    assert len(plan.groups[0]) == 3
    assert plan.outputs == [planned.files_after]
    other = open_table(tmp_path / "t", options=EACH_ITS_FILE)
    with pytest.raises(TransactionError, match=f"{planned.instant}.*cluster PATH --run"):
        other.upsert(rows(1, 3))
    # new records go elsewhere
    other.insert(rows(9, 3), {"hoodie.parquet.small.file.limit": "1000000000"})
    assert other.cluster("x", dry_run=True, partitions="a").files_before <= 1
    with pytest.raises(TransactionError, match="no clustering 123 is planned"):
        other.run_clustering("123")
    [report] = other.run_clustering()
    assert (report.instant, report.layout, report.rows) == (planned.instant, "hilbert", 600)
    assert other.run_clustering() == []
    assert len(content(other)) == 1803
    assert [row for row in content(other) if not row["id"].startswith("k9")] == before
    assert other.verify_index().is_right
    # a reader that was open before
    assert len(content(table.refresh() or table)) == 1803


def test_a_plan_is_cancelled_by_a_rollback(tmp_path: Path) -> None:
    table = make(tmp_path)
    planned = table.cluster("x", plan_only=True)
    assert planned.instant is not None
    table.rollback(planned.instant)
    assert not pending_clusterings(table.client.timeline())
    table.upsert(rows(1, 3))


@pytest.mark.slow
def test_a_clustering_is_taken_back(tmp_path: Path) -> None:
    table = make(tmp_path)
    before, newest = content(table), table.history()[-1].instant
    report = table.cluster("x", options=SIZE)
    assert report.instant is not None
    table.rollback(report.instant)
    assert_whole(table, before)
    table.cluster("x", options=SIZE)
    table.upsert(rows(1, 3))
    table.restore(newest)
    assert_whole(table, before)


def test_a_writer_that_does_not_respect_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    planned = table.cluster("x", plan_only=True)
    with monkeypatch.context() as patch:
        patch.setattr("table_writer.commit.conflicts.clustered_slots", lambda *_, **__: {})
        patch.setattr("table_writer.indexed_write.clustered_slots", lambda *_, **__: {})
        table.upsert(rows(1, 30))
    before = content(table)
    with pytest.raises(ConflictError, match=rf"{planned.instant} was planned with .*rollback PATH"):
        table.run_clustering()
    assert_whole(table, before)


def test_a_write_that_was_faster_than_a_plan(tmp_path: Path) -> None:
    """It had begun before the plan, and meets it when it commits."""
    table = make(tmp_path)
    other = open_table(tmp_path / "t", options=EACH_ITS_FILE)
    with pytest.MonkeyPatch.context() as patch:
        overtaken(patch, lambda: other.cluster("x", plan_only=True))
        with pytest.raises(ConflictError, match="was planned for the same file groups while"):
            table.upsert(rows(1, 3), {"hoodie.catalog.write.retries": "0"})
    other.run_clustering()
    table.upsert(rows(1, 3))
    assert_whole(table, content(table))


@pytest.mark.slow
@pytest.mark.parametrize("spilled", [False, True])
def test_memory_is_bounded_by_the_executor(tmp_path: Path, spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, writes=2)
    before = content(table)
    if spilled:
        # far less than the rows take, so that slots are spilled and files are written part by part
        monkeypatch.setattr(LocalExecutor, "task_memory", property(lambda _: 4000))
        monkeypatch.setattr("table_writer.execution.local._WAITING", 1 << 40)
    for strategy in ("linear", "hilbert"):
        table.cluster(["x", "y"], strategy, options=SIZE)
        assert_whole(table, before)
        for path in table.files()["path"].to_pylist() if strategy == "linear" else ():
            values = pq.read_table(tmp_path / "t" / path)["x"].to_pylist()
            assert values == sorted(values)


@pytest.mark.slow
def test_processes_write_files(tmp_path: Path) -> None:
    table = make(tmp_path, writes=2)
    before = content(table)
    table.cluster(["x", "y"], "z-order", options={**SIZE, "hoodie.catalog.executor.processes": 2})
    assert_whole(table, before)


@pytest.mark.slow
def test_after_a_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.sort.columns": "x",
    }
    options = {**EACH_ITS_FILE, **inline}
    table = create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", index="RECORD_INDEX", options=options
    )
    for number in range(4):
        table.insert(rows(number, 30))
    assert [one.operation for one in table.history()] == ["INSERT", "INSERT", "CLUSTER", "INSERT", "INSERT", "CLUSTER"]
    # a run that was left is taken up before the next write
    plain = open_table(tmp_path / "t", options=EACH_ITS_FILE)
    plain.cluster("y", plan_only=True)
    table.upsert(rows(0, 5))
    assert [one.operation for one in table.history()][6:] == ["CLUSTER", "UPSERT"]
    # one that fails leaves the commit and no plan
    monkeypatch.setattr("table_writer.clustering_job._rewrite", broken)
    with caplog.at_level(logging.WARNING):
        table.upsert(rows(5, 5))
    assert "clustering is left to the next write" in caplog.text
    assert not pending_clusterings(table.client.timeline())
    assert len(content(table)) == 125


def broken(*_: object) -> Any:
    raise InjectedError("no space")


def test_a_partition_that_is_not_there(tmp_path: Path) -> None:
    table = make(tmp_path)
    there = table.partitions()["partition"][0].as_py()
    with pytest.raises(ArgumentError, match="partition nope: no partition with files is named so"):
        table.cluster(["x"], partitions=[there, "nope"], options=SIZE)
    with pytest.raises(ArgumentError, match=r"partition z\*: no partition"):
        table.cluster(["x"], partitions="z*", options=SIZE, dry_run=True)
    assert not pending_clusterings(table.client.timeline())


def test_partitions_to_delete_that_are_not_there_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path)
    there = table.partitions()["partition"][0].as_py()
    with caplog.at_level(logging.WARNING):
        table.delete_partitions([there, "nope"])
    assert [message for message in caplog.messages if "no partition" in message] == [
        f"{table.client.storage.uri}: there is no partition nope to delete"
    ]
