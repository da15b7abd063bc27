"""The order of record keys made of whole numbers, by arithmetic instead of by their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.keys.number_texts import BLOCK_ROWS, POWERS, Numbers, digit_counts, numbers_of

_BITS: Final = 64
# Rows of so many ascending runs are merged faster than they are sorted.
_MOST_RUNS: Final = 64


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Rows in the order of their record keys.

    Attributes:
        rows: their positions; rows of one key in the order in which they came.
        same: whether each of them has the key of the one before.
    """

    rows: npt.NDArray[np.int64]
    same: npt.NDArray[np.bool_]


def number_order(columns: Sequence[pa.Array[Any]]) -> KeyOrder | None:
    """The order of the texts of record keys whose fields are whole numbers.

    The texts differ only in their numbers. If the digits of one number begin those of another, the shorter one comes
    first, since the character after it, `,` or none, is below all digits; else the first digit that differs decides.
    So the order is that of the numbers padded with zeros on the right, then of their widths.

    Args:
        columns: the key fields of all rows, in the order of the key.

    Returns:
        None where a column has other values than whole numbers of at least zero, their order does not fit into 64
        bits, or the rows are few.
    """
    fields: list[tuple[Numbers, int]] = []
    span = 1
    for column in columns:
        numbers = numbers_of(column)
        if numbers is None:
            return None
        digits = len(str(int(numbers.max())))
        span *= 10**digits * (digits + 1)
        if span >> _BITS:
            return None
        fields.append((numbers, digits))
    return _ordered(_ranks(fields), (span - 1).bit_length())


def _ranks(fields: Sequence[tuple[Numbers, int]]) -> npt.NDArray[np.uint64]:
    """A number for each row that has the order of its key.

    Args:
        fields: the numbers of each key field, and how many digits the greatest of them has.
    """
    ranks = np.zeros(len(fields[0][0]), np.uint64)
    for start in range(0, len(ranks), BLOCK_ROWS):
        rank = ranks[start : start + BLOCK_ROWS]
        for numbers, digits in fields:
            block = numbers[start : start + BLOCK_ROWS]
            counts = digit_counts(block)
            filled = block * POWERS[digits - np.arange(digits + 1)].take(counts)
            filled *= np.uint64(digits + 1)
            filled += counts
            rank *= np.uint64(10**digits * (digits + 1))
            rank += filled
    return ranks


def _ordered(ranks: npt.NDArray[np.uint64], rank_bits: int) -> KeyOrder | None:
    """Sort ranks with the rows' positions in their low bits: stable, and faster than a sort that gives positions."""
    bits = (len(ranks) - 1).bit_length()
    if rank_bits + bits > _BITS:
        return None
    ranks <<= np.uint64(bits)
    ranks |= np.arange(len(ranks), dtype=np.uint64)
    runs = np.count_nonzero(ranks[1:] < ranks[:-1]) + 1
    ranks.sort(kind="stable" if runs <= _MOST_RUNS else None)
    rows = (ranks & np.uint64((1 << bits) - 1)).astype(np.int64)
    ranks >>= np.uint64(bits)
    same = np.zeros(len(ranks), np.bool_)
    np.equal(ranks[1:], ranks[:-1], out=same[1:])
    return KeyOrder(rows, same)
