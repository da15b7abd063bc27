"""Compressed bytes that expand far beyond their size, or beyond their declared size."""

import base64
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.metastore.partitions import RECORD_PREFIX, record_of, recorded
from table_format.codecs.avro_file import read_avro_file
from table_format.codecs.inflation import InflationError, inflate
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.hfile import block
from table_format.hfile.reader import HFileReader
from tests.support.bombs import MEBIBYTE, PACK, TEXT, container, deflate, hfile, text_record, varint

ROOT = Path(__file__).parents[4]


@pytest.mark.slow
def test_bombs_are_refused_in_little_memory():
    run = [sys.executable, "-m", "tests.support.bombs", "300"]
    lines = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split(": at byte")[0] for line in lines] == [
        "avro: bomb",
        "avro blocks: bomb",
        "hfile: bomb",
        "hfile blocks: bomb",
        "hfile index: bomb",
    ]
    assert all("more than" in line for line in lines[:2])
    assert all("promise" in line for line in lines[2:])


@given(
    codec=st.sampled_from(sorted(PACK)),
    parts=st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 3000)), max_size=20),
    most=st.integers(0, 40_000),
    damage=st.none() | st.tuples(st.integers(0, 10_000), st.integers(1, 255)),
)
def test_never_more_than_allowed_and_never_something_else(codec, parts, most, damage):
    content = b"".join(part + bytes(zeros) for part, zeros in parts)
    data = bytearray(PACK[codec](content))
    if damage is not None:
        data[damage[0] % len(data)] ^= damage[1]
    try:
        result = inflate(codec, bytes(data), most)
    except InflationError:
        assert damage is not None or len(content) > most
        return
    assert len(result) <= most
    assert damage is not None or result == content


@pytest.mark.parametrize("codec", sorted(PACK))
def test_avro_files_of_every_codec(codec):
    blocks = [PACK[codec](varint(len(text)) + text) for text in (b"one", b"two" * 1000)]
    data = container(TEXT, *blocks, codec=codec)
    assert read_avro_file(data, "p") == [{"f": "one"}, {"f": "two" * 1000}]
    large = PACK[codec](text_record(9 * MEBIBYTE))
    if codec == "snappy":  # by which content is at most 21 times as large, so that only a lie is too much
        large = b"\xff\xff\xff\x7f" + large[4:]
    bomb = container(TEXT, blocks[0], large, codec=codec)
    with pytest.raises(CorruptFileError, match="bytes, which no Hudi file needs") as caught:
        read_avro_file(bomb, "p")
    assert caught.value.offset == bomb.index(blocks[0]) + len(blocks[0]) + 16, "where the second block starts"


def test_what_is_not_compressed_has_no_limit():
    assert len(read_avro_file(container(TEXT, text_record(20 * MEBIBYTE)), "p")[0]["f"]) == 20 * MEBIBYTE
    records = [{"f": "a" * 90}] * 1000
    content = deflate(b"".join(varint(90) + b"a" * 90 for _ in records))
    assert read_avro_file(container(TEXT, content, codec="deflate", count=1000), "p") == records


def test_another_codec_is_named():
    with pytest.raises(UnsupportedTableError, match=r"^p: .*'lz4'"):
        read_avro_file(container(TEXT, b"x", codec="lz4"), "p")


def nested(depth):
    kind = "long"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def record_of_type(kind):
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


def doubled(depth):
    """A type of 2^depth values, each without bytes."""
    kind = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}
    for level in range(1, depth):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level - 1}"}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


@pytest.mark.parametrize(
    ("schema", "content", "count"),
    [
        pytest.param(record_of_type("R"), b"\2" * 100, 1, id="a type inside itself"),
        pytest.param(record_of_type(["null", "R"]), b"\2" * 3_000_000 + b"\0", 1, id="a list of endless depth"),
        pytest.param(record_of_type({"type": "array", "items": "null"}), varint(1 << 40) + b"\0", 1, id="nulls"),
        pytest.param(doubled(40), b"", 1, id="a record of a million million nulls"),
        pytest.param({"type": "record", "name": "R", "fields": []}, b"", 1 << 40, id="records without bytes"),
        pytest.param(TEXT, b"\0\0", 1 << 40, id="more records than bytes"),
        pytest.param(TEXT, varint(1 << 40) + b"x", 1, id="a text longer than the file"),
        pytest.param(TEXT, varint(3) + b"abcd", 1, id="bytes after the records"),
        pytest.param(TEXT, varint(-3) + b"abcd", 1, id="a text of a negative length"),
    ],
)
def test_few_bytes_that_stand_for_any_number_of_values(schema, content, count):
    """The first two ended the process: the decoder's stack is C's."""
    data = container(schema, content, count=count)
    with pytest.raises(CorruptFileError, match="damaged Avro container file"):
        read_avro_file(data, "p")


def test_deep_types_are_read():
    [record] = read_avro_file(container(record_of_type(nested(200)), b"\2" * 201 + b"\0" * 200), "p")
    assert json.dumps(record["f"]) == "[" * 200 + "1" + "]" * 200


@pytest.mark.parametrize("cut", [3, 10, 60, 100, -1, -8, -17])
def test_a_container_that_is_cut_off(cut):
    whole = container(TEXT, varint(3) + b"abc")
    assert read_avro_file(whole, "p") == [{"f": "abc"}]
    with pytest.raises(CorruptFileError):
        read_avro_file(whole[:cut], "p")


def test_hfile_blocks_of_many_times_their_size_are_read():
    """Filters of few keys are nearly all zeros."""
    value = bytes(20 * MEBIBYTE)
    entry = (13).to_bytes(4, "big") + len(value).to_bytes(4, "big") + b"\0\1k\0\x7f" + b"\xff" * 7 + b"\4"
    data = hfile(block.write_block(block.DATA, entry + value + b"\0", -1, "GZ"), 1)
    assert len(HFileReader(data, "f").entries().value(0)) == len(value)


def test_a_record_of_partitions_that_inflates_is_none():
    paths = [f"day={day:05}" for day in range(20_000)]
    assert recorded(record_of(paths)) == frozenset(paths)
    stream = zlib.compressobj(9)
    bomb = stream.compress(bytes(20 * MEBIBYTE)) + stream.flush()
    assert recorded({RECORD_PREFIX + "0": base64.b64encode(bomb).decode()}) == frozenset()
