"""Whole tables as DuckDB reads and filters their files: a plan's rows are the same."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from catalog import Table
from pushdown import HudiExpression
from pushdown.errors import ExpressionError, InexactFilterError
from tests.property.duckdb_sql import OtherMeaningError, duck_sql
from tests.property.profile import examples
from tests.property.table_filters import Filters
from tests.property.whole_tables import ROW, TablePlan, table_plans
from tests.support.lost_rows import FullScan

# DuckDB joins files of different types otherwise, and reads 38 digits beside the literals' own not at all.
FAMILIES = ("bool", "int", "long", "float", "double", "dec10_2", "dec18", "string", "binary", "date", "timestamp")


@pytest.fixture(scope="module")
def duck() -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB 2.0 itself leaves row groups out by statistics that do not tell of NaN, and loses rows so
        connection.execute("SET disabled_optimizers = 'filter_pushdown,statistics_propagation'")
        yield connection


def rows_by_duckdb(duck: Any, table: Table, condition: HudiExpression) -> list[int]:
    names: list[Any] = table.snapshot().files["path"].to_pylist()
    paths = [table.client.storage.full_uri(name).removeprefix("file:") for name in names]
    kinds = {field.name: field.type for field in table.schema}
    sql = duck_sql(condition, kinds)
    rows = duck.execute(
        f"SELECT {ROW} FROM read_parquet($paths, union_by_name = true, hive_partitioning = false) WHERE {sql}",
        {"paths": paths},
    )
    return sorted(row for (row,) in rows.fetchall())


@examples(12)
@given(table_plans(families=FAMILIES, most_commits=3), st.data())
def test_rows_are_those_of_duckdb(duck: Any, plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        table = written.open()
        full = FullScan.of(table)
        if not full.rows.num_rows:
            return
        trees = Filters(full.rows, mixed=False).trees()
        for condition in data.draw(st.lists(trees, min_size=10, max_size=10), label="filters"):
            note(repr(condition))
            try:
                expected = rows_by_duckdb(duck, table, condition)
                read = table.scan(condition, [ROW]).to_arrow()
            except (OtherMeaningError, InexactFilterError, ExpressionError):
                continue
            except duckdb.ConversionException:  # of a date beyond its timestamps, compared with one
                continue
            rows: list[Any] = read[ROW].to_pylist()
            assert sorted(rows) == expected
