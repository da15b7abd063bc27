"""Order-preserving packing of keys into short rows of bytes: constant bytes take no space, digits half a byte.

At each position the keys of a file have certain bytes: always the same one, as the dashes of UUIDs, at most
sixteen, as hexadecimal digits, or more. The first are left out, two of the second share a byte, others stay. Shorter
keys end with zeros, which no key contains. So rows compare as the keys do, and only equal keys have equal rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import DISORDERED_BYTE, Bytes, Mask, Positions

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


def _table(first: bytes, second: bytes) -> NDArray[np.uint16]:
    low, high = (np.frombuffer(part, np.uint8).astype(np.uint16) for part in (first, second))
    table = np.full(1 << 16, _FAULT, np.uint16)
    rank_of_first, rank_of_second = np.arange(len(low), dtype=np.uint16), np.arange(len(high), dtype=np.uint16)
    table[low[:, None] | high[None, :] << np.uint16(8)] = rank_of_first[:, None] << np.uint16(4) | rank_of_second
    return table
