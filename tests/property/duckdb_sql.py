"""Filters as DuckDB's SQL. It too is three-valued, sorts NaN above all numbers and finds it equal to itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pushdown import And, Constant, HudiExpression, Not, Op, Or

_SPELLED = {Op.NULL_SAFE_EQ: "IS NOT DISTINCT FROM", Op.NULL_SAFE_NE: "IS DISTINCT FROM"}


class OtherMeaningError(Exception):
    """DuckDB compares these otherwise, or not at all."""


def duck_literal(value: Any, *, double: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) or (double and isinstance(value, int | Decimal)):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    if isinstance(value, int | Decimal):
        number: Any = value
        if abs(number) >= 10**34 or (isinstance(value, Decimal) and value != round(value, 3)):
            raise OtherMeaningError
        return f"CAST('{value}' AS DECIMAL(38, 3))"
    if isinstance(value, dt.datetime):
        zone = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"{zone} '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if "\x00" in value:
        raise OtherMeaningError
    text: str = value
    return "'" + text.replace("'", "''") + "'"


def duck_sql(node: HudiExpression, kinds: Mapping[str, pa.DataType]) -> str:
    """A filter that is not bound, over columns of these types.

    Raises:
        OtherMeaningError: it has a part that DuckDB takes otherwise.
    """
    if isinstance(node, And | Or):
        word, empty = (" AND ", "TRUE") if isinstance(node, And) else (" OR ", "FALSE")
        return "(" + word.join(duck_sql(child, kinds) for child in node.children) + ")" if node.children else empty
    if isinstance(node, Not):
        return f"(NOT {duck_sql(node.child, kinds)})"
    if isinstance(node, Constant):
        return f"CAST({duck_literal(node.value, double=False)} AS BOOLEAN)"
    return _predicate(node, kinds)


def _predicate(predicate: Any, kinds: Mapping[str, pa.DataType]) -> str:
    name, op = ".".join(f'"{part}"' for part in predicate.column.split(".")), predicate.op
    if op in {Op.IS_NULL, Op.NOT_NULL}:
        return f"({name} {op.value})"
    kind = kinds[predicate.column]
    # Doubles make the comparison one of doubles.
    double = pa.types.is_floating(kind) or any(isinstance(value, float) for value in predicate.values)
    column = f"CAST({name} AS DOUBLE)" if double else name
    values = [duck_literal(value, double=double) for value in predicate.values]
    if op in {Op.IN, Op.NOT_IN}:
        return f"({column} {op.value} ({', '.join(values)}))"
    if op in {Op.LIKE, Op.NOT_LIKE}:
        return f"({column} {op.value} {values[0]} ESCAPE '\\')"
    if op in {Op.STARTS_WITH, Op.NOT_STARTS_WITH}:
        return f"({'NOT ' if op is Op.NOT_STARTS_WITH else ''}starts_with({column}, {values[0]}))"
    return f"({column} {_SPELLED.get(op, op.value)} {values[0]})"
