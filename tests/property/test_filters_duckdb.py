"""Rows as DuckDB selects them: it too is three-valued, sorts NaN above all numbers and finds it equal to itself."""

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given

from pushdown import And, Constant, HudiExpression, Not, Op, Or, bind, matches
from tests.property.filters import COLUMNS, SCHEMA, questions

_SPELLED = {Op.NULL_SAFE_EQ: "IS NOT DISTINCT FROM", Op.NULL_SAFE_NE: "IS DISTINCT FROM"}


def duck_literal(value: Any, *, double: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) or (double and isinstance(value, int | Decimal)):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    if isinstance(value, int | Decimal):
        assume(abs(value) < 10**34)
        return f"CAST('{value}' AS DECIMAL(38, 3))"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    return "'" + value.replace("'", "''") + "'"


def duck_sql(node: HudiExpression) -> str:
    if isinstance(node, And | Or):
        word, empty = (" AND ", "TRUE") if isinstance(node, And) else (" OR ", "FALSE")
        return "(" + word.join(duck_sql(child) for child in node.children) + ")" if node.children else empty
    if isinstance(node, Not):
        return f"(NOT {duck_sql(node.child)})"
    if isinstance(node, Constant):
        return f"CAST({duck_literal(node.value, double=False)} AS BOOLEAN)"
    predicate: Any = node
    name, op = f'"{predicate.column}"', predicate.op
    kind = COLUMNS[predicate.column][0]
    # Doubles make the comparison one of doubles.
    double = pa.types.is_floating(kind) or any(isinstance(value, float) for value in predicate.values)
    column = f"CAST({name} AS DOUBLE)" if double else name
    values = [duck_literal(value, double=double) for value in predicate.values]
    if op in {Op.IS_NULL, Op.NOT_NULL}:
        return f"({name} {op.value})"
    if op in {Op.IN, Op.NOT_IN}:
        return f"({column} {op.value} ({', '.join(values)}))"
    if op in {Op.LIKE, Op.NOT_LIKE}:
        return f"({column} {op.value} {values[0]} ESCAPE '\\')"
    if op in {Op.STARTS_WITH, Op.NOT_STARTS_WITH}:
        return f"({'NOT ' if op is Op.NOT_STARTS_WITH else ''}starts_with({column}, {values[0]}))"
    return f"({column} {_SPELLED.get(op, op.value)} {values[0]})"


@pytest.fixture(scope="module")
def duck() -> Any:
    with duckdb.connect() as connection:
        yield connection


@given(questions())
def test_rows_are_those_of_duckdb(duck: Any, question: tuple[pa.Table, HudiExpression]) -> None:
    table, expression = question
    assume("wide" not in table.column_names)  # 38 digits do not fit beside the literals' own
    bound = bind(expression, SCHEMA)
    assume("unknown(" not in bound.to_sql())
    sql = duck_sql(expression)
    rows = table
    if "at" in table.column_names:
        at = table.schema.get_field_index("at")
        rows = table.set_column(at, "at", table.column("at").cast(pa.timestamp("us")))
    rows = rows.append_column("row", pa.array(range(table.num_rows)))
    answers = duck.execute(f"SELECT {sql} FROM rows ORDER BY row").fetchall()
    assert matches(bound, table).to_pylist() == [answer for (answer,) in answers]
