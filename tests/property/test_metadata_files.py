"""HFiles, log blocks and Avro columns: round trips of anything, and damage that is never a wrong result."""

import contextlib
import io
import struct
from unittest import mock

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from table_format.codecs.arrow_numpy import binary_array, spans_of
from table_format.codecs.avro_columns import MapColumn, UnionColumn, decode_columns
from table_format.errors import HudiError
from table_format.hfile import reader as reader_module
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import BlockType, read_log_blocks
from table_format.log.deletes import DeletedRecord, read_deletes
from table_writer.encoding.avro import encode_records
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.log_blocks import write_delete_block, write_log_block
from tests.support.golden_files import DATA_LOGS, HFILES, golden

KEYS = st.one_of(
    st.text(max_size=12).map(str.encode),
    st.text(alphabet="ab", min_size=1, max_size=4).map(lambda text: text.encode() * 1000),
    st.binary(min_size=100, max_size=300),
)


def pairs(entries):
    return list(zip(entries.keys().to_pylist(), entries.values().to_pylist(), strict=True))


@settings(max_examples=60)
@given(
    st.dictionaries(KEYS, st.binary(max_size=200), min_size=1, max_size=60),
    st.sampled_from(["GZ", "NONE"]),
    st.integers(1, 2000),
    st.lists(KEYS, max_size=5),
)
def test_hfiles_give_back_what_was_written(content, codec, block_size, others):
    keys = sorted(content)
    data = write_hfile(keys, [content[key] for key in keys], schema_json="{}", codec=codec, block_size=block_size)
    reader = HFileReader(data, "file")
    assert pairs(reader.entries()) == sorted(content.items())
    wanted = [*keys[::2], *others]
    assert pairs(reader.get(wanted)) == [(key, content[key]) for key in keys if key in wanted]
    for prefix in {key[: len(key) // 2] for key in wanted} | set(others):
        expected = [item for item in sorted(content.items()) if item[0].startswith(prefix)]
        assert pairs(reader.prefix(prefix)) == expected
        with mock.patch.object(reader_module, "_CHUNK", 500):
            chunks = [read() for read in reader.chunks(prefix)]
        assert [item for chunk in chunks for item in pairs(chunk)] == expected
        assert pairs(HFileEntries.joined(chunks)) == expected


DAMAGED = {name: golden(name) for name in (*HFILES, *DATA_LOGS)}
WHOLE = {name: pairs(HFileReader(DAMAGED[name], name).entries()) for name in HFILES}


def flipped(data, bits):
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


@settings(max_examples=400)
@given(st.sampled_from(HFILES), st.lists(st.integers(0, 8 * 20000), min_size=1, max_size=3))
def test_flipped_bits_never_give_another_result(name, bits):
    """Every block of these files is covered by a CRC-32C or by gzip's CRC-32, and the trailer by what it must match."""
    data = flipped(DAMAGED[name], bits)
    try:
        reader = HFileReader(data, name)
        entries = pairs(reader.entries())
        first = WHOLE[name][0][0]
        looked_up = pairs(reader.get([first]))
    except HudiError:
        return
    assert entries == WHOLE[name]
    assert looked_up == WHOLE[name][:1]


@pytest.mark.parametrize("name", HFILES[:4])
def test_every_byte_of_headers_and_trailer(name):
    data = DAMAGED[name]
    reader = HFileReader(data, name)
    size = len(data)
    trailer = range(size - 4096, size - 4096 + 130)
    starts = [reader.block_index.offsets[0], reader.trailer.root_index_offset, reader.trailer.file_info_offset]
    places = [at for start in starts for at in range(start, start + 40)]
    for at in (*trailer, *places, *range(size - 8, size)):
        for value in (0x01, 0x80, 0xFF):
            changed = data[:at] + bytes([data[at] ^ value]) + data[at + 1 :]
            try:
                entries = pairs(HFileReader(changed, name).entries())
            except HudiError:
                continue
            assert entries == WHOLE[name], (at, value)


@settings(max_examples=100)
@given(st.sampled_from(HFILES), st.integers(0, 20000), st.binary(max_size=20))
def test_cut_hfiles_are_errors(name, size, tail):
    data = DAMAGED[name]
    assume(size < len(data))
    with pytest.raises(HudiError):
        HFileReader(data[:size] + tail, name).entries()


@settings(max_examples=200)
@given(st.lists(st.integers(0, 8 * 500), min_size=1, max_size=3), st.booleans())
def test_damaged_plain_hfiles_end_in_our_errors_at_worst(bits, front):
    """Without any checksum a wrong value cannot be noticed; the reader must still end, and in no other error."""
    keys = [b"key-%d" % number for number in range(10)]
    data = write_hfile(keys, keys, schema_json="{}", codec="NONE", block_size=100)
    part = flipped(data[: len(data) - 4096], bits) if front else data[: len(data) - 4096]
    trailer = data[len(data) - 4096 :] if front else flipped(data[len(data) - 4096 :], [bit % 1100 for bit in bits])
    try:
        reader = HFileReader(part + trailer, "plain")
        reader.entries()
        reader.prefix(b"key")
        for read in reader.chunks(b"key"):
            read()
        reader.get([b"key-5"])
    except HudiError:
        pass


@settings(max_examples=300)
@given(st.sampled_from(DATA_LOGS), st.lists(st.integers(0, 8 * 40000), max_size=3), st.integers(0, 40000))
@example(DATA_LOGS[0], [], 0)
def test_damaged_logs_end_in_our_errors_or_corrupt_blocks(name, bits, size):
    data = flipped(DAMAGED[name], bits)[: size or None]
    try:
        blocks = read_log_blocks(data, name)
        for block in blocks:
            if block.type is BlockType.HFILE_DATA:
                HFileReader(block.content, name).entries()
            elif block.type is BlockType.DELETE:
                read_deletes(block)
    except HudiError:
        return
    assert sum(block.size for block in blocks) == len(data)
    assert len(data) >= len(DAMAGED[name]) or not blocks or blocks[-1].type is BlockType.CORRUPT


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_any_bytes_as_log_and_deletes(data, content):
    whole = write_log_block(BlockType.DELETE, {0: "1"}, struct.pack(">ii", 3, len(content)) + content)
    for log in (b"#HUDI#" + data, data, whole):
        try:
            for block in read_log_blocks(log, "log"):
                if block.type is BlockType.DELETE:
                    read_deletes(block)
        except HudiError:
            pass


@given(st.lists(st.tuples(st.text(), st.text()), max_size=10), st.text(), st.binary(max_size=50))
def test_log_blocks_give_back_what_was_written(deleted, instant, content):
    records = [DeletedRecord(key, partition) for key, partition in deleted]
    header = {0: instant, 2: "{}", 6: instant}
    data = write_delete_block(instant, "{}", records) + write_log_block(BlockType.AVRO_DATA, header, content)
    first, second = read_log_blocks(data, "log")
    assert read_deletes(first) == records
    assert (first.instant, second.header, bytes(second.content)) == (instant, header, content)


RECORD = {
    "type": "record",
    "name": "outer",
    "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "number", "type": "long"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string", {"type": "array", "items": "int"}]}},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "inner",
                    "fields": [
                        {"name": "flag", "type": "boolean"},
                        {"name": "ratio", "type": "double"},
                        {"name": "many", "type": ["null", "long", "string", "bytes", "float"]},
                    ],
                },
            ],
        },
        {"name": "files", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "end", "type": "bytes"},
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
MANY = st.one_of(st.none(), LONGS, st.text(max_size=5), st.binary(max_size=5))
ROWS = st.fixed_dictionaries(
    {
        "text": st.one_of(st.none(), st.text(max_size=200)),
        "number": LONGS,
        "small": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "tags": st.lists(
            st.one_of(st.none(), st.text(max_size=3), st.lists(st.integers(0, 99), max_size=3)), max_size=4
        ),
        "inner": st.one_of(
            st.none(),
            st.fixed_dictionaries({"flag": st.booleans(), "ratio": st.floats(allow_nan=False), "many": MANY}),
        ),
        "files": st.one_of(st.none(), st.dictionaries(st.text(max_size=80), LONGS, max_size=4)),
        "end": st.binary(max_size=100),
    }
)
PARSED = fastavro.parse_schema(RECORD)
PATHS = ["text", "number", "small", "inner.flag", "inner.ratio", "inner.many", "files", "end"]


