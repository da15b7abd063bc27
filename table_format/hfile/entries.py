"""Entries of HFile data blocks as columns: positions of keys and values in one buffer."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Bytes, Positions, binary_array, to_numpy
from table_format.errors import CorruptFileError
from table_format.hfile.sorted_keys import KeySpans

SUFFIX: Final = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
"""End of every key: an empty column family, the greatest timestamp and the type Put."""

KEY_OVERHEAD: Final = 2 + len(SUFFIX)
LENGTHS: Final = Struct(">II")
ENTRY_OVERHEAD: Final = LENGTHS.size + 1
"""Bytes of an entry besides key and value: two lengths, and the MVCC version 0 at the end."""

# Bytes of values that are decoded at a time.
_PART = 3 << 20

# Bytes that are walked entry by entry in the time of a numpy call.
_FEW_BYTES = 8 * 1024
_FOUR = np.uint32(0xFFFFFFFF)
_PATTERN = np.uint64(int.from_bytes(SUFFIX[1:9], "big"))
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_FRONT = LENGTHS.size + 2

# After this many key lengths without success, walking is faster.
_MOST_LENGTHS = 64
_SAMPLE = 64


def find_entries(buffer: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, int | None]:
    """Find the start of each entry of some data blocks.

    Args:
        buffer: concatenated decompressed content of the blocks.
        begins: start of each block's content.
        ends: end of each block's content, the start of the next.

    Returns:
        Starts, ascending; and the number of a block in which lengths lead out of it, None if there is none.
    """
    if len(begins) and int(ends[-1]) - int(begins[0]) > _FEW_BYTES and bool((begins[1:] == ends[:-1]).all()):
        begin, end = int(begins[0]), int(ends[-1])
        starts_in_block = _equally_long(buffer, begin, end)
        if starts_in_block is None:
            starts_in_block = _by_key_ends(buffer, begin, end)
        if starts_in_block is not None:
            at = np.searchsorted(starts_in_block, begins)
            if at[-1] < len(starts_in_block) and bool((starts_in_block[at] == begins).all()):
                return starts_in_block, None
    return _one_by_one(buffer, begins, ends)


def _one_by_one(buffer: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, int | None]:
    positions: list[int] = []
    wrong = None
    for block, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        reached = _walk(buffer, begin, end, positions)
        if reached != end and wrong is None:
            wrong = block
    return np.array(positions, dtype=np.int64), wrong


def _walk(buffer: Bytes, position: int, end: int, positions: list[int], most: int = -1) -> int:
    """Append the starts of entries in a range, `most` at most; returns the end of the last one."""
    note, unpack, overhead = positions.append, LENGTHS.unpack_from, ENTRY_OVERHEAD
    data = memoryview(cast("Any", buffer))
    while position + overhead <= end and len(positions) != most:
        note(position)
        key, value = unpack(data, position)
        position += key + value + overhead
    return position


def _equally_long(buffer: Bytes, begin: int, end: int) -> Positions | None:
    """Starts of all entries in a range if all keys and all values have the lengths of the first; else None."""
    key, value = LENGTHS.unpack_from(memoryview(cast("Any", buffer)), begin)
    size = key + value + ENTRY_OVERHEAD
    count, rest = divmod(end - begin, size)
    if rest:
        return None
    lengths: NDArray[Any] = np.ndarray((count,), "<u8", buffer=cast("Any", buffer), offset=begin, strides=(size,))
    if not bool((lengths == lengths[0]).all()):
        return None
    return np.arange(begin, end, size, dtype=np.int64)


def _by_key_ends(buffer: Bytes, begin: int, end: int) -> Positions | None:
    """Starts of all entries in a range by the ends of their keys; None if the result is inconsistent."""
    starts, heads = _starts(buffer, begin, end)
    if not len(starts) or starts[0] != begin:
        return None
    following = starts + ENTRY_OVERHEAD
    following += (heads >> _HALF).view(np.int64)
    following += (heads & _LOW).view(np.int64)
    proven = following[-1] == end and bool((following[:-1] == starts[1:]).all())
    return starts if proven else None


def _key_lengths(buffer: Bytes, begin: int, end: int, most: int) -> list[int]:
    """Distinct key lengths of the first entries, most frequent first."""
    starts: list[int] = []
    _walk(buffer, begin, end, starts, most)
    lengths = [LENGTHS.unpack_from(memoryview(cast("Any", buffer)), start)[0] - KEY_OVERHEAD for start in starts]
    return [length for length, _ in Counter(lengths).most_common() if 0 <= length <= len(buffer)]


def _key_ends(buffer: Bytes, begin: int, end: int) -> Positions:
    """Candidates for ends of keys: of seven bytes 0xFF, four fill an aligned word of the buffer."""
    words: NDArray[np.uint32] = buffer[: len(buffer) // 4 * 4].view("<u4")
    full = np.flatnonzero(words[begin // 4 : end // 4] == _FOUR)
    full += begin // 4
    full = full[full > _FRONT // 4]
    before = words[full - 1]
    # number of 0xFF bytes in the word before
    ahead = (before >= np.uint32(0xFF000000)).view(np.uint8) + (before >= np.uint32(0xFFFF0000)).view(np.uint8)
    ahead += (before >= np.uint32(0xFFFFFF00)).view(np.uint8)
    full <<= 2
    full -= ahead
    full -= 2
    return cast("Positions", full)


def _starts(buffer: Bytes, begin: int, end: int) -> tuple[Positions, NDArray[np.uint64]]:
    """Entries whose keys end at candidates, ascending, and the lengths at their starts."""
    heads, key_ends = _heads(buffer), _key_ends(buffer, begin, end)
    for length in _key_lengths(buffer, begin, end, 1):  # most files have keys of one length
        starts, words, fits = _with_length(heads, key_ends, length)
        if fits.all():
            return starts, words
    sampled = _key_lengths(buffer, begin, end, _SAMPLE)
    left = key_ends[heads[np.minimum(key_ends + 1, len(heads) - 1)].astype(np.uint64) == _PATTERN]
    start_chunks, head_chunks = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for length in [*sampled, *(other for other in range(_MOST_LENGTHS) if other not in sampled)]:
        starts, words, fits = _with_length(heads, left, length)
        start_chunks.append(starts[fits])
        head_chunks.append(words[fits])
        left = left[~fits]
        if not left.size:
            break
    starts, words = np.concatenate(start_chunks), np.concatenate(head_chunks)
    order = np.argsort(starts, kind="stable")
    return starts[order], words[order]


def _with_length(
    heads: NDArray[Any], key_ends: Positions, length: int
) -> tuple[Positions, NDArray[np.uint64], NDArray[np.bool_]]:
    """Starts of entries with keys of one length, their first words, and a mask of words with that length."""
    starts = key_ends - (_FRONT + length)
    inside = starts if not starts.size or int(starts.min()) >= 0 else np.maximum(starts, 0)
    words = heads[inside].astype(np.uint64)
    fits = words >> _HALF == np.uint64(length + KEY_OVERHEAD)
    if inside is not starts:
        fits &= starts >= 0
    return starts, words, fits


def _heads(buffer: Bytes) -> NDArray[Any]:
    """The eight bytes from each offset on as a big-endian number, without a copy."""
    return np.ndarray((max(len(buffer) - 7, 0),), dtype=">u8", buffer=cast("Any", buffer), strides=(1,))


@dataclass(frozen=True, slots=True)
class HFileEntries:
    """Keys and values of HFile entries, in file order, which is key order.

    Attributes:
        buffer: concatenated decompressed blocks.
        key_starts: start of each key in `buffer`.
        key_lengths: bytes of each key.
        value_starts: start of each value in `buffer`.
        value_lengths: bytes of each value.
    """

    buffer: Bytes
    key_starts: Positions
    key_lengths: Positions
    value_starts: Positions
    value_lengths: Positions

    @staticmethod
    def empty() -> HFileEntries:
        """No entries at all."""
        none = np.empty(0, dtype=np.int64)
        return HFileEntries(np.empty(0, dtype=np.uint8), none, none, none, none)

    @staticmethod
    def joined(parts: Sequence[HFileEntries]) -> HFileEntries:
        """The entries of several parts, one after the other."""
        if len(parts) <= 1:
            return parts[0] if parts else HFileEntries.empty()
        shifts = np.cumsum([0, *(len(part.buffer) for part in parts[:-1])])
        pairs = list(zip(parts, shifts.tolist(), strict=True))
        return HFileEntries(
            np.concatenate([part.buffer for part in parts]),
            np.concatenate([part.key_starts + shift for part, shift in pairs]),
            np.concatenate([part.key_lengths for part in parts]),
            np.concatenate([part.value_starts + shift for part, shift in pairs]),
            np.concatenate([part.value_lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.key_starts)

    def parts(self) -> list[HFileEntries]:
        """The entries in parts of a size whose columns fit into a core's cache; each has the buffer up to its end."""
        if not len(self):
            return [self]
        ends = self.value_starts + self.value_lengths
        sizes = np.cumsum(self.value_lengths)
        cuts = np.unique(np.searchsorted(sizes, np.arange(_PART, int(sizes[-1]), _PART)) + 1).tolist()
        bounds = list(itertools.pairwise([0, *cuts, len(self)]))
        taken = [self.take(slice(begin, end)) for begin, end in bounds if begin < end]
        reach = [int(ends[begin:end].max()) for begin, end in bounds if begin < end]
        return [dataclasses.replace(part, buffer=part.buffer[:end]) for part, end in zip(taken, reach, strict=True)]

    def keys(self) -> pa.BinaryArray:
        """All keys, copied."""
        return binary_array(self.buffer, self.key_starts, self.key_lengths)

    def values(self) -> pa.BinaryArray:
        """All values, copied."""
        return binary_array(self.buffer, self.value_starts, self.value_lengths)

    def key_spans(self) -> KeySpans:
        """All keys as spans of the buffer."""
        return KeySpans(self.buffer, self.key_starts, self.key_lengths)

    def key(self, index: int) -> bytes:
        """One key."""
        start = self.key_starts[index]
        return self.buffer[start : start + self.key_lengths[index]].tobytes()

    def value(self, index: int) -> bytes:
        """One value."""
        start = self.value_starts[index]
        return self.buffer[start : start + self.value_lengths[index]].tobytes()

    def take(self, which: slice | NDArray[Any]) -> HFileEntries:
        """Some of the entries, by slice, positions or mask; the buffer is shared."""
        return HFileEntries(
            self.buffer,
            self.key_starts[which],
            self.key_lengths[which],
            self.value_starts[which],
            self.value_lengths[which],
        )

    def prefix(self, prefix: bytes) -> HFileEntries:
        """The entries whose keys start with a prefix."""
        if not prefix:
            return self
        long_enough = self.key_lengths >= len(prefix)
        rows = slice(None) if long_enough.all() else np.flatnonzero(long_enough)
        begins = _starting_with(self.buffer, self.key_starts[rows], prefix)
        if begins.all():
            return self.take(rows)
        return self.take(np.flatnonzero(begins) if isinstance(rows, slice) else rows[begins])

    def get(self, keys: Sequence[bytes]) -> HFileEntries:
        """Entries with one of these keys; absent keys are left out."""
        matches = pc.is_in(self.keys(), value_set=pa.array(keys, pa.binary()))
        return self.take(to_numpy(matches))


