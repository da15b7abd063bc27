"""Spark's Columns as filters of our scans: the same rows as Spark selects, or at least the files that hold them."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from catalog import Table
from pushdown import InexactFilterError
from pushdown.walk import reasons_of
from spark_writer import write_hudi
from spark_writer.filters import from_spark_column

pytestmark = [pytest.mark.spark]
SCHEMA = "id string, n int, x double, f float, dec decimal(9,2), day date, at timestamp, name string, st struct<a:int>"
OPTIONS = {
    "hoodie.table.name": "columns",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.datasource.write.operation": "bulk_insert",
}


def understood() -> list[Column]:
    return [
        F.col("n") > 12,
        (F.col("n") >= 3) & (F.col("x") < 8.5),
        (F.col("n") < 3) | F.col("name").isNull(),
        ~(F.col("n") == 7),
        F.col("n").isin(1, 2, 3, 400),
        ~F.col("name").isin("ab1", "ab2"),
        F.col("name").startswith("ab1"),
        F.col("name").like("ab_"),
        F.col("n").between(4, 9),
        F.col("n").eqNullSafe(None),
        F.col("n") > 2.5,
        F.col("dec") == Decimal("3.50"),
        F.col("dec") < 4,
        F.col("f") == 1.1,
        F.col("x") > 18,
        F.col("day") >= dt.date(2024, 2, 1),
        F.col("day") == "2024-01-05",
        F.year("day") == 2024,
        F.trunc("day", "month") == dt.date(2024, 2, 1),
        F.col("at") > dt.datetime(2024, 1, 2, 12, tzinfo=dt.UTC),
        F.to_date("at") == dt.date(2024, 1, 3),
        F.substring("name", 1, 2) == "ab",
        F.col("st.a") == 5,
        F.lit(True),
        F.expr("n IN (1, NULL)"),
        F.col("name").contains("b1"),
        F.col("name").endswith("3"),
    ]


def for_plans_only() -> list[Column]:
    return [
        F.lower("name") == "ab1",
        F.isnan("x") | (F.col("x") > 18),
        (F.col("n") % 7 == 3) & (F.col("n") < 12),
        (F.length("name") > 3) | (F.col("n") == 4),
        F.hour("at") == 7,
        F.month("day") == 2,
    ]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    data = [
        (
            f"k{n:02d}",
            n if n % 9 else None,
            float("nan") if n == 11 else n / 2,
            1.1 if n % 3 else -0.0,
            Decimal(n) / 2,
            dt.date(2024, 1, 1) + dt.timedelta(days=3 * n),
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=7 * n),
            f"ab{n}" if n % 5 else None,
            (n,) if n % 4 else None,
        )
        for n in range(40)
    ]
    return spark.createDataFrame(data, SCHEMA)


@pytest.fixture(scope="module")
def table(rows: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Table:
    path: Path = tmp_path_factory.mktemp("columns") / "t"
    write_hudi(rows, str(path), OPTIONS, mode="append")
    return Table.open(str(path))


def selected(rows: DataFrame, column: Column) -> list[str]:
    return sorted(row.id for row in rows.where(column).collect())


def test_columns_select_the_same_rows(rows: DataFrame, table: Table) -> None:
    for column in understood():
        expression = from_spark_column(column, rows)
        assert not reasons_of(expression), column
        assert sorted(table.scan(expression).to_arrow()["id"].to_pylist()) == selected(rows, column), column


def test_what_rows_are_not_selected_by_keeps_their_files(rows: DataFrame, table: Table) -> None:
    names = table.scan(columns=["id", "_hoodie_file_name"]).to_arrow().to_pydict()
    files = dict(zip(names["id"], names["_hoodie_file_name"], strict=True))
    for column in for_plans_only():
        expression = from_spark_column(column, rows)
        with pytest.raises(InexactFilterError):
            table.scan(expression).to_arrow()
        planned = {split.file_name for split in table.scan(expression).plan().splits}
        assert {files[key] for key in selected(rows, column)} <= planned, column


def test_a_function_of_the_user_is_not_one_of_its_name(rows: DataFrame, table: Table) -> None:
    year = F.udf(_of_1999, "int", useArrow=False)
    expression = from_spark_column((year("day") == 1999) & (F.col("n") < 100), rows)
    assert reasons_of(expression)
    assert len(table.scan(expression).plan().splits) == len(table.scan().plan().splits)


def _of_1999(_: object) -> int:
    return 1999


_of_1999.__name__ = "year"