def written(rows):
    parts = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, PARSED, row)
        parts.append(out.getvalue())
    return parts


@settings(max_examples=150)
@given(st.lists(ROWS, max_size=8))
def test_avro_columns_are_the_records(rows):
    columns = decode_columns(*spans_of(pa.array(written(rows), pa.binary())), RECORD, PATHS)
    for path in ("text", "number", "small", "end"):
        assert columns[path].to_pylist() == [row[path] for row in rows]
    inner = [row["inner"] for row in rows]
    for name in ("flag", "ratio"):
        assert columns[f"inner.{name}"].to_pylist() == [row and row[name] for row in inner]
    many = columns["inner.many"]
    assert isinstance(many, UnionColumn)
    for row, expected in enumerate(inner):
        branch = int(many.branches[row])
        assert (branch == -1) == (expected is None)
        value = many.values[branch][row].as_py() if branch > 0 else None
        assert value == (expected and expected["many"])
    files = columns["files"]
    assert isinstance(files, MapColumn)
    values = zip(files.records.tolist(), files.keys.to_pylist(), files.values[""].to_pylist(), strict=True)
    assert list(values) == [(at, *item) for at, row in enumerate(rows) for item in (row["files"] or {}).items()]


@settings(max_examples=150)
@given(st.lists(ROWS, min_size=1, max_size=5), st.lists(st.integers(0, 10**6), max_size=3), st.integers(0, 300))
def test_damaged_records_end_in_our_errors_or_some_value(rows, bits, cut):
    data = flipped(b"".join(written(rows)), bits)
    lengths = np.array([len(part) for part in written(rows)])
    starts = np.cumsum(lengths) - lengths
    lengths[-1] = max(lengths[-1] - cut, 0)
    with contextlib.suppress(HudiError):
        decode_columns(np.frombuffer(data, dtype=np.uint8), starts, lengths, RECORD, PATHS)


