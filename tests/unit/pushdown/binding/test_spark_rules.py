"""Comparisons as Spark makes them: its casts, applied to the column if statistics can decide, else to rows."""

from decimal import Decimal

import pyarrow as pa
import pytest

from pushdown import (
    ColumnStatistics,
    InexactFilterError,
    Op,
    bind,
    col,
    evaluate,
    matches,
    parse_sql,
    reasons_of,
    simplify,
)
from pushdown.errors import RowCastError
from pushdown.expression import Predicate, RowTest
from pushdown.translators import to_arrow_expression

SCHEMA = pa.schema(
    {
        "b": pa.bool_(),
        "i": pa.int32(),
        "l": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "dec": pa.decimal128(10, 3),
        "wide": pa.decimal128(38, 6),
        "s": pa.string(),
        "bin": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "clock": pa.timestamp("us"),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a decimal beside a literal that leaves it fewer decimal places: Spark rounds both
        ("wide = 1.0000001", "wide = 1.000000"),
        (
            "dec IN (1.5, 12345678901234567890123456789012345678)",
            "(dec IS NULL AND NULL) OR (dec >= 1.500 AND dec <= 2.499)",
        ),
        ("dec < 99999999999999999999999999999999999999", "dec IS NOT NULL OR NULL"),
        ("dec >= 1.4999", "dec >= 1.500"),
        ("CAST(dec AS DECIMAL(10, 1)) = 1.5", "dec >= 1.450 AND dec <= 1.549"),
        ("CAST(dec AS DECIMAL(10, 1)) = 0", "dec >= -0.049 AND dec <= 0.049"),
        ("CAST(dec AS DECIMAL(10, 1)) = -0.1", "dec >= -0.149 AND dec <= -0.050"),
        # an integer beside decimals
        ("i < 1.5", "i < 2"),
        ("l = 1.0000000000000000000000000000000000001", "l = 1"),
        ("i = 9223372036854775808", "i IS NULL AND NULL"),
        ("i IN (9223372036854775808, 1)", "i = 1"),
        # texts beside numbers: integers are read as integers, all other numbers as doubles
        ("i = ' 7 '", "i = 7"),
        ("i IN ('1', 2)", "i IN (1, 2)"),
        ("f = '1.1'", "f = 1.1e0"),
        ("f BETWEEN '1.1' AND '2'", "f >= 1.1e0 AND f <= 2.0e0"),
        ("dec = '1.5'", "dec = 1.500"),
        ("day IN ('2020-01-01')", "day = DATE '2020-01-01'"),
        ("l = cast('NaN' as double)", "l IS NULL AND NULL"),
        ("l < cast('NaN' as double)", "l IS NOT NULL OR NULL"),
        ("s = 5", "CAST(s AS BIGINT) = 5"),
        ("s <> 5L", "CAST(s AS BIGINT) <> 5"),
        ("s IN (1, 2.5)", "CAST(s AS DECIMAL(21, 1)) IN (1.0, 2.5)"),
        ("s IN ('1', 2.5)", "CAST(s AS DOUBLE) IN (1.0e0, 2.5e0)"),
        ("s < DATE '2020-01-01'", "CAST(s AS DATE) < DATE '2020-01-01'"),
        ("s = X'61'", "s = 'a'"),
        ("b = 'yes'", "b = TRUE"),
        ("day = '2020-2'", "day = DATE '2020-02-01'"),
        ("at = '2020-01-01 00:00:00.1234567'", "at = TIMESTAMP '2020-01-01 00:00:00.123456+00:00'"),
        (
            "at IN (TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-1-1 1:2:3.1234567')",
            "at IN (TIMESTAMP '2020-01-01 00:00:00+00:00', TIMESTAMP '2020-01-01 01:02:03.123456+00:00')",
        ),
        ("clock >= TIMESTAMP '2020-01-01 00:00:00'", "clock >= TIMESTAMP '2020-01-01 00:00:00'"),
        ("i LIKE '1%'", "CAST(i AS STRING) LIKE '1%'"),
        ("CAST(s AS INT) IS NULL", "CAST(s AS INT) IS NULL"),
        ("TRY_CAST(s AS INT) <=> NULL", "TRY_CAST(s AS INT) IS NULL"),
        ("CAST(CAST(i AS FLOAT) AS DOUBLE) = 16777217", "CAST(CAST(i AS FLOAT) AS DOUBLE) = 16777217.0e0"),
        ("CAST(l AS FLOAT) = 1e0", "l = 1"),
    ],
)
def test_what_a_comparison_becomes(text: str, expected: str) -> None:
    bound = bind(parse_sql(text), SCHEMA)
    assert bound.to_sql() == expected
    assert bind(parse_sql(bound.to_sql()), SCHEMA).to_sql() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dec = '1.5555'", "CAST(dec AS DOUBLE) = 1.5555e0"),
        ("dec IN ('1.5')", "CAST(dec AS DOUBLE) IN (1.5e0)"),
        ("day IN ('2020-1-1')", "CAST(day AS DATE) IN (DATE '2020-01-01')"),
        ("i <=> '2147483648'", "CAST(i AS BIGINT) <=> 2147483648"),
        ("i IN ('01', 2.5)", "CAST(i AS DECIMAL(21, 1)) IN (1.0, 2.5)"),
        ("i IN ('1', 2.0)", "CAST(i AS DECIMAL(21, 1)) IN (1.0, 2.0)"),
    ],
)
def test_no_plan_rests_on_texts_that_spark_reads_otherwise_without_ansi_mode(text: str, expected: str) -> None:
    bound = bind(parse_sql(text), SCHEMA)
    assert isinstance(bound, RowTest)
    assert bound.to_sql() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("b = 1", "Spark does not compare b of type BOOLEAN with 1"),
        ("i = 'x'", "'x' is not: Spark stops at it"),
        ("i = '1.5'", "compared as BIGINT"),
        ("s IN (1, 'x')", "compared as BIGINT"),
        ("day = '2020-02-30'", "compared as DATE"),
        ("day = DATE '2020-02-30'", "compared as DATE"),
        ("d LIKE '1%'", "compare it as a number"),
        ("CAST(d AS STRING) = '1.5'", "compare it as a number"),
        ("CAST(d AS TIMESTAMP) = '2020'", "left to Spark; compare the column itself"),
    ],
)
def test_reasons_say_what_to_do(text: str, reason: str) -> None:
    (unknown,) = reasons_of(bind(parse_sql(text), SCHEMA))
    assert reason in unknown
    with pytest.raises(InexactFilterError, match="take this part out"):
        matches(parse_sql(text), SCHEMA.empty_table())


