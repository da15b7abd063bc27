"""Operators and functions of computed conditions, each against what PySpark 4 answers."""

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from pushdown import (
    InexactFilterError,
    RowCastError,
    Unknown,
    UnknownColumnError,
    bind,
    columns_of,
    evaluate,
    matches,
    parse_sql,
    reasons_of,
    simplify,
)
from pushdown.expression import ImageTest, RowComputation
from pushdown.translators import to_arrow_expression
from pushdown.walk import column_types, columns_read, inexact_part, without_computations

NAN = float("nan")
UTC, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
_MICROS = pa.array([1_582_934_400_000_000, -1, None, 1_609_632_000_500_000], pa.int64())
ROWS = pa.table(
    {
        "i": pa.array([7, -7, None, 0], pa.int32()),
        "k": pa.array([3, -3, 2, 5], pa.int32()),
        "l": pa.array([2**63 - 1, -(2**63), None, 4], pa.int64()),
        "b": pa.array([127, -128, None, 1], pa.int8()),
        "f": pa.array([1.5, NAN, None, -0.0], pa.float64()),
        "g": pa.array([0.0, NAN, 1.0, 0.0], pa.float64()),
        "s": pa.array([1.1, 2.0, None, 0.0], pa.float32()),
        "d": pa.array([Decimal("2.50"), Decimal("-2.50"), None, Decimal("0.05")], pa.decimal128(9, 2)),
        "e": pa.array([Decimal("0.3"), Decimal("7.0"), Decimal("1.0"), Decimal("-2.0")], pa.decimal128(3, 1)),
        "wide": pa.array([Decimal(1)] * 4, pa.decimal128(38, 10)),
        "n": ["Straße", " ab ", None, ""],
        "m": ["STRASSE", "ab", "x", "😀b"],
        "day": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None, dt.date(2021, 1, 3)]),
        "at": _MICROS.cast(UTC),
        "clock": pa.array([1_582_934_400_000_000, -1, None, 1_609_632_000_500_000], pa.int64()).cast(
            pa.timestamp("us")
        ),
        "flag": [True, False, None, True],
    }
)
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("text", "truths"),
    [
        # integers; Java's remainder has the dividend's sign
        ("i + k = 10", [T, F, N, F]),
        ("i - k = -4", [F, T, N, F]),
        ("i * k = 21", [T, T, N, F]),
        ("i % k = -1", [F, T, N, F]),
        ("i % 4 = -3", [F, T, N, F]),
        ("mod(i, k) IN (1, 0)", [T, F, N, T]),
        ("pmod(i, 4) = 1", [F, T, N, F]),
        ("pmod(i, -4) = -3", [F, T, N, F]),
        ("i div k = 2", [T, T, N, F]),
        ("i / k > 2.3", [T, T, N, F]),
        ("i / 2 = 3.5", [T, F, N, F]),
        ("-i = 7", [F, T, N, F]),
        ("abs(i) = 7", [T, T, N, F]),
        ("l % -1 = 0", [T, T, N, T]),
        ("b % -1 = 0", [T, T, N, T]),
        ("round(i) = 7 AND floor(i) = 7 AND ceil(i) = 7", [T, F, N, F]),
        # numbers of two types
        ("i < k", [F, T, N, T]),
        ("i = f", [F, F, N, T]),
        ("i + d = 9.5", [T, F, N, F]),
        ("d < e", [F, T, N, F]),
        ("s = 1.1", [F, F, N, F]),
        ("s + 0 = 1.100000023841858", [T, F, N, F]),
        ("s + s = CAST('2.2' AS FLOAT)", [T, F, N, F]),
        # floats: NaN equals itself and is greatest, one zero
        ("f = g", [F, T, N, T]),
        ("f > i", [F, T, N, F]),
        ("f <=> g", [F, T, F, T]),
        ("f - f = 0", [T, F, N, T]),
        ("f IN (g, 1.5)", [T, T, N, T]),
        ("abs(f) IS NOT DISTINCT FROM f", [T, T, T, T]),
        ("floor(f) = 1 OR ceil(f) = 0", [T, T, N, T]),
        # decimals
        ("d + e = 2.8", [T, F, N, F]),
        ("d * e = -17.5", [F, T, N, F]),
        ("d / e = 8.333333", [T, F, N, F]),
        ("d % e = 0.1", [T, F, N, F]),
        ("d div e = 8", [T, F, N, F]),
        ("round(d) = 3", [T, F, N, F]),
        ("round(d) = -3", [F, T, N, F]),
        ("round(d, 1) = 0.1", [F, F, N, T]),
        ("floor(d) = -3 OR ceil(d) = 3", [T, T, N, F]),
        ("-d = abs(d)", [F, T, N, F]),
        # texts
        ("n = m", [F, F, N, F]),
        ("upper(n) = m", [T, F, N, F]),
        ("lower(n) = 'straße'", [T, F, N, F]),
        ("trim(n) = m", [F, T, N, F]),
        ("ltrim(n) = 'ab ' AND rtrim(n) = ' ab'", [F, T, N, F]),
        ("length(m) = 2", [F, T, F, T]),
        ("concat(n, m) LIKE '%ab'", [F, T, N, F]),
        ("n || '!' = '!'", [F, F, N, T]),
        ("substring(m, -3, 2) = 'SS'", [T, F, F, F]),
        ("substring(m, -3, 2) = 'a'", [F, T, F, F]),
        ("substring(m, 0, 1) = left(m, 1)", [T, T, T, T]),
        ("right(m, 1) = 'b' AND right(m, 0) = ''", [F, T, F, T]),
        ("reverse(m) = 'ba' OR replace(m, 'S', '') = 'TRAE'", [T, T, F, F]),
        ("startswith(upper(m), 'A') OR endswith(lower(m), 'se') OR contains(trim(m), '😀')", [T, T, F, T]),
        ("lower(n) NOT LIKE '%a%'", [F, F, N, T]),
        # dates and times
        ("year(day) = year(at)", [T, F, N, T]),
        ("quarter(day) + month(day) = 3", [T, F, N, F]),
        ("day(at) = 31 AND hour(at) = 23 AND minute(at) = 59 AND second(at) = 59", [F, T, N, F]),
        ("dayofyear(day) = 60 AND dayofweek(day) = 7 AND weekday(day) = 5", [T, F, N, F]),
        ("weekofyear(day) IN (53, 9)", [T, F, N, T]),
        ("to_date(at) = day", [T, F, N, T]),
        ("date(clock) = day", [T, F, N, T]),
        ("at = coalesce(at, TIMESTAMP '2020-01-01 00:00:00')", [T, T, N, T]),
        ("clock < nullif(clock, clock) OR day > DATE '2021-01-01'", [N, N, N, T]),
        # choices
        ("coalesce(i, k) = 2", [F, F, T, F]),
        ("nvl(n, '-') = '-' OR ifnull(i, 1) = 1", [F, F, T, F]),
        ("nvl2(n, 1, 2) = 2", [F, F, T, F]),
        ("nullif(k, 3) IS NULL", [T, F, F, F]),
        ("if(flag, i, k) = -3", [F, T, F, F]),
        ("CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END IS NULL", [F, F, T, T]),
        ("CASE k WHEN 3 THEN 1 WHEN 2 THEN 2 ELSE 0 END = 0", [F, T, F, T]),
        ("greatest(i, k) = 7 OR least(i, k) = 2", [T, F, T, F]),
        ("greatest(f, g) > 1e300", [F, T, F, F]),
        ("coalesce(flag, FALSE)", [T, F, F, T]),
        ("NOT coalesce(flag, i > 0)", [F, T, N, F]),
        ("flag < coalesce(flag, TRUE)", [F, F, N, F]),
        # lists, ranges, nulls
        ("i + 1 IN (8, NULL)", [T, N, N, N]),
        ("k IN (i, 3)", [T, F, N, F]),
        ("i + 1 NOT IN (8, 9)", [F, T, N, T]),
        ("k BETWEEN i AND i + 5", [F, T, N, T]),
        ("i + NULL = 1", [N, N, N, N]),
        ("i = k OR flag", [T, F, N, T]),
        # casts
        ("CAST(i AS STRING) || 'x' = '-7x'", [F, T, N, F]),
        ("CAST(flag AS INT) + k = 4", [T, F, N, F]),
        ("TRY_CAST(m AS INT) IS NOT NULL OR k + 0 = 5", [F, F, F, T]),
    ],
)
def test_rows(text: str, truths: list[bool | None]) -> None:
    bound = bind(parse_sql(text), ROWS.schema)
    assert matches(bound, ROWS).to_pylist() == truths
    # NOT, simplification, the text, and pickles keep it
    opposite = [None if truth is None else not truth for truth in truths]
    assert matches(~bound, ROWS).to_pylist() == matches(simplify(~bound), ROWS).to_pylist() == opposite
    assert matches(parse_sql(parse_sql(text).to_sql()), ROWS).to_pylist() == truths
    assert pickle.loads(pickle.dumps(bound)) == bound


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("l + 1 > 0", 0),
        ("l - 1 < 0", 1),
        ("-l > 0", 1),
        ("abs(l) > 0", 1),
        ("l * 2 > 0", 0),
        ("l * -1 > 0", 1),
        ("l div -1 > 0", 1),
        ("b + b > 0", 0),
        ("-b > 0", 1),
        ("i / 0 = 1", 0),
        ("i % (k - k) = 1", 0),
        ("f / g > 1", 0),
        ("f % g > 1", 0),
        ("d / (e - e) = 1", 0),
        ("d div (e - e) = 1", 0),
        ("d % (e - e) = 1", 0),
        ("floor(f * 1e300) > 0", 0),
        ("pmod(i, 0) = 1", 0),
        ("CAST(m AS INT) + 1 = 2", 0),
        ("lower(concat(n, chr)) = 'x'", 0),
        ("upper(n || '\u0264') = 'x'", 0),
    ],
)
def test_rows_at_which_spark_stops(text: str, row: int) -> None:
    table = ROWS.slice(row, 1).append_column("chr", pa.array(["\u0378"]))  # which is no character so far
    with pytest.raises(RowCastError, match="has no result for a row with"):
        matches(parse_sql(text), table)
    # what decides the row beside it, or a branch that is not taken
    assert matches(parse_sql(f"k = 99 AND {text}"), table).to_pylist() == [False]
    assert matches(parse_sql(f"{text} OR k <> 99"), table).to_pylist() == [True]
    assert matches(parse_sql(f"CASE WHEN k = 99 THEN {text} ELSE TRUE END"), table).to_pylist() == [True]
    assert matches(parse_sql(f"coalesce(k <> 99, {text})"), table).to_pylist() == [True]


