"""The order of record keys made of whole numbers, by arithmetic instead of by their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import to_numpy

_MOST_DIGITS: Final = 20
_POWERS: Final = np.array([10**power for power in range(_MOST_DIGITS)], np.uint64)
_BITS: Final = 64
# Fewer rows are sorted as fast by their texts.
_LEAST_ROWS: Final = 512


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
    """The order of the texts of record keys, which have a number out of each column.

    Record keys have the same text in front of their first numbers, of their second ones and so on, so numbers are all
    that they differ in. Either a number's text is the beginning of another's, and comes first, since the character
    behind it, `,` or none, is below all digits; or the first digit that differs decides. So numbers that are filled up
    with zeros behind, and then their widths, have the order of the texts.

    Args:
        columns: the key fields of all rows, in the order of the key.

    Returns:
        None where a column has other values than whole numbers of at least zero, their order does not fit into 64
        bits, or the rows are few.
    """
    for column in columns:
        if not pa.types.is_integer(column.type) or column.null_count or len(column) < _LEAST_ROWS:
            return None
    ranks: Any = 0
    span = 1
    for column in columns:
        numbers = to_numpy(column)
        greatest = int(numbers.max())
        if int(numbers.min()) < 0:
            return None
        digits = len(str(greatest))
        size = 10**digits * (digits + 1)
        span *= size
        if span >> _BITS:
            return None
        numbers = numbers.astype(np.uint64)
        widths = _widths(numbers, digits)
        rank = numbers * _POWERS[digits - widths]
        rank *= np.uint64(digits + 1)
        rank += widths
        ranks = ranks * np.uint64(size) + rank
    return _ordered(ranks, (span - 1).bit_length())


def _widths(numbers: npt.NDArray[np.uint64], most: int) -> npt.NDArray[np.uint8]:
    """How many digits each number has."""
    widths = np.ones(len(numbers), np.uint8)
    for power in range(1, most):
        widths += numbers >= _POWERS[power]
    return widths


def _ordered(ranks: npt.NDArray[np.uint64], rank_bits: int) -> KeyOrder | None:
    """Sort ranks together with the rows' positions behind them: stable, and faster than a sort that gives positions."""
    bits = (len(ranks) - 1).bit_length()
    if rank_bits + bits > _BITS:
        return None
    ranks <<= np.uint64(bits)
    ranks |= np.arange(len(ranks), dtype=np.uint64)
    ranks.sort()
    rows = (ranks & np.uint64((1 << bits) - 1)).astype(np.int64)
    ranks >>= np.uint64(bits)
    same = np.zeros(len(ranks), np.bool_)
    np.equal(ranks[1:], ranks[:-1], out=same[1:])
    return KeyOrder(rows, same)
