"""Rows as DuckDB selects them: it too is three-valued, sorts NaN above all numbers and finds it equal to itself."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given

from pushdown import HudiExpression, bind, matches
from tests.property.duckdb_sql import OtherMeaningError, duck_sql
from tests.property.filters import COLUMNS, SCHEMA, questions

KINDS = {name: kind for name, (kind, _) in COLUMNS.items()}


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
    try:
        sql = duck_sql(expression, KINDS)
    except OtherMeaningError:
        assume(False)
    duck.register("numbered", table.append_column("row", pa.array(range(table.num_rows))))
    answers = duck.execute(f"SELECT {sql} FROM numbered ORDER BY row").fetchall()
    assert matches(bound, table).to_pylist() == [answer for (answer,) in answers]
