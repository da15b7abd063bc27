"""Images of arithmetic with a literal, and of casts between numbers.

Where a result may leave the column's own type, Spark and Trino stop and others wrap around: there are no bounds.
Doubles are rounded to the nearest by every engine, which keeps their order.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pushdown.images.image import Bounds, Image, is_counted, numbers, within
from pushdown.kinds import DOUBLE_DIGITS, GREATEST_LONG, LEAST_LONG, Domain, Kind, domain_of, kind_of
from pushdown.spark_types import Typed, common_type, decimal_for, decimal_of, literal_sql_type

_MOST_DIGITS = 18
_Edges = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class _Units:
    """A column and a literal as whole numbers of one unit.

    Attributes:
        output: the type of the result.
        room: the numbers that results may be.
        factor: what a number of the column's domain is multiplied with.
        literal: the literal's number.
    """

    output: pa.DataType
    room: Domain
    factor: int
    literal: int


def _value(arguments: tuple[Any, ...]) -> Any:
    """The literal, an int, float or Decimal that is finite; None for anything else."""
    literal = arguments[0] if len(arguments) == 1 else None
    value = literal.value if isinstance(literal, Typed) else literal
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    return value if math.isfinite(value) else None


def _units(type_: Any, arguments: tuple[Any, ...], word: str) -> _Units | None:
    """Units for exact arithmetic; None where the types are others, or numbers too long."""
    literal = _value(arguments)
    of_literal = None if literal is None else literal_sql_type(arguments[0])
    if of_literal is None or kind_of(of_literal) not in {Kind.INTEGER, Kind.DECIMAL}:
        return None
    if kind_of(type_) is Kind.INTEGER and kind_of(of_literal) is Kind.INTEGER and is_counted(type_):
        output = common_type(type_, of_literal)
        # of the column's own type, for engines may give the literal that type
        return None if output is None else _Units(output, domain_of(type_), 1, int(literal))
    if kind_of(type_) not in {Kind.INTEGER, Kind.DECIMAL} or not is_counted(type_):
        return None
    own: Any = decimal_for(type_)
    other: Any = decimal_of(decimal.Decimal(literal))
    if other is None:
        return None
    scale, whole = max(own.scale, other.scale), (own.precision - own.scale, other.precision - other.scale)
    digits = {"add": max(whole) + 1, "mul": own.precision + other.precision + 1, "mod": min(whole)}[word]
    if word == "mul":
        scale, precision, shift = own.scale + other.scale, digits, 0
    else:
        precision, shift = digits + scale, scale - own.scale
    if max(precision, own.precision + shift) > _MOST_DIGITS:
        return None
    output = pa.decimal128(precision, scale)
    number = int(decimal.Decimal(literal).scaleb(other.scale if word == "mul" else scale))
    return _Units(output, domain_of(output), 10**shift, number)


def _exact(units: _Units, edges: _Edges, first: int, last: int) -> Image:
    """An image for numbers from first to last; others have none."""
    least, greatest = max(-(-first // units.factor), LEAST_LONG), min(last // units.factor, GREATEST_LONG)

    def of(bounds: Bounds) -> Bounds:
        lower, upper = numbers(bounds)
        fits = bounds.known & (lower >= least) & (upper <= greatest)
        image = edges(np.where(fits, lower, 0) * units.factor, np.where(fits, upper, 0) * units.factor)
        return Bounds(*image, fits)

    return Image(units.output, of)


def _of_doubles(type_: pa.DataType, edges: _Edges) -> Image | None:
    if not pa.types.is_float64(type_):
        return None

    def of(bounds: Bounds) -> Bounds:
        with np.errstate(over="ignore"):
            return Bounds(*edges(*numbers(bounds)), bounds.known)

    return Image(type_, of)


def add(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The value plus a literal; of dates, plus a number of days."""
    literal = _value(arguments)
    if literal is None:
        return None
    if kind_of(type_) is Kind.DATE and type(literal) is int and literal_sql_type(arguments[0]) == pa.int32():
        units: _Units | None = _Units(type_, domain_of(type_), 1, literal)
    else:
        units = _units(type_, arguments, "add")
    if units is None:
        number = float(literal)
        return _of_doubles(type_, lambda lower, upper: (lower + number, upper + number))
    shift, room = units.literal, units.room
    return _exact(units, lambda lower, upper: (lower + shift, upper + shift), room.first - shift, room.last - shift)


