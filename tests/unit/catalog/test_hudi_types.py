"""Columns of types that came with Apache Hudi 1.2: VECTOR, BLOB and VARIANT (tests/golden/hudi_types.tar.xz)."""

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.metastore.stored_columns import HIVE_RULES, HIVE_WITHOUT_HANDLER_RULES, TRINO_RULES, StoredTypes
from table_format.codecs.avro_schema import avro_text, avro_to_arrow
from table_format.codecs.avro_schema_tree import columns_of_hudi_types
from table_format.errors import SchemaError, UnsupportedTableError
from table_format.schema.evolution import conform, storage_schema
from tests.support.local_writes import LocalTable

ARCHIVE = Path(__file__).parents[2] / "golden/hudi_types.tar.xz"
FLOATS = [{"id": 1, "x": [1.5, 2.5, -3.0], "ts": 1}, {"id": 2, "x": None, "ts": 1}]
INLINE = {"type": "INLINE", "data": b"abc", "reference": None}
BLOBS = [{"id": 1, "x": INLINE, "ts": 2}, {"id": 2, "x": None, "ts": 1}]
#: What Apache Hudi 1.2.0 reads; `mor` tables have an update in a log file.
EXPECTED = {
    "vec_cow": FLOATS,
    "v6": FLOATS,
    "vec_mor": [{**FLOATS[0], "ts": 2}, FLOATS[1]],
    "vecd_cow": [{"id": 1, "x": [1.5, 2.5], "ts": 1}],
    "vecb_cow": [{"id": 1, "x": [1, 2, -3, 4], "ts": 1}],
    "blb_cow": BLOBS,
    "blb_mor": BLOBS,
}
ELEMENTS = {"vec_cow": pa.float32(), "vecd_cow": pa.float64(), "vecb_cow": pa.int8()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hudi_types")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path, filter="data")
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_rows_are_those_that_apache_reads(folder, name):
    table = Table.open(str(folder / name))
    rows = table.scan(columns=["id", "x", "ts"]).to_arrow().sort_by("id")
    assert rows.to_pylist() == EXPECTED[name]
    nulls = sum(row["x"] is None for row in EXPECTED[name])
    assert table.scan("x IS NULL").to_arrow().num_rows == nulls
    assert table.scan("x IS NOT NULL").to_arrow().num_rows == len(rows) - nulls
    if name in ELEMENTS:
        assert rows.schema.field("x").type == pa.list_(pa.field("element", ELEMENTS[name], nullable=False))


@pytest.mark.parametrize("name", ["vec_cow", "vecb_cow"])
@pytest.mark.parametrize(
    "rules", [TRINO_RULES, HIVE_RULES, HIVE_WITHOUT_HANDLER_RULES], ids=["trino", "hive", "hive_alone"]
)
def test_engines_that_open_the_files_are_kept_from_vectors(folder, name, rules):
    """To them the files hold plain bytes."""
    with pytest.raises(UnsupportedTableError, match="column x is list"):
        StoredTypes(rules).check(Table.open(str(folder / name)).snapshot())


def test_tables_with_such_columns_are_not_written(folder):
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.bucket.index.num.buckets": "1"}
    table = LocalTable(Table.open(str(folder / "v6")).client, options)
    rows = pa.table({"id": pa.array([1], pa.int32()), "ts": [5]})
    before = sorted(folder.rglob("*"))
    for operation in ("upsert", "delete", "insert_overwrite_table"):
        with pytest.raises(UnsupportedTableError, match=r"x: columns of Hudi 1\.2's types VECTOR"):
            table.write(operation, rows)
    assert sorted(folder.rglob("*")) == before


def vector(size=12, **members):
    return {
        "type": "fixed",
        "name": "v",
        "size": size,
        "logicalType": "vector",
        "dimension": 3,
        "elementType": "FLOAT",
        "storageBacking": "FIXED_BYTES",
        **members,
    }


def table_of(kind):
    return {"type": "record", "name": "t", "fields": [{"name": "s", "type": kind}]}


@pytest.mark.parametrize("kind", [vector(size=13), vector(elementType="HALF"), vector(storageBacking="LIST")])
def test_other_vectors_are_refused_by_name(kind):
    with pytest.raises(SchemaError, match=r"column 's' is a VECTOR\(3, "):
        avro_to_arrow(table_of(["null", kind]))


#: As `HoodieSchema.createVariant()` of 1.2.0 makes it.
VARIANT = {
    "type": "record",
    "name": "variant",
    "fields": [
        {"name": "metadata", "type": "bytes", "doc": "Variant metadata component"},
        {"name": "value", "type": "bytes", "doc": "Variant value component"},
    ],
    "logicalType": "variant",
}


def test_variants_are_refused_by_name():
    inner = {"type": "record", "name": "inner", "fields": [{"name": "v", "type": ["null", VARIANT]}]}
    with pytest.raises(SchemaError, match=r"column 's\.v' is a VARIANT of Hudi 1\.2"):
        avro_to_arrow(table_of({"type": "array", "items": inner}))


def test_columns_of_such_types():
    fields = [
        {"name": "a", "type": "string", "doc": "vector"},
        {"name": "b", "type": ["null", vector()]},
        {"name": "c", "type": {"type": "map", "values": ["null", "v"]}},
        {"name": "d", "type": {"type": "array", "items": {"type": "record", "name": "r", "fields": [
            {"name": "e", "type": VARIANT}]}}},
        {"name": "vector", "type": "long"},
    ]  # fmt: skip
    text = avro_text({"type": "record", "name": "t", "fields": fields})
    assert columns_of_hudi_types(text) == ["b", "c", "d"]
    assert columns_of_hudi_types(None) == []


def test_vectors_anywhere_in_a_column():
    numbers = pa.list_(pa.field("element", pa.float32(), nullable=False))
    wanted = pa.schema([("s", pa.struct([("v", numbers)])), ("l", pa.list_(numbers))])
    raw = [None, b"\0\0\x80?\0\0\0@", b"\0\0\0\0\0\0\xc0\x7f"]
    fixed = pa.array(raw, pa.binary(8))
    stored = pa.table(
        {"s": pa.StructArray.from_arrays([fixed], ["v"]), "l": pa.ListArray.from_arrays([0, 1, 3, 3], fixed)}
    )
    vectors = conform(stored.slice(1), wanted)
    assert vectors["s"][0].as_py() == {"v": [1.0, 2.0]}
    assert str(vectors["s"][1].as_py()) == "{'v': [0.0, nan]}"
    assert str(vectors["l"].to_pylist()) == "[[[1.0, 2.0], [0.0, nan]], []]"
    bytes_ = pa.schema([("s", pa.list_(pa.field("element", pa.int8(), nullable=False)))])
    rows = pa.table({"s": pa.array([b"\x01\xff"], pa.binary(2))})
    assert conform(rows, bytes_)["s"].to_pylist() == [[1, -1]]
    assert conform(rows, storage_schema(bytes_))["s"].to_pylist() == [[1, -1]]
    with pytest.raises(SchemaError, match="column 's'"):
        conform(rows, pa.schema([("s", numbers)]))