def test_other_dialects_have_no_casts_of_sparks() -> None:
    for dialect in ("hive", "trino", "presto"):
        for text in ("s = 5", "f = '1.1'", "dec < 1.1234567890123456789012345678901234567", "i IN ('1', 2)"):
            assert reasons_of(bind(parse_sql(text, dialect), SCHEMA)), (dialect, text)
    assert not reasons_of(bind(col("s") == 5, SCHEMA))


def _texts(*values: str | None) -> pa.Table:
    return pa.table({"s": pa.array(values, pa.string()), "i": pa.array(range(len(values)), pa.int32())})


def test_rows_are_cast() -> None:
    rows = _texts("5", " 05\t", None, "6", "-5")
    assert matches(parse_sql("s = 5"), rows).to_pylist() == [True, True, None, False, False]
    assert matches(parse_sql("s <=> 5"), rows).to_pylist() == [True, True, False, False, False]
    assert matches(parse_sql("NOT (s > 5L)"), rows).to_pylist() == [True, True, None, False, True]
    assert matches(parse_sql("s NOT IN (6, NULL)"), rows).to_pylist() == [None, None, None, False, None]


def test_a_value_that_cannot_be_cast_stops_the_rows_that_hang_on_it() -> None:
    rows = _texts("5", "five", None)
    with pytest.raises(RowCastError, match=r"column s holds 'five'.*TRY_CAST\(s AS"):
        matches(parse_sql("s = 5"), rows)
    assert matches(parse_sql("TRY_CAST(s AS INT) = 5"), rows).to_pylist() == [True, None, None]
    assert matches(parse_sql("i = 0 AND s = 5"), rows).to_pylist() == [True, False, False]
    assert matches(parse_sql("NOT (s = 5 AND i <> 1)"), rows).to_pylist() == [False, True, None]
    assert matches(parse_sql("s = 5 OR i = 1"), rows).to_pylist() == [True, True, None]
    assert matches(parse_sql("(s = 5 OR i = 1) AND TRUE"), rows).to_pylist() == [True, True, None]


