"""A filter as Trino applies it to the rows that its Hive connector reads, bound to a Hudi table's columns.

What comes out is true wherever Trino's filter may be true, and false only where Trino's is surely not: what a session
or a setting of the connector decides is `Unknown` in the range where it matters.
"""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hudi_catalog.gateway.rounding import Slack, rounded
from pushdown.bind import bind
from pushdown.columns import resolve_column
from pushdown.errors import ExpressionError
from pushdown.expression import HudiExpression, Op, Predicate, Unknown
from pushdown.kinds import Kind, kind_of
from pushdown.walk import fold, rebuilt

# Decimals of so many digits become doubles by one rounding, and literals of so many are told apart as doubles.
_EXACT_DIGITS = 15
_NULL_TESTS = frozenset({Op.IS_NULL, Op.NOT_NULL})
_COMPARED = frozenset(
    {Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.STRING, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP}
)


def as_trino_filters(expression: HudiExpression, schema: pa.Schema) -> HudiExpression:
    """Bind a filter of a query to a table's columns.

    Args:
        expression: as `pushdown.sql` reads it from Trino's SQL, not bound.
        schema: the table's columns, with Hudi's types.

    Returns:
        A filter bound to the schema. Nothing is raised: what Trino would refuse is unknown.
    """
    seen = seen_schema(schema)

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        return _leaf(node, schema, seen) if isinstance(node, Predicate) else node

    return fold(expression, visit)


def seen_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as the Hive connector shows them: instants are the clock times of UTC, without a zone."""
    return pa.schema([field.with_type(_seen_type(field.type)) for field in schema])


def _seen_type(type_: Any) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit)
    if pa.types.is_struct(type_):
        return pa.struct([member.with_type(_seen_type(member.type)) for member in type_])
    plain: pa.DataType = type_
    return plain


def _leaf(predicate: Predicate, schema: pa.Schema, seen: pa.Schema) -> HudiExpression:
    try:
        column = resolve_column(predicate.column, seen)
        doubt = _doubt(predicate, column.type)
        if doubt:
            return Unknown(f"{predicate.column}: {doubt}")
        slack = _slack(predicate, column.type)
        if slack is not Slack.NONE and predicate.function is not None:
            return Unknown(f"{predicate.function.name} of {column.name} is compared with a time that is rounded")
        bound = bind(predicate if slack is Slack.NONE else _on_units(predicate, column.type), seen)
        stored = resolve_column(column.name, schema, case_sensitive=True).type
    except (ExpressionError, OverflowError) as error:
        return Unknown(str(error))

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if not isinstance(node, Predicate):
            return node
        return fold(rounded(node, slack), lambda part, parts: rebuilt(part, parts) if parts else _stored(part, stored))

    return fold(bound, visit)


def _doubt(predicate: Predicate, column_type: pa.DataType) -> str:
    """Why a comparison is not followed; empty if it is."""
    if predicate.op in _NULL_TESTS:
        return ""
    kind = kind_of(column_type)
    if kind not in _COMPARED:
        return f"values of type {column_type} are not compared"
    described: Any = column_type
    types = {type(value) for value in predicate.values}
    if kind is Kind.DECIMAL and float in types and described.precision > _EXACT_DIGITS:
        return "decimals of so many digits are rounded twice on their way to double"
    if kind is Kind.FLOAT and any(_has_many_digits(value) for value in predicate.values):
        return "a decimal literal of so many digits is rounded twice on its way to double"
    if str in types and kind not in {Kind.STRING, Kind.BINARY}:
        return "Trino compares no texts with such a column"
    return ""


def _has_many_digits(value: Any) -> bool:
    return isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) > _EXACT_DIGITS


def _slack(predicate: Predicate, column_type: pa.DataType) -> Slack:
    """How far the literals may be from what Trino compares with."""
    kind = kind_of(column_type)
    if kind not in {Kind.DATE, Kind.TIMESTAMP} or predicate.op in _NULL_TESTS:
        return Slack.NONE
    times = [value for value in predicate.values if isinstance(value, dt.datetime)]
    if any(time.tzinfo is not None for time in times):
        return Slack.ZONE
    if any(time.microsecond % 1000 for time in times):
        return Slack.MILLISECOND
    return Slack.NONE


def _on_units(predicate: Predicate, column_type: Any) -> Predicate:
    """The predicate with its times moved down to values that the column can hold, and none with a zone.

    A literal between two values would be equal to none, but what it is rounded to may be.
    """
    whole = kind_of(column_type) is Kind.DATE

    def moved(value: Any) -> Any:
        if not isinstance(value, dt.datetime):
            return value
        clock = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        if whole:
            return clock.date()
        return clock.replace(microsecond=0 if column_type.unit == "s" else clock.microsecond // 1000 * 1000)

    return replace(predicate, values=tuple(map(moved, predicate.values)))


def _stored(node: HudiExpression, stored: pa.DataType) -> HudiExpression:
    """The same predicate on the column's own type, which differs in the time zone alone."""
    if not isinstance(node, Predicate) or node.column_type == stored:
        return node
    values: Any = node.values
    if pa.types.is_timestamp(stored) and len(values):
        values = values.view(stored)
    return Predicate(node.op, node.column, values, stored)
