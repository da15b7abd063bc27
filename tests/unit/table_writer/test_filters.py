# ruff: noqa: DTZ001 - clock times without a zone are what is tested
import datetime as dt

import pytest
from pyspark.sql.types import StructType

from pushdown import ExpressionError
from spark_writer.filters import from_spark_column, from_spark_sql, is_ambiguous


def test_sql_text_is_sparks():
    assert from_spark_sql('a = "x" AND b <=> 3').to_sql() == "a = 'x' AND b <=> 3"


def test_columns_that_are_not_of_a_classic_session_are_refused():
    class Connect:
        pass

    with pytest.raises(ExpressionError, match="classic"):
        from_spark_column(Connect(), StructType([]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.datetime(2024, 10, 27, 2, 30), True),
        (dt.datetime(2024, 10, 27, 3, 30), False),
        (dt.datetime(2024, 10, 27, 2, 30, tzinfo=dt.UTC), False),
        (dt.date(2024, 10, 27), False),
    ],
)
def test_times_that_clocks_show_twice(value, expected):
    assert is_ambiguous(value, "Europe/Berlin") is expected
