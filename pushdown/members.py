"""IN lists over statistics: whether a file's range may hold a member, by binary search for all files at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pushdown.kinds import Kind, kind_of
from pushdown.ordering import Comparable, Mask, comparable, greater, greater_equal, less_equal, mask_of
from pushdown.statistics import Believed

pc: Any = pyarrow.compute


def float_interval(value: float, column_type: pa.DataType) -> tuple[float, float, bool]:
    """The numbers that one engine or another takes for equal to the literal, and whether another does not.

    A 32-bit column against a literal between its values is compared in 64 bits by Spark and in 32 bits by Trino.
    -0.0 and 0.0 are equal to most, different to Java's Double.compare.
    """
    if column_type == pa.float32() and math.isfinite(value):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        if rounded != value:
            return min(value, rounded), max(value, rounded), True
    return value, value, value == 0


def members_of(values: pa.Array[Any], column_type: pa.DataType) -> tuple[Comparable, Comparable]:
    """The members of an IN list, sorted, in the form of the bounds.

    Returns:
        All members, and of them those that every engine takes for equal to the same value of the column.
    """
    if kind_of(column_type) is not Kind.FLOAT:
        found: Any = comparable(values, column_type)
        return found, found
    exact: Any = values.to_numpy(zero_copy_only=False)
    intervals = [float_interval(value, column_type) for value in exact.tolist()]
    every = np.unique([edge for low, high, _ in intervals for edge in (low, high)])
    certain = np.unique([low for low, _, vague in intervals if not vague])
    return every.astype(np.float64), certain.astype(np.float64)


def may_hold_member(members: Comparable, believed: Believed) -> Mask:
    """Whether a member lies between a file's bounds.

    Args:
        members: sorted and distinct.
        believed: the bounds; what is not known is no limit.
    """
    count = len(members)
    if count == 0:
        return np.zeros_like(believed.may_value)
    if isinstance(members, np.ndarray):
        bounds: Any = believed.lower
        at = np.searchsorted(members, bounds, side="left")
        at[believed.no_lower] = 0
        nearest_number: Any = members[np.minimum(at, count - 1)]
        found: Mask = (at < count) & (believed.no_upper | less_equal(nearest_number, believed.upper))
        return found
    at = _first_not_below(members, believed.lower)
    at[believed.no_lower] = 0
    holds: Mask = (at < count) & (believed.no_upper | less_equal(_at(members, at), believed.upper))
    return holds


def _at(members: Any, at: Any) -> Any:
    return members.take(pa.array(np.minimum(at, len(members) - 1)))


def _first_not_below(members: Any, bounds: Any) -> Any:
    """Binary search for text and binary, all bounds at once: which is the first member that is not less."""
    low = np.zeros(len(bounds), np.int64)
    high = np.full(len(bounds), len(members), np.int64)
    for _ in range(len(members).bit_length()):
        middle = (low + high) // 2
        below = (low < high) & greater(bounds, _at(members, middle))
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def holds_one_value(believed: Believed) -> Mask:
    """Whether the bounds of a file leave room for one value only."""
    alike = less_equal(believed.upper, believed.lower) & greater_equal(believed.upper, believed.lower)
    return alike & ~believed.no_lower & ~believed.no_upper & ~believed.may_nan


def is_member(values: Comparable, members: Comparable) -> Mask:
    """Whether each value is a member; members are sorted."""
    if isinstance(values, np.ndarray):
        found: Mask = np.isin(values, np.asarray(members))
        return found
    return mask_of(pc.is_in(values, value_set=members))
