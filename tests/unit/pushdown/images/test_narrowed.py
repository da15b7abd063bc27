"""Comparisons of functions over the statistics of one file, by table: which truth values its rows may have."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from pushdown import ColumnStatistics, InexactFilterError, bind, evaluate, matches, parse_sql, reasons_of, simplify
from pushdown.expression import ImageTest, Unknown
from pushdown.walk import column_types, columns_of, inexact_part, restrict

UTC = pa.timestamp("us", "UTC")


def truths(text, kind, low, high, *, zone="UTC", nulls=0, dialect="spark"):
    statistics = ColumnStatistics(
        pa.array([low], kind), pa.array([high], kind), pa.array([nulls]), pa.array([10]), all_null_is_certain=True
    )
    bound = simplify(bind(parse_sql(text, dialect), pa.schema([("a", kind)]), time_zone=zone))
    found = evaluate(bound, {"a": statistics}, 1)
    masks = {"T": found.can_true, "F": found.can_false, "N": found.can_null}
    return "".join(letter for letter, mask in masks.items() if mask[0])


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("a % 10 = 3", 21, 23, "TF"),
        ("a % 10 = 4", 21, 23, "F"),
        ("a % 10 = 3", 23, 23, "T"),
        ("a % 10 = 4", 21, 32, "TF"),
        ("a % 10 = 10", 21, 32, "F"),
        ("a % 10 < 0", 21, 32, "F"),
        ("a % 10 > 0", -32, -5, "F"),
        ("a % 10 = -3", -3, -3, "T"),
        ("a % -10 = -3", -3, -3, "T"),
        ("a % 10 = 7", -2, 3, "F"),
        ("a % 0 = 7", 1, 3, "TFN"),
        ("pmod(a, 10) = 7", -3, -3, "T"),
        ("pmod(a, 10) < 0", -30, 30, "F"),
        ("pmod(a, -10) = 7", -3, -3, "TFN"),
        ("a + 1 > 3", 3, 9, "T"),
        ("a + 1 > 3", 2, 9, "TF"),
        ("a + 1 > 3", 0, 2, "F"),
        ("a + 1 < 0", 5, 2**31 - 1, "TF"),  # it may overflow
        ("a - 1 > 0", -(2**31), 0, "TF"),
        ("10 - a > 8", 3, 9, "F"),
        ("a * 2 = 2", 2, 9, "F"),
        ("a * -2 = -4", 2, 2, "T"),
        ("a * 2 > 0", 5, 2**30, "TF"),
        ("a * 0 = 0", 5, 2**30, "T"),
        ("a div 4 = 2", 8, 11, "T"),
        ("a div -4 = 2", 8, 11, "F"),
        ("a div -1 > 0", -(2**31), -5, "TF"),
        ("-a = -5", 5, 5, "T"),
        ("-a > 0", -(2**31), -5, "TF"),
        ("abs(a) < 3", -9, -4, "F"),
        ("abs(a) < 3", -9, 4, "TF"),
        ("abs(a % 3) > 2", -9, 4, "F"),
        ("a + 0.5 > 3", 3, 9, "T"),
        ("a % 2.5 = 0.5", 3, 3, "T"),
        ("CAST(a AS BIGINT) % 10L = 4", 21, 23, "F"),
        ("a + 1 IN (7, 8)", 3, 4, "F"),
        ("a + 1 NOT IN (7, 8)", 3, 4, "T"),
        ("a + 1 IN (7, NULL)", 3, 4, "N"),
        ("a + 1 BETWEEN 7 AND 8", 6, 7, "T"),
        ("a + 1 <=> 8", 7, 7, "T"),
        ("a + 1 IS NULL", 7, 7, "F"),
    ],
)
def test_numbers(text, low, high, expected):
    assert truths(text, pa.int32(), low, high) == expected


@pytest.mark.parametrize(
    ("dialect", "text", "value", "expected"),
    [
        ("hive", "a * 1000L > 1500000000000", 1600000000, "TF"),
        ("hive", "a * 1000 > 1500000000000", 1600000000, "TF"),
        ("trino", "a * BIGINT '1000' > 1500000000000", 1600000000, "TF"),
        ("trino", "a * CAST(1000 AS BIGINT) > 1500000000000", 1600000000, "TF"),
        ("presto", "a + BIGINT '2000000000' >= 3000000000", 1600000000, "TF"),
        ("trino", "NOT (a + BIGINT '2000000000' < 3000000000)", 1600000000, "TF"),
        ("trino", "a * BIGINT '1000' IN (5, 1600000000000)", 1600000000, "TF"),
        ("trino", "(a + BIGINT '1') * BIGINT '1000' > 1500000000000", 1600000000, "TF"),
        ("trino", "a * BIGINT '1000' + 0.5 > 1500000000000.5", 1600000000, "TFN"),
        ("trino", "floor(a * BIGINT '1000') > 1500000000000", 1600000000, "TF"),
        ("hive", "a + -2147483648 < -3000000000", -1600000000, "TF"),
        ("hive", "-CAST(a AS BIGINT) = 2147483648", -(2**31), "T"),
        ("hive", "abs(CAST(a AS BIGINT)) = 2147483648", -(2**31), "T"),
        ("trino", "CAST(a AS BIGINT) * 1000 > 1500000000000", 1600000000, "T"),
        ("trino", "a * BIGINT '1000' > 1500000000", 100, "F"),
        ("trino", "a % BIGINT '7' = 3000000000", 1600000000, "F"),
        ("hive", "a + 1 < 0", 2**31 - 1, "TF"),  # Hive wraps around
        ("hive", "(a + 0) * 2 < 0", 2**30, "TF"),
        ("hive", "(a + 1) * 2 > 9000000000", 2**30, "TF"),
        ("hive", "abs(a) < 0", -(2**31), "TF"),
        ("spark", "a * 1000 > 1500000000000", 1600000000, "F"),
        ("spark", "a * 1000L > 1500000000000", 1600000000, "TF"),
    ],
)
def test_results_beyond_the_type_of_the_column(dialect, text, value, expected):
    assert truths(text, pa.int32(), value, value, dialect=dialect) == expected


def test_the_absolute_value_of_a_small_integer_is_an_int_in_hive():
    assert truths("abs(a) = 128", pa.int8(), -128, -128, dialect="hive") == "TF"


def test_short_integers_of_hive_wrap_around_before_int_does():
    assert truths("(a % 16384S) * 3S < 3", pa.int16(), 32767, 32767, dialect="hive") == "TFN"
    assert truths("(a % 16384) * 3 < 3", pa.int16(), 32767, 32767, dialect="hive") == "F"


def test_hives_pmod_of_a_large_divisor_may_be_negative():
    assert truths("pmod(a, 1073741824) < 0", pa.int32(), 5, 5, dialect="hive") == "F"
    assert truths("pmod(a, 1073741825) < 0", pa.int32(), 5, 5, dialect="hive") == "TFN"
    assert truths("pmod(a, 2147483647) < 0", pa.int32(), 5, 5) == "F"


def test_decimals_and_doubles():
    dec = pa.decimal128(9, 2)
    assert truths("a % 2 = 1", dec, Decimal("2.00"), Decimal("2.50"), nulls=0) == "F"
    assert truths("a + 1.125 > 3", dec, Decimal("1.88"), Decimal("2.50")) == "T"
    assert truths("a * 0.5 >= 1.25", dec, Decimal("2.00"), Decimal("2.50")) == "TF"
    assert truths("a % 2 = 1", pa.decimal128(20, 2), Decimal("2.00"), Decimal("2.50")) == "TFN"
    assert truths("a * 2 > 6", pa.float64(), 1.0, 2.5) == "F"
    assert truths("a * 0 = 0", pa.float64(), 1.0, 2.5) == "TFN"  # NaN of infinities
    assert truths("a * 2 > 6", pa.float32(), 1.0, 2.5) == "TFN"


@pytest.mark.parametrize(
    ("text", "zone", "low", "high", "expected"),
    [
        ("hour(a) = 9", "UTC", "2020-07-01 09:00", "2020-07-01 09:59", "T"),
        ("hour(a) = 9", "UTC", "2020-07-01 10:00", "2020-07-01 23:59", "F"),
        ("hour(a) = 9", "UTC", "2020-07-01 10:00", "2020-07-02 00:00", "TF"),
        ("hour(a) = 24", "UTC", "2020-07-01 10:00", "2021-07-02 00:00", "F"),
        ("hour(a) = 5", "America/New_York", "2020-07-01 09:00", "2020-07-01 09:59", "T"),
        ("hour(a) = 14", "Asia/Kolkata", "2020-07-01 09:00", "2020-07-01 09:29", "T"),
        ("hour(a) = 1", "America/New_York", "2020-11-01 05:00", "2020-11-01 06:59", "TF"),  # twice one o'clock
        ("hour(a) = 4", "America/New_York", "2020-11-01 05:00", "2020-11-01 06:59", "F"),
        ("minute(a) < 10", "UTC", "2020-07-01 09:10", "2020-07-01 09:59", "F"),
        ("second(a) = 0", "UTC", "2020-07-01 09:10", "2020-07-01 09:10", "T"),
        ("month(a) = 7", "UTC", "2020-07-01 09:10", "2020-08-01 09:10", "TF"),
        ("month(a) = 9", "UTC", "2020-07-01 09:10", "2020-08-01 09:10", "F"),
        ("month(a) IN (1, 12)", "UTC", "2020-12-01 09:10", "2021-01-01 09:10", "TF"),
        ("month(a) = 1", "Asia/Kolkata", "2020-12-31 18:30", "2021-01-01 09:10", "T"),
        ("day(a) = 31", "UTC", "2020-07-01 09:10", "2020-07-30 09:10", "F"),
        ("quarter(a) = 1", "UTC", "2020-04-01 09:10", "2020-07-30 09:10", "F"),
        ("dayofyear(a) = 366", "UTC", "2020-12-31 09:10", "2020-12-31 09:10", "T"),
        ("dayofweek(a) = 1", "UTC", "2020-07-05 09:10", "2020-07-05 09:10", "T"),  # a Sunday
        ("weekday(a) = 6", "UTC", "2020-07-05 09:10", "2020-07-05 09:10", "T"),
        ("weekofyear(a) = 53", "UTC", "2021-01-01 09:10", "2021-01-03 09:10", "T"),
        ("year(a) % 4 = 0", "UTC", "2020-07-05 09:10", "2020-08-05 09:10", "T"),
        ("hour(a) = 9", "UTC", "1500-07-01 10:00", "1500-07-01 11:00", "TF"),
        ("hour(a) = 9", "America/New_York", "2150-07-01 01:00", "2150-07-01 02:00", "TF"),
    ],
)
def test_times(text, zone, low, high, expected):
    instants = [dt.datetime.fromisoformat(moment).replace(tzinfo=dt.UTC) for moment in (low, high)]
    assert truths(text, UTC, *instants, zone=zone) == expected


def test_days_of_the_week_are_those_of_the_dialect():
    sunday = dt.date(2020, 7, 5)
    assert truths("dayofweek(a) = 1", pa.date32(), sunday, sunday, dialect="hive") == "T"
    assert truths("day_of_week(a) = 7", pa.date32(), sunday, sunday, dialect="trino") == "T"
    assert truths("extract(DOW FROM a) = 7", pa.date32(), sunday, sunday, dialect="trino") == "T"
    assert truths("hour(a) = 9", pa.date32(), sunday, sunday) == "TFN"


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("lower(a) = 'berlin'", "BERLIN", "BERLIN", "TF"),  # a Turkish lower case has another i
        ("lower(a) = 'bern'", "BERN", "BERN", "T"),
        ("lower(a) = 'paris'", "Aachen", "Bonn", "F"),
        ("lower(a) = 'bonn'", "Aachen", "Bonn", "TF"),
        ("lower(a) = 'bonn'", "Aachen", "zzz", "TF"),
        ("lower(a) = '\u0131zmir'", "H", "J", "TF"),
        ("lower(a) = 'zz'", "H", "J", "TF"),
        ("lower(a) = 'aa'", "H", "J", "F"),
        ("upper(a) = 'ORDER-2'", "order-10", "order-19", "F"),
        ("upper(a) = 'X'", "ä", "ö", "TF"),
        ("upper(a) LIKE 'ORDER%'", "order-10", "order-19", "T"),
        ("contains(a, 'er-2')", "order-10", "order-10", "F"),
        ("contains(a, 'er-1')", "order-10", "order-10", "T"),
        ("endswith(a, '0')", "order-10", "order-10", "T"),
        ("contains(a, 'er-2')", "order-10", "order-20", "TF"),
        ("contains(upper(a), 'ER')", "order-10", "order-10", "T"),
        ("trim(a) = 'x'", "order-10", "order-10", "F"),
        ("trim(a) = 'order'", "order ", "order ", "TF"),
        ("trim(a) = 'a'", " a", " a", "TF"),
        ("trim(a) = 'b'", "b", "c", "TF"),
        ("trim(a) = 'a'", "b", "c", "F"),
        ("substring(a, 7) = '10'", "order-10", "order-10", "T"),
        ("substring(a, 7, 1) = '2'", "order-10", "order-19", "F"),
        ("substring(a, 7, 1) = '1'", "order-10", "order-19", "T"),
        ("substring(a, 9) = 'x'", "order-10", "order-19", "TF"),
        ("substring(a, 0, 1) = 'x'", "order-10", "order-19", "TFN"),
        ("left(upper(a), 2) = 'OR'", "order-10", "order-19", "T"),
        ("length(a) = 7", "order-10", "order-19", "F"),
        ("length(a) = 8", "order-10", "order-10", "T"),
        ("length(a) < 0", "a", "z", "F"),
        ("soundex(a) = 'X'", "a", "z", "TFN"),
    ],
)
def test_texts(text, low, high, expected):
    assert truths(text, pa.string(), low, high) == expected


@pytest.mark.parametrize("text", ["soundex(a) = 'X'", "lower(a) = 'x'", "reverse(a) IN ('a', 'b')", "length(a) > 3"])
def test_files_of_nulls_are_left_out(text):
    assert truths(text, pa.string(), None, None, nulls=10) == "N"
    assert truths(f"NOT ({text})", pa.string(), None, None, nulls=10) == "N"
    assert "T" in truths(text, pa.string(), None, None, nulls=9)


def test_null_safe_comparisons_and_null_tests_of_strict_functions():
    assert truths("soundex(a) <=> 'X'", pa.string(), None, None, nulls=10) == "F"
    assert truths("soundex(a) IS NULL", pa.string(), None, None, nulls=10) == "T"
    # Spark without ANSI mode takes a text that is no number for null.
    for text in ("a - 1 <=> 'x'", "a - 1 <=> CAST('x' AS FLOAT)", "CAST(a AS INT) <=> CAST('x' AS INT)"):
        assert "T" in truths(text, pa.float32(), None, None, nulls=10)
        assert "F" in truths(f"NOT {text}", pa.float32(), None, None, nulls=10)
    assert truths("soundex(a) IS NULL", pa.string(), "a", "z") == "TF"
    assert truths("soundex(a) IS NOT NULL", pa.string(), None, None, nulls=10) == "F"
    # Spark may answer for rows of null beside numbers beyond all integers.
    assert truths("length(a) < 9223372036854775808", pa.string(), None, None, nulls=10) == "TFN"


def test_what_is_narrowed_is_unknown_to_rows():
    schema = pa.schema([("t", UTC), ("s", pa.string())])
    bound = bind(parse_sql("hour(t) = 9 AND soundex(s) = 'X'"), schema)
    hour, soundex = bound.children
    assert isinstance(hour, ImageTest)
    assert isinstance(hour, Unknown)
    assert reasons_of(bound) == (soundex.reason,) == ("soundex(s) is not understood",)
    assert inexact_part(bound) == "soundex(s) is not understood"
    assert inexact_part(bind(parse_sql("hour(t) = 9", "trino"), schema)) == (
        "hour(t) narrows a plan, but is not computed for rows"
    )
    assert columns_of(bound) == ("t", "s")
    assert column_types(bound) == {"t": UTC, "s": pa.string()}
    assert type(restrict(bound, ["s"]).children[0]) is Unknown
    with pytest.raises(InexactFilterError, match=r"soundex\(s\) is not understood"):
        matches(bound, schema.empty_table())
    assert simplify(~hour).to_sql() == "hour(t) <> 9"
    assert bind(parse_sql(bound.to_sql()), schema) == bound


def test_literals_of_two_types_are_two_functions():
    schema = pa.schema([("i", pa.int32())])
    whole, decimal = (bind(parse_sql(f"i % {literal} = 1"), schema) for literal in ("2", "2.0"))
    assert whole.function != decimal.function
    statistics = {"i": ColumnStatistics(pa.array([175]), pa.array([175]), pa.array([0]), pa.array([1]))}
    for test in (whole, decimal, whole):
        assert evaluate(test, statistics, 1).only_true[0]


def test_images_of_the_last_functions_are_kept():
    schema, kind = pa.schema([("i", pa.int32())]), pa.int32()
    statistics = ColumnStatistics(pa.array([1], kind), pa.array([5], kind), pa.array([0]), pa.array([1]))
    functions = [bind(parse_sql(f"i % {number} = 1"), schema).function for number in range(2, 30)]
    first = statistics.of_function(functions[0], kind, "UTC")
    assert statistics.of_function(functions[0], kind, "UTC") is first
    for function in functions:
        statistics.of_function(function, kind, "UTC")
    assert statistics.of_function(functions[0], kind, "UTC") is not first
    with pytest.raises(ValueError, match="has no image"):
        statistics.of_function(functions[0], pa.string(), "UTC")
