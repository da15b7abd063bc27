"""Values that updates and merges compute: structs, nulls in keys, and what cannot be computed."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import create_table, open_table
from table_format.errors import RecordError, SchemaError


def test_structs_with_fields_that_their_columns_have_not_are_refused(tmp_path: Path) -> None:
    """DuckDB's cast leaves them out, and takes fields whatever their case, which became null."""
    table = create_table(
        tmp_path / "t", "id bigint, s struct<x:int,y:string>, a array<struct<n:int>>, m map<string,struct<q:int>>",
        record_key="id", buckets=1,
    )  # fmt: skip
    table.upsert([{"id": 1, "s": {"x": 1, "y": "a"}, "a": [{"n": 1}], "m": {"k": {"q": 1}}}])
    before = open_table(table.client.storage.uri).scan().to_arrow()
    wrong: dict[str, Any] = {"X": 5, "y": "n"}
    other = pa.table({"id": [1, 2], "s": pa.array([{"x": 5, "Y": "n"}] * 2)})
    more = pa.table({"id": [1], "s": pa.array([{"x": 5, "z": 7}])})
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: table.update({"s": "{'X': 5, 'y': 'n'}"}), r"'s' has no field 'X' \(did you mean x\?\)"),
        (lambda: table.update({"s": wrong}), "'s' has no field 'X'"),
        (lambda: table.update({"s": "{'x': 5, 'z': 1}"}), r"'s' has no field 'z'; its fields are \['x', 'y'\]"),
        (lambda: table.update({"a": "[{'N': 9}]"}), r"'a\.element' has no field 'N'"),
        (lambda: table.update({"m": "MAP {'k': {'Q': 9}}"}), r"'m\.value' has no field 'Q'"),
        (lambda: table.merge(other, "id").when_matched_update({"s": "source.s"}).execute(), "no field 'Y'"),
        (lambda: table.merge(more, "id").when_matched_update_all().execute(), "no field 'z'"),
        (
            lambda: table.merge(other, "id").when_matched_update_all().when_not_matched_insert_all().execute(),
            "no field 'Y'",
        ),
    ]
    for change, reason in changes:
        with pytest.raises(SchemaError, match=reason):
            change()
    assert open_table(table.client.storage.uri).scan().to_arrow().equals(before)
    table.update({"s": "row(id + 1, 'n')", "a": "[{'n': 9}]"})
    table.merge(more, "id").with_schema_evolution().when_matched_update_all().execute()
    rows = open_table(table.client.storage.uri).scan(columns=["s", "a"]).to_arrow().to_pylist()
    assert rows == [{"s": {"x": 5, "y": None, "z": 7}, "a": [{"n": 9}]}]


def test_a_value_that_cannot_be_computed_far_down(tmp_path: Path) -> None:
    """DuckDB has sent batches by then, and Arrow's stream ends in an error of its own."""
    table = create_table(tmp_path / "t", "id bigint, n bigint", record_key="id", buckets=1)
    table.upsert([{"id": number, "n": 0 if number < 9000 else 2**63 - 1} for number in range(10_000)])
    with pytest.raises(RecordError, match=r"the change cannot be computed: .*Overflow"):
        table.update({"n": "n + 1"})


@pytest.mark.parametrize("condition", [None, "TRUE"])
def test_null_in_a_key_of_several_columns(tmp_path: Path, condition: str | None) -> None:
    table = create_table(tmp_path / "t", "a string, b string, n int", record_key=["a", "b"], buckets=1)
    table.upsert([{"a": "x", "b": None, "n": 1}])
    on = " AND ".join(f"target.{name} IS NOT DISTINCT FROM source.{name}" for name in "ab")
    merge = table.merge([{"a": "x", "b": None, "n": 2}, {"a": "y", "b": None, "n": 3}], on)
    summary = merge.when_matched_update_all(condition).when_not_matched_insert_all().execute()
    assert (summary.rows_updated, summary.rows_inserted) == (1, 1)
    rows = open_table(tmp_path / "t").scan(columns=["a", "b", "n"]).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [("x", None, 2), ("y", None, 3)]


def test_a_time_without_a_zone_is_no_value_of_a_column_of_instants(tmp_path: Path) -> None:
    """DuckDB took it for one of UTC, whatever the table's time zone, where rows with it are refused."""
    table = create_table(tmp_path / "t", "id bigint, at timestamp", record_key="id", time_zone="Europe/Vienna")
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    table.upsert([{"id": 1, "at": noon}])
    clock = noon.replace(tzinfo=None)
    merge = table.merge([{"id": 1}], "id")
    for change in (lambda: table.update({"at": clock}), lambda: merge.when_matched_update({"at": clock})):
        with pytest.raises(SchemaError, match=r"'at' has no time zone, .* value\.replace\(tzinfo=datetime\.UTC\)"):
            change()
    later = noon + dt.timedelta(hours=1)
    table.update({"at": later})
    assert table.scan(columns=["at"]).to_arrow()["at"].to_pylist() == [later]
