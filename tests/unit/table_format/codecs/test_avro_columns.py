import collections
import datetime as dt
import decimal
import io
import json

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from table_format.codecs.arrow_numpy import binary_array, from_numpy, spans_of, to_numpy
from table_format.codecs.avro_columns import MapColumn, UnionColumn, decode_columns
from table_format.codecs.avro_schema_tree import parse
from table_format.errors import CorruptFileError, SchemaError
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import read_log_blocks
from table_writer.encoding.avro import (
    Encoded,
    encode_longs,
    encode_records,
    encode_union,
    encode_values,
    map_blocks,
)
from tests.support.golden_files import DATA_LOGS, HFILES, golden

STATISTICS = ("fileName", "columnName", "minValue", "maxValue", "valueCount", "nullCount", "totalSize", "isDeleted")


def golden_entries(name):
    data = golden(name)
    if name.endswith(".hfile"):
        reader = HFileReader(data, name)
        return reader.entries(), json.loads(reader.schema_json)
    (block,) = [one for one in read_log_blocks(data, name) if one.schema_json]
    return HFileReader(block.content, name).entries(), json.loads(block.schema_json)


def with_fastavro(entries, schema):
    parsed = fastavro.parse_schema(schema)
    return [
        fastavro.schemaless_reader(io.BytesIO(value), parsed, None, return_record_name=True)
        for value in entries.values().to_pylist()
    ]


def value_at(record, path):
    for part in path.split("."):
        record = record[1] if isinstance(record, tuple) else record
        if record is None:
            return None
        record = record[part]
    return record


def union_rows(column):
    for row, branch in enumerate(column.branches.tolist()):
        yield None if branch <= 0 else (column.names[branch], column.values[branch][row].as_py())


@pytest.mark.parametrize("name", [*HFILES, *DATA_LOGS])
def test_columns_equal_fastavro(name):
    entries, schema = golden_entries(name)
    paths = [
        "key",
        "type",
        *(f"ColumnStatsMetadata.{field}" for field in STATISTICS),
        "recordIndexMetadata.partitionName",
        "recordIndexMetadata.fileIdHighBits",
        "recordIndexMetadata.fileIndex",
        "recordIndexMetadata.instantTime",
        "BloomFilterMetadata.bloomFilter",
        "filesystemMetadata",
    ]
    columns = decode_columns(entries.buffer, entries.value_starts, entries.value_lengths, schema, paths, name=name)
    records = with_fastavro(entries, schema)
    for path in paths:
        expected = [value_at(record, path) for record in records]
        column = columns[path]
        if isinstance(column, MapColumn):
            maps = collections.defaultdict(dict)
            sizes, flags = column.values["size"].to_pylist(), column.values["isDeleted"].to_pylist()
            for record, key, *value in zip(column.records, column.keys.to_pylist(), sizes, flags, strict=True):
                maps[int(record)][key] = dict(zip(("size", "isDeleted"), value, strict=True))
            assert [maps.get(row) for row in range(len(records))] == [value or None for value in expected]
        elif isinstance(column, UnionColumn):
            wanted = [value and (value[0].rpartition(".")[2], value[1]["value"]) for value in expected]
            assert list(union_rows(column)) == wanted
        else:
            assert column.to_pylist() == expected


@pytest.mark.parametrize("name", [name for name in (*HFILES, *DATA_LOGS) if name.startswith("column_stats")])
def test_statistics_are_encoded_as_apache_hudi_wrote_them(name):
    entries, schema = golden_entries(name)
    node = parse(schema)
    statistics = [field for field, _ in node.child("ColumnStatsMetadata").branches[1].fields]
    paths = [f"ColumnStatsMetadata.{field}" for field in statistics if field != "valueType"]
    decoded = decode_columns(entries.buffer, entries.value_starts, entries.value_lengths, node, paths)
    columns = {path.rpartition(".")[2]: column for path, column in decoded.items()}
    for bound in ("minValue", "maxValue"):
        raw = columns[bound].encoded()
        buffer, starts, lengths = spans_of(raw)
        again = decode_columns(
            buffer, starts, lengths, node.child("ColumnStatsMetadata").branches[1].child(bound), [""]
        )
        assert list(union_rows(again[""])) == list(union_rows(columns[bound]))
        columns[bound] = Encoded(raw)
    # Compaction fills in the file's name.
    meta = decode_columns(entries.buffer, entries.value_starts, entries.value_lengths, node, ["_hoodie_file_name"])
    rest = {"key": b"\0", "type": b"\6", "ColumnStatsMetadata": columns}
    written = encode_records(node, meta | rest, len(entries))
    assert written.to_pylist() == entries.values().to_pylist()


