"""Hive's names of types."""

import pyarrow as pa
import pytest

from hudi_catalog.metastore.hive_types import hive_columns, hive_type
from table_format.errors import UnsupportedTableError

TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(38,10)": pa.decimal128(38, 10),
    "array<int>": pa.list_(pa.int32()),
    "map<string,array<double>>": pa.map_(pa.string(), pa.list_(pa.float64())),
    "struct<a:int,B_c:struct<é:string>>": pa.struct(
        [("a", pa.int32()), ("B_c", pa.struct([pa.field("é", pa.string())]))]
    ),
}


@pytest.mark.parametrize(("text", "kind"), TYPES.items())
def test_types(text: str, kind: pa.DataType) -> None:
    assert hive_type(kind, "c") == text


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_all_timestamps_are_one(unit: str, zone: str | None) -> None:
    assert hive_type(pa.timestamp(unit, zone), "c") == "timestamp"


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.decimal256(40, 2),
        pa.decimal128(5, -2),
        pa.struct([]),
        pa.struct([("a", pa.int32()), ("A", pa.int32())]),
        pa.struct([("a:b", pa.int32())]),
        pa.list_(pa.struct([("a,b", pa.int32())])),
        pa.duration("s"),
    ],
)
def test_what_hive_does_not_have_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTableError, match="column odd"):
        hive_columns(pa.schema([("odd", kind)]))


def test_names_are_lower_case_and_unique() -> None:
    columns = hive_columns(pa.schema([("Ä", pa.int32()), ("b", pa.string())]), {"Ä": "said", "b": ""})
    assert [(c.name, c.type, c.comment) for c in columns] == [("ä", "int", "said"), ("b", "string", None)]
    with pytest.raises(UnsupportedTableError, match="columns a and A: Hive does not distinguish them"):
        hive_columns(pa.schema([("a", pa.int32()), ("A", pa.int32())]))


@pytest.mark.parametrize(
    ("comment", "expected"),
    [("c" * 256, "c" * 256), ("c" * 257, "c" * 255 + "…"), ("😀" * 129, "😀" * 127 + "…"), ("", None)],
)
def test_comments_are_as_long_as_a_metastore_has_room_for(comment: str, expected: str | None) -> None:
    (column,) = hive_columns(pa.schema([("a", pa.int64())]), {"a": comment})
    assert column.comment == expected