def test_a_null_beside_a_failure_is_null() -> None:
    table = pa.table({"a": pa.array([None], pa.int32()), "z": pa.array([0], pa.int32())})
    assert matches(parse_sql("a / z = 1"), table).to_pylist() == [None]
    assert matches(parse_sql("(5 / z) + a = 1"), table).to_pylist() == [None]


@pytest.mark.parametrize(
    "text",
    [
        "soundex(n) = 'S362'",
        "i > n || 'x'",  # classes
        "day = at",
        "at = clock",
        "flag = i",
        "coalesce(i, n) = 'x'",
        "wide + wide > 1",  # more than 38 digits
        "wide * d > 1",
        "round(f, 1) = 1.5",  # by the float's text
        "f div 2 = 1",
        "CAST(f AS STRING) || '' = '1.5'",
        "CAST(i AS FLOAT) + 1 = 2",
        "CAST(at AS TIMESTAMP_NTZ) < clock",
        "abs(i) < 99999999999999999999",  # Spark may answer for nulls
        "hour(day) = 1",
        "lower(coalesce(upper(n), m)) = 'x'",  # Spark's optimizer
        "rand() < i",
        "i IN (SELECT 1)",
        "n LIKE m",
        "if(i, k, k) = 1",
        "f + 1 IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, NULL)",
    ],
)
def test_what_is_refused(text: str) -> None:
    bound = bind(parse_sql(text), ROWS.schema)
    assert inexact_part(bound) is not None
    with pytest.raises(InexactFilterError):
        matches(bound, ROWS)


