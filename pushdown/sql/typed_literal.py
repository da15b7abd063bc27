"""Literals of Spark's SQL with the types that Spark gives them."""

from __future__ import annotations

import decimal
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pushdown.casts import can_cast, cast_values
from pushdown.kinds import Kind, kind_of
from pushdown.spark_types import CLOCK, INSTANT, MOST_DIGITS, Typed, literal_sql_type
from pushdown.sql.literal import NOT_A_LITERAL, literal_value

_Type = exp.DataType.Type
_TYPES: dict[Any, pa.DataType] = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIMESTAMP: INSTANT,
    _Type.TIMESTAMPTZ: INSTANT,
    _Type.TIMESTAMPLTZ: INSTANT,
    _Type.TIMESTAMPNTZ: CLOCK,
}
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})


def spark_type_of(node: Any) -> pa.DataType | None:
    """The type that a type name of Spark's SQL stands for; None for nested ones and those that are not known."""
    if node.this is not _Type.DECIMAL:
        return None if node.expressions else _TYPES.get(node.this)
    parameters = [literal_value(parameter.this) for parameter in node.expressions] or [10]
    if len(parameters) > 2 or not all(type(parameter) is int for parameter in parameters):
        return None
    precision, scale = [*parameters, 0][:2]
    return pa.decimal128(precision, scale) if 0 <= scale <= precision <= MOST_DIGITS and precision else None


def spark_literal(node: Any, *, suffixes: bool = False) -> Any:
    """The value of a literal, as `Typed` where a cast or a suffix gives it another type than the value's own.

    None for NULL, `NOT_A_LITERAL` for anything that is not one.

    Args:
        node: of sqlglot's tree, in which a suffix is a cast.
        suffixes: whether the text has no casts of its own, so that all are suffixes.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        return _negative(spark_literal(node.this, suffixes=suffixes))
    if not isinstance(node, exp.Cast):
        return literal_value(node)
    target = spark_type_of(node.to)
    value = spark_literal(node.this)
    if value is NOT_A_LITERAL or node.args.get("format") or target is None or node.args.get("safe"):
        return NOT_A_LITERAL if value is not None or target is None else None
    if value is None:
        return None
    plain = literal_value(node)
    if plain is not NOT_A_LITERAL and plain is not None and literal_sql_type(plain) == target:
        return plain
    made = _cast(value, target)
    whole = isinstance(made, Typed) and kind_of(made.type) is Kind.INTEGER
    return replace(made, written=suffixes) if whole else made


def _cast(value: Any, target: pa.DataType) -> Any:
    """A literal in another type; a text is read when the filter is bound, with the session's time zone."""
    source = literal_sql_type(value)
    plain = value.value if isinstance(value, Typed) else value
    if source == target or (isinstance(plain, str) and source == pa.string()):
        return plain if source == target == pa.string() else Typed(plain, target)
    if source is None or isinstance(plain, str) or kind_of(source) in _TIMES or kind_of(target) in _TIMES:
        return NOT_A_LITERAL
    if not can_cast(source, target):
        return NOT_A_LITERAL
    made, failed = cast_values(pa.array([plain], source), target, "UTC")
    if failed.any():
        # What Spark stops at is said when the filter is bound.
        return Typed(str(plain), target) if kind_of(source) is not Kind.FLOAT else NOT_A_LITERAL
    found = made[0].as_py()
    return found if literal_sql_type(found) == target else Typed(found, target)


def _negative(value: Any) -> Any:
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float | decimal.Decimal):
        return NOT_A_LITERAL
    negated = plain.copy_negate() if isinstance(plain, decimal.Decimal) else -plain
    return replace(value, value=negated) if isinstance(value, Typed) else negated
