"""A columnar copy of an HFile's keys in an extra meta block, with which many look-ups read no data blocks.

Looking up one key in a hundred decompresses all data blocks and walks every entry. The copy has the packed
keys (`key_packing`) as columns of numbers, and for each key the code of its value, one of few distinct ones. It is not
compressed, so a look-up is a search in sorted numbers. Other readers ignore the block, as they do
with any unknown meta block; files of other writers have none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Positions, binary_array, from_numpy, spans_of, to_numpy
from table_format.errors import CorruptFileError
from table_format.hfile.key_packing import HALF_BYTE, LONGEST, KeyPacking, Matrix, padded_rows
from table_format.hfile.sorted_keys import KeySpans, bisect_ranges

NAME: Final = "catalog.packedKeys"
"""Name of the meta block; sorts after `bloomFilter`, since names of meta blocks ascend."""

_VERSION = 1
_WORD = 8
_PADDING = 8
_MOST_VALUES = 1 << 16
_KEYS_PER_VALUE = 4  # if fewer keys share a value, the copy would be as large as the values
_FEW = 16
Numbers = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class PackedKeys:
    """Packed keys of an HFile and their values.

    Attributes:
        packing: of the keys.
        words: columns of numbers, most significant first; one row per key, ascending.
        codes: for each key the index of its value.
        values: the distinct values.
    """

    packing: KeyPacking
    words: tuple[Numbers, ...]
    codes: Numbers
    values: pa.BinaryArray

    @classmethod
    def of(cls, keys: pa.BinaryArray, values: pa.BinaryArray) -> Self | None:
        """Pack some entries; None if the keys are too long or too diverse, or share too few values.

        Args:
            keys: ascending by their bytes, each once.
            values: one for each key, dictionary-encoded or not.
        """
        encoded: Any = values.dictionary_encode()
        distinct = encoded.dictionary
        if not len(keys) or len(distinct) > min(_MOST_VALUES, max(len(keys) // _KEYS_PER_VALUE, _FEW)):
            return None
        packing_and_rows = KeyPacking.of(*spans_of(keys))
        if packing_and_rows is None:
            return None
        packing, packed = packing_and_rows
        codes: Numbers = to_numpy(encoded.indices).astype(_code_kind(len(distinct)))
        return cls(packing, tuple(_words(packed)), codes, distinct.cast(pa.binary()))

    def __len__(self) -> int:
        return len(self.codes)

    def to_bytes(self) -> bytes:
        """Content of the meta block: length of a JSON header, the header, columns, values."""
        head = json.dumps(
            {
                "version": _VERSION,
                "entries": len(self),
                "shortest": self.packing.shortest,
                "alphabets": [alphabet.hex() for alphabet in self.packing.alphabets],
                "values": len(self.values),
            }
        ).encode()
        data, starts, lengths = spans_of(self.values)
        first, end = int(starts[0]), int(starts[-1] + lengths[-1])
        columns = [*self.words, self.codes, lengths.astype(np.uint32)]
        parts = [len(head).to_bytes(4, "big") + head, *(_little_endian(column) for column in columns)]
        return b"".join([*map(_padded, parts), data[first:end].tobytes()])

    @classmethod
    def from_bytes(cls, content: bytes, entries: int, path: str, offset: int) -> Self | None:
        """Parse the content without a copy; None for a version of a later release.

        Args:
            content: content of the meta block.
            entries: number of entries by the trailer.
            path: the file, for messages.
            offset: the block's offset in it, for messages.

        Raises:
            CorruptFileError: it is malformed, or has another number of entries.
        """
        try:
            size = int.from_bytes(content[:4], "big")
            head = json.loads(content[4 : 4 + size])
            return cls._parse(head, content, _after(4 + size), entries) if head["version"] == _VERSION else None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CorruptFileError(path, offset, f"the packed keys are broken ({error}); restore the file") from error

    @classmethod
    def _parse(cls, head: dict[str, Any], content: bytes, at: int, entries: int) -> Self:
        alphabets = tuple(bytes.fromhex(alphabet) for alphabet in head["alphabets"])
        packing = KeyPacking(alphabets, int(head["shortest"]))
        count, distinct = int(head["entries"]), int(head["values"])
        if count != entries or not 0 < distinct <= _MOST_VALUES or not _possible(packing):
            raise ValueError("its header contradicts the file")
        kinds = [*_kinds(packing.width), _code_kind(distinct)]
        columns = []
        for kind, length in [*((kind, count) for kind in kinds), (np.dtype(np.uint32), distinct)]:
            columns.append(np.frombuffer(content, kind.newbyteorder("<"), length, at))
            at = _after(at + length * kind.itemsize)
        *words, codes, lengths = columns
        ends = np.cumsum(lengths, dtype=np.int64) + at
        if int(ends[-1]) != len(content) or int(codes.max()) >= distinct:
            raise ValueError("its sizes do not add up")
        values = binary_array(np.frombuffer(content, np.uint8), ends - lengths, lengths.astype(np.int64))
        return cls(packing, tuple(words), codes, values)

    def agree(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> bool:
        """Whether the copy equals the entries of the file, in file order."""
        data, starts, lengths = spans_of(keys)
        rows = padded_rows(data, starts, lengths, self.packing.longest)
        packed, sound = self.packing.pack(rows, lengths)
        same = all(np.array_equal(*pair) for pair in zip(self.words, _words(packed), strict=True))
        copied: Any = self.values.take(from_numpy(self.codes.astype(np.int32)))
        return same and bool(sound.all()) and bool(copied.equals(values))

    def find(self, keys: KeySpans) -> tuple[Positions, Any]:
        """Look up the values of some keys.

        Args:
            keys: ascending by their bytes, each once.

        Returns:
            Rows of `keys`, ascending, and the value of each, a dictionary array. Absent keys are left out.
        """
        rows = np.flatnonzero((keys.lengths >= self.packing.shortest) & (keys.lengths <= self.packing.longest))
        starts, lengths = keys.starts[rows], keys.lengths[rows]
        packed, sound = self.packing.pack(padded_rows(keys.buffer, starts, lengths, self.packing.longest), lengths)
        if not sound.all():
            rows, packed = rows[sound], packed[sound]
        places = _search(self.words, list(_words(packed)))
        hits = np.flatnonzero(places >= 0)
        codes = self.codes[places[hits]].astype(np.int32)
        return rows[hits], pa.DictionaryArray.from_arrays(from_numpy(codes), cast("Any", self.values))


def _possible(packing: KeyPacking) -> bool:
    """Whether the packing is allowed for keys."""
    proper = all(len(a) <= HALF_BYTE and sorted(set(a)) == list(a) for a in packing.alphabets)
    return proper and 0 < packing.longest <= LONGEST and 0 <= packing.shortest <= packing.longest


def _kinds(width: int) -> Iterator[np.dtype[Any]]:
    """Integer types of the columns for rows of `width` bytes."""
    for begin in range(0, width, _WORD):
        size = min(_WORD, width - begin)
        yield np.dtype(f"u{1 << math.ceil(math.log2(size))}")


def _code_kind(distinct: int) -> np.dtype[Any]:
    return np.dtype(np.uint8 if distinct <= 1 << 8 else np.uint16)


def _words(packed: Matrix) -> Iterator[Numbers]:
    """Convert rows of bytes to columns of integers with the same order."""
    for number, kind in enumerate(_kinds(packed.shape[1])):
        part = packed[:, number * _WORD : (number + 1) * _WORD]
        if part.shape[1] < kind.itemsize:
            part = np.pad(part, ((0, 0), (0, kind.itemsize - part.shape[1])))
        yield np.ascontiguousarray(part).view(kind.newbyteorder(">")).reshape(-1).astype(kind)


def _search(words: Sequence[Numbers], wanted: Sequence[Numbers]) -> Positions:
    """Row of each wanted key among ascending ones, -1 for absent keys."""
    low = np.searchsorted(words[0], wanted[0])
    inside = np.minimum(low, len(words[0]) - 1)
    same = words[0][inside] == wanted[0]
    for word, aim in zip(words[1:], wanted[1:], strict=True):
        same &= word[inside] == aim
    if len(words) > 1:  # several rows may have the same first number
        following = np.minimum(low + 1, len(words[0]) - 1)
        tied = np.flatnonzero(~same & (following > low) & (words[0][following] == wanted[0]))
        if tied.size:
            inside[tied], same[tied] = _among_ties(words, [aim[tied] for aim in wanted], low[tied])
    return np.where(same, inside, -1)


def _among_ties(
    words: Sequence[Numbers], wanted: Sequence[Numbers], low: Positions
) -> tuple[Positions, NDArray[np.bool_]]:
    """Insertion rows of keys, and whether they are present.

    Args:
        words: of the ascending keys.
        wanted: of the keys to look up.
        low: for each of them the first row with its first number.
    """
    high = np.searchsorted(words[0], wanted[0], side="right")
    for word, aim in zip(words[1:], wanted[1:], strict=True):
        low = bisect_ranges(word.__getitem__, aim, low, high, right=False)
        high = bisect_ranges(word.__getitem__, aim, low, high, right=True)
    return np.minimum(low, len(words[0]) - 1), low < high


def _little_endian(column: Numbers) -> bytes:
    return column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()


def _padded(part: bytes) -> bytes:
    return part + bytes(_after(len(part)) - len(part))


def _after(end: int) -> int:
    return -(-end // _PADDING) * _PADDING
