"""A columnar copy of an HFile's keys in an extra meta block, with which many look-ups read no data blocks.

Looking up one key in a hundred decompresses all data blocks and walks every entry. The copy has the packed
keys (`KeyPacking`) as columns of numbers, and for each key the code of its value, one of few distinct ones. It is not
compressed, so a look-up is a search in sorted numbers. Other readers ignore the block, as they do
with any unknown meta block; files of other writers have none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import (
    DISORDERED_BYTE,
    Bytes,
    Mask,
    Positions,
    binary_array,
    from_numpy,
    spans_of,
    to_numpy,
)
from table_format.errors import CorruptFileError
from table_format.hfile.sorted_keys import KeySpans, bisect_ranges

Matrix = NDArray[np.uint8]
LONGEST: Final = 256
"""Length in bytes of the longest key that is packed."""

HALF_BYTE: Final = 16
"""Different bytes at a position that fit into half a byte."""

_WIDEST = 32  # bytes of a packed key; wider ones save hardly anything
_SAMPLE = 4096
_CHUNK = 16 * 1024  # rows that fit into the core's cache
_FAULT = np.uint16(0xFFFF)


@dataclass(frozen=True)
class KeyPacking:
    """Packing of the keys of a file.

    Attributes:
        alphabets: bytes that occur at each position, ascending, zero for keys that end before; empty for any byte.
        shortest: length of the shortest key; the number of positions is that of the longest.
    """

    alphabets: tuple[bytes, ...]
    shortest: int

    @classmethod
    def of(cls, keys: Bytes, starts: Positions, lengths: Positions) -> tuple[Self, Matrix] | None:
        """Compute a packing and pack keys; None if it saves too little or would not keep the order.

        Args:
            keys: the bytes of all keys.
            starts: where each key starts; at least one.
            lengths: bytes of each key.
        """
        shortest, longest = int(lengths.min()), int(lengths.max())
        if not longest or longest > LONGEST:
            return None
        rows = padded_rows(keys, starts, lengths, longest)
        if bool((np.count_nonzero(rows, axis=1) != lengths).any() if shortest < longest else not rows.all()):
            return None
        for sample in (rows[:: len(rows) // _SAMPLE + 1], rows):  # rare bytes may be missing in the sample
            packing = cls(tuple(_alphabets(sample)), shortest)
            if packing.width > _WIDEST:
                return None
            packed, sound = packing.pack(rows, lengths)
            if sound.all():
                return None if packing.has_doubtful(packed) else (packing, packed)
        raise AssertionError("the bytes of all keys are in the alphabets of all keys")

    @property
    def longest(self) -> int:
        """Bytes of the longest key."""
        return len(self.alphabets)

    @property
    def width(self) -> int:
        """Bytes of a packed key, at least one."""
        return max(len(self._steps), 1)

    def pack(self, rows: Matrix, lengths: Positions) -> tuple[Matrix, Mask]:
        """Pack keys.

        Args:
            rows: see `padded_rows`, as wide as the longest key.
            lengths: bytes of each key; those that are longer may be cut in `rows`.

        Returns:
            Rows of `width` bytes, and a mask of valid ones; others have bytes that none of the file's keys has.
        """
        count = len(rows)
        packed = np.zeros((count, self.width), np.uint8)
        sound = (lengths >= self.shortest) & (lengths <= self.longest)
        if self.shortest < self.longest:
            # a zero byte in a key is not its end
            sound &= np.count_nonzero(rows, axis=1) == lengths
        for begin in range(0, count, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            self._pack(rows[part], packed[part], sound[part])
        return packed, sound

    def _pack(self, rows: Matrix, packed: Matrix, sound: Mask) -> None:
        for position, symbol in self._constant:
            sound &= rows[:, position] == symbol
        for place, (first, second) in enumerate(self._steps):
            if second is None:
                packed[:, place] = rows[:, first]
                continue
            halves = self._tables[place].take(_pairs(rows, first, second))
            packed[:, place] = halves
            if halves.max(initial=0) == _FAULT:
                sound &= halves != _FAULT

    def has_doubtful(self, packed: Matrix) -> bool:
        """Whether a packed key may have a byte that Java's text order sorts differently from byte order."""
        if any(alphabet and alphabet[-1] >= DISORDERED_BYTE for alphabet in self.alphabets):
            return True
        whole = [place for place, (_, second) in enumerate(self._steps) if second is None]
        return any(bool((packed[:, place] >= DISORDERED_BYTE).any()) for place in whole)

    @cached_property
    def _constant(self) -> list[tuple[int, int]]:
        return [(position, alphabet[0]) for position, alphabet in enumerate(self.alphabets) if len(alphabet) == 1]

    @cached_property
    def _steps(self) -> list[tuple[int, int | None]]:
        """Key positions in each byte of a packed key."""
        varying = [position for position, alphabet in enumerate(self.alphabets) if len(alphabet) != 1]
        return list(_paired(varying, self.alphabets))

    @cached_property
    def _tables(self) -> list[NDArray[np.uint16]]:
        """For each pair of positions, the packed byte of each pair of bytes."""
        none = np.empty(0, np.uint16)
        return [
            none if second is None else _table(self.alphabets[first], self.alphabets[second])
            for first, second in self._steps
        ]


