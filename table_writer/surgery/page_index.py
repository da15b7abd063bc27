"""The page index of a Parquet file: record keys by page, and page offsets of column chunks that move.

A large file has many thousands of page locations. Their offsets are shifted in place by numpy, all at once, wherever
the new number takes as many bytes as the old one; the others are decoded and encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from table_format.base_file.footer_fields import MAGIC, ChunkField, chunks_of
from table_format.codecs.thrift_compact import I64, LIST, STRUCT, CompactError, read_struct, read_varint, write_struct
from table_format.meta_columns import RECORD_KEY
from table_writer.surgery.footer import Footer
from table_writer.surgery.locate import KeyRange
from table_writer.surgery.policy import CannotSplice
from table_writer.surgery.source import Source

Numbers = npt.NDArray[np.int64]

# A page location as writers encode it: field 1 (i64), its number, field 2 (i32), its number, field 3 (i64), its number,
# the end: seven pieces, each of which ends with a byte below 128.
_PIECES = 7

_FIXED = {0: 0x16, 2: 0x15, 4: 0x16, 6: 0x00}

_LIST_FIELD = 0x10 | LIST

_MOST_BYTES = 9


def moved_offset_indexes(indexes: list[bytes], distances: list[int]) -> list[bytes]:
    """Offset indexes of pages that moved by some bytes each.

    Raises:
        CannotSplice: the bytes are not an offset index.
    """
    quick = _moved_in_place(indexes, distances)
    return [
        _moved(index, distance) if done is None else done
        for index, distance, done in zip(indexes, distances, quick, strict=True)
    ]


def _moved(data: bytes, distance: int) -> bytes:
    if distance == 0:
        return data
    try:
        index, end = read_struct(data)
        if end != len(data):
            raise CannotSplice("an offset index has bytes after its end")
        for location in index[1][1][1]:
            location[1] = (I64, location[1][1] + distance)
        return write_struct(index)
    except (CompactError, LookupError, TypeError) as error:
        raise CannotSplice(f"an offset index cannot be read: {error}") from error


def _moved_in_place(indexes: list[bytes], distances: list[int]) -> list[bytes | None]:
    """The moved indexes; None for those of another form, or with numbers that change their length."""
    whole = np.frombuffer(b"".join(indexes), np.uint8).copy()
    starts = np.concatenate([[0], np.cumsum([len(index) for index in indexes], dtype=np.int64)])
    heads = [_list_head(index) for index in indexes]
    counts: Numbers = np.array([count for count, _ in heads], np.int64)
    firsts = starts[:-1] + np.array([size for _, size in heads], np.int64)
    owners = np.repeat(np.arange(len(indexes)), counts)
    if not len(owners):
        return [None] * len(indexes)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = np.flatnonzero(whole < 128)
    piece = np.searchsorted(ends, firsts)[owners] + _PIECES * within
    good = piece + _PIECES <= len(ends)
    piece = np.where(good, piece, 0)
    good &= ends[np.minimum(piece + _PIECES, len(ends)) - 1] < starts[1:][owners]
    for at, byte in _FIXED.items():
        end = ends[np.minimum(piece + at, len(ends) - 1)]
        begin = np.where((within == 0) & (at == 0), firsts[owners], ends[np.maximum(piece + at - 1, 0)] + 1)
        good &= (end == begin) & (whole[end] == byte)
    begin, end = ends[piece] + 1, ends[np.minimum(piece + 1, len(ends) - 1)]
    lengths = end - begin + 1
    good &= (lengths > 0) & (lengths <= _MOST_BYTES)
    _shift(whole, begin, lengths, np.array(distances, np.int64)[owners], good)
    bad = np.zeros(len(indexes), np.bool_)
    np.logical_or.at(bad, owners, ~good)
    data = whole.tobytes()
    return [
        None if broken or not count else data[start:end]
        for broken, count, start, end in zip(bad, counts, starts[:-1], starts[1:], strict=True)
    ]


def _list_head(index: bytes) -> tuple[int, int]:
    """Count of page locations, and the bytes before the first; 0 locations where the form is another."""
    try:
        if index[0] != _LIST_FIELD or index[1] & 15 != STRUCT:
            return 0, 0
        if index[1] >> 4 < 15:
            return index[1] >> 4, 2
        count, position = read_varint(index, 2)
    except (IndexError, CompactError):
        return 0, 0
    return (count, position) if count * _PIECES <= len(index) else (0, 0)


def _shift(
    whole: npt.NDArray[np.uint8], begin: Numbers, lengths: Numbers, distances: Numbers, good: npt.NDArray[Any]
) -> None:
    """Add to the numbers that begin there; `good` becomes false for those whose length would change."""
    longest = int(lengths[good].max(initial=0))
    values = np.zeros(len(begin), np.int64)
    for byte in range(longest):
        rows = np.flatnonzero(good & (lengths > byte))
        values[rows] |= (whole[begin[rows] + byte].astype(np.int64) & 127) << (7 * byte)
    good &= values & 1 == 0  # zigzag: the others are negative
    values += distances << 1
    good &= values >= 0
    width = np.ones(len(begin), np.int64)
    for byte in range(1, _MOST_BYTES):
        width += values >= 1 << (7 * byte)
    good &= width == lengths
    for byte in range(longest):
        rows = np.flatnonzero(good & (lengths > byte))
        more = np.where(lengths[rows] > byte + 1, 128, 0)
        whole[begin[rows] + byte] = ((values[rows] >> (7 * byte)) & 127 | more).astype(np.uint8)


_NULL_PAGES, _LEAST, _GREATEST = 1, 2, 3  # fields of ColumnIndex


def key_pages(source: Source, footer: Footer) -> Callable[[int], Sequence[KeyRange] | None]:
    """A function from the number of a row group to the key ranges of its pages; None if some are unknown.

    Bounds of pages may be truncated, but they are bounds (Parquet's `ColumnIndex`).
    """
    leaf = next((i for i, column in enumerate(footer.leaves) if column.path == (RECORD_KEY.encode(),)), None)

    def pages(group: int) -> Sequence[KeyRange] | None:
        if leaf is None:
            return None
        chunk = chunks_of(footer.groups[group])[leaf]
        if ChunkField.COLUMN_INDEX not in chunk or ChunkField.COLUMN_INDEX_SIZE not in chunk:
            return None
        start, size = chunk[ChunkField.COLUMN_INDEX][1], chunk[ChunkField.COLUMN_INDEX_SIZE][1]
        if start < len(MAGIC) or size < 0 or start + size > footer.start:
            return None
        return _ranges(source.read(start, size))

    return pages


def _ranges(data: bytes) -> list[KeyRange] | None:
    try:
        index, _ = read_struct(data)
        empty, least, greatest = (index[field][1][1] for field in (_NULL_PAGES, _LEAST, _GREATEST))
        firsts, lasts = [text.decode() for text in least], [text.decode() for text in greatest]
    except (CompactError, LookupError, TypeError, AttributeError, UnicodeDecodeError):
        return None
    # some writers put an empty text for a bound that they leave out
    complete = len(firsts) == len(lasts) == len(empty) > 0 and not any(empty) and all(lasts)
    if not complete or any(first > last for first, last in zip(firsts, lasts, strict=True)):
        return None
    return [KeyRange(0, first, last) for first, last in zip(firsts, lasts, strict=True)]