def test_days_beyond_the_range_of_timestamps_cannot_be_cast() -> None:
    text = "d IN (TIMESTAMP '2020-01-01 12:00:00', '2021-01-01')"
    days = pa.array([18_262, 2**31 - 1], pa.int32()).cast(pa.date32())
    known = pa.table({"d": days, "i": [0, 1]})
    with pytest.raises(RowCastError, match="column d holds"):
        matches(parse_sql(text), known)
    assert matches(parse_sql(f"i = 0 AND {text}"), known).to_pylist()[1] is False


def test_statistics_say_nothing_of_casts_and_are_not_asked() -> None:
    bound = simplify(bind(parse_sql("NOT (s = 5 OR i < 9223372036854775808)"), SCHEMA))
    tests = [part for part in bound.children if isinstance(part, RowTest)]
    assert [test.op for test in tests] == [Op.NE, Op.GE]
    outcomes = evaluate(bound, {}, 3)
    assert outcomes.can_true.all()
    assert outcomes.can_null.all()


def test_a_function_beyond_all_integers_prunes_nothing_and_is_null_for_null() -> None:
    rows = pa.table({"day": pa.array([0, None], pa.date32())})
    for text in ("year(day) < 9223372036854775808", "NOT (year(day) > 9223372036854775807.5)"):
        bound = bind(parse_sql(text), rows.schema)
        assert matches(bound, rows).to_pylist() == [True, None]
        assert evaluate(bound, {}, 1).can_true.all()


def test_nan_is_not_among_more_than_ten_numbers_and_null() -> None:
    nan = float("nan")
    rows = pa.table({"d": pa.array([nan, 1.0, 99.0, None]), "s": pa.array(["nan", "1", "99", None])})
    ten = ", ".join(f"{number}e0" for number in range(10))
    for name in ("d", "s"):
        assert matches(parse_sql(f"{name} IN ({ten}, NULL)"), rows).to_pylist() == [False, True, None, None]
        assert matches(parse_sql(f"{name} NOT IN ({ten}, NULL)"), rows).to_pylist() == [True, False, None, None]
        assert matches(parse_sql(f"{name} IN ({ten[:-5]}, NULL)"), rows).to_pylist() == [None, True, None, None]


def test_clock_times_that_come_twice_or_never_are_refused() -> None:
    for literal in ("2020-11-01 01:30:00", "2020-03-08 02:30:00"):
        for text in (f"CAST(at AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '{literal}'", f"clock > TIMESTAMP '{literal}'"):
            (reason,) = reasons_of(bind(parse_sql(text), SCHEMA, time_zone="America/New_York"))
            assert "clocks are changed in America/New_York" in reason
    for text in ("CAST(at AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '2020-11-04 02:30:00'", "clock < TIMESTAMP '2020-10-29'"):
        assert not reasons_of(bind(parse_sql(text), SCHEMA, time_zone="America/New_York"))


