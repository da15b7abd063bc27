"""The type in which Spark compares a column with literals (PySpark 4, ANSI mode).

The rules are those of Spark's ``AnsiTypeCoercion`` and ``DecimalPrecision``. They decide what a comparison means:
beside a literal with many digits a decimal column is rounded, a text beside a number is read as a number.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.kinds import Kind, kind_of

SPARK = "spark"
"""`Predicate.rules` of predicates that follow these rules."""

INSTANT = pa.timestamp("us", "UTC")
CLOCK = pa.timestamp("us")
MOST_DIGITS = 38
WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
"""Spark's types of integers, the narrowest first."""

LIST_SIZE = 10
"""Longer lists are sets to Spark (`spark.sql.optimizer.inSetConversionThreshold`), which treat NaN in another way."""

# Of quotients of decimals; digits that a 64-bit integer always has.
_LEAST_SCALE, _LONG_DIGITS = 6, 18
_LONGEST = {8: 3, 16: 5, 32: 10, 64: 20}
# The least integer to which a greater one is equal as a 32-bit float.
_FIRST_INEXACT_SINGLE = 2**24
_FLOATS = frozenset({pa.float32(), pa.float64()})


@dataclass(frozen=True)
class Typed:
    """A literal whose type is not the default one of its value: ``5L``, ``CAST(1.5 AS DECIMAL(38, 6))``.

    Attributes:
        value: a value of the type, or a text that is read as one when the filter is bound.
        type: its type in Spark.
        written: whether it is written as a literal of that type (``5L``), not as a cast.
    """

    value: Any
    type: pa.DataType
    written: bool = False


def exact_as_single(kind: Kind, numbers: Iterable[Any]) -> bool:
    """Whether values of a kind compare with numbers as 32-bit floats as they do exactly.

    Beside such a float Spark without ANSI mode, Trino and Hive cast an integer to one, and some of them a decimal.
    """
    if kind is Kind.INTEGER:
        return all(abs(number) < _FIRST_INEXACT_SINGLE for number in numbers)
    return kind is not Kind.DECIMAL


def spark_type(type_: Any) -> pa.DataType | None:
    """The type that Spark reads a column of this Arrow type as; None for what Spark doesn't compare with literals."""
    kind = kind_of(type_)
    if kind is Kind.STRING:
        return pa.string()
    if kind is Kind.BINARY:
        return pa.binary()
    if kind is Kind.TIMESTAMP:
        # Spark has no nanoseconds.
        return None if type_.unit == "ns" else CLOCK if type_.tz is None else INSTANT
    if kind is Kind.INTEGER:
        return type_ if type_ in WHOLE else None
    return None if kind is Kind.OTHER else type_


def literal_sql_type(value: Any) -> pa.DataType | None:  # noqa: PLR0911 - one line a type
    """The type of a literal in Spark's parser; None if it has none."""
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return _type_of_whole(value)
    if isinstance(value, decimal.Decimal):
        return decimal_of(value)
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, bytes):
        return pa.binary()
    if isinstance(value, dt.datetime):
        return INSTANT
    return pa.date32() if isinstance(value, dt.date) else None


def _type_of_whole(value: int) -> pa.DataType | None:
    for type_, bits in ((pa.int32(), 31), (pa.int64(), 63)):
        if -(2**bits) <= value < 2**bits:
            return type_
    digits = len(str(abs(value)))
    return pa.decimal128(digits, 0) if digits <= MOST_DIGITS else None


def decimal_of(value: decimal.Decimal) -> pa.DataType | None:
    """The decimal type with exactly the digits of a number; None if Spark has no such type."""
    digits = value.as_tuple()
    if not isinstance(digits.exponent, int) or digits.exponent > 0:
        return None
    scale = -digits.exponent
    precision = max(len(digits.digits), scale)
    return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else None


def decimal_for(type_: Any) -> pa.DataType:
    """The decimal type that holds all numbers of an integer type; a decimal type itself."""
    return type_ if pa.types.is_decimal(type_) else pa.decimal128(_LONGEST[type_.bit_width], 0)


def wider_decimal(a: Any, b: Any) -> pa.DataType:
    """The decimal type in which two are compared; it loses decimal places where 38 digits are too few."""
    scale, whole = max(a.scale, b.scale), max(a.precision - a.scale, b.precision - b.scale)
    excess = max(0, whole + scale - MOST_DIGITS)
    return pa.decimal128(whole + scale - excess, max(0, scale - excess))


def decimal_type(precision: int, scale: int) -> pa.DataType | None:
    """A decimal type; None if Spark has none of so many digits."""
    return pa.decimal128(precision, scale) if 0 < precision <= MOST_DIGITS else None


def lossless_decimal(types: Iterable[Any]) -> pa.DataType | None:
    """The decimal type that holds all numbers of some decimal types; None if it needs more than 38 digits."""
    known = list(types)
    scale, whole = max(one.scale for one in known), max(one.precision - one.scale for one in known)
    return decimal_type(whole + scale, scale)


def decimal_result(name: str, left: Any, right: Any) -> pa.DataType | None:
    """The type of an operation on decimals, by the operation's name in `pushdown.computation`.

    None for those that are not computed, and where Spark would round the result for more than 38 digits.
    """
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    if name in {"add", "subtract"}:
        return decimal_type(max(whole_left, whole_right) + scale + 1, scale)
    if name == "multiply":
        return decimal_type(left.precision + right.precision + 1, left.scale + right.scale)
    if name == "mod":
        return decimal_type(min(whole_left, whole_right) + scale, scale)
    if name == "divide":
        scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
        return decimal_type(whole_left + right.scale + scale, scale)
    return pa.int64() if name == "div" and whole_left + right.scale <= _LONG_DIGITS else None


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:  # noqa: PLR0911 - one line a rule
    """The type to which Spark casts values of two types to compare them; None if it refuses to."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_string(a) or pa.types.is_string(b):
        return _beside_text(b if pa.types.is_string(a) else a)
    kinds = {kind_of(a), kind_of(b)}
    if kinds <= {Kind.DATE, Kind.TIMESTAMP}:
        return INSTANT if INSTANT in {a, b} else CLOCK
    if not kinds <= {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL}:
        return None
    if Kind.FLOAT in kinds:
        return pa.float64()
    if Kind.DECIMAL in kinds:
        return wider_decimal(decimal_for(a), decimal_for(b))
    return max(a, b, key=WHOLE.index)


def _beside_text(type_: pa.DataType) -> pa.DataType:
    if type_ in WHOLE:
        return pa.int64()
    return pa.float64() if type_ in _FLOATS or pa.types.is_decimal(type_) else type_


def common_type_of(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type of a column and the members of a list, joined from left to right as Spark does."""
    joined: pa.DataType | None = pa.null()
    for type_ in types:
        joined = None if joined is None else common_type(joined, type_)
    return joined
