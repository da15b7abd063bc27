"""The order of record keys by their bytes: sorted eight bytes at a time, as numbers instead of by comparing strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import spans_of, to_numpy

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]
_WORD = 8
_MOST_WORDS = 8
_FEW_ROWS = 512


def sorted_order(keys: Any) -> Rows:
    """Row numbers of keys in the order of their bytes; a stable sort.

    The prefix common to all texts is skipped, and the rest is read as big-endian words of eight bytes. The first word
    orders most record keys; ties are ordered by the next words. Small arrays, arrays with nulls, and texts with long
    common parts are left to Arrow's sort.

    Args:
        keys: a string or binary array.
    """
    order = None if len(keys) < _FEW_ROWS or keys.null_count else _WordOrder(keys).order()
    return to_numpy(pc.sort_indices(keys)).astype(np.int64) if order is None else order


def is_sorted(keys: Any) -> bool:
    """Whether keys are in ascending order; equal neighbours are allowed."""
    if len(keys) < 2:
        return True
    return bool(pc.all(pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())


class _WordOrder:
    def __init__(self, keys: Any) -> None:
        data, starts, lengths = spans_of(keys)
        first, last = int(starts[0]), int(starts[-1] + lengths[-1])
        # a word of the last text may reach beyond it
        data = np.concatenate([data[first:last], np.zeros(_WORD, np.uint8)])
        self._words = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        shared = _shared_prefix(keys)
        self._starts = starts - first + shared
        self._lengths = lengths - shared

    def order(self) -> Rows | None:
        """The positions; None if some texts are equal for too long."""
        words = self._word(slice(None), 0)
        order = np.argsort(words)  # not stable, which is several times as fast; the last step makes up for it
        words = words[order]
        at = np.arange(len(order), dtype=np.int64)
        tied = _equals_before(words)
        for number in range(1, _MOST_WORDS):
            if not tied.any():
                return order
            at, tied = _with_neighbours(at, tied)
            rows, lengths = order[at], self._lengths[order[at]]
            if (lengths <= number * _WORD).all():
                if (tied[1:] & (lengths[1:] != lengths[:-1])).any():
                    return None  # the zeros after a text were taken for bytes of zero
                order[at] = _sorted_within(_groups(tied), rows)
                return order
            words = self._word(rows, number)
            if (tied[1:] & (words[1:] < words[:-1])).any():
                by_word = np.argsort(words)
                sorting = by_word[_sorted_within(_groups(tied)[by_word], np.arange(len(rows)))]
                order[at], words = rows[sorting], words[sorting]
            tied &= _equals_before(words)
        return None

    def _word(self, rows: Any, number: int) -> Numbers:
        """A word of some rows, with zeros after the end of the text."""
        left = self._lengths[rows] - number * _WORD
        starts = np.minimum(self._starts[rows] + number * _WORD, len(self._words) - 1)
        words: Numbers = self._words[starts].astype(np.uint64)
        short = np.flatnonzero(left < _WORD)
        if len(short):
            # two shifts, since one by all 64 bits is not defined
            bits = (4 * (_WORD - np.maximum(left[short], 0))).astype(np.uint64)
            words[short] = words[short] >> bits >> bits << bits << bits
        return words


def _equals_before(words: Numbers) -> Mask:
    """Whether each number equals the one before it."""
    same = np.zeros(len(words), np.bool_)
    np.equal(words[1:], words[:-1], out=same[1:])
    return same


def _groups(tied: Mask) -> Rows:
    """Numbers of groups, each of rows that tie with the one before."""
    return np.cumsum(~tied, dtype=np.int64)


def _sorted_within(groups: Rows, rows: Rows) -> Rows:
    """Rows by group, those of each group in ascending order."""
    return np.sort((groups << 32) | rows) & 0xFFFFFFFF


def _with_neighbours(at: Rows, tied: Mask) -> tuple[Rows, Mask]:
    """The places of rows that tie with the one before or after, and whether with the one before."""
    either = tied.copy()
    either[:-1] |= tied[1:]
    return at[either], tied[either]


def _shared_prefix(keys: Any) -> int:
    """Bytes that all texts begin with."""
    bounds = pc.min_max(keys)
    least, greatest = (bounds[side].as_buffer().to_pybytes() for side in ("min", "max"))
    pairs = zip(least, greatest, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), len(least))