def test_lists_that_spark_shortens_are_refused_beside_null() -> None:
    ten = ", ".join(f"{number}.1D" for number in range(10))
    (reason,) = reasons_of(bind(parse_sql(f"f IN ({ten}, NULL)"), SCHEMA))
    assert "leave NULL out" in reason
    assert not reasons_of(bind(parse_sql(f"f IN ({ten})"), SCHEMA))
    whole = ", ".join(f"{number}D" for number in range(9))
    assert not reasons_of(bind(parse_sql(f"f IN ({whole}, CAST('inf' AS DOUBLE), NULL)"), SCHEMA))


def test_the_operand_of_between_is_cast_apart() -> None:
    rows = pa.table({"l": pa.array([2**53 + 2], pa.int64())})
    assert matches(parse_sql("CAST(l AS FLOAT) <= 9007199254740992D"), rows).to_pylist() == [False]
    assert matches(parse_sql("CAST(l AS FLOAT) BETWEEN 1D AND 9007199254740992D"), rows).to_pylist() == [True]


@pytest.mark.parametrize(
    "text",
    [
        "{c} = 16777216F",
        "{c} <= 16777216F",
        "{c} <=> CAST(16777216 AS FLOAT)",
        "NOT ({c} > 16777216F)",
        "{c} IN (16777216F, 3F)",
        "{c} IN (16777216, 3F)",
        "{c} IN (16777216F, NULL)",
        "abs({c}) <= 16777216F",
    ],
)
@pytest.mark.parametrize("name", ["i", "l"])
def test_without_ansi_mode_integers_beside_a_float_are_floats(text: str, name: str) -> None:
    rows = pa.table({name: pa.array([16777217], SCHEMA.field(name).type)})
    bound = bind(parse_sql(text.format(c=name)), rows.schema)
    one = rows[name].combine_chunks()
    statistics = {name: ColumnStatistics(one, one, pa.array([0]), pa.array([1]))}
    assert evaluate(bound, statistics, 1).can_true[0]
    assert matches(bound, rows).to_pylist() in ([False], [None])


def test_integers_beside_a_small_float_prune() -> None:
    for text, expected in (
        ("i = 16777215F", "i = 16777215"),
        ("l IN (3F, -4)", "l IN (-4, 3)"),
        ("i < 1.5F", "i < 2"),
        ("i = 16777216D", "i = 16777216"),
        ("dec = 1.5F", "dec = 1.500"),
    ):
        assert bind(parse_sql(text), SCHEMA).to_sql() == expected


def test_a_comparison_beyond_all_integers_prunes_nothing_and_is_null_for_null() -> None:
    rows = pa.table({"i": pa.array([1, None], pa.int32())})
    for text in ("i < 9223372036854775808", "NOT (i > 9223372036854775807.5)", "i >= -9223372036854775809.0"):
        bound = bind(parse_sql(text), rows.schema)
        assert matches(bound, rows).to_pylist() == [True, None]
        assert evaluate(bound, {}, 1).can_true.all()


def test_numbers_that_no_decimal_holds_are_beyond_all_values() -> None:
    assert bind(col("dec") < 10**50, SCHEMA).to_sql() == "dec IS NOT NULL OR NULL"
    assert bind(col("dec") < Decimal("-1e60"), SCHEMA).to_sql() == "dec IS NULL AND NULL"


def test_arrow_is_not_asked_for_casts() -> None:
    with pytest.raises(InexactFilterError, match="Arrow does not cast as Spark does"):
        to_arrow_expression(parse_sql("s = 5"), SCHEMA)
    weak = to_arrow_expression(parse_sql("s = 5 AND i = 1"), SCHEMA, unknown="weaken")
    assert "i == 1" in str(weak)


def test_a_bound_test_is_equal_to_its_like_only() -> None:
    def bound(text: str) -> object:
        return bind(parse_sql(text), SCHEMA)

    assert bound("s = 5") == bound("s = 5L")
    assert len({bound("s = 5"), bound("s = 6"), bound("s <> 5"), bound("TRY_CAST(s AS BIGINT) = 5")}) == 4
    assert isinstance(bound("i = 5"), Predicate)
