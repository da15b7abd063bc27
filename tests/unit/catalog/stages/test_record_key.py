"""The record key stage against the record indexes of tables that Apache wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Plan, StageResult, Table
from catalog.snapshots.scan_options import UNIQUE_KEYS
from catalog.stages import named_keys, record_key
from catalog.stages.named_keys import composite_texts, single_texts
from pushdown import col
from table_format.config.table_config import TableConfig
from table_format.errors import OptionError
from table_format.metadata_table.reader import MetadataTable
from tests.unit.conftest import GoldenTable

INDEXED = ["v6_1200__rli_part"]


def stage_of(plan: Plan) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == "record key")


@pytest.mark.slow
@pytest.mark.parametrize("name", INDEXED)
def test_every_key_is_in_the_file_groups_kept(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    for row in golden_table.rows:
        plan = table.scan(col("id") == row["id"]).plan()
        assert stage_of(plan).pruned
        assert stage_of(plan).files_out == 1
        assert [split.partition for split in plan.splits] == [row["_hoodie_partition_path"]]


@pytest.mark.parametrize("name", INDEXED)
def test_keys_that_no_record_has_leave_nothing(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name).open()
    assert len(table.scan("id = 'there is none'").plan()) == 0
    assert len(table.scan("_hoodie_record_key IN ('a', 'b')").plan()) == 0
    assert len(table.scan("id = 'a' AND id = 'b'").plan()) == 0


@pytest.mark.parametrize(
    ("condition", "pruned"),
    [
        ("id IN ({0}, {1})", True),
        ("id = {0} AND i > -1000000", True),
        ("id = {0} OR _hoodie_record_key = {1}", False),
        ("id = {0} OR i = 5", False),
        ("i = 5", False),
        ("NOT (id = {0})", False),
        ("id > {0}", False),
        ("part = {0}", False),
        ("id IS NULL", False),
    ],
)
def test_only_bound_keys_are_looked_up(golden: Callable[[str], GoldenTable], condition: str, *, pruned: bool) -> None:
    golden_table = golden(INDEXED[0])
    keys = [f"'{row['id']}'" for row in golden_table.rows[:2]]
    table = golden_table.open()
    plan = table.scan(condition.format(*keys)).plan()
    assert stage_of(plan).pruned is pruned


def test_the_past_is_not_asked_for(golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("statistics are loaded")

    monkeypatch.setattr(record_key, "_row_count", fail)
    golden_table = golden(INDEXED[0])
    table = golden_table.open()
    instant = table.scan().plan().snapshot.instant
    stage = stage_of(table.scan(col("id") == golden_table.rows[0]["id"], as_of=instant).plan())
    assert not stage.pruned
    assert "newest" in stage.reason


def test_nothing_is_read_for_filters_without_keys(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(MetadataTable, "record_locations", fail)
    assert not stage_of(golden(INDEXED[0]).open().scan("i = 5").plan()).pruned


@pytest.mark.parametrize("group", ["not-there-0", None])
def test_an_index_that_is_out_of_step_is_not_believed(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    golden_table = golden(INDEXED[0])
    key = golden_table.rows[0]["id"]
    locations = None if group is None else pa.table({"key": [key], "partition": ["part=x"], "file_id": [group]})
    monkeypatch.setattr(MetadataTable, "record_locations", lambda *_: locations)
    stage = stage_of(golden_table.open().scan(col("id") == key).plan())
    assert not stage.pruned
    assert stage.files_out == stage.files_in


def test_file_ids_that_two_partitions_share(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_table = golden(INDEXED[0])
    table = golden_table.open()
    snapshot = table.scan().plan().snapshot
    group = snapshot.files["file_id"][0].as_py()
    locations = pa.table({"key": ["k"], "partition": ["part=of another"], "file_id": [group]})
    monkeypatch.setattr(MetadataTable, "record_locations", lambda *_: locations)
    assert len(table.scan("id = 'k'").plan()) == 0


def rewritten(path: str, write: int, old: bytes, new: bytes) -> Table:
    """A table of which one of the writes says something else of itself."""
    timeline = Table.open(path).snapshot().timeline
    instant = Path(path) / timeline.path(timeline.writes[write])
    data = instant.read_bytes()
    assert old in data
    instant.write_bytes(data.replace(old, new))
    return Table.open(path)


def uncounted(path: str) -> str:
    """The same table without column statistics, so that its rows are not known."""
    properties = Path(path) / ".hoodie/hoodie.properties"
    text = properties.read_text()
    assert "column_stats," in text
    properties.write_text(text.replace("column_stats,", ""))
    return path


def unpartitioned(path: str) -> str:
    """Its record index is asked as that of a table without partitions would be."""
    properties = Path(path) / ".hoodie/hoodie.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("\n".join(line for line in lines if not line.startswith("hoodie.table.partition.fields")))
    return path


def test_as_many_rows_as_keys_prove_that_none_repeats(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_table = golden(INDEXED[0])
    keys = golden_table.open().scan().plan().snapshot.metadata_table.count_record_keys(1_000)
    assert keys == len({row["_hoodie_record_key"] for row in golden_table.rows}) == len(golden_table.rows)
    monkeypatch.setattr(MetadataTable, "count_record_keys", lambda *_: keys - 1)
    stage = stage_of(golden_table.open().scan("id = 'a'").plan())
    assert not stage.pruned
    assert f"{keys} rows and the record index {keys - 1} keys" in stage.reason


def test_a_large_index_is_not_counted(golden: Callable[[str], GoldenTable]) -> None:
    assert golden(INDEXED[0]).open().scan().plan().snapshot.metadata_table.count_record_keys(1) is None


def test_a_key_may_have_a_row_in_each_partition(copied: Callable[..., str]) -> None:
    table = Table.open(uncounted(copied(INDEXED[0])))
    key = table.scan().to_arrow()["id"][0].as_py()
    stage = stage_of(table.scan(col("id") == key).plan())
    assert not stage.pruned
    assert "in several partitions" in stage.reason
    sure = {UNIQUE_KEYS: "true"}
    assert stage_of(table.scan(col("id") == key, options=sure).plan()).files_out == 1
    with pytest.raises(OptionError, match="give true or false"):
        table.scan(options={UNIQUE_KEYS: "perhaps"})


def test_an_insert_may_have_added_a_second_row_of_a_key(copied: Callable[..., str]) -> None:
    path = unpartitioned(uncounted(copied(INDEXED[0])))
    assert stage_of(Table.open(path).scan("id = 'a'").plan()).pruned
    table = rewritten(path, 1, b'"operationType" : "UPSERT"', b'"operationType" : "INSERT"')
    stage = stage_of(table.scan("id = 'a'").plan())
    assert not stage.pruned
    assert "INSERT at" in stage.reason


def test_a_write_that_does_not_tell_its_operation(copied: Callable[..., str]) -> None:
    path = unpartitioned(uncounted(copied(INDEXED[0])))
    table = rewritten(path, -1, b'"operationType"', b'"anotherType"')
    assert "UNKNOWN at" in stage_of(table.scan("id = 'a'").plan()).reason


def test_tables_without_a_record_index(golden: Callable[[str], GoldenTable]) -> None:
    stage = stage_of(golden("v6_0150__bkt_hive").open().scan("id = 'k00001'").plan())
    assert not stage.pruned
    assert "no record index" in stage.reason


def test_forms_of_keys() -> None:
    fields = {"hoodie.table.recordkey.fields": "id"}
    assert single_texts(TableConfig({**fields, "hoodie.table.keygenerator.type": "SIMPLE"}), ["5"]) == ["5"]
    assert single_texts(TableConfig({**fields, "hoodie.table.keygenerator.type": "COMPLEX"}), ["5"]) == ["5", "id:5"]
    assert composite_texts(("a", "b"), [("1", None), ("", "x,y")]) == ["a:1,b:__null__", "a:__empty__,b:x,y"]


def test_the_index_of_a_table_that_lists_it_but_lost_it(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_hive", {"hoodie.table.metadata.partitions": "column_stats,files,record_index"})
    table = Table.open(path)
    plan = table.scan("id = 'k00001'").plan()
    assert "cannot be read" in stage_of(plan).reason
    assert table.scan("id = 'k00001'").to_arrow().num_rows == 1


def test_the_keys_of_a_filter_are_made_once_a_plan(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    texts_of = named_keys._texts_of

    def counted(config: TableConfig, columns: Any, bindings: Any) -> Any:
        limits.append(len(bindings))
        return texts_of(config, columns, bindings)

    monkeypatch.setattr(named_keys, "_texts_of", counted)
    golden_table = golden(INDEXED[0])
    table = golden_table.open()
    keys = ", ".join(f"'{row['id']}'" for row in golden_table.rows[:3])
    assert stage_of(table.scan(f"id IN ({keys})").plan()).pruned
    assert limits == [3]
    # too many keys for the stage of bloom filters, which may find fewer by other columns
    monkeypatch.setattr(record_key, "_MOST_BLOOM_KEYS", 2)
    plan = table.scan(f"id IN ({keys})").plan()
    assert stage_of(plan).pruned
    assert "does not name the values" in next(stage.reason for stage in plan.stages if stage.name == "bloom filter")
