"""Looking up sorted keys among the sorted entries of an HFile, without copying keys.

Keys are compared eight bytes at a time, as big-endian numbers, after the common prefix of a block's keys. One binary
search over the first numbers finds nearly all keys; ties are compared further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Bytes, Positions, binary_array, from_numpy, spans_of, to_numpy, valid_mask

_WORD = 8
_SHORT = 4
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KeySpans:
    """Keys as spans of a buffer, which has at least eight bytes after each key.

    Attributes:
        buffer: the bytes.
        starts: start of each key.
        lengths: bytes of each key.
    """

    buffer: Bytes
    starts: Positions
    lengths: Positions

    @staticmethod
    def of(keys: pa.BinaryArray) -> KeySpans:
        """The keys of an array without nulls."""
        data, starts, lengths = spans_of(keys)
        if not len(starts):
            return KeySpans(np.zeros(_WORD, np.uint8), starts, lengths)
        first, end = int(starts[0]), int(starts[-1] + lengths[-1])
        return KeySpans(np.concatenate([data[first:end], np.zeros(_WORD, np.uint8)]), starts - first, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def key(self, row: int) -> bytes:
        """One key."""
        start = int(self.starts[row])
        return self.buffer[start : start + int(self.lengths[row])].tobytes()

    def take(self, rows: Any) -> KeySpans:
        """Some of the keys, by slice, rows or mask; the buffer is shared."""
        return KeySpans(self.buffer, self.starts[rows], self.lengths[rows])

    def to_arrow(self) -> pa.BinaryArray:
        """The keys, copied."""
        return binary_array(self.buffer, self.starts, self.lengths)

    def first_from_each(self, keys: Sequence[bytes]) -> Positions:
        """For each of some other keys, the row of the first of these ascending keys that is not before it."""
        words = self.words(0)
        aims = np.array([int.from_bytes(key[:_WORD].ljust(_WORD, b"\x00"), "big") for key in keys], dtype=np.uint64)
        low, high = (np.searchsorted(words, aims, side=side) for side in ("left", "right"))
        for row in np.flatnonzero(low < high).tolist():
            low[row] = self.first_from(keys[row], int(low[row]), int(high[row]))
        return low

    def first_from(self, key: bytes, low: int = 0, high: int | None = None) -> int:
        """Row of the first of these ascending keys, from row `low` on, that is not before a key."""
        high = len(self) if high is None else high
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def words(self, at: int, rows: Any = slice(None)) -> Words:
        """Eight bytes of keys from position `at` on, as numbers; zeros after a key's end."""
        starts, lengths = self.starts[rows], self.lengths[rows]
        windows: NDArray[Any] = np.ndarray(
            (len(self.buffer) - _WORD + 1,), dtype=">u8", buffer=cast("Any", self.buffer), strides=(1,)
        )
        if not len(starts) or int(lengths.min()) >= at + _WORD:
            return np.asarray(windows[starts + at], dtype=np.uint64)
        words = windows[starts + np.minimum(lengths, at)].astype(np.uint64)
        spare = (np.clip(at + _WORD - lengths, 0, _WORD) * 8).astype(np.uint64)
        # numpy leaves a shift by all 64 bits undefined
        cut = np.minimum(spare, np.uint64(63))
        return np.where(spare < 64, words >> cut << cut, np.uint64(0))

    def longest(self) -> int:
        """Bytes of the longest key; 0 for none."""
        return int(self.lengths.max()) if len(self) else 0


def matches(entries: KeySpans, wanted: KeySpans) -> tuple[Positions, Positions]:
    """Look up keys among the keys of entries.

    Args:
        entries: in file order; of a repeated key the last entry counts.
        wanted: ascending by their bytes, each once.

    Returns:
        Rows of `wanted` that were found, ascending, and the entry row of each.
    """
    if not len(entries) or not len(wanted):
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    prefix = _common_start(entries.key(0), entries.key(len(entries) - 1))
    if len(prefix) < _SHORT:  # verifying that all keys have it would cost more than it saves
        prefix = b""
    at = len(prefix)
    words = entries.words(at)
    if not _ascend(entries, words, at):
        return matches_by_hash(entries, wanted)
    low, high = 0, len(wanted)
    if prefix:
        low = wanted.first_from(prefix)
        high = low + int(_starting_with(wanted.take(slice(low, None)), prefix))
    candidates = wanted.take(slice(low, high))
    candidate_words = candidates.words(at)
    first = np.searchsorted(words, candidate_words)
    inside = np.minimum(first, len(words) - 1)
    rows = np.flatnonzero(words[inside] == candidate_words)
    firsts = first[rows]
    following_rows = np.minimum(firsts + 1, len(words) - 1)
    tied = (following_rows > firsts) & (words[following_rows] == candidate_words[rows])
    if tied.any():
        spans = firsts[tied], np.searchsorted(words, candidate_words[rows[tied]], side="right")
        firsts[tied] = _last_of_ties(entries, candidates.take(rows[tied]), spans, at + _WORD)
    same = _equal(entries.take(np.maximum(firsts, 0)), candidates.take(rows), at + _WORD) & (firsts >= 0)
    return rows[same] + low, firsts[same]


