from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.hive.columns import check_columns, declared_columns, type_matches
from hudi_catalog.hive.options import ScanSettings
from hudi_catalog.metastore.hive_types import hive_columns
from table_format.errors import SchemaError, ServiceError

TYPES: dict[str, pa.DataType] = {
    "i": pa.int32(),
    "L": pa.int64(),
    "t": pa.string(),
    "ts": pa.timestamp("us", tz="UTC"),
    "clock": pa.timestamp("us"),
    "d": pa.decimal128(10, 2),
    "s": pa.struct([("A", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.decimal128(5, 1))])))]),
    "m": pa.map_(pa.string(), pa.list_(pa.int64())),
    "fixed": pa.binary(4),
    "time": pa.time64("us"),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in TYPES.items()])


def snapshot(instant: str | None = "20260101000000000") -> Any:
    return SimpleNamespace(schema=SCHEMA, instant=instant, config=SimpleNamespace(name="trips"), schema_history=None)


def test_what_the_sync_writes_is_right() -> None:
    columns = hive_columns(SCHEMA)
    names, types = ",".join(column.name for column in columns), ":".join(column.type for column in columns)
    assert declared_columns(names, types) == {column.name: column.type.lower() for column in columns}
    check_columns(snapshot(), ScanSettings(columns=names, column_types=types), None, "db.t")


@pytest.mark.parametrize(
    ("hive_type", "column", "right"),
    [
        ("int", "i", True),
        ("bigint", "i", False),
        ("int", "L", False),
        ("string", "t", True),
        ("varchar(3)", "t", True),
        ("char(3)", "t", True),
        ("varchar(3)", "fixed", False),
        ("timestamp", "ts", True),
        ("bigint", "ts", False),
        ("timestampwithlocaltimezone", "ts", False),
        ("decimal(10,2)", "d", True),
        ("decimal(12,2)", "d", False),
        ("struct<a:int,b:array<struct<c:decimal(5,1)>>>", "s", True),
        ("struct<a:bigint,b:array<struct<c:decimal(5,1)>>>", "s", False),
        ("bigint", "time", True),
        ("", "i", False),
    ],
)
def test_types_beside_those_of_the_table(hive_type: str, column: str, right: bool) -> None:
    assert type_matches(hive_type, SCHEMA.field(column)) is right


def test_lists_of_columns_as_hive_writes_them() -> None:
    types = "decimal(10, 2),struct<a:int;b:map<string,int>>;timestamp with local time zone"
    assert declared_columns("A,b,c", types) == {
        "a": "decimal(10,2)",
        "b": "struct<a:int;b:map<string,int>>",
        "c": "timestampwithlocaltimezone",
    }
    assert declared_columns("a,b\0c", "int:string") == {"a,b": "int", "c": "string"}
    assert declared_columns("", "") == {}
    for names, types in (("a,b", "int"), ("a", "int:int"), ("", "int"), ("a", "")):
        with pytest.raises(ServiceError, match=r"names \d columns and \d types"):
            declared_columns(names, types)


def test_only_what_is_read_counts() -> None:
    stale = ScanSettings(columns="i,gone", column_types="bigint:string")
    with pytest.raises(SchemaError, match=r"db\.t: column i is bigint in Hive and int in trips of 20260101000000000"):
        check_columns(snapshot(), stale, None, "db.t")
    with pytest.raises(SchemaError, match=r"column gone is not in trips of .* run `hudi-catalog sync`"):
        check_columns(snapshot(), stale, ["gone"], "db.t")
    check_columns(snapshot(), stale, ["t"], "db.t")
    check_columns(snapshot(), stale, [], "db.t")
    check_columns(snapshot(None), stale, None, "db.t")
    check_columns(snapshot(), ScanSettings(), None, "db.t")


def test_the_past_may_lack_columns() -> None:
    settings = ScanSettings(columns="i,new", column_types="int:string", as_of="2026")
    check_columns(snapshot(), settings, None, "db.t")
    with pytest.raises(SchemaError, match=r"column i .* if its type was another one then, leave the column out"):
        check_columns(snapshot(), ScanSettings(columns="i", column_types="bigint", as_of="2026"), None, "db.t")


def test_columns_that_differ_in_case_alone_are_refused() -> None:
    both = pa.schema([("k", pa.int64()), ("same", pa.int32()), ("SAME", pa.int32())])
    settings = ScanSettings(columns="k,same", column_types="bigint:int")
    twice: Any = SimpleNamespace(**{**vars(snapshot()), "schema": both})
    check_columns(twice, settings, ["k"], "db.t")
    with pytest.raises(SchemaError, match=r"db\.t: column same matches several of trips"):
        check_columns(twice, settings, ["same"], "db.t")
