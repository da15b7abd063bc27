from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from hudi_catalog.metastore.stored_columns import differing_names
from table_format.schema.internal_schema import Column, InternalSchema
from table_format.table.schema_history import SchemaHistory


def snapshot(*now: Column) -> Any:
    before = InternalSchema(0, (Column(0, "id", kind="long"), Column(1, "name", kind="string")))
    current = InternalSchema(20260101000000000, now)
    timeline: Any = SimpleNamespace(writes=())
    history = SchemaHistory(timeline, current, (before, current))
    schema = pa.schema([pa.field(column.name, pa.string()) for column in now])
    return SimpleNamespace(schema_history=history, data_schema=schema)


def test_columns_that_older_files_hold_otherwise() -> None:
    key = Column(0, "id", kind="long")
    assert differing_names(snapshot(key, Column(1, "name", kind="string")), "20250101000000000") == []
    assert differing_names(snapshot(key, Column(1, "title", kind="string")), "20250101000000000") == ["title"]
    assert differing_names(snapshot(key, Column(2, "more", kind="string")), "20250101000000000") == []
    assert differing_names(SimpleNamespace(schema_history=None), "20250101000000000") == []  # type: ignore[arg-type]


def test_another_column_of_the_name_in_other_letters() -> None:
    """Hive and Trino would read it: to them both are `name`."""
    for name in ("name", "Name"):
        found = differing_names(snapshot(Column(0, "id", kind="long"), Column(2, name, kind="string")), "2025")
        assert found == [name]