def padded_rows(keys: Bytes, starts: Positions, lengths: Positions, width: int) -> Matrix:
    """Keys as rows of a matrix; shorter ones are padded with zeros, longer ones are cut.

    Args:
        keys: the bytes of all keys.
        starts: start of each key.
        lengths: bytes of each key.
        width: bytes of a row, at least one.
    """
    count = len(starts)
    short = bool((lengths < width).any())
    if count and not short and bool((np.diff(starts) == width).all()):
        first = int(starts[0])
        return keys[first : first + count * width].reshape(count, width)
    if count and int(starts.max()) + width > len(keys):
        keys = np.concatenate([keys, np.zeros(width, np.uint8)])
    windows: NDArray[Any] = np.ndarray(
        (max(len(keys) - width + 1, 0),), f"V{width}", cast("Any", np.ascontiguousarray(keys)), strides=(1,)
    )
    rows = windows[starts].view(np.uint8).reshape(count, width)
    if short:
        rows[np.arange(width) >= lengths[:, None]] = 0
    return rows


def _alphabets(rows: Matrix) -> Iterator[bytes]:
    for position in range(rows.shape[1]):
        seen = np.zeros(256, np.bool_)
        seen[rows[:, position]] = True
        alphabet = np.flatnonzero(seen).astype(np.uint8).tobytes()
        yield alphabet if len(alphabet) <= HALF_BYTE else b""


def _paired(varying: Sequence[int], alphabets: Sequence[bytes]) -> Iterator[tuple[int, int | None]]:
    at = 0
    while at < len(varying):
        first, *second = varying[at : at + 2]
        together = bool(second and alphabets[first] and alphabets[second[0]])
        yield first, second[0] if together else None
        at += 1 + together


def _pairs(rows: Matrix, first: int, second: int) -> NDArray[np.uint16]:
    """The bytes of two positions as one number, the first one low."""
    return rows[:, first].astype(np.uint16) | rows[:, second].astype(np.uint16) << np.uint16(8)


@lru_cache(maxsize=64)  # 128 KiB each; the files of an index have keys of one kind, and making a table takes long
def _table(first: bytes, second: bytes) -> NDArray[np.uint16]:
    low, high = (np.frombuffer(part, np.uint8).astype(np.uint16) for part in (first, second))
    table = np.full(1 << 16, _FAULT, np.uint16)
    rank_of_first, rank_of_second = np.arange(len(low), dtype=np.uint16), np.arange(len(high), dtype=np.uint16)
    table[low[:, None] | high[None, :] << np.uint16(8)] = rank_of_first[:, None] << np.uint16(4) | rank_of_second
    table.flags.writeable = False
    return table


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
    def from_bytes(cls, content: bytes | memoryview, entries: int, path: str, offset: int) -> Self | None:
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
            head = json.loads(bytes(content[4 : 4 + size]))
            return cls._parse(head, content, _after(4 + size), entries) if head["version"] == _VERSION else None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise CorruptFileError(path, offset, f"the packed keys are broken ({error}); restore the file") from error

    @classmethod
    def _parse(cls, head: dict[str, Any], content: bytes | memoryview, at: int, entries: int) -> Self:
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