def test_other_dialects_compute_nothing() -> None:
    for dialect in ("hive", "trino", "presto"):
        assert type(parse_sql("coalesce(i, 1) = 1", dialect)) is Unknown
        with pytest.raises(InexactFilterError):
            matches(parse_sql("i % 5 = 0", dialect), ROWS)


def test_an_unknown_column_of_a_computation_is_an_error() -> None:
    with pytest.raises(UnknownColumnError, match="there is no column kk"):
        bind(parse_sql("i < kk"), ROWS.schema)
    with pytest.raises(UnknownColumnError):
        bind(parse_sql("I < k"), ROWS.schema, case_sensitive=True)
    assert bind(parse_sql("I < K"), ROWS.schema).to_sql() == "i < k"


def test_plans_use_no_computation() -> None:
    bound = bind(parse_sql("i < k AND i % 5 = 0"), ROWS.schema)
    computation, image = bound.children
    assert isinstance(computation, RowComputation)
    assert isinstance(image, ImageTest)
    assert reasons_of(bound) == ("i < k is not understood",)
    assert inexact_part(bound) is None
    assert columns_of(bound) == ("i",)
    assert columns_read(bound) == ("i", "k")
    assert column_types(bound) == {"i": pa.int32()}
    outcomes = evaluate(computation, {}, 2)
    assert outcomes.can_true.all()
    assert outcomes.can_false.all()
    assert outcomes.can_null.all()
    with pytest.raises(InexactFilterError, match="i < k is not understood"):
        to_arrow_expression(bound, ROWS.schema)
    for part in without_computations(bound).children:
        assert inexact_part(part) is not None


