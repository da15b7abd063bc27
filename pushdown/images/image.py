"""The image of ranges of values under one function, for all files at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pushdown.kinds import Kind, kind_of
from pushdown.ordering import Comparable, Mask

_NARROW_DIGITS = 18


@dataclass(frozen=True, eq=False)
class Bounds:
    """The values that each file may have, in the form of `pushdown.ordering.comparable`; nulls and NaN apart.

    Attributes:
        lower: no value is less; without meaning where `known` is false.
        upper: no value is greater.
        known: there are both bounds.
    """

    lower: Comparable
    upper: Comparable
    known: Mask


@dataclass(frozen=True, eq=False)
class Image:
    """One function of values of one type.

    The function is strict, deterministic, and gives every value another one: never null, in no engine and under no
    setting. Where an engine may stop at a value or wrap around, there are no bounds.

    Attributes:
        output: the type of its results.
        of: bounds of the results, from those of the values.
    """

    output: pa.DataType
    of: Callable[[Bounds], Bounds]


def no_bounds(count: int) -> Bounds:
    """Bounds of files of which nothing is known."""
    nothing = np.zeros(count, np.int64)
    return Bounds(nothing, nothing, np.zeros(count, np.bool_))


def numbers(bounds: Bounds) -> tuple[Any, Any]:
    """The bounds as 64-bit integers or floats, zero where they are not known."""
    lower, upper = np.asarray(bounds.lower), np.asarray(bounds.upper)
    kind = np.float64 if lower.dtype.kind == "f" else np.int64
    return np.where(bounds.known, lower, 0).astype(kind), np.where(bounds.known, upper, 0).astype(kind)


def within(bounds: Bounds, lower: Any, upper: Any, least: int, greatest: int) -> Bounds:
    """Bounds where they are known; elsewhere the least and the greatest result that the function has at all."""
    every = np.ones(len(bounds.known), np.bool_)
    return Bounds(np.where(bounds.known, lower, least), np.where(bounds.known, upper, greatest), every)


def is_counted(type_: pa.DataType) -> bool:
    """Whether values of the type are 64-bit whole numbers in their comparable form."""
    kind = kind_of(type_)
    if kind is Kind.DECIMAL:
        described: Any = type_
        return bool(described.precision <= _NARROW_DIGITS)
    if kind is Kind.INTEGER:
        return bool(pa.types.is_signed_integer(type_))
    return kind in {Kind.DATE, Kind.TIMESTAMP}
