"""Arrow types that compare alike, and their values as points of an ordered domain.

Integers, decimals of one scale, dates and timestamps are whole numbers of a unit, described by a `Domain`. Nothing lies
between two neighbours, so a literal there can be moved to either (``a < 1.5`` is ``a < 2``).
"""

from __future__ import annotations

import decimal
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


class Kind(enum.Enum):
    """Families of types that compare alike."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    STRING = "string"
    BINARY = "binary"
    OTHER = "other"


# Kinds whose Parquet statistics a writer leaves out when a value is long.
VARIABLE_WIDTH = frozenset({Kind.STRING, Kind.BINARY, Kind.OTHER})

LEAST_LONG, GREATEST_LONG = -(2**63), 2**63 - 1
DOUBLE_DIGITS = 15
"""Decimals of so many digits are all different as 64-bit floats, which every engine makes of them by one rounding."""

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def kind_of(type_: pa.DataType) -> Kind:  # noqa: PLR0911
    """The family of an Arrow type; OTHER is compared with nothing."""
    types: Any = pa.types
    if types.is_boolean(type_):
        return Kind.BOOLEAN
    if types.is_integer(type_):
        return Kind.INTEGER
    if types.is_float32(type_) or types.is_float64(type_):
        return Kind.FLOAT
    if types.is_decimal128(type_) and getattr(type_, "scale", -1) >= 0:
        return Kind.DECIMAL
    if types.is_date32(type_):
        return Kind.DATE
    if types.is_timestamp(type_):
        return Kind.TIMESTAMP
    if types.is_string(type_) or types.is_large_string(type_) or _is(type_, "is_string_view"):
        return Kind.STRING
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return Kind.BINARY
    if types.is_dictionary(type_):
        value_kind = kind_of(_value_type(type_))
        return value_kind if value_kind in {Kind.STRING, Kind.BINARY} else Kind.OTHER
    return Kind.OTHER


def literal_type(type_: pa.DataType) -> pa.DataType:
    """The type of bound literals for a column of this type."""
    kind = kind_of(type_)
    if kind is Kind.FLOAT:
        return pa.float64()
    if kind is Kind.STRING:
        return pa.string()
    if kind is Kind.BINARY:
        return pa.binary()
    return type_


def _value_type(type_: Any) -> pa.DataType:
    value: pa.DataType = type_.value_type
    return value


def _is(type_: pa.DataType, test: str) -> bool:
    check: Any = getattr(pa.types, test, None)
    return check is not None and bool(check(type_))


@dataclass(frozen=True)
class Domain:
    """The values of a type as whole numbers.

    Attributes:
        first: the least number.
        last: the greatest number.
        scale: a value is its number divided by ``10 ** scale`` (integers and decimals).
    """

    first: int
    last: int
    scale: int = 0


def domain_of(type_: pa.DataType) -> Domain:
    """The domain of an integer, decimal, date or timestamp type."""
    types: Any = pa.types
    described: Any = type_
    if types.is_decimal(type_):
        bound = 10**described.precision - 1
        return Domain(-bound, bound, described.scale)
    width = 32 if types.is_date32(type_) else described.bit_width
    if types.is_unsigned_integer(type_):
        return Domain(0, 2**width - 1)
    return Domain(-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def array_of(type_: pa.DataType, numbers: Sequence[int]) -> pa.Array[Any]:
    """Numbers of a domain as an Arrow array of its type."""
    kind = kind_of(type_)
    if kind is Kind.DECIMAL:
        scale = domain_of(type_).scale
        return pa.array([_decimal(number, scale) for number in numbers], type_)
    if kind is Kind.DATE:
        return pa.array(numbers, pa.int32()).cast(pa.date32())
    if kind is Kind.TIMESTAMP:
        return pa.array(numbers, pa.int64()).cast(type_)
    return pa.array(numbers, type_)


def _decimal(number: int, scale: int) -> decimal.Decimal:
    digits = tuple(int(digit) for digit in str(abs(number)))
    return decimal.Decimal((int(number < 0), digits, -scale))
