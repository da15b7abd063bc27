"""Rows whose keys have another type than the table's: refused where their texts would be others."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

from hudi_catalog import HudiError, Table, create_table
from table_format.errors import OptionError, RecordError, SchemaError
from table_writer import write_job

INDEXES = ("BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX")


def make(path: Path, index: str = "BUCKET") -> Table:
    table = create_table(
        path / "t", "id bigint, p int, v bigint, f float", record_key="id", partition_by="p", index=index
    )
    table.upsert([{"id": number, "p": 1, "v": number, "f": 0.5} for number in range(10)])
    return table


def keys(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    "on",
    [
        "(target.id = source.id AND target.p = source.p) AND source.v > 0",
        "source.v > 0 AND ((target.p = source.p AND (target.id = source.id)))",
    ],
)
def test_parentheses_of_a_condition_change_nothing(tmp_path: Path, index: str, on: str) -> None:
    table = make(tmp_path, index)
    merge = table.merge([{"id": 1, "p": 1, "v": 50}, {"id": 77, "p": 1, "v": 51}], on)
    summary = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (summary.rows_updated, summary.rows_inserted) == (1, 1)
    stored = {row["id"]: row for row in table.scan(columns=["id", "p", "v", "f"]).to_arrow().to_pylist()}
    changed = {1: {"id": 1, "p": 1, "v": 50, "f": 0.5}, 77: {"id": 77, "p": 1, "v": 51, "f": None}}
    rest = {number: {"id": number, "p": 1, "v": number, "f": 0.5} for number in range(10)}
    assert stored == {**rest, **changed}


@pytest.mark.parametrize(
    ("kind", "values", "changed"),
    [
        ("decimal(10,2)", [Decimal("2.50"), Decimal("3.00")], Decimal("2.005")),
        ("date", [dt.date(2024, 1, 2), dt.date(2024, 1, 3)], dt.datetime(2024, 1, 4, 5, tzinfo=dt.UTC)),
        ("boolean", [True, False], 7),
        ("float", [0.5, 0.25], 0.1),
        ("timestamp", [dt.datetime(2024, 1, 4, 5, tzinfo=dt.UTC), dt.date(2024, 1, 4)], None),
        ("string", ["a", "b"], None),
    ],
)
def test_a_merge_changes_no_key_by_a_cast(tmp_path: Path, kind: str, values: list[Any], changed: Any) -> None:
    table = create_table(tmp_path / "t", f"id {kind}, v int", record_key="id", buckets=1)

    def merge(value: Any) -> Any:
        source = pa.table({"key": [value], "v": [1]})
        made = table.merge(source, "target.id = source.key")
        return made.when_not_matched_insert({"id": "source.key", "v": "source.v"}).execute()

    if changed is not None:
        with pytest.raises(RecordError, match=r"of a key or partition and a .*, and a value would be rounded to it"):
            merge(changed)
    assert [merge(value).rows_inserted for value in values] == [1, 1]
    assert [merge(value).rows_inserted for value in values] == [0, 0]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.upsert(pa.table({"id": [1.0], "p": [1], "v": [7]})),
        lambda table: table.upsert([{"id": 5.5, "p": 1}]),
        lambda table: table.insert(pa.table({"id": pa.array([1], pa.float32()), "p": [1]})),
        lambda table: table.upsert([{"id": 1, "p": 1.5}]),
        lambda table: table.insert_overwrite(pa.table({"id": [1], "p": [1.0]})),
        lambda table: table.delete(pa.table({"id": [1.0], "p": [1]})),
        lambda table: (
            table.merge([{"id": 100.5, "p": 1, "v": 9}], on="id")
            .with_schema_evolution()
            .when_not_matched_insert_all()
            .execute()
        ),
    ],
)
def test_fractions_are_no_keys_of_whole_numbers(tmp_path: Path, index: str, write: Callable[[Table], Any]) -> None:
    table = make(tmp_path, index)
    with pytest.raises(SchemaError, match=r"column '(id|p)' is .* cast the batch's column to int"):
        write(table)
    assert keys(table) == [*range(10)]
    assert table.client.table_schema().field("id").type == pa.int64()


@pytest.mark.parametrize("index", INDEXES)
def test_whole_numbers_of_any_width_are_the_same_keys(tmp_path: Path, index: str) -> None:
    table = create_table(tmp_path / "t", "id int, p int, v float", record_key="id", partition_by="p", index=index)
    table.upsert([{"id": 1, "p": 1, "v": 0.0}])
    wider = pa.table({"id": pa.array([1, 2**40]), "p": pa.array([1, 1]), "v": [2.5, 2.5]})
    assert table.upsert(wider).rows_updated == 1
    assert table.upsert(pa.table({"id": pa.array([1], pa.int8()), "p": pa.array([1], pa.int16())})).rows_updated == 1
    assert keys(table) == [1, 2**40]
    table.insert_overwrite_table(pa.table({"id": [1.5], "p": [1]}))  # of which nothing stays
    assert keys(table) == [1.5]


def test_a_longer_float_is_another_key(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", "id float, v int", record_key="id", buckets=1)
    table.upsert(pa.table({"id": pa.array([0.1], pa.float32()), "v": [1]}))
    with pytest.raises(SchemaError, match="cast the batch's column to float"):
        table.upsert(pa.table({"id": pa.array([0.1], pa.float64()), "v": [2]}))


@pytest.mark.parametrize(
    "merge",
    [
        lambda table: table.merge([{"id": 99.5, "p": 1, "v": 1}], on="id").when_not_matched_insert_all(),
        lambda table: table.merge([{"id": 99, "p": 1.5, "v": 1}], on="id").when_not_matched_insert_all(),
        lambda table: table.merge([{"id": 0.6, "p": 1, "v": 1}], on="id").when_not_matched_insert(
            {"id": "source.id", "p": "source.p"}
        ),
    ],
)
def test_a_merge_does_not_round_keys(tmp_path: Path, merge: Callable[[Table], Any]) -> None:
    table = make(tmp_path)
    with pytest.raises(RecordError, match=r"of a key or partition and a (BIGINT|INTEGER), and a value is no whole"):
        merge(table).execute()
    assert keys(table) == [*range(10)]
    assert table.merge([{"id": 10.0, "p": 1.0}], on="id").when_not_matched_insert_all().execute().rows_inserted == 1
    table.update({"v": 2.5}, "id = 1")  # rounded, as in SQL
    assert table.scan("id = 1").to_arrow()["v"].to_pylist() in ([2], [3])


@pytest.mark.parametrize("index", INDEXES)
def test_a_delete_by_condition_that_does_not_find_its_rows(
    tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a table whose keys a writer of another tool has widened."""
    table = make(tmp_path, index)
    monkeypatch.setattr(write_job, "refuse_widened_keys", lambda *_: None)
    table.upsert([{"id": 5.5, "p": 1, "v": 0}])
    with pytest.raises(RecordError, match="11 rows match, and 1 would be deleted"):
        table.delete("p = 1")
    assert keys(table) == sorted([*range(10), 5.5])
    assert table.delete("id = 5.5").rows_deleted == 1


