"""Maps whose entries are guessed from all bytes at once: the same as walking them entry by entry, or nothing."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.codecs import avro_maps
from table_format.codecs.avro_maps import walk_maps
from table_format.codecs.avro_schema_tree import parse
from table_format.codecs.avro_values import BadValueError
from tests.support.bombs import varint

FILE = parse(
    {
        "type": "record",
        "name": "HoodieMetadataFileInfo",
        "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
    }
)
Entries = list[tuple[bytes, int, int]]


def encoded(maps: list[Entries], between: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Maps with some bytes before each, and the position of each."""
    data, at = bytearray(), []
    for entries in maps:
        data += between
        at.append(len(data))
        for key, size, flag in entries:
            if (key, size, flag) == entries[0]:
                data += varint(len(entries))
            data += varint(len(key)) + key + varint(size) + bytes([flag])
        data += b"\x00"
    return np.frombuffer(bytes(data), np.uint8), np.array(at)


def columns(entries: avro_maps.MapEntries) -> list[list[int]]:
    return [
        column.tolist()
        for column in (entries.records, entries.key_starts, entries.key_lengths, entries.value_starts, entries.ends)
    ]


# Long keys repeat a short text, which Hypothesis draws sooner than as many letters; from 64 bytes a length takes two.
texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.text("abz09=/-", min_size=1, max_size=8)
keys = st.builds(lambda text, times: (text * times).encode(), texts, st.integers(1, 20))
maps = st.lists(
    st.lists(st.tuples(keys, st.integers(0, 1 << 40), st.integers(0, 1)), max_size=12, unique_by=lambda one: one[0]),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(maps, st.sampled_from([b"", b"\x00", b"\x02\x00\x01", b"key\x01"]))
def test_guessed_entries_are_the_walked_ones(maps: list[Entries], between: bytes) -> None:
    buffer, at = encoded(maps, between)
    walked = columns(walk_maps(buffer, FILE, at))
    with mock.patch.object(avro_maps, "_FEW_ENTRIES", 0):
        assert columns(walk_maps(buffer, FILE, at)) == walked


@pytest.mark.parametrize("size", [0, 60, 4096, 1 << 20])
def test_names_as_writers_make_them_are_guessed(size: int) -> None:
    """Paths of folders, whose size is 0, and names of files of more than 63 characters."""
    one = [(f"day={number}".encode(), size, 0) for number in range(2_000)]
    name = "{0:08d}-0000-4000-8000-{0:012d}-0_0-0-0_20260101000000000.parquet"
    two = [(name.format(number).encode(), size, 1) for number in range(900)]
    buffer, at = encoded([one, two], b"\x02")
    with mock.patch.object(avro_maps, "_walk_entries", side_effect=AssertionError("walked")):
        entries = walk_maps(buffer, FILE, at)
    assert len(entries.records) == len(one) + len(two)
    assert [
        buffer[start : start + length].tobytes()
        for start, length in zip(entries.key_starts.tolist(), entries.key_lengths.tolist(), strict=True)
    ] == [key for key, _, _ in one + two]


@pytest.mark.parametrize("length", [-1, -65, -(1 << 40)])
def test_a_negative_length_is_no_key(length: int) -> None:
    buffer = np.frombuffer(varint(1) + varint(length) + varint(7) + b"\x00\x00", np.uint8)
    with pytest.raises(BadValueError, match="negative length"):
        walk_maps(buffer, FILE, np.array([0]))


@pytest.mark.slow
@settings(max_examples=200)
@given(maps, st.data())
def test_damaged_maps_are_read_alike(maps: list[Entries], data: st.DataObject) -> None:
    buffer, at = encoded(maps, b"\x02")
    damaged = buffer.copy()
    for place in data.draw(st.lists(st.integers(0, len(buffer) - 1), min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))

    def read() -> list[list[int]] | str:
        try:
            return columns(walk_maps(damaged, FILE, at))
        except (BadValueError, IndexError):
            return "broken"

    walked = read()
    with mock.patch.object(avro_maps, "_FEW_ENTRIES", 0):
        assert read() == walked