def split_entries(buffer: Bytes, starts: Positions, path: str, offset_of: Callable[[int], int]) -> HFileEntries:
    """Parse entries at the given starts into spans of keys and values.

    Args:
        buffer: concatenated content of data blocks.
        starts: start of each entry, from `find_entries`.
        path: the file, for messages.
        offset_of: maps an offset in the buffer to its block's offset in the file, for messages.

    Raises:
        CorruptFileError: a key has another form than Hudi's.
    """
    if not len(starts):
        return HFileEntries.empty()
    entries, sound = _split(buffer, starts)
    if not sound.all():
        place = offset_of(int(starts[int(np.argmin(sound))]))
        raise CorruptFileError(path, place, "an HFile entry has a key of unknown shape; restore the file")
    return entries


def key_spans(buffer: Bytes, starts: Positions) -> KeySpans:
    """Keys of entries at the given starts.

    Raises:
        IndexError: a key is shorter than Hudi's keys, or the buffer ends in it.
    """
    lengths = _big_endian(buffer, starts, 4) - KEY_OVERHEAD
    if len(lengths) and int(lengths.min()) < 0:
        raise IndexError("a key is too short")
    return KeySpans(buffer, starts + (LENGTHS.size + 2), lengths)


def _split(buffer: Bytes, starts: Positions) -> tuple[HFileEntries, NDArray[np.bool_]]:
    """Spans of keys and values, and whether each entry has the form that Hudi writes."""
    key_sizes = _big_endian(buffer, starts, 4)
    value_lengths = _big_endian(buffer, starts + 4, 4)
    row_lengths = key_sizes - KEY_OVERHEAD
    key_starts = starts + LENGTHS.size + 2
    value_starts = starts + LENGTHS.size + key_sizes
    entries = HFileEntries(buffer, key_starts, row_lengths, value_starts, value_lengths)
    sound = row_lengths >= 0
    if not sound.all():  # the code below would read outside of keys
        return entries, sound
    sound &= _big_endian(buffer, key_starts - 2, 2) == row_lengths
    sound &= _windows(buffer, len(SUFFIX))[key_starts + row_lengths] == np.void(SUFFIX)
    sound &= buffer[value_starts + value_lengths] == 0
    return entries, sound


def _windows(buffer: Bytes, width: int) -> NDArray[Any]:
    """All windows of `width` bytes by start, without a copy."""
    return np.ndarray((max(len(buffer) - width + 1, 0),), dtype=f"V{width}", buffer=buffer, strides=(1,))


def _starting_with(buffer: Bytes, starts: Positions, prefix: bytes) -> NDArray[np.bool_]:
    """Which spans, none shorter than a prefix, start with it; eight bytes are compared at a time."""
    size = len(prefix)
    if size < 8:
        return np.asarray(_windows(buffer, size)[starts] == np.void(prefix))
    begins = np.ones(len(starts), np.bool_)
    words: NDArray[Any] = np.ndarray((max(len(buffer) - 7, 0),), "<u8", cast("Any", buffer), strides=(1,))
    for place in {*range(0, size - 7, 8), size - 8}:
        begins &= words[starts + place] == int.from_bytes(prefix[place : place + 8], "little")
    return begins


def _big_endian(buffer: Bytes, positions: Positions, width: int) -> Positions:
    values = np.ndarray((len(buffer) - width + 1,), dtype=f">u{width}", buffer=buffer, strides=(1,))
    return values[positions].astype(np.int64)