SIMPLE = {
    "type": "record",
    "name": "simple",
    "fields": [
        {**field, "type": field["type"]}
        for field in RECORD["fields"]
        if field["name"] not in ("tags", "files", "inner")
    ],
}


@given(st.lists(ROWS, min_size=1, max_size=8))
def test_encoded_columns_are_what_fastavro_writes(rows):
    names = [field["name"] for field in SIMPLE["fields"]]
    types = {"text": pa.string(), "number": pa.int64(), "small": pa.int32(), "end": pa.binary()}
    columns = {name: pa.array([row[name] for row in rows], types[name]) for name in names}
    expected = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SIMPLE), {name: row[name] for name in names})
        expected.append(out.getvalue())
    assert encode_records(SIMPLE, columns, len(rows)).to_pylist() == expected


@given(st.binary(max_size=60), st.data())
def test_spans_in_any_order(data, draw):
    spans = draw.draw(st.lists(st.tuples(st.integers(0, len(data)), st.integers(0, 20), st.booleans()), max_size=8))
    spans = [(start, min(size, len(data) - start), valid) for start, size, valid in spans]
    buffer = np.frombuffer(data, dtype=np.uint8)
    starts, sizes = (np.array([span[at] for span in spans], dtype=np.int64) for at in (0, 1))
    valid = np.array([span[2] for span in spans], dtype=np.bool_)
    copied = [data[at : at + size] for at, size, _ in spans]
    assert binary_array(buffer, starts, sizes).to_pylist() == copied
    expected = [data[at : at + size] if ok else None for at, size, ok in spans]
    assert binary_array(buffer, starts, sizes, valid).to_pylist() == expected


@given(st.binary(min_size=1, max_size=60), st.data())
def test_spans_of_one_length(data, draw):
    size = draw.draw(st.integers(0, len(data)))
    starts = draw.draw(st.lists(st.integers(0, len(data) - size), min_size=1, max_size=8))
    buffer, places, sizes = np.frombuffer(data, np.uint8), np.array(starts), np.full(len(starts), size)
    assert binary_array(buffer, places, sizes).to_pylist() == [data[at : at + size] for at in starts]
    with pytest.raises(IndexError):
        binary_array(buffer, places + len(data) - size + 1, sizes)
