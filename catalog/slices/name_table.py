"""Looks up file names among those of a snapshot's files: by hash, in bulk, confirmed by their bytes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Bytes, Positions, from_numpy, spans_of, to_numpy, valid_mask
from table_format.threads import in_threads

_FEW = 4_096
_WORD = 8
_SHORTEST = 36
_PLACES = (0, 8, 16, 24, 28)
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_AT_ONCE = 1 << 15
_MOST_LEVELS = 24
_NONE = np.int32(-1)


class NameTable:
    """An index of distinct file names for look-ups. Threads may share it.

    A hash table of several levels, each for the names that lost their slot in the previous level to another name.
    Few names, or names shorter than file ids, are looked up by Arrow.

    Args:
        names: strings; null for no file.
    """

    def __init__(self, names: Any) -> None:
        self._places = np.flatnonzero(valid_mask(names)) if names.null_count else None
        self._names = names = names.drop_null() if names.null_count else names
        self._levels: list[NDArray[np.int32]] = []
        data, starts, lengths = spans_of(names)
        if len(names) < _FEW or int(lengths.min()) < _SHORTEST:
            return
        self._marks = _marks(data, starts, lengths)
        left: NDArray[np.int32] = np.arange(len(names), dtype=np.int32)
        levels: list[NDArray[np.int32]] = []
        while left.size and len(levels) < _MOST_LEVELS:
            level = np.full(1 << max(int(left.size - 1).bit_length() + 1, 4), _NONE, np.int32)
            slots = _slots(self._marks[left], len(levels), level)
            level[slots] = left
            winners = level[slots]
            lost = np.flatnonzero(winners != left)
            if bool((self._marks[winners[lost]] == self._marks[left[lost]]).any()):
                return  # equal names, which share every slot until one of them wins it, or equal hashes
            left = left[lost]
            levels.append(level)
        if not left.size:
            self._levels = levels

    @property
    def proves_unique(self) -> bool:
        """Whether no name is known to occur twice; false means unknown."""
        return bool(self._levels)

    def rows_of(self, names: pa.Array[Any]) -> Positions:
        """The row of each name in the table; -1 for absent names and for null."""
        if not len(names) or not len(self._names):
            return np.full(len(names), -1, np.int64)
        if self._levels:  # as many at a time as fit in the core's cache
            pieces = (self._rows(names.slice(begin, _AT_ONCE)) for begin in range(0, len(names), _AT_ONCE))
            rows = np.concatenate([*pieces])
        else:
            rows = self._by_arrow(names)
        return rows if self._places is None else np.where(rows < 0, -1, self._places[rows])

    def _by_arrow(self, names: Any) -> Positions:
        rows: Any = pc.index_in(names, value_set=self._names)
        return np.where(valid_mask(rows), to_numpy(rows), -1).astype(np.int64)

    def _rows(self, names: Any) -> Positions:
        data, starts, lengths = spans_of(names)
        rows = np.full(len(names), -1, np.int64)
        if names.null_count or int(lengths.min()) < _SHORTEST:
            left = np.flatnonzero((lengths >= _SHORTEST) & valid_mask(names))
            if left.size:
                rows[left] = self._rows(names.take(from_numpy(left)))
            return rows
        marks = _marks(data, starts, lengths)
        left = np.arange(len(names))
        for number, level in enumerate(self._levels):
            candidates = level[_slots(marks[left], number, level)]
            same = (candidates >= 0) & (self._marks[candidates] == marks[left])
            rows[left[same]] = candidates[same]
            left = left[~same]
            if not left.size:
                break
        alike = rows >= 0
        equal = to_numpy(pc.equal(self._names.take(from_numpy(rows, alike)), names)) & alike
        rows[~equal] = -1
        mistaken = np.flatnonzero(alike & ~equal)
        if mistaken.size:
            rows[mistaken] = self._by_arrow(names.take(from_numpy(mistaken)))
        return rows


def _words(data: Bytes) -> NDArray[np.uint64]:
    """The eight bytes from each position on as a number, without a copy."""
    return np.ndarray((len(data) - _WORD + 1,), np.uint64, cast("Any", np.ascontiguousarray(data)), strides=(1,))


def _marks(data: Bytes, starts: Positions, lengths: Positions) -> NDArray[np.uint64]:
    """A hash of each name: of its file id and of its end, which has the instant."""
    words = _words(data)
    marks = np.empty(len(starts), np.uint64)

    def piece(begin: int) -> None:
        first, size = starts[begin : begin + _AT_ONCE], lengths[begin : begin + _AT_ONCE]
        mark = size.astype(np.uint64)
        for at in (*((first + place) for place in _PLACES), *(first + size - back for back in (32, 24, 16))):
            mark = (mark ^ words[at]) * _MIXER
            mark ^= mark >> _HALF
        marks[begin : begin + _AT_ONCE] = mark

    in_threads(piece, range(0, len(starts), _AT_ONCE))
    return marks


def _slots(marks: NDArray[np.uint64], number: int, level: NDArray[np.int32]) -> NDArray[np.int64]:
    """The slot of each hash in a level, whose size is a power of two."""
    mixed = (marks ^ (marks >> np.uint64(29))) * np.uint64(pow(int(_MIXER), 2 * number + 1, 1 << 64))
    slots: NDArray[np.int64] = (mixed >> np.uint64(64 - len(level).bit_length() + 1)).astype(np.int64)
    return slots
