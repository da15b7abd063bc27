"""Whole write jobs on tables with a record index, with their tasks run in this process."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_writer import blocks
from table_format.errors import OptionError, RecordIndexError, TransactionError, UnsupportedTableError
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.slices.file_names import bucket_of_file_id
from table_writer.commit.restore import rollback_write
from table_writer.execution.executor import Block
from table_writer.plan.plan import TaskIdentity
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.verify import verify_index
from table_writer.tagging import passes
from table_writer.tagging.placement import Home, Placement, Targets
from table_writer.tagging.rows import key_check
from table_writer.tagging.stages import Assigned, PlacePlan, place_blocks
from table_writer.tagging.tagging import Tags
from tests.support.local_writes import EXECUTORS, LocalTable
from tests.support.reading import current_paths, current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
MOVE = {"hoodie.record.index.update.partition.path": "true"}
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
}


def table(folder: Path, kind: str = "RECORD_INDEX", *, executor: str = "threads", **options: str) -> LocalTable:
    all_options = (
        OPTIONS | {"hoodie.index.type": kind} | {key.replace("__", "."): text for key, text in options.items()}
    )
    return LocalTable.create(str(folder / "t"), SCHEMA, all_options, executor)


def rows(numbers: Iterable[int], p: str | None = None, v: int = 0) -> pa.Table:
    records = [{"id": f"k{n:04}", "p": p or "ab"[n % 2], "v": v} for n in numbers]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def ranges(local: LocalTable) -> list[tuple[str, str, int]]:
    """First key, last key and rows of each file, sorted."""
    stored = current_rows(local.client)
    groups = stored.group_by("_hoodie_file_name").aggregate([("id", "min"), ("id", "max"), ("id", "count")])
    return sorted(zip(*(groups[name].to_pylist() for name in ("id_min", "id_max", "id_count")), strict=True))


def test_files_take_ranges_of_keys_and_small_ones_are_filled(tmp_path: Path) -> None:
    sized = {"hoodie.copyonwrite.insert.auto.split": "false", "hoodie.copyonwrite.insert.split.size": "100"}
    local = table(tmp_path)
    summary = local.write("bulk_insert", rows(range(299, -1, -1), "a"), sized)
    assert (summary.rows_inserted, summary.files_written) == (300, 3)
    assert ranges(local) == [("k0000", "k0099", 100), ("k0100", "k0199", 100), ("k0200", "k0299", 100)]
    # one random id in fifty looks like a bucket's
    assert any(bucket_of_file_id(path.split("/")[1].split("_")[0]) is None for path in current_paths(local.client))
    # known keys touch their file alone; new ones join them there, since it is small
    summary = local.write("upsert", rows([120, 5000, 5001], "a", v=1))
    assert (summary.rows_inserted, summary.rows_updated, summary.files_written) == (2, 1, 1)
    assert [count for _, _, count in ranges(local)] == [100, 102, 100]
    # a bulk insert fills no file, nor does any write without small files
    assert local.write("bulk_insert", rows([6000], "a")).files_written == 1
    local.write("upsert", rows([6001], "a"), {"hoodie.parquet.small.file.limit": "0"})
    assert len(ranges(local)) == 5
    assert verify_index(local.client).is_right


def test_files_are_sized_by_what_rows_take(tmp_path: Path) -> None:
    random = np.random.default_rng(0).integers(0, 1 << 62, 20_000)
    wide = pa.table({"id": [f"k{n}" for n in random], "p": ["a"] * len(random), "v": random}, schema=SCHEMA)
    local = table(tmp_path)
    sized = {"hoodie.parquet.max.file.size": "100000"}
    summary = local.write("upsert", wide, sized)
    # some 20 bytes of a key and 8 of a value, of which not all compress
    assert 4 <= summary.files_written <= 10
    estimate = {"hoodie.copyonwrite.record.size.estimate": "10"}
    other = LocalTable.create(str(tmp_path / "u"), SCHEMA, OPTIONS | {"hoodie.index.type": "RECORD_INDEX"})
    assert other.write("upsert", wide, sized | estimate).files_written == 2


def test_driver_and_tasks_tag_alike(tmp_path: Path) -> None:
    tables = []
    for name, most in (("driver", "99999"), ("tasks", "0")):
        local = table(tmp_path / name, hoodie__catalog__record__index__driver__rows=most)
        local.write("upsert", rows(range(500)))
        summary = local.write("upsert", rows([*range(450, 550), *range(500, 520)], "c", v=2), MOVE)
        assert (summary.rows_inserted, summary.rows_deleted) == (100, 50)
        assert local.write("insert", rows(range(600), "c"), DROP).rows_inserted == 50
        assert verify_index(local.client).is_right
        tables.append(
            sorted(current_rows(local.client).select(["id", "p", "v", "_hoodie_partition_path"]).to_pylist(), key=str)
        )
    assert tables[0] == tables[1]
    assert len(tables[0]) == 600


def test_keys_come_to_the_driver_in_a_second_job_where_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_EARLY_ROWS", 10)
    local = table(tmp_path, executor="spark's workers")
    local.write("upsert", rows(range(8)), {"hoodie.catalog.write.split.bytes": "1"})
    assert local.write("upsert", rows(range(5, 40), v=1)).rows_updated == 3
    assert current_rows(local.client).num_rows == 40
    assert verify_index(local.client).is_right


def test_an_index_by_partition_keeps_a_key_in_each(tmp_path: Path) -> None:
    local = table(tmp_path, "RECORD_LEVEL_INDEX")
    local.write("upsert", rows(range(4), "a"))
    assert local.write("upsert", rows(range(6), "b", v=1), MOVE).rows_inserted == 6
    assert local.write("upsert", rows(range(5), "b", v=2)).rows_updated == 5
    assert local.write("delete", rows([0, 5], "b")).rows_deleted == 2
    local.write("insert_overwrite", rows([7], "a"))
    stored = {(row["id"], row["_hoodie_partition_path"], row["v"]) for row in current_rows(local.client).to_pylist()}
    assert stored == {("k0007", "a", 0), *((f"k000{n}", "b", 2) for n in range(1, 5))}
    assert verify_index(local.client).is_right


@pytest.mark.parametrize("scope", ["record.index", "record.level.index"])
def test_writes_by_buckets_keep_the_index_too(tmp_path: Path, scope: str) -> None:
    options = {f"hoodie.metadata.{scope}.enable": "true", "hoodie.bucket.index.num.buckets": "2"}
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS | options)
    local.write("upsert", rows(range(40)))
    local.write("upsert", rows(range(30, 50), v=1))
    local.write("delete", rows(range(10)))
    local.write("insert_overwrite", rows(range(100, 140, 2)))
    local.write("delete_partition", partitions=["b"])
    assert verify_index(local.client).is_right
    locations = RecordIndex.open(local.client).get_record_locations(pa.array(["k0100", "k0011", "k0012"]))
    assert locations["key"].to_pylist() == ["k0100"]


@pytest.mark.parametrize("kind", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table", "delete_partition"])
def test_keys_of_many_replaced_files_are_looked_up_at_once(
    tmp_path: Path, kind: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sized = {"hoodie__copyonwrite__insert__split__size": "4", "hoodie__copyonwrite__insert__auto__split": "false"}
    local = table(tmp_path, kind, **sized)
    local.write("bulk_insert", rows(range(200)))
    files = len(current_paths(local.client))
    assert files > 40
    calls: list[str] = []

    def counted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(name)
            return plain(*args)

        return call

    for name in ("get_record_locations", "group_entries"):
        monkeypatch.setattr(RecordIndex, name, counted(name, getattr(RecordIndex, name)))
    new = None if operation == "delete_partition" else rows([1, 201, 203])
    local.write(operation, new, partitions=["b"] if new is None else ())
    by_index = kind == "RECORD_LEVEL_INDEX" or operation == "insert_overwrite_table"
    assert set(calls) == {"group_entries" if by_index else "get_record_locations"}
    assert len(calls) <= 6
    monkeypatch.undo()
    assert verify_index(local.client).is_right
    left = {"insert_overwrite": 103, "insert_overwrite_table": 3, "delete_partition": 100}[operation]
    assert current_rows(local.client).num_rows == left


@pytest.mark.parametrize("kind", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
@pytest.mark.parametrize("driver_rows", ["0", "1000"])
@pytest.mark.parametrize("executor", list(EXECUTORS))
def test_keys_that_the_index_lacked_are_in_it_once_their_rows_are_written(
    tmp_path: Path, kind: str, driver_rows: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"hoodie__catalog__record__index__driver__rows": driver_rows}
    local = table(tmp_path, kind, executor=executor, **options)
    local.write("bulk_insert", rows(range(40)))
    local.write("bulk_insert", rows(range(30)))
    with monkeypatch.context() as patched:
        patched.setattr("table_writer.services.undo._may_double", lambda *_: False)
        rollback_write(local.client, local.client.timeline().writes[-1].time)
    assert verify_index(local.client).counts["missing"] == 30
    summary = local.write("upsert", rows(range(20, 50), v=1))
    assert (summary.rows_updated, summary.rows_inserted) == (20, 10)
    report = verify_index(local.client)
    assert report.counts["missing"] == 20
    local.write("upsert", rows(range(20)))
    assert verify_index(local.client).is_right
    assert current_rows(local.client).num_rows == 50


def test_deletes_need_no_partition(tmp_path: Path) -> None:
    local = table(tmp_path)
    local.write("upsert", rows(range(6)))
    assert local.write("delete", rows([1, 2, 77]).select(["id"])).rows_deleted == 2
    again = local.write("delete", rows([1, 2]).select(["id"]))
    assert (again.rows_deleted, again.files_written) == (0, 0)
    assert verify_index(local.client).is_right


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"needs the metadata table"):
        table(tmp_path, hoodie__metadata__enable="false")
    with pytest.raises(OptionError, match=r"has no buckets"):
        table(tmp_path, hoodie__bucket__index__num__buckets="2")
    local = table(tmp_path)
    with pytest.raises(OptionError, match=r"index\.type='BUCKET', but the table has 'RECORD_INDEX'"):
        local.write("upsert", rows([1]), {"hoodie.index.type": "BUCKET"})
    with pytest.raises(OptionError, match="needs all its columns"):
        local.write("upsert", rows([1]), MOVE | {"hoodie.catalog.write.partial.columns": "true"})
    local.write("upsert", rows([1]), {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})


def test_tables_of_another_index_are_not_written(tmp_path: Path) -> None:
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS | {"hoodie.bucket.index.num.buckets": "2"})
    local.write("upsert", rows(range(9)))
    indexed = {"hoodie.index.type": "RECORD_INDEX"}
    with pytest.raises(OptionError, match="BUCKET"):
        local.write("upsert", rows([1]), indexed)
    # as Apache leaves it
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "index.type" not in line and "num.buckets" not in line))
    for commit in path.parent.glob("*.commit"):
        commit.write_text(commit.read_text().replace("hoodie.catalog.table.properties", "of.nobody"))
    local = LocalTable(local.client, OPTIONS)
    with pytest.raises(OptionError, match="RECORD_INDEX to use its record"):
        local.write("upsert", rows([1]))
    with pytest.raises(RecordIndexError, match="index bootstrap"):
        local.write("upsert", rows([1]), indexed)
    bootstrap_index(local.client, {})
    with pytest.raises(UnsupportedTableError, match="are buckets"):
        local.write("upsert", rows([1]), indexed)


def test_rows_that_come_out_differently_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = pa.table({RECORD_KEY: ["a", "b"]})
    held, task = [Block((0, 0), None, block)], TaskIdentity(0, "0-0-0")
    tags, zero = Tags(np.array([1]), np.array([0], np.int32), np.array([False]), pa.array(["g"])), np.zeros(1, np.int32)
    targets = Targets(zero, zero, ("",), zero, updated=zero, groups=pa.array(["g"]))
    plan = PlacePlan(
        places=Placement({}, ()),
        targets=targets,
        moves=False,
        assigned={(0, 0): Assigned(key_check(block), tags)},
        partitioned=False,
    )
    assert len(list(place_blocks(plan, iter(held), task))) == 1
    for assigned in ({}, {(0, 0): Assigned(key_check(block.slice(1)), tags)}, None):
        with pytest.raises(TransactionError, match="second time"):
            list(place_blocks(replace(plan, assigned=assigned), iter(held), task))
    # and no row of such a write is left
    local = table(tmp_path)
    whole: Any = passes.place_inserts
    monkeypatch.setattr(passes, "place_inserts", lambda inserts, *more: whole({Home("a"): inserts[Home("a")]}, *more))
    with pytest.raises(TransactionError, match="second time"):
        local.write("upsert", rows(range(4)))
    assert current_paths(local.client) == []


@pytest.mark.slow
@pytest.mark.parametrize("driver_rows", ["200000", "0"])
def test_a_write_looks_up_the_partitions_of_its_rows(
    driver_rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, hoodie__catalog__record__index__driver__rows=driver_rows)
    for partition in "abcdef":
        local.write("upsert", rows([ord(partition)], partition))
    asked: list[Any] = []
    whole = MetadataTable.files

    def files(self: MetadataTable, partitions: Any = None) -> pa.Table:
        asked.append(partitions)
        return whole(self, partitions)

    monkeypatch.setattr(MetadataTable, "files", files)
    # known keys stay where they are, in c and e, new ones go to the row's own
    local.write("upsert", rows([ord("c"), ord("e"), 7], "b", v=1), {"hoodie.clean.automatic": "false"})
    assert None not in asked
    assert set().union(*asked) == set("bce")
    for operation, more in (("upsert", MOVE), ("insert", DROP), ("insert_overwrite", {}), ("delete", {})):
        asked.clear()
        local.write(operation, rows([ord("b"), 9], "b", v=2), {"hoodie.clean.automatic": "false"} | more)
        assert None not in asked, operation
        assert set().union(*asked) <= set("ab"), operation
    assert verify_index(local.client).is_right


@pytest.mark.parametrize("driver_rows", ["200000", "0"])
def test_rows_are_not_left_out_for_file_groups_that_are_gone(driver_rows: str, tmp_path: Path) -> None:
    local = table(tmp_path, hoodie__catalog__record__index__driver__rows=driver_rows)
    local.write("upsert", rows(range(8)))
    folder = local.client.storage.sub(".hoodie/metadata/record_index")
    index = {entry.path: folder.read(entry.path) for entry in folder.list() if not entry.is_dir}
    local.write("delete_partition", None, partitions=["a"])
    # as if the index did not know of that
    for entry in folder.list():
        if not entry.is_dir:
            folder.delete(entry.path)
    for path, data in index.items():
        folder.create(path, data)
    for operation, more in (("upsert", {}), ("insert", DROP), ("insert_overwrite", {})):
        with pytest.raises(RecordIndexError, match=r"of partition 'a', which the table does not have"):
            local.write(operation, rows(range(2), v=1), more)


def test_a_large_first_write_makes_room_in_the_index(tmp_path: Path) -> None:
    local = table(tmp_path)
    ten_entries_each = {"hoodie.metadata.record.index.max.filegroup.size": "480"}
    local.write("bulk_insert", rows(range(100)), ten_entries_each)
    layout = IndexLayout.of(local.client)
    assert layout is not None
    assert layout.count == 13  # with a third of the room to spare
    assert verify_index(local.client).is_right
    local.write("upsert", rows(range(90, 400), v=1), ten_entries_each)
    assert IndexLayout.of(local.client) == layout
    assert verify_index(local.client).is_right
