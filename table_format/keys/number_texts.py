"""Texts of whole numbers and their Java hashes, four digits at a time from tables, for record keys made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import to_numpy

_GROUP: Final = 4
_RUN: Final = 10**_GROUP
#: The digits of each number below ten thousand, zeros in front: uint8, a row per number.
FOUR_DIGITS: Final[Any] = (np.arange(_RUN)[:, None] // np.array([1000, 100, 10, 1]) % 10 + ord("0")).astype(np.uint8)
_TEXTS: Final[Any] = FOUR_DIGITS.view(np.uint32).ravel()
_MOST_DIGITS: Final = 20
#: Powers of ten that fit into 64 bits.
POWERS: Final = np.array([10**power for power in range(_MOST_DIGITS)], np.uint64)
_BASES: Final = np.array([pow(31, power, 1 << 32) for power in range(_MOST_DIGITS)], np.uint32)
_NEXT_GROUP: Final = _BASES[_GROUP]
_HASHES: Final[Any] = (FOUR_DIGITS.astype(np.uint32) * _BASES[_GROUP - 1 :: -1][:_GROUP]).sum(axis=1, dtype=np.uint32)
# The hash of so many zeros.
_ZEROS: Final[Any] = np.concatenate(([0], np.cumsum(_BASES * np.uint32(ord("0")), dtype=np.uint32))).astype(np.uint32)
#: Rows at a time, which stay in the processor's cache.
BLOCK_ROWS: Final = 1 << 14
# Fewer rows take no longer by their texts.
_LEAST_ROWS: Final = 1 << 9
# Rows of one length are written together: few lengths make it worth while.
_MOST_LENGTHS: Final = 24
_INT32_MAX: Final = 2**31 - 1
_UINT32_END: Final = 1 << 32

Numbers = npt.NDArray[np.uint64]


def numbers_of(column: Any) -> Numbers | None:
    """The values of an Arrow array; None unless they are whole numbers of at least zero without nulls, and many."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < _LEAST_ROWS:
        return None
    values = to_numpy(column)
    if pa.types.is_signed_integer(column.type) and int(values.min()) < 0:
        return None
    return values.view(np.uint64) if values.dtype == np.int64 else values.astype(np.uint64, copy=False)


def digit_counts(numbers: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.uint8]:
    """How many digits each number has."""
    most = len(str(int(numbers.max(initial=0))))
    counts = np.ones(len(numbers), np.uint8)
    for power in POWERS[1:most]:
        counts += numbers >= power.astype(numbers.dtype)
    return counts


def number_hashes(numbers: Numbers) -> npt.NDArray[np.uint32]:
    """Java's hash of each number's text.

    Leading zeros of the first group of digits are hashed with it and taken off again: a hash is a sum over digits.
    """
    result = np.empty(len(numbers), np.uint32)
    for start in range(0, len(numbers), BLOCK_ROWS):
        block = _narrow(numbers[start : start + BLOCK_ROWS])
        groups = _groups(block)
        hashes = result[start : start + BLOCK_ROWS]
        hashes[:] = _HASHES[groups[0]]
        for group in groups[1:]:
            hashes *= _NEXT_GROUP
            hashes += _HASHES[group]
        hashes -= _ZEROS[_GROUP * len(groups)] - _ZEROS[digit_counts(block)]
    return result


def joined_numbers(columns: Sequence[Numbers], labels: Sequence[str]) -> Any:
    """For each row a text of labels and numbers in turn.

    Args:
        columns: one or more, of the same length.
        labels: what stands before the number of each column.

    Returns:
        A `string` array; None if the texts have many different lengths, or take more than 2 GiB.
    """
    count = len(columns[0])
    counts = [digit_counts(column) for column in columns]
    leads = [np.frombuffer(label.encode(), np.uint8) for label in labels]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sum(widths.astype(np.int64) for widths in counts), out=offsets[1:])
    offsets += np.arange(count + 1) * sum(map(len, leads))
    if offsets[-1] > _INT32_MAX:
        return None
    data: Any = np.empty(int(offsets[-1]), np.uint8)
    for start in range(0, count, BLOCK_ROWS):
        rows = slice(start, min(count, start + BLOCK_ROWS))
        shapes = [widths[rows] for widths in counts]
        digits = [_digits(column[rows]) for column in columns]
        text = data[offsets[rows.start] : offsets[rows.stop]]
        if not _fill(text, offsets[rows] - offsets[rows.start], leads, digits, shapes):
            return None
    ends: Any = offsets.astype(np.int32)
    buffers: Any = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _fill(text: Any, starts: Any, leads: Sequence[Any], digits: Sequence[Any], shapes: Sequence[Any]) -> bool:
    """Write the texts of some rows, all rows with the same numbers of digits at a time; False if these are many."""
    if all(widths.min() == widths.max() for widths in shapes):
        _write(text, leads, digits, [int(widths[0]) for widths in shapes])
        return True
    codes = np.zeros(len(starts), np.int32)
    for widths in shapes:
        codes *= _MOST_DIGITS + 1
        codes += widths
    # numpy sorts 16-bit numbers by radix
    order = np.argsort(codes.astype(np.int16) if int(codes.max()) < 1 << 15 else codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    if len(cuts) >= _MOST_LENGTHS:
        return False
    for chosen in np.split(order, cuts):
        sizes = [int(widths[chosen[0]]) for widths in shapes]
        length = sum(map(len, leads)) + sum(sizes)
        rows = np.empty(len(chosen) * length, np.uint8)
        _write(rows, leads, [numbers[chosen] for numbers in digits], sizes)
        places = np.ndarray((len(text) - length + 1,), f"V{length}", text, strides=(1,))
        places[starts[chosen]] = rows.view(f"V{length}")
    return True


def _write(text: Any, leads: Sequence[Any], digits: Sequence[Any], sizes: Sequence[int]) -> None:
    """Fill a buffer with texts of one length, each of labels and numbers; digits are in items with zeros in front."""
    length = sum(map(len, leads)) + sum(sizes)
    count = len(digits[0])
    at = 0
    for lead, numbers, size in zip(leads, digits, sizes, strict=True):
        if len(lead):
            np.ndarray((count,), f"V{len(lead)}", text, at, (length,))[:] = lead.view(f"V{len(lead)}")
        at += len(lead)
        width = numbers.dtype.itemsize
        ends = np.ndarray((count,), f"V{size}", numbers, width - size, (width,))
        np.ndarray((count,), f"V{size}", text, at, (length,))[:] = ends
        at += size


def _digits(numbers: Numbers) -> Any:
    """The digits of each number with zeros in front, an item per number."""
    groups = _groups(_narrow(numbers))
    matrix = np.empty((len(numbers), len(groups)), np.uint32)
    for place, group in enumerate(groups):
        matrix[:, place] = _TEXTS[group]
    return matrix.view(f"V{_GROUP * len(groups)}").ravel()


def _narrow(numbers: Numbers) -> npt.NDArray[np.unsignedinteger]:
    # numpy divides numbers of 32 bits in half the time
    return numbers.astype(np.uint32) if int(numbers.max(initial=0)) < _UINT32_END else numbers


def _groups(numbers: npt.NDArray[np.unsignedinteger]) -> list[npt.NDArray[np.unsignedinteger]]:
    """The numbers' digits, four at a time, the highest first."""
    left = int(numbers.max(initial=0))
    step = numbers.dtype.type(_RUN)
    groups = []
    while left >= _RUN:
        high = numbers // step
        groups.append(numbers - high * step)
        numbers = high
        left //= _RUN
    return [numbers, *reversed(groups)]