def _common_start(one: bytes, other: bytes) -> bytes:
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return one[:place]
    return min(one, other)


def _starting_with(keys: KeySpans, prefix: bytes) -> int:
    """How many of these ascending keys start with a prefix; none is before it."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys.key(middle).startswith(prefix):
            low = middle + 1
        else:
            high = middle
    return low


def _ascend(entries: KeySpans, words: Words, at: int) -> bool:
    """Whether entries ascend (or are equal) by their bytes from position `at` on.

    A writer may have used another order than that of bytes; see `index.order_is_doubtful`. The common prefix
    was taken from the first and the last key, and must be verified as well.
    """
    if not bool((words[1:] >= words[:-1]).all()):
        return False
    if at and not _share_start(entries, at):
        return False
    ties = np.flatnonzero(words[1:] == words[:-1])
    longest = entries.longest()
    while ties.size and at < longest:
        at += _WORD
        before, after = entries.words(at, ties), entries.words(at, ties + 1)
        if bool((before > after).any()):
            return False
        ties = ties[before == after]
    return bool((entries.lengths[ties] <= entries.lengths[ties + 1]).all())


def _share_start(entries: KeySpans, size: int) -> bool:
    """Whether all keys start with the same bytes."""
    if int(entries.lengths.min()) < size:
        return False
    places = [*range(0, size - _WORD + 1, _WORD), max(size - _WORD, 0)]
    # Short prefixes are compared together with the bytes after them.
    shift = np.uint64(max(_WORD - size, 0) * 8)
    for place in places:
        words = entries.words(place) >> shift
        if bool((words != words[0]).any()):
            return False
    return True


def _equal(entries: KeySpans, keys: KeySpans, at: int) -> NDArray[np.bool_]:
    """Which pairs of keys are equal, given that they are equal before position `at`."""
    same: NDArray[np.bool_] = entries.lengths == keys.lengths
    if not same.all():
        rows = np.flatnonzero(same)
        same[rows] = _equal(entries.take(rows), keys.take(rows), at)
        return same
    longest = keys.longest()
    if at >= longest:
        return same
    if int(keys.lengths.min()) < _WORD:
        for place in range(at, longest, _WORD):
            same &= entries.words(place) == keys.words(place)
        return same
    left, right = (
        np.ndarray((len(of.buffer) - 7,), "<u8", cast("Any", of.buffer), strides=(1,)) for of in (entries, keys)
    )
    for place in range(at, longest, _WORD):
        # the last eight bytes of a key overlap the previous ones
        inside = np.minimum(keys.lengths - _WORD, place)
        same &= left[entries.starts + inside] == right[keys.starts + inside]
    return same


def _last_of_ties(entries: KeySpans, keys: KeySpans, spans: tuple[Positions, Positions], at: int) -> Positions:
    """For each key the last entry of a range that is not after it; all are equal before position `at`.

    Args:
        entries: ascending.
        keys: the keys to look up.
        spans: for each key the start and end of its range.
        at: the place.
    """
    low, high = (part.astype(np.int64, copy=True) for part in spans)
    longest = max(entries.longest(), keys.longest())
    while at <= longest + _WORD:
        last = at > longest  # after all bytes the lengths decide
        aim = keys.lengths.astype(np.uint64) if last else keys.words(at)

        def numbers(rows: Positions, at: int = at, last: bool = last) -> Words:
            return entries.lengths[rows].astype(np.uint64) if last else entries.words(at, rows)

        low = bisect_ranges(numbers, aim, low, high, right=False)
        high = bisect_ranges(numbers, aim, low, high, right=True)
        at += _WORD
    return np.where(high > low, high - 1, -1)


def bisect_ranges(
    numbers: Callable[[Positions], NDArray[Any]], aim: NDArray[Any], low: Positions, high: Positions, *, right: bool
) -> Positions:
    """Insertion row of numbers in ranges of ascending rows, left or right of equal numbers.

    Args:
        numbers: of some rows.
        aim: the number to search in each range.
        low: start of each range.
        high: end of each range.
        right: insert after equal rows.
    """
    low, high = low.copy(), high.copy()
    left = np.flatnonzero(low < high)
    while left.size:
        middle = (low[left] + high[left]) >> 1
        before = numbers(middle) <= aim[left] if right else numbers(middle) < aim[left]
        low[left[before]] = middle[before] + 1
        high[left[~before]] = middle[~before]
        left = left[low[left] < high[left]]
    return low


def matches_by_hash(entries: KeySpans, wanted: KeySpans) -> tuple[Positions, Positions]:
    """As `matches`, for entries in any order."""
    # the last of equal entries is the first in reverse order
    keys: Any = entries.take(slice(None, None, -1)).to_arrow()
    places: Any = pc.index_in(wanted.to_arrow(), value_set=keys)
    rows = np.flatnonzero(valid_mask(places))
    return rows, len(entries) - 1 - to_numpy(places.take(from_numpy(rows))).astype(np.int64)
