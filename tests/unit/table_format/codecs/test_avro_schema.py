import json

import fastavro
import pyarrow as pa
import pytest

from table_format.codecs.avro_schema import arrow_to_avro, avro_to_arrow, schema_text, without_meta_columns
from table_format.codecs.avro_schema_tree import parse_text
from table_format.errors import SchemaError
from table_format.meta_columns import META_COLUMNS
from tests.support.golden_base_files import DATA_FILES, FILES, schemas_of
from tests.support.golden_tables import NAMES, NEW_NAMES

OLDEST = [name for name in (*NAMES, *NEW_NAMES) if name.startswith("v6_0150")]


@pytest.mark.parametrize("name", OLDEST)
def test_commit_schemas_come_out_as_apache_wrote_them(name):
    texts, table = schemas_of(name), name.partition("__")[2]
    assert texts
    assert [schema_text(avro_to_arrow(text), table) for text in texts] == texts


def test_footer_schemas_come_out_as_apache_wrote_them():
    import io

    import pyarrow.parquet as pq

    seen = 0
    for name in DATA_FILES:
        texts = pq.read_metadata(io.BytesIO(FILES[name].data)).metadata or {}
        if b"parquet.avro.schema" in texts:
            text = texts[b"parquet.avro.schema"].decode()
            table = json.loads(text)["name"].removesuffix("_record")
            assert schema_text(avro_to_arrow(text), table, meta_fields=True) == text
            seen += 1
    assert seen > 30


def test_meta_columns_are_left_out():
    schema = avro_to_arrow(schema_text(pa.schema([("a", pa.int32())]), "t", meta_fields=True))
    assert tuple(schema.names) == (*META_COLUMNS, "a")
    assert without_meta_columns(schema).names == ["a"]
    assert [field["name"] for field in arrow_to_avro(schema, "t")["fields"]] == ["a"]


def test_names_are_masked_and_paths_keep_nested_names_apart():
    decimal = pa.decimal128(10, 2)
    schema = pa.schema(
        [
            ("a", pa.struct([("d", decimal), ("inner", pa.struct([("d", decimal)]))])),
            ("b", pa.list_(pa.struct([("d", decimal)]))),
            ("m", pa.map_(pa.string(), decimal)),
            ("nested", pa.list_(pa.list_(decimal))),
        ]
    )
    avro = arrow_to_avro(schema, "db.my-table", meta_fields=True)
    assert (avro["name"], avro["namespace"]) == ("db__my__table_record", "hoodie.db__my__table")
    fastavro.parse_schema(json.loads(json.dumps(avro)))  # refuses a name that stands for two types
    assert without_meta_columns(avro_to_arrow(avro)).types == avro_to_arrow(arrow_to_avro(schema, "x")).types


def test_comments_are_docs():
    field = pa.field("a", pa.int32(), metadata={"comment": "größe"})
    text = schema_text(pa.schema([field]), "t")
    assert '"doc":"größe"' in text
    assert avro_to_arrow(text).field("a").metadata == {b"comment": "größe".encode()}


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        (pa.int8(), "int"),
        (pa.uint32(), "long"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.date64(), {"type": "int", "logicalType": "date"}),
        (pa.timestamp("ns", "Europe/Paris"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
    ],
)
def test_types_that_are_stored_as_others(kind, avro):
    assert arrow_to_avro(pa.schema([("a", kind)]), "t")["fields"][0]["type"] == ["null", avro]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a", pa.uint64(), "cannot hold uint64"),
        ("a", pa.duration("us"), "cannot hold duration"),
        ("a", pa.null(), "holds nulls only, and so has no type: declare"),
        ("a", pa.map_(pa.int32(), pa.int32()), "string keys"),
        ("a", pa.decimal128(5, -2), "negative scale"),
        ("a b", pa.int32(), "rename the column"),
        ("1a", pa.int32(), "rename the column"),
    ],
)
def test_columns_that_tables_cannot_hold(name, kind, message):
    with pytest.raises(SchemaError, match=message):
        arrow_to_avro(pa.schema([(name, kind)]), "t")


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        ("{", "not Avro JSON"),
        ('"string"', "must be an Avro record"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}', "unions of several types"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"x.y"}]}', "unknown Avro type"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}', "contains itself"),
    ],
)
def test_schemas_that_are_not_read(avro, message):
    with pytest.raises(SchemaError, match=message):
        avro_to_arrow(avro)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"fixed","name":"F","size":"x"}', "size is 'x'"),
        ('{"type":"enum","name":"E","symbols":[1]}', "1 is a symbol"),
        ('{"type":"bytes","logicalType":"decimal","scale":-1}', "scale is -1"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_trees_that_are_not_made(text, message):
    with pytest.raises(SchemaError, match=message):
        parse_text(text)


def test_types_of_other_writers():
    avro = {
        "type": "record",
        "name": "r",
        "namespace": "n",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}},
            {"name": "again", "type": ["null", "F"]},
            {"name": "full", "type": ["n.E", "null"]},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
            {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    kinds = [
        pa.string(),
        pa.binary(),
        pa.binary(),
        pa.string(),
        pa.decimal128(5, 2),
        pa.timestamp("ms", "UTC"),
        pa.string(),
    ]
    schema = avro_to_arrow(avro)
    assert schema.types == kinds
    assert [field.nullable for field in schema] == [False, False, True, True, False, False, False]