def test_unions_are_encoded_as_apache_hudi_wrote_them():
    entries, schema = golden_entries("column_stats_edge_0150.log")
    node = parse(schema).child("ColumnStatsMetadata").branches[1].child("minValue")
    column = decode_columns(
        entries.buffer, entries.value_starts, entries.value_lengths, schema, ["ColumnStatsMetadata.minValue"]
    )["ColumnStatsMetadata.minValue"]
    raw = column.encoded().to_pylist()
    assert len(column.values) > 5
    for branch, values in column.values.items():
        rows = np.flatnonzero(column.branches == branch).tolist()
        nulls = np.flatnonzero(column.branches == 0).tolist()
        chosen = sorted(rows + nulls)
        assert encode_union(node, branch, values.take(pa.array(chosen))).to_pylist() == [raw[row] for row in chosen]


def test_files_maps_are_encoded_as_apache_hudi_wrote_them():
    entries, schema = golden_entries("files_0150.hfile")
    item = parse(schema).child("filesystemMetadata").branches[1].item
    paths = ["filesystemMetadata", "_hoodie_file_name", "type"]
    columns = decode_columns(entries.buffer, entries.value_starts, entries.value_lengths, schema, paths)
    column = columns["filesystemMetadata"]
    assert len(column.keys) > 2
    values = encode_records(item, column.values, len(column.keys))
    offsets = np.searchsorted(column.records, np.arange(len(entries) + 1))
    maps = [b"\x02" + part for part in map_blocks(column.keys, values, offsets)]
    written = encode_records(
        schema,
        columns | {"key": b"\0", "filesystemMetadata": Encoded(pa.array(maps, pa.binary()))},
        len(entries),
    )
    # Java's block of map entries is the same as ours but for the order of a hash map, which is kept here.
    assert written.to_pylist() == entries.values().to_pylist()


LOGICAL = {
    "type": "record",
    "name": "all",
    "namespace": "some.where",
    "fields": [
        {"name": "date", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "stamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "ratio", "type": ["double", "null"]},
        {"name": "again", "type": ["null", "four"]},
        {"name": "colour", "type": {"type": "enum", "name": "colour", "symbols": ["red", "green"]}},
    ],
}
RECORDS = [
    {
        "date": dt.date(1969, 12, 31),
        "time": dt.time(23, 59, 59, 999999),
        "stamp": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        "amount": decimal.Decimal("-123456789012345678901234567.891"),
        "list": ["a", None, "b" * 1000],
        "fixed": b"abcd",
        "ratio": 1.5,
        "again": None,
        "colour": "green",
    },
    {
        "date": None,
        "time": dt.time(0),
        "stamp": dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
        "amount": decimal.Decimal("0.128"),
        "list": [],
        "fixed": b"\0\0\0\0",
        "ratio": None,
        "again": b"\xff\xfe\xfd\xfc",
        "colour": "red",
    },
]


def encoded(schema, records):
    parts = []
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
        parts.append(out.getvalue())
    return spans_of(pa.array(parts, pa.binary()))


def test_logical_types():
    names = [field["name"] for field in LOGICAL["fields"] if field["name"] != "list"]
    columns = decode_columns(*encoded(LOGICAL, RECORDS), LOGICAL, names)
    assert columns["date"].type == pa.date32()
    assert columns["time"].type == pa.time64("us")
    assert columns["stamp"].type == pa.timestamp("us", tz="UTC")
    assert columns["amount"].type == pa.decimal128(30, 3)
    for name in names:
        assert columns[name].to_pylist() == [record[name] for record in RECORDS]


def test_logical_types_are_encoded_as_fastavro_does():
    node = parse(LOGICAL)
    columns = decode_columns(*encoded(LOGICAL, RECORDS), node, ["date", "time", "stamp", "amount", "fixed", "ratio"])
    for name in columns:
        schema = {"type": "record", "name": "one", "fields": [f for f in LOGICAL["fields"] if f["name"] == name]}
        expected = binary_array(*encoded(schema, RECORDS))
        assert encode_records(schema, {name: columns[name]}, 2).equals(expected)


def test_decimals_in_the_fewest_bytes():
    node = parse({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 0})
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32768, -32769]
    values = pa.array([decimal.Decimal(number) for number in numbers], pa.decimal128(10, 0))
    expected = []
    for number in numbers:
        size = ((number + (number < 0)).bit_length() + 8) // 8
        expected.append(bytes([2 * size]) + number.to_bytes(size, "big", signed=True))
    assert encode_values(node, values).to_pylist() == expected
    assert encode_values(node, values[3:7]).to_pylist() == expected[3:7]


