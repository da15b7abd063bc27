"""Columns of new tables."""

import polars as pl
import pyarrow as pa
import pytest

from hudi_catalog.sources.schemas import arrow_schema, schema_of_text
from table_format.errors import SchemaError
from tests.unit.hudi_catalog.sources.test_rows import TABLE


def test_schemas_of_new_tables() -> None:
    assert arrow_schema(TABLE.schema) == arrow_schema(TABLE) == TABLE.schema
    assert arrow_schema(TABLE.select(["id", "name"]).to_pylist()) == TABLE.select(["id", "name"]).schema
    assert arrow_schema(pl.DataFrame({"a": [1]}).schema).names == ["a"]
    with pytest.raises(SchemaError, match="'a' has no type"):
        arrow_schema([{"a": None}])
    with pytest.raises(SchemaError, match="without a time zone"):
        arrow_schema(pa.schema([("at", pa.timestamp("us"))]))
    assert arrow_schema(pa.schema([("at", pa.timestamp("us"))]), time_zone="UTC").field("at").type.tz == "UTC"


def test_columns_by_text() -> None:
    text = "id bigint, `the name` string, price decimal(10, 2), n decimal(4), day DATE, at timestamp, code varchar(3)"
    assert schema_of_text(text) == pa.schema(
        [
            ("id", pa.int64()),
            ("the name", pa.string()),
            ("price", pa.decimal128(10, 2)),
            ("n", pa.decimal128(4, 0)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("code", pa.string()),
        ]
    )
    inner = pa.struct([("x", pa.float64()), ("many", pa.map_(pa.string(), pa.list_(pa.int32())))])
    assert arrow_schema("a array<int>, b struct<x: double, many: map<string, array<int>>>") == pa.schema(
        [("a", pa.list_(pa.int32())), ("b", inner)]
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id", "'id' is not a column"),
        ("", "'' is not a column"),
        ("id bigint,", "'' is not a column"),
        ("id bigin", r"no type 'bigin' \(did you mean bigint"),
        ("id int(3)", r"no type 'int\(3\)'"),
        ("id decimal(50,2)", "no type 'decimal"),
        ("id decimal(5,6)", "no type 'decimal"),
        ("id array<int, int>", "no type 'array"),
        ("id array<int", "no type 'array"),
        ("id map<string>", "no type 'map"),
        ("id struct<x>", "'x' is not a column"),
    ],
)
def test_texts_that_are_no_columns(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        schema_of_text(text)
