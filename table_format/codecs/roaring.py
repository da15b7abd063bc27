"""Reading of Roaring bitmaps of 64-bit numbers, in the portable form of Java's Roaring64NavigableMap."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Positions

_LONG: Final = Struct("<Q")
_INT: Final = Struct("<I")
_SHORT: Final = Struct("<H")
_WITHOUT_RUNS: Final = 12346
_WITH_RUNS: Final = 12347
# With runs, containers have offsets only if there are at least so many.
_LEAST_OFFSETS: Final = 4
_LARGEST_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192
_MOST_CONTAINERS: Final = 1 << 16


def read_roaring(data: bytes, count: int) -> Positions:
    """The numbers of a bitmap, ascending (RoaringFormatSpec, extension for 64-bit implementations).

    Args:
        data: the whole bitmap.
        count: how many numbers it has to hold; a few damaged bytes could name billions.

    Raises:
        ValueError: the bytes are no such bitmap, or it holds another count of numbers.
    """
    reader = _Reader(data, count)
    parts: list[Positions] = []
    for _ in range(reader.number(_LONG)):
        high = reader.number(_INT)
        parts += [(high << 32) + values for values in _bitmap(reader)]
    if reader.position != len(data):
        raise ValueError("there are bytes after the bitmap")
    numbers = np.concatenate([np.empty(0, np.int64), *parts])
    if len(numbers) != count:
        raise ValueError(f"it has {len(numbers)} numbers instead of {count}")
    if count and (numbers[0] < 0 or bool(np.any(np.diff(numbers) <= 0))):
        raise ValueError("its numbers do not ascend")
    return numbers


class _Reader:
    def __init__(self, data: bytes, left: int) -> None:
        self.data = data
        self.position = 0
        self.left = left

    def expect(self, count: int) -> None:
        """Count numbers that follow."""
        self.left -= count
        if self.left < 0:
            raise ValueError("it has too many numbers")

    def number(self, kind: Struct) -> int:
        return int(kind.unpack(self.bytes(kind.size))[0])

    def bytes(self, count: int) -> bytes:
        taken = self.data[self.position : self.position + count]
        if len(taken) < count:
            raise ValueError("it is cut off")
        self.position += count
        return taken

    def shorts(self, count: int) -> Positions:
        return np.frombuffer(self.bytes(2 * count), np.dtype("<u2")).astype(np.int64)


def _bitmap(reader: _Reader) -> list[Positions]:
    """One bitmap of 32-bit numbers, container by container."""
    cookie = reader.number(_INT)
    if cookie == _WITHOUT_RUNS:
        count = reader.number(_INT)
        runs: NDArray[Any] = np.zeros(min(count, _MOST_CONTAINERS), np.uint8)
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(np.frombuffer(reader.bytes((count + 7) // 8), np.uint8), bitorder="little")
    else:
        raise ValueError(f"unknown cookie {cookie}")
    if count > _MOST_CONTAINERS:
        raise ValueError(f"impossible number of containers ({count})")
    heads = reader.shorts(2 * count).reshape(count, 2)
    if cookie == _WITHOUT_RUNS or count >= _LEAST_OFFSETS:
        reader.bytes(4 * count)
    return [
        (key << 16) + _container(reader, cardinality + 1, is_run=bool(is_run))
        for (key, cardinality), is_run in zip(heads.tolist(), runs, strict=False)
    ]


def _container(reader: _Reader, cardinality: int, *, is_run: bool) -> Positions:
    reader.expect(cardinality)
    if is_run:
        pairs = reader.shorts(2 * reader.number(_SHORT)).reshape(-1, 2)
        starts, lengths = pairs[:, 0], pairs[:, 1] + 1
        if lengths.sum() != cardinality:
            raise ValueError(f"runs of {lengths.sum()} numbers where {cardinality} are announced")
        within = np.arange(lengths.sum(), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ranges: Positions = np.repeat(starts, lengths) + within
        return ranges
    if cardinality <= _LARGEST_ARRAY:
        return reader.shorts(cardinality)
    bits = np.frombuffer(reader.bytes(_BITMAP_BYTES), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
