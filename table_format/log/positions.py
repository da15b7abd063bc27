"""Positions of log records: the base file's rows that they were written for, a bitmap in a block's header."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Positions
from table_format.errors import CorruptFileError
from table_format.log.blocks import HeaderKey, LogBlock

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
_GREATEST_HIGH: Final = (1 << 31) - 1


def record_positions(blocks: Sequence[LogBlock], counts: Sequence[int], base_instant: str) -> Positions | None:
    """The base file's row of each record of these blocks.

    Writers from Hudi 1.0 on give each block a bitmap of rows, and the instant of the base file that has them; the
    records of the block are in the order of the rows. Of a block with records of new keys, or of several records for
    one row, they leave it out. Readers use positions if every block has them.

    Args:
        blocks: data and delete blocks, in merge order.
        counts: the number of records of each.
        base_instant: instant of the slice's base file.

    Returns:
        None if a block has no positions, or has those of another base file.

    Raises:
        CorruptFileError: a block's positions are damaged.
    """
    if any(_encoded(block, base_instant) is None for block in blocks):
        return None
    return np.concatenate([np.empty(0, np.int64), *map(_positions, blocks, counts)])


def _encoded(block: LogBlock, base_instant: str) -> str | None:
    if block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) != base_instant:
        return None
    return block.header.get(HeaderKey.RECORD_POSITIONS) or None


def _positions(block: LogBlock, count: int) -> Positions:
    try:
        return read_roaring(base64.b64decode(block.header[HeaderKey.RECORD_POSITIONS], validate=True), count)
    except ValueError as error:
        reason = f"damaged record positions of a log block of {count} records: {error}; restore the file"
        raise CorruptFileError(block.path, block.offset, reason) from error


def read_roaring(data: bytes, count: int) -> Positions:
    """The numbers of a Roaring bitmap, ascending (RoaringFormatSpec, 64-bit; portable form of Java's).

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
        if high > _GREATEST_HIGH:
            raise ValueError("a number is negative")
        parts += [(high << 32) + values for values in _bitmap(reader)]
    if reader.position != len(data):
        raise ValueError("there are bytes after the bitmap")
    numbers = np.concatenate([np.empty(0, np.int64), *parts])
    if len(numbers) != count:
        raise ValueError(f"it has {len(numbers)} numbers instead of {count}")
    if bool(np.any(np.diff(numbers) <= 0)):
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