def test_longs():
    numbers = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    array = encode_longs(np.array(numbers))
    buffer, starts, lengths = spans_of(array)
    assert decode_columns(buffer, starts, lengths, "long", [""])[""].to_pylist() == numbers
    assert array.to_pylist()[:6] == [b"\x00", b"\x01", b"\x02", b"\x7e\x00"[:1], b"\x80\x01", b"\x7f"]


def test_a_map_in_sized_blocks_is_read():
    schema = {"type": "map", "values": {"type": "record", "name": "v", "fields": [{"name": "n", "type": "long"}]}}
    # One entry in a block that states its bytes (count -1, 3 bytes), one without, then the end.
    data = bytes.fromhex("01 06 02 61 04  02 02 62 06  00".replace(" ", ""))
    buffer = np.frombuffer(data, dtype=np.uint8)
    column = decode_columns(buffer, np.array([0]), np.array([len(data)]), schema, [""])[""]
    assert column.keys.to_pylist() == ["a", "b"]
    assert column.values["n"].to_pylist() == [2, 3]


@pytest.mark.parametrize("count", [20, 100])
def test_many_maps_of_all_sizes(count):
    schema = {"type": "map", "values": {"type": "record", "name": "v", "fields": [{"name": "n", "type": "long"}]}}
    maps = [{f"{'k' * (n * 7 % 90)}{m}": {"n": m * 40 - n} for m in range(n * 37 % 61)} for n in range(count)]
    column = decode_columns(*encoded(schema, maps), schema, [""])[""]
    expected = [(n, key, value["n"]) for n, of in enumerate(maps) for key, value in of.items()]
    assert [
        *zip(column.records.tolist(), column.keys.to_pylist(), column.values["n"].to_pylist(), strict=True)
    ] == expected


@pytest.mark.parametrize("copies", [1, 60])
def test_maps_in_several_blocks_keep_their_order(copies):
    schema = {"type": "map", "values": "long"}
    data = bytes.fromhex("01 06 02 61 04  02 02 62 06  00".replace(" ", "")) * copies
    starts = np.arange(copies) * 10
    column = decode_columns(np.frombuffer(data, np.uint8), starts, np.full(copies, 10), schema, [""])[""]
    assert column.keys.to_pylist() == ["a", "b"] * copies
    assert column.values[""].to_pylist() == [2, 3] * copies
    assert column.records.tolist() == np.repeat(np.arange(copies), 2).tolist()


@pytest.mark.parametrize("damage", ["ffffffffffffffffff01", "feffffff0f", "0201", "04 02 61 04 ff", "02 02"])
@pytest.mark.parametrize("copies", [1, 60])
def test_maps_that_cannot_be(damage, copies):
    schema = {"type": "map", "values": "long"}
    data = bytes.fromhex("02 02 61 04 00".replace(" ", "")) * (copies - 1) + bytes.fromhex(damage)
    starts = np.arange(copies) * 5
    lengths = np.append(np.full(copies - 1, 5), len(data) - starts[-1])
    with pytest.raises(CorruptFileError):
        decode_columns(np.frombuffer(data, np.uint8), starts, lengths, schema, [""])


