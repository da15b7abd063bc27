from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from hudi_catalog.metastore.stored_columns import differing_names
from table_format.schema.internal_schema import InternalSchema, SchemaColumn
from table_format.table.schema_history import SchemaHistory


def snapshot(*now: SchemaColumn) -> Any:
    before = InternalSchema(0, (SchemaColumn(0, "id", kind="long"), SchemaColumn(1, "name", kind="string")))
    current = InternalSchema(20260101000000000, now)
    timeline: Any = SimpleNamespace(writes=())
    history = SchemaHistory(timeline, current, (before, current))
    schema = pa.schema([pa.field(column.name, pa.string()) for column in now])
    return SimpleNamespace(schema_history=history, data_schema=schema)


def test_columns_that_older_files_hold_otherwise() -> None:
    key = SchemaColumn(0, "id", kind="long")
    assert differing_names(snapshot(key, SchemaColumn(1, "name", kind="string")), "20250101000000000") == []
    assert differing_names(snapshot(key, SchemaColumn(1, "title", kind="string")), "20250101000000000") == ["title"]
    assert differing_names(snapshot(key, SchemaColumn(2, "more", kind="string")), "20250101000000000") == []
    assert differing_names(SimpleNamespace(schema_history=None), "20250101000000000") == []  # type: ignore[arg-type]


def test_another_column_of_the_name_in_other_letters() -> None:
    """Hive and Trino would read it: to them both are `name`."""
    for name in ("name", "Name"):
        columns = SchemaColumn(0, "id", kind="long"), SchemaColumn(2, name, kind="string")
        assert differing_names(snapshot(*columns), "2025") == [name]