def test_structs_without_fields_are_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", "id bigint", record_key="id")
    for value in ({}, [{}], {"x": {}}):
        with pytest.raises(SchemaError, match="column 'e' has a struct without fields"):
            table.upsert([{"id": 1, "e": value}])
    assert not table.client.timeline().instants
    with pytest.raises(SchemaError, match="column 'e' has a struct without fields"):
        create_table(tmp_path / "other", pa.schema([("id", pa.int64()), ("e", pa.struct([]))]), record_key="id")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filter": pa.compute.field("id") == 1}, "give SQL text such as"),
        ({"filter": {"id": 1}}, "give SQL text such as"),
        ({"as_of": 20260101}, "as text, such as"),
        ({"incremental": "earliest"}, "give two times, such as"),
        ({"columns": "id"}, r"give a list of names, such as \['id'\]"),
        ({"columns": ["s.x"]}, "s.x is a field of column s: name the whole column s"),
    ],
)
def test_arguments_of_a_scan(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    table = create_table(tmp_path / "t", "id bigint, s struct<x: int>", record_key="id")
    table.upsert([{"id": 1, "s": {"x": 1}}])
    with pytest.raises(HudiError, match=message):
        table.scan(**arguments)


def test_whole_numbers_that_floats_cannot_tell_apart_are_no_keys_of_floats(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", "k double, v int", record_key="k", buckets=1)
    table.upsert([{"k": 1.0, "v": 1}, {"k": 2, "v": 2}])
    with pytest.raises(SchemaError, match="cast the batch's column to double"):
        table.upsert(pa.table({"k": [9007199254740993, 9007199254740992], "v": [2, 3]}))
    with pytest.raises(SchemaError, match="cast the batch's column to double"):
        table.delete(pa.table({"k": [9007199254740993]}))
    assert table.upsert(pa.table({"k": pa.array([2], pa.int32()), "v": [3]})).rows_updated == 1


def test_streams_are_named_and_do_what_is_known(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", "k bigint", record_key="k")
    with pytest.raises(OptionError, match="a stream needs a name of its own"):
        table.stream_writer("")
    with pytest.raises(OptionError, match=r"no operation 'upsrt' \(did you mean upsert\?\)"):
        table.stream_writer("orders", "upsrt")
