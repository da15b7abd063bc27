"""Bitmaps of record positions: those that Java's library wrote, others by hand, and damaged ones."""

import base64
import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.log.positions import read_roaring

# Roaring64NavigableMap.serializePortable of the library in Apache Hudi 1.2.0's bundle
ARRAYS = (
    "AwAAAAAAAAAAAAAAOjAAAAIAAAAAAAEAAQABABgAAAAcAAAAAAADAHARcREBAAAAOjAAAAEAAAAAAAAAEAAAAAUABQAAADowAAABAAAAAAAAABAA"
    "AAAAAA=="
)
RUNS = "AQAAAAAAAAAAAAAAOzACAAMAAKETAQBvEQMAAQACAAoAfRPc/yMAAQAAAG8RQA1CDQ=="
# runs and, since there are five containers, offsets; the rest are bits and an array, added below
OFFSETS = "AQAAAAAAAAAAAAAAOzAEAAcAACsBAQBjAAIADycJAA8nDwACAC0AAAAzAAAAOQAAAD8AAAA/IAAAAQAAACsBAQBwEWMAAQDgIg8n"


def span(start, stop, step=1):
    return list(range(start, stop, step))


EVEN = span(0, 20_000, 2)
CASES = {
    "empty": (bytes(8), []),
    "arrays": (base64.b64decode(ARRAYS), [0, 3, 70_000, 70_001, 2**32 + 5, 5 * 2**32]),
    "bits": (struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 9999, 16) + b"\x55" * 2500 + bytes(8192 - 2500), EVEN),
    "runs": (base64.b64decode(RUNS), [*span(10, 5000), *span(65_500, 70_000), 200_000, 200_002]),
    "offsets": (
        base64.b64decode(OFFSETS) + b"\x55" * 2500 + bytes(8192 - 2500) + struct.pack("<HHH", 16960, 16963, 16966),
        [
            *span(0, 300),
            *span(70_000, 70_100),
            *span(140_000, 150_000),
            *(9 * 65536 + number for number in EVEN),
            *span(1_000_000, 1_000_007, 3),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_each_container(name):
    data, numbers = CASES[name]
    assert read_roaring(data, len(numbers)).tolist() == numbers


@pytest.mark.parametrize("name", CASES)
def test_what_is_cut_off_or_goes_on_is_refused(name):
    data, numbers = CASES[name]
    for size in {*range(min(len(data), 100)), len(data) - 1}:
        with pytest.raises(ValueError, match="cut off"):
            read_roaring(data[:size], len(numbers))
    with pytest.raises(ValueError, match="after the bitmap"):
        read_roaring(data + b"\0", len(numbers))
    with pytest.raises(ValueError, match="numbers"):
        read_roaring(data, len(numbers) + 1)


@pytest.mark.parametrize("high", [2**31, 2**32 - 1])
def test_negative_numbers_are_refused(high):
    with pytest.raises(ValueError, match="negative"):
        read_roaring(struct.pack("<QIIIHHIH", 1, high, 12346, 1, 0, 0, 16, 5), 1)


@pytest.mark.parametrize("numbers", [(5, 5), (5, 3)])
def test_numbers_that_do_not_ascend_are_refused(numbers):
    with pytest.raises(ValueError, match="ascend"):
        read_roaring(struct.pack("<QIIIHHI2H", 1, 0, 12346, 1, 0, 1, 16, *numbers), 2)


def test_few_bytes_do_not_become_many_numbers():
    run = struct.pack("<HHH", 1, 0, 65535)
    count = 1 << 16
    heads = b"".join(struct.pack("<HH", key, 65535) for key in range(count))
    bomb = struct.pack("<QII", 1, 0, 12347 | (count - 1) << 16) + b"\xff" * (count // 8) + heads + bytes(4 * count)
    with pytest.raises(ValueError, match="too many numbers"):
        read_roaring(bomb + run * count, 5)
    small = struct.pack("<QIIBHH", 1, 0, 12347, 1, 0, 4)
    with pytest.raises(ValueError, match="65536 numbers where 5"):
        read_roaring(small + run, 5)


@given(st.sampled_from(sorted(CASES)), st.data())
def test_damaged_bytes_give_numbers_or_a_value_error(name, data):
    content, numbers = CASES[name]
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, min(len(damaged), 100) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        read = read_roaring(bytes(damaged), len(numbers))
        assert len(read) == len(numbers)
        assert bool(np.all(np.diff(read) > 0))
