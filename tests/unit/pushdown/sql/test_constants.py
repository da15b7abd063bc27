"""Constant expressions are folded where the engine's result is certain, and otherwise stay unknown."""

import decimal
import operator
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushdown import bind, parse_sql
from pushdown.expression import Unknown

COLUMNS = pa.schema(
    [
        ("i", pa.int64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("ms")),
        ("s", pa.string()),
        ("p", pa.decimal128(38, 30)),
        ("f", pa.float64()),
    ]
)


@pytest.mark.parametrize(
    ("dialect", "text", "same"),
    [
        ("trino", "i = 1999 + 1", "i = 2000"),
        ("hive", "i = (1999 + 1) * 2", "i = 4000"),
        ("presto", "i IN (1 + 1, -(2 * 3))", "i IN (2, -6)"),
        ("trino", "i BETWEEN 7 / 2 AND -7 / 2", "i BETWEEN 3 AND -3"),
        ("trino", "i = -7 % 3", "i = -1"),
        ("spark", "i = 7 div 2", "i = 3L"),
        ("trino", "i = CAST(1999 + 1 AS bigint)", "i = 2000"),
        ("trino", "i = 2147483648 + 1", "i = 2147483649"),
        ("trino", "p = 1.50 + 1", "p = 2.50"),
        ("trino", "f > 1e0 / 2e0", "f > 5e-1"),
        ("trino", "s = 'a' || 'b' || 'c'", "s = 'abc'"),
        ("trino", "s = CAST(1999 + 1 AS varchar)", "s = '2000'"),
        ("trino", "d > DATE '2000-01-01' + INTERVAL '30' DAY", "d > DATE '2000-01-31'"),
        ("trino", "d > DATE '2000-01-01' + INTERVAL '1' DAY * 30", "d > DATE '2000-01-31'"),
        ("spark", "d > DATE '2000-01-31' + INTERVAL '1' MONTH", "d > DATE '2000-02-29'"),
        ("trino", "d > date_add('month', 1, DATE '2000-01-31')", "d > DATE '2000-02-29'"),
        ("trino", "d > date_trunc('quarter', date('2000-05-17'))", "d > DATE '2000-04-01'"),
        ("trino", "d > date_trunc('week', DATE '2000-01-02')", "d > DATE '1999-12-27'"),
        ("spark", "d = to_date('2000-01-01')", "d = DATE '2000-01-01'"),
        ("trino", "t = CAST(DATE '2000-01-01' AS timestamp)", "t = TIMESTAMP '2000-01-01 00:00:00'"),
        ("trino", "d = CAST(TIMESTAMP '2000-01-01 23:59:59.9999' AS date)", "d = DATE '2000-01-01'"),
    ],
)
def test_constants_are_folded(dialect: str, text: str, same: str) -> None:
    assert bind(parse_sql(text, dialect), COLUMNS) == bind(parse_sql(same, dialect), COLUMNS)


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("trino", "i = 2147483647 + 1"),  # an error in Trino, and wraps in Hive
        ("hive", "i = 2147483647 + 1"),
        ("spark", "i = CAST(100 AS TINYINT) + CAST(100 AS TINYINT)"),
        ("spark", "i = -(-2147483648)"),
        ("spark", "i = - -9223372036854775808L"),
        ("hive", "i = -(-2147483648)"),
        ("trino", "i = 1 / 0"),
        ("trino", "i = 1 % 0"),
        ("spark", "i = 7 / 2"),  # 3.5
        ("hive", "i = 7 / 2"),
        ("trino", "p = 1.0 / 3"),  # rounded
        ("spark", "p = 1.5 * 2"),
        ("trino", "f = 1e300 * 1e300"),
        ("trino", "i = CAST(2.6 AS integer)"),  # 3 in Trino, 2 in Spark
        ("trino", "d = CAST(CAST('2000-01-01 23:59:59.9999' AS timestamp) AS date)"),  # rounds to the next day
        ("trino", "d = CAST(TIMESTAMP '2000-01-01 10:00:00 UTC' AS date)"),  # depends on the session's zone
        ("trino", "d > DATE '9999-12-31' + INTERVAL '1' DAY"),
        ("trino", "s = CAST(5 AS varchar(1))"),
    ],
)
def test_what_engines_do_differently_stays_unknown(dialect: str, text: str) -> None:
    assert isinstance(parse_sql(text, dialect), Unknown)


def test_an_expression_beside_a_decimal_counts_with_its_types_digits_in_spark() -> None:
    """Spark compares both rounded to 28 places there; beside the literal 2 it rounds nothing."""
    assert not isinstance(bind(parse_sql("p = 2"), COLUMNS), Unknown)
    assert isinstance(bind(parse_sql("p = 1 + 1"), COLUMNS), Unknown)


OPERATORS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
WHOLE = st.integers(-(2**31) + 1, 2**31 - 1)


@given(WHOLE, st.sampled_from([*OPERATORS, "/", "%"]), WHOLE)
def test_whole_numbers_in_trino(a: int, sign: str, b: int) -> None:
    folded = parse_sql(f"i = {a} {sign} ({b})", "trino")
    if sign in OPERATORS:
        value = OPERATORS[sign](a, b)
    elif b == 0:
        assert isinstance(folded, Unknown)
        return
    else:
        quotient = int(decimal.Decimal(a) / decimal.Decimal(b))
        value = quotient if sign == "/" else a - b * quotient
    if abs(value) >= 2**31:
        assert isinstance(folded, Unknown)
    else:
        assert folded == parse_sql(f"i = {value}", "trino")
