"""Every operation through the writer's own job, its workers called here instead of by Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import Table
from table_format.base_file.footer import footer
from table_format.base_file.reader import read_base_file
from table_format.config.table_config import update_table_config
from table_format.errors import OptionError, RecordError, SchemaError, UnsupportedTableError
from table_format.keys.java_hash import bucket_id_one
from table_format.slices.file_names import bucket_of_file_id
from table_writer.timeline.markers import has_markers
from tests.support.local_writes import LocalTable
from tests.support.reading import current_paths, current_rows, user_rows

FLAG = "_hoodie_is_deleted"
BUCKETS = "hoodie.bucket.index.num.buckets"
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bucket.index.num.buckets": "3",
}
PARTITIONED = {**OPTIONS, "hoodie.datasource.write.partitionpath.field": "part"}


def rows(ids: range | list[int], v: int = 0, ts: int | None = 1, schema: pa.Schema = SCHEMA, **more: Any) -> pa.Table:
    values = [{"id": f"k{n:03d}é", "part": "ab"[n % 2], "v": v + n, "ts": ts, **more} for n in ids]
    return pa.Table.from_pylist(values, schema)


def table(path: Path, options: dict[str, str] = OPTIONS) -> LocalTable:
    return LocalTable.create(str(path / "t"), SCHEMA, options)


def values(local: LocalTable) -> dict[str, int]:
    stored = user_rows(local.client)
    assert len({row["id"] for row in stored}) == len(stored)
    return {row["id"]: row["v"] for row in stored}


def expected(ids: range | list[int], v: int = 0) -> dict[str, int]:
    return {f"k{n:03d}é": v + n for n in ids}


def test_upsert_inserts_updates_and_keeps_what_it_does_not_touch(tmp_path: Path) -> None:
    local = table(tmp_path)
    first = local.write("upsert", rows(range(30)))
    assert (first.rows_inserted, first.rows_updated, first.files_written) == (30, 0, 3)
    second = local.write("upsert", rows(range(20, 40), v=100, ts=2))
    assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (10, 10, 0)
    assert values(local) == expected(range(20)) | expected(range(20, 40), 100)
    stored = current_rows(local.client)
    times = dict(zip(stored["id"].to_pylist(), stored["_hoodie_commit_time"].to_pylist(), strict=True))
    assert times["k005é"] == first.instant
    assert times["k025é"] == times["k035é"] == second.instant
    assert pc.count_distinct(stored["_hoodie_commit_seqno"]).as_py() == len(stored)
    assert not has_markers(local.client.storage, second.instant)


def test_files_are_sorted_and_hold_the_rows_of_their_bucket(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED)
    local.write("bulk_insert", rows(range(50)))
    local.write("upsert", rows([1, 77, 60], ts=2))
    groups = set()
    for path in current_paths(local.client):
        content = read_base_file(local.client.storage, path)
        partition, name = path.split("/")
        bucket = bucket_of_file_id(name.split("_")[0])
        keys = content["_hoodie_record_key"].to_pylist()
        assert keys == sorted(keys, key=str.encode)
        assert {bucket_id_one([key], 3) for key in keys} == {bucket}
        assert set(content["_hoodie_file_name"].to_pylist()) == {name}
        assert set(content["_hoodie_partition_path"].to_pylist()) == {partition} == set(content["part"].to_pylist())
        groups.add((partition, bucket))
    assert len(groups) == len(current_paths(local.client)) == 6


def test_event_time_lets_the_greater_value_win_and_leaves_the_file_alone(tmp_path: Path) -> None:
    local = table(tmp_path)
    local.write("upsert", rows(range(10), ts=5))
    late = local.write("upsert", rows(range(10), v=100, ts=4))
    assert late.files_written == late.rows_updated == 0
    assert values(local) == expected(range(10))
    null = local.write("upsert", rows(range(10), v=100, ts=None))
    assert null.files_written == 0
    assert local.write("upsert", rows(range(10), v=200, ts=5)).rows_updated == 10
    assert values(local) == expected(range(10), 200)


def test_commit_time_lets_the_later_write_win(tmp_path: Path) -> None:
    payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    local = table(tmp_path, {**OPTIONS, "hoodie.datasource.write.payload.class": payload})
    local.write("upsert", rows(range(10), ts=5))
    local.write("upsert", rows(range(5), v=100, ts=4))
    assert values(local) == expected(range(5, 10)) | expected(range(5), 100)


def test_duplicates_inside_a_batch(tmp_path: Path) -> None:
    local = table(tmp_path)
    batch = pa.concat_tables([rows([1, 2, 3], ts=7), rows([1, 2], v=50, ts=6), rows([3], v=70, ts=7)])
    assert local.write("upsert", batch).rows_inserted == 3
    assert values(local) == expected([1, 2]) | expected([3], 70)


def test_deletes_by_key_take_no_other_columns_and_repeat(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED)
    local.write("upsert", rows(range(20)))
    keys = rows([*range(10), 99]).select(["id", "part"])
    assert local.write("delete", keys).rows_deleted == 10
    assert values(local) == expected(range(10, 20))
    before = current_paths(local.client)
    again = local.write("delete", keys)
    assert (again.rows_deleted, again.files_written) == (0, 0)
    assert current_paths(local.client) == before
    assert local.client.timeline().last_completed_write().time == again.instant  # type: ignore[union-attr]
    assert local.write("delete", rows(range(20))).rows_deleted == 10
    assert values(local) == {}
    assert local.write("upsert", rows(range(3), ts=0)).rows_inserted == 3


def test_rows_marked_as_deleted_delete(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    local = table(tmp_path)
    local.write("upsert", rows(range(10), ts=2))
    marked = rows([1, 2, 50], ts=2, schema=schema, _hoodie_is_deleted=True)
    old = rows([3], ts=1, schema=schema, _hoodie_is_deleted=True)
    kept = rows([4, 11], v=7, ts=3, schema=schema)
    done = local.write("upsert", pa.concat_tables([marked, old, kept]))
    assert (done.rows_deleted, done.rows_updated, done.rows_inserted) == (2, 1, 1)
    assert values(local) == expected([0, 3, 5, 6, 7, 8, 9]) | expected([4, 11], 7)


def test_insert_adds_drops_fails_or_merges(tmp_path: Path) -> None:
    local = table(tmp_path)
    local.write("insert", rows(range(4), ts=5))
    added = local.write("insert", rows([3, 4], v=10))
    assert added.rows_inserted == 2
    assert sorted(row["v"] for row in user_rows(local.client) if row["id"] == "k003é") == [3, 13]
    local.write("delete", rows([3]))
    policy = "hoodie.datasource.insert.dup.policy"
    assert local.write("insert", rows([2, 5], v=20), {policy: "drop"}).rows_inserted == 1
    with pytest.raises(RecordError, match=r"dup\.policy is fail"):
        local.write("insert", rows([2, 6]), {policy: "fail"})
    assert not local.client.timeline().pending
    merge = {"hoodie.merge.allow.duplicate.on.inserts": "false"}
    assert local.write("insert", rows([0, 1], v=30, ts=9), merge).rows_updated == 2
    assert values(local) == expected([0, 1], 30) | expected([2]) | expected([4], 10) | expected([5], 20)


def test_combine_before_insert_makes_the_batch_unique(tmp_path: Path) -> None:
    batch = pa.concat_tables([rows([1], ts=2), rows([1], v=50, ts=1)])
    local = table(tmp_path)
    assert local.write("bulk_insert", batch, {"hoodie.combine.before.insert": "true"}).rows_inserted == 1
    assert values(local) == expected([1])
    assert local.write("bulk_insert", batch).rows_inserted == 2
    assert local.write("upsert", rows([1], v=9, ts=3)).rows_updated == 3
    assert {row["v"] for row in user_rows(local.client)} == {10}


def test_overwrites_replace_partitions_or_all(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED)
    local.write("upsert", rows(range(20)))
    one = local.write("insert_overwrite", rows([0, 2, 40], v=100))
    assert one.groups_replaced == 3
    assert values(local) == expected(range(1, 20, 2)) | expected([0, 2, 40], 100)
    local.write("upsert", rows([0, 1], v=200, ts=2))
    everything = local.write("insert_overwrite_table", rows([7]))
    assert everything.groups_replaced >= 4
    assert values(local) == expected([7])
    assert local.write("insert_overwrite_table", rows([])).groups_replaced == 1
    assert values(local) == {}


def test_partitions_are_deleted_by_name_or_pattern(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED | {"hoodie.datasource.write.hive_style_partitioning": "true"})
    local.write("upsert", rows(range(20)))
    assert local.write("delete_partition", partitions=["part=a", "part=z"]).groups_replaced == 3
    assert values(local) == expected(range(1, 20, 2))
    assert local.write("delete_partition", options={"hoodie.datasource.write.partitions.to.delete": "part=*"})
    assert values(local) == {}
    assert local.write("delete_partition", partitions=["part=*"]).groups_replaced == 0
    with pytest.raises(OptionError, match=r"partitions\.to\.delete"):
        local.write("delete_partition")


def test_columns_come_later_widen_and_may_be_missing(tmp_path: Path) -> None:
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA.set(2, pa.field("v", pa.int32())), OPTIONS)
    local.write("upsert", rows(range(4), schema=SCHEMA.set(2, pa.field("v", pa.int32()))))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    local.write("upsert", rows([3, 4], v=1 << 40, ts=2, schema=wider, note="n"))
    local.write("upsert", rows([0], ts=2).select(["id", "ts"]))
    stored = {row["id"]: (row["v"], row["note"]) for row in user_rows(local.client)}
    big = 1 << 40
    assert stored == {
        "k000é": (None, None),
        "k001é": (1, None),
        "k002é": (2, None),
        "k003é": (big + 3, "n"),
        "k004é": (big + 4, "n"),
    }
    assert local.client.table_schema().names == ["id", "part", "v", "ts", "note"]
    with pytest.raises(SchemaError, match="'v' is int64 in the table and string in the batch"):
        local.write("upsert", rows([1], v=0).set_column(2, "v", pa.array(["x"])))
    with pytest.raises(SchemaError, match="'id'"):
        local.write("upsert", rows([1]).select(["v", "ts"]))
    assert not local.client.timeline().pending


def test_another_bucket_count_is_noticed(tmp_path: Path) -> None:
    local = table(tmp_path)
    local.write("upsert", rows(range(30)))
    with pytest.raises(OptionError, match=r"num\.buckets='2', but the table has '3'"):
        local.write("upsert", rows([1]), {"hoodie.bucket.index.num.buckets": 2})


def test_files_of_another_index_are_refused(tmp_path: Path) -> None:
    local = table(tmp_path, {**OPTIONS, "hoodie.metadata.enable": "false"})
    local.write("upsert", rows(range(30)))
    path = tmp_path / "t" / current_paths(local.client)[0]
    path.rename(path.with_name("abcdef12" + path.name[8:]))
    with pytest.raises(UnsupportedTableError, match="another index"):
        local.write("upsert", rows([1]))


def test_files_of_tasks_that_ran_twice_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = table(tmp_path)
    once = local.executor.collect
    attempts: list[list[str | None]] = []

    def twice(*arguments: Any) -> Any:
        for _ in range(2):
            written = once(*arguments)
            attempts.append([file.stat.path for file in written])
        return written

    monkeypatch.setattr(local.executor, "collect", twice)
    local.write("upsert", rows(range(9)))
    assert values(local) == expected(range(9))
    assert sorted(str(path) for path in attempts[1]) == current_paths(local.client)
    names = {path.name for path in (tmp_path / "t").glob("*.parquet")}
    assert names == set(attempts[1])
    assert names.isdisjoint(attempts[0])


def test_footers_tell_spark_the_calendar(tmp_path: Path) -> None:
    local = table(tmp_path)
    local.write("upsert", rows(range(2)))
    texts = footer(local.client.storage, current_paths(local.client)[0]).key_values
    assert texts["org.apache.spark.version"] >= "3.0.0"
    assert texts["hoodie_min_record_key"].startswith("k00")


@pytest.mark.parametrize("options", [OPTIONS, PARTITIONED])
def test_the_flag_of_deleted_rows_is_no_column_of_the_table(tmp_path: Path, options: dict[str, str]) -> None:
    local = table(tmp_path, options)
    flagged = SCHEMA.append(pa.field(FLAG, pa.bool_()))
    local.write("upsert", rows(range(10), schema=flagged, **{FLAG: None}))
    summary = local.write("upsert", rows(range(4), ts=2, schema=flagged, **{FLAG: True}))
    assert summary.rows_deleted == 4
    assert values(local) == expected(range(4, 10))
    assert local.client.table_schema().names == SCHEMA.names
    assert all(FLAG not in footer(local.client.storage, path).schema.names for path in current_paths(local.client))
    for operation in ("insert", "bulk_insert", "insert_overwrite_table"):
        local.write(operation, rows([20], schema=flagged, **{FLAG: False}))
        assert local.client.table_schema().names == SCHEMA.names
    with pytest.raises(SchemaError, match="must be boolean"):
        local.write("upsert", rows([1], schema=SCHEMA.append(pa.field(FLAG, pa.string()))))


def test_a_table_that_has_the_flag_as_a_column_keeps_it(tmp_path: Path) -> None:
    flagged = SCHEMA.append(pa.field(FLAG, pa.bool_()))
    local = LocalTable.create(str(tmp_path / "t"), flagged, OPTIONS)
    local.write("upsert", rows(range(4), schema=flagged, **{FLAG: False}))
    assert {row[FLAG] for row in user_rows(local.client)} == {False}
    local.write("upsert", rows(range(2), ts=2, schema=flagged, **{FLAG: True}))
    assert values(local) == expected(range(2, 4))


def test_rules_for_buckets_by_partition_are_refused_by_name(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED)
    local.write("upsert", rows(range(4)))
    rules = ".hoodie/.bucket_index/partition_bucket_index_meta/configs/00000000000000.hashing_config"
    local.client.storage.create(rules, b"{}")
    with pytest.raises(UnsupportedTableError, match=rules):
        local.write("upsert", rows(range(4), ts=2))
    assert len(local.client.timeline().instants) == 1


def test_a_count_that_the_keys_contradict_is_refused(tmp_path: Path) -> None:
    """Also where each bucket is below it: rows would go where nobody looks for the ones that are there."""
    local = table(tmp_path, {**PARTITIONED, BUCKETS: "2"})
    local.write("upsert", rows(range(40)))
    forget_the_count(local)
    apaches = LocalTable(local.client, {})
    with pytest.raises(OptionError, match="belongs to another bucket"):
        apaches.write("upsert", rows(range(40), ts=2), {BUCKETS: "5"})
    apaches.write("upsert", rows(range(40), v=7, ts=2), {BUCKETS: "2"})
    assert values(local) == expected(range(40), 7)


def test_a_count_that_the_least_and_the_greatest_key_fit_by_chance_is_refused(tmp_path: Path) -> None:
    """It was used where a table has one file: reads lost half of the rows, and updates doubled them."""
    local = table(tmp_path, {**OPTIONS, BUCKETS: "1"})
    fitting = [n for n in range(40) if bucket_id_one([f"k{n:03d}é"], 2) == 0]
    ids = range(fitting[0], fitting[-1] + 1)
    local.write("upsert", rows(ids))
    forget_the_count(local)
    wrong = {BUCKETS: "2"}
    with pytest.raises(OptionError, match="belongs to another bucket"):
        LocalTable(local.client, {}).write("upsert", rows(ids, ts=2), wrong)
    scan = Table.open(local.client.storage.uri).scan("id = 'k010é'", options=wrong)
    assert "contradicts buckets" in next(one.reason for one in scan.plan().stages if one.name == "bucket")
    LocalTable(local.client, {}).write("upsert", rows(ids, v=7, ts=2), {BUCKETS: "1"})
    assert values(local) == expected(ids, 7)


def forget_the_count(local: LocalTable) -> None:
    """As in a table of a release of Apache's that does not record it."""
    update_table_config(local.client.storage, {BUCKETS: None, "hoodie.bucket.index.hash.field": None})
    for commit in Path(local.client.storage.uri, ".hoodie").glob("*.commit"):
        commit.write_text(commit.read_text().replace("hoodie.catalog.table.properties", "of.somebody"))