def test_the_session_zone_is_that_of_parts_of_times() -> None:
    bound = bind(parse_sql("hour(at) - 1 = 18"), ROWS.schema, time_zone="America/New_York")
    assert matches(bound, ROWS).to_pylist() == [True, False, None, True]


def test_lists_that_were_taken_out_of_the_text() -> None:
    many = ", ".join(map(str, range(100, 160)))
    assert matches(parse_sql(f"i + k IN (10, {many})"), ROWS).to_pylist() == [True, False, None, False]
    assert matches(parse_sql(f"i % 5 NOT IN (2, {many})"), ROWS).to_pylist() == [False, True, None, True]
    texts = ", ".join(f"'{number}'" for number in range(60))
    assert matches(parse_sql(f"coalesce(m, n) IN ('ab', {texts})"), ROWS).to_pylist() == [False, True, False, False]
    with pytest.raises(InexactFilterError):
        matches(parse_sql(f"coalesce(i IN ({many}), FALSE)"), ROWS)


def test_deep_and_wide_conditions() -> None:
    assert matches(parse_sql("i" + " + 1" * 40 + " = 47"), ROWS).to_pylist() == [True, False, None, False]
    with pytest.raises(InexactFilterError):
        matches(parse_sql("i" + " + 1" * 400 + " = 407"), ROWS)
    deep = "NOT (" * 2000 + "i < k" + ")" * 2000
    bound = simplify(bind(parse_sql(deep), ROWS.schema))
    assert matches(bound, ROWS).to_pylist() == [False, True, None, True]
    assert isinstance(bound, RowComputation)


def test_no_rows_and_chunks() -> None:
    assert matches(parse_sql("d / e > 1 AND lower(n) = 'x' AND i < k"), ROWS.slice(0, 0)).to_pylist() == []
    chunked = pa.concat_tables([ROWS.slice(0, 2), ROWS.slice(2, 2)])
    text = "d * e < 1 OR coalesce(n, m) = 'x' OR i % 7 = 0"
    assert matches(parse_sql(text), chunked).to_pylist() == matches(parse_sql(text), ROWS).to_pylist()


def test_dictionaries_and_fields_of_structs() -> None:
    table = pa.table({"t": ROWS["n"].combine_chunks().dictionary_encode(), "r": [{"a": 1, "B": 2}] * 4})
    assert matches(parse_sql("lower(t) = 'straße' AND r.a < r.b"), table).to_pylist() == [True, False, None, False]