def test_long_map_keys():
    schema = {"type": "map", "values": "long"}
    keys = {"k" * size: size for size in (0, 1, 63, 64, 8191, 8192, 20000)}
    column = decode_columns(*encoded(schema, [keys, {}, keys]), schema, [""])[""]
    assert column.keys.to_pylist() == [*keys, *keys]
    assert column.values[""].to_pylist() == [*keys.values(), *keys.values()]
    assert column.records.tolist() == [0] * 7 + [2] * 7


@pytest.mark.parametrize("damage", [slice(0, -1), slice(0, 3), slice(1, None), slice(0, 0)])
def test_records_of_the_wrong_length(damage):
    entries, schema = golden_entries("column_stats_0150.hfile")
    values = entries.values().to_pylist()
    values[3] = values[3][damage]
    buffer, starts, lengths = spans_of(pa.array(values, pa.binary()))
    with pytest.raises(CorruptFileError, match=r"stats\.hfile"):
        decode_columns(buffer, starts, lengths, schema, ["ColumnStatsMetadata.fileName"], name="stats.hfile")


def test_strings_that_are_no_text():
    buffer = np.frombuffer(b"\x04\xff\xfe", dtype=np.uint8)
    with pytest.raises(CorruptFileError):
        decode_columns(buffer, np.array([0]), np.array([3]), "string", [""])


@pytest.mark.parametrize("path", ["nothing", "date.more", "list"])
def test_paths_that_are_no_columns(path):
    with pytest.raises(SchemaError):
        decode_columns(*encoded(LOGICAL, RECORDS), LOGICAL, [path])


def test_no_records():
    _, schema = golden_entries("files_0150.hfile")
    none = np.empty(0, dtype=np.int64)
    paths = ["key", "ColumnStatsMetadata.minValue", "ColumnStatsMetadata.fileName", "filesystemMetadata"]
    columns = decode_columns(np.empty(0, dtype=np.uint8), none, none, schema, paths)
    assert columns["key"].type == columns["ColumnStatsMetadata.fileName"].type == pa.string()
    assert len(columns["ColumnStatsMetadata.minValue"].branches) == len(columns["filesystemMetadata"].keys) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": pa.array([1, None])}, "nulls"),
        ({}, "needs a column"),
        ({"a": pa.array(["x", "y"])}, "cannot be"),
        ({"a": pa.array([2**40, 0])}, "cannot be"),
        ({"a": pa.array([1])}, "rows"),
        ({"a": pa.array([1, 2]), "c": pa.array([1, 2])}, "no field 'c'"),
    ],
)
def test_columns_that_do_not_fit(columns, message):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    with pytest.raises(SchemaError, match=message):
        encode_records(schema, columns, 2)


@pytest.mark.parametrize("values", [[True, False, True], [1.5, float("nan")], [1, 2, 3], []])
def test_numbers_between_numpy_and_arrow(values):
    array = np.array(values)
    assert from_numpy(array).equals(pa.array(array)) or array.dtype.kind == "f"
    np.testing.assert_array_equal(to_numpy(from_numpy(array)), array)
    valid = np.arange(len(values)) % 2 == 0
    assert from_numpy(array, valid).is_valid().to_pylist() == valid.tolist()
    if len(values) > 1:
        np.testing.assert_array_equal(to_numpy(from_numpy(array)[1:]), array[1:])


@pytest.mark.parametrize(("logical", "zone"), [("timestamp-nanos", "UTC"), ("local-timestamp-nanos", None)])
def test_times_in_nanoseconds_have_their_type(logical, zone):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "t", "type": {"type": "long", "logicalType": logical}}],
    }
    stored = pa.array([1_500_000_000_000_000_001, -1], pa.timestamp("ns", zone))
    data, starts, lengths = spans_of(encode_records(schema, {"t": stored}, 2))
    assert decode_columns(data, starts, lengths, schema, ["t"])["t"].equals(stored)
