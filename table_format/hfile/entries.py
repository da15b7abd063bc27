"""Entries of HFile data blocks as columns: positions of keys and values in one buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import to_numpy
from table_format.codecs.byte_spans import Bytes, Positions, binary_array
from table_format.errors import CorruptFileError
from table_format.hfile.sorted_keys import KeySpans
from table_format.hfile.walk import KEY_OVERHEAD, LENGTHS, SUFFIX


@dataclass(frozen=True, slots=True)
class HFileEntries:
    """Keys and values of HFile entries, in the order of the file, which is that of the keys.

    Attributes:
        buffer: the decompressed blocks, one behind the other.
        key_starts: where each key's bytes start in `buffer`.
        key_lengths: bytes of each key.
        value_starts: where each value's bytes start in `buffer`.
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

    def __len__(self) -> int:
        return len(self.key_starts)

    def keys(self) -> pa.BinaryArray:
        """All keys, copied out."""
        return binary_array(self.buffer, self.key_starts, self.key_lengths)

    def values(self) -> pa.BinaryArray:
        """All values, copied out."""
        return binary_array(self.buffer, self.value_starts, self.value_lengths)

    def key_spans(self) -> KeySpans:
        """All keys, in place; what stands behind each in the buffer is read along."""
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
        rows = np.flatnonzero(self.key_lengths >= len(prefix))
        begins = _windows(self.buffer, len(prefix))[self.key_starts[rows]] == np.void(prefix)
        return self.take(rows[begins])

    def get(self, keys: Sequence[bytes]) -> HFileEntries:
        """The entries that have one of these keys; absent keys are left out."""
        found = pc.is_in(self.keys(), value_set=pa.array(keys, pa.binary()))
        return self.take(to_numpy(found))


def split_entries(buffer: Bytes, starts: Positions, path: str, offset_of: Callable[[int], int]) -> HFileEntries:
    """The spans of keys and values of entries that start at the given places.

    Args:
        buffer: the content of data blocks, one behind the other.
        starts: where each entry starts in it, as `find_entries` found.
        path: the file, for messages.
        offset_of: the place in the file of the block that holds a place of the buffer, for messages.

    Raises:
        CorruptFileError: a key has another shape than Hudi writes.
    """
    if not len(starts):
        return HFileEntries.empty()
    entries, sound = _split(buffer, starts)
    if not sound.all():
        place = offset_of(int(starts[int(np.argmin(sound))]))
        raise CorruptFileError(path, place, "an HFile entry has a key of unknown shape; restore the file")
    return entries


def key_spans(buffer: Bytes, starts: Positions) -> KeySpans:
    """The keys of entries that start at the given places.

    Raises:
        IndexError: a key is shorter than any that Hudi writes, or the buffer ends before.
    """
    lengths = _big_endian(buffer, starts, 4) - KEY_OVERHEAD
    if len(lengths) and int(lengths.min()) < 0:
        raise IndexError("a key is too short")
    return KeySpans(buffer, starts + (LENGTHS.size + 2), lengths)


def _split(buffer: Bytes, starts: Positions) -> tuple[HFileEntries, NDArray[np.bool_]]:
    """The spans of keys and values, and whether each entry has the shape that Hudi writes."""
    key_sizes = _big_endian(buffer, starts, 4)
    value_lengths = _big_endian(buffer, starts + 4, 4)
    row_lengths = key_sizes - KEY_OVERHEAD
    key_starts = starts + LENGTHS.size + 2
    value_starts = starts + LENGTHS.size + key_sizes
    entries = HFileEntries(buffer, key_starts, row_lengths, value_starts, value_lengths)
    sound = row_lengths >= 0
    if not sound.all():  # what follows would look outside the keys
        return entries, sound
    sound &= _big_endian(buffer, key_starts - 2, 2) == row_lengths
    sound &= _windows(buffer, len(SUFFIX))[key_starts + row_lengths] == np.void(SUFFIX)
    sound &= buffer[value_starts + value_lengths] == 0
    return entries, sound


def _windows(buffer: Bytes, width: int) -> NDArray[Any]:
    """Every run of `width` bytes, by its start, without a copy."""
    return np.ndarray((max(len(buffer) - width + 1, 0),), dtype=f"V{width}", buffer=buffer, strides=(1,))


def _big_endian(buffer: Bytes, positions: Positions, width: int) -> Positions:
    values = np.ndarray((len(buffer) - width + 1,), dtype=f">u{width}", buffer=buffer, strides=(1,))
    return values[positions].astype(np.int64)