def multiply(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The value times a literal."""
    literal = _value(arguments)
    units = _units(type_, arguments, "mul")
    factor: Any = units.literal if units is not None else None if literal is None else float(literal)
    if factor is None or (units is None and not factor):  # zero times infinity is NaN
        return None

    def edges(lower: Any, upper: Any) -> tuple[Any, Any]:
        return (lower * factor, upper * factor) if factor >= 0 else (upper * factor, lower * factor)

    if units is None:
        return _of_doubles(type_, edges)
    first, last = units.room.first, units.room.last
    if factor:
        size = abs(factor)
        first, last = (-(-first // size), last // size) if factor > 0 else (-(last // size), -first // size)
    return _exact(units, edges, first, last)


def remainder(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """``%``, whose result has the sign of the value."""
    units = _units(type_, arguments, "mod")
    if units is None or not units.literal:
        return None
    size = abs(units.literal)

    def of(bounds: Bounds) -> Bounds:
        lower, upper = (edge * units.factor for edge in numbers(bounds))
        down, up = np.fmod(lower, size), np.fmod(upper, size)
        # within one multiple of the divisor the result grows with the value
        alike = lower - down == upper - up
        below, above = np.maximum(lower, 1 - size), np.minimum(upper, size - 1)
        least = np.where(alike, down, np.where(lower >= 0, 0, below))
        greatest = np.where(alike, up, np.where(upper <= 0, 0, above))
        return within(bounds, least, greatest, 1 - size, size - 1)

    return Image(units.output, of) if size <= GREATEST_LONG else None


def positive_remainder(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """``pmod`` by a positive number, whose result is never negative."""
    units = _units(type_, arguments, "mod")
    if units is None or not 0 < units.literal <= GREATEST_LONG:
        return None
    size = units.literal

    def of(bounds: Bounds) -> Bounds:
        lower, upper = (edge * units.factor for edge in numbers(bounds))
        down, up = np.mod(lower, size), np.mod(upper, size)
        alike = np.floor_divide(lower, size) == np.floor_divide(upper, size)
        return within(bounds, np.where(alike, down, 0), np.where(alike, up, size - 1), 0, size - 1)

    return Image(units.output, of)


def quotient(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """``div`` of integers, which cuts decimal places off."""
    units = _units(type_, arguments, "add")
    if units is None or kind_of(units.output) is not Kind.INTEGER or not units.literal:
        return None
    divisor = units.literal

    def edges(lower: Any, upper: Any) -> tuple[Any, Any]:
        ends = [(edge - np.fmod(edge, divisor)) // divisor for edge in (lower, upper)]
        return (ends[0], ends[1]) if divisor > 0 else (ends[1], ends[0])

    # the least number has no opposite
    first = units.room.first + (divisor == -1)
    wide = _Units(pa.int64(), units.room, 1, divisor)
    return _exact(wide, edges, first, units.room.last) if abs(divisor) <= GREATEST_LONG else None


def negative(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The value with the other sign."""
    if arguments:
        return None
    return _signed(type_, lambda lower, upper: (-upper, -lower))


def absolute(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The value without its sign."""
    if arguments:
        return None

    def edges(lower: Any, upper: Any) -> tuple[Any, Any]:
        return np.maximum(np.maximum(lower, -upper), 0), np.maximum(-lower, upper)

    return _signed(type_, edges)


def _signed(type_: pa.DataType, edges: _Edges) -> Image | None:
    if kind_of(type_) not in {Kind.INTEGER, Kind.DECIMAL} or not is_counted(type_):
        return _of_doubles(type_, edges)
    domain = domain_of(type_)
    return _exact(_Units(type_, domain, 1, 0), edges, max(domain.first, -domain.last), domain.last)


def cast(type_: pa.DataType, to: Any) -> Image | None:
    """A cast between numbers that no engine refuses, and that keeps their order."""
    kinds = kind_of(type_), kind_of(to)
    if pa.types.is_float64(to) and _exact_as_double(type_):
        scale = domain_of(type_).scale if kinds[0] is not Kind.FLOAT else 0

        def of(bounds: Bounds) -> Bounds:
            lower, upper = (edge / 10.0**scale if scale else edge.astype(np.float64) for edge in numbers(bounds))
            return Bounds(lower, upper, bounds.known)

        return Image(to, of)
    if not {*kinds} <= {Kind.INTEGER, Kind.DECIMAL} or not is_counted(type_) or not is_counted(to):
        return None
    own, wide = domain_of(type_), domain_of(to)
    factor = 10 ** max(wide.scale - own.scale, 0)
    if wide.scale < own.scale or own.last * factor > wide.last or own.first * factor < wide.first:
        return None
    return _exact(_Units(to, wide, factor, 0), lambda lower, upper: (lower, upper), wide.first, wide.last)


def _exact_as_double(type_: Any) -> bool:
    """Whether every engine makes the same double of a value: by one rounding."""
    kind = kind_of(type_)
    if kind is Kind.DECIMAL:
        return bool(type_.precision <= DOUBLE_DIGITS)
    return kind is Kind.FLOAT or (kind is Kind.INTEGER and is_counted(type_))
