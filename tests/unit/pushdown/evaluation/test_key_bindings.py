import datetime as dt

import pyarrow as pa
import pytest

from pushdown import bind, key_bindings, parse_sql

SCHEMA = pa.schema(
    {
        "k": pa.int32(),
        "p": pa.string(),
        "f": pa.float32(),
        "d": pa.float64(),
        "n": pa.int64(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
    }
)


def bindings(text, *fields, **more):
    return key_bindings(bind(parse_sql(text), SCHEMA), fields, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k = 1", [(1,)]),
        ("k IN (2, 1, 2, NULL)", [(1,), (2,)]),
        ("k <=> 1", [(1,)]),
        ("k IS NULL", [(None,)]),
        ("k <=> NULL OR k = 3", [(None,), (3,)]),
        ("k = 1 OR k = 2", [(1,), (2,)]),
        ("NOT (k <> 1)", [(1,)]),
        ("NOT (k <> 1 AND k <> 2)", [(1,), (2,)]),
        ("k = 1 AND n > 5", [(1,)]),
        ("k = 1 AND f(n)", [(1,)]),
        ("k IN (1, 2, 3) AND k IN (2, 3, 4) AND k <> 2", [(2,), (3,)]),
        ("k IN (1, 5) AND k > 2", [(5,)]),
        ("(k = 1 AND n = 1) OR (k = 2 AND n = 2)", [(1,), (2,)]),
        ("k = 1 AND k = 2", []),
        ("k BETWEEN 1 AND 3", [(1,), (2,), (3,)]),
        ("k > 1 AND k < 3", [(2,)]),
        ("k > 1 AND k < 2", []),
        ("k >= 1 AND k <= 3 AND k <> 2", [(1,), (2,), (3,)]),
        ("k = 9 OR (k >= 1 AND k < 3 AND n = 4)", [(9,), (1,), (2,)]),
        ("k > 2147483645", None),
        ("k > 2147483644 AND k < 2147483647", [(2147483645,), (2147483646,)]),
        ("k >= 1 AND k <= 1000", [(one,) for one in range(1, 1001)]),
        ("k >= 1 AND k <= 1001", None),
        ("k >= 1 AND n <= 3", None),
        ("NOT (k BETWEEN 1 AND 3)", None),
        ("k BETWEEN 1 AND 3 OR n = 1", None),
        ("k = 1.5", []),
        ("k = NULL", []),
        ("FALSE", []),
        ("k = 1 AND FALSE", []),
        ("k = 1 OR FALSE", [(1,)]),
        ("k > 1", None),
        ("k <> 1", None),
        ("k NOT IN (1)", None),
        ("k = 1 OR n = 2", None),
        ("k = 1 OR f(n)", None),
        ("n = 1", None),
        ("TRUE", None),
        ("NOT (k = 1)", None),
    ],
)
def test_one_field(text, expected):
    bound = bindings(text, "k")
    assert (None if bound is None else sorted(bound, key=repr)) == (
        None if expected is None else sorted(expected, key=repr)
    )


def test_short_ranges_of_days():
    days = [(dt.date(2026, 2, 28),), (dt.date(2026, 3, 1),)]
    assert bindings("day BETWEEN date '2026-02-28' AND date '2026-03-01'", "day") == days
    assert bindings("day >= date '2026-02-28' AND day < date '2026-03-02'", "day") == days
    assert bindings("day > date '2026-02-28'", "day") is None
    assert bindings("n BETWEEN 1 AND 3 AND p >= 'a' AND p <= 'b'", "n", "p") is None
    assert bindings("d BETWEEN 1 AND 3", "d") is None
    assert bindings("n BETWEEN 1 AND 3 AND k BETWEEN 4 AND 5", "k", "n", limit=6) == [
        (k, n) for k in (4, 5) for n in (1, 2, 3)
    ]
    assert bindings("n BETWEEN 1 AND 3 AND k BETWEEN 4 AND 5", "k", "n", limit=5) is None


def test_several_fields():
    assert bindings("k IN (1, 2) AND p = 'x'", "k", "p") == [(1, "x"), (2, "x")]
    assert bindings("k IN (1, 2) AND p = 'x'", "p", "k") == [("x", 1), ("x", 2)]
    assert bindings("k IN (1, 2)", "k", "p") is None
    assert bindings("(k = 1 AND p = 'a') OR (k = 2 AND p = 'b')", "k", "p") == [(1, "a"), (2, "b")]
    assert bindings("(k = 1 AND p = 'a') OR k = 2", "k", "p") is None
    assert bindings("(k = 1 OR k = 2) AND (p = 'a' OR p = 'b')", "k", "p") == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_numbers_that_engines_take_for_equal_are_all_bound():
    assert [repr(v) for (v,) in bindings("d = 0", "d")] == ["0.0", "-0.0"]
    assert [repr(v) for (v,) in bindings("f = 1e-60", "f")] == ["0.0", "-0.0"]  # the nearest 32-bit float is zero
    assert bindings("f = 1.1", "f") == [(1.100000023841858,)]
    assert [repr(v) for (v,) in bindings("d = cast('NaN' as double)", "d")] == ["nan"]


def test_too_many_combinations_are_not_bound():
    hundred = ", ".join(str(i) for i in range(100))
    assert len(bindings(f"k IN ({hundred}) AND n IN ({hundred})", "k", "n")) == 10_000
    assert bindings(f"k IN ({hundred}) AND n IN ({hundred})", "k", "n", limit=9_999) is None
    assert bindings(f"k IN ({hundred})", "k", limit=50) is None
    assert bindings("k = 1", limit=50) is None


@pytest.mark.slow
def test_many_cases_stay_quick():
    text = " OR ".join(f"(k = {i} AND p = 'p{i}')" for i in range(2000))
    assert len(bindings(text, "k", "p")) == 2000
    assert bindings(f"({text}) AND ({text})", "k", "p") is not None


def test_the_limit_itself_is_not_beyond_it():
    fifty = [str(i) for i in range(50)]
    assert len(bindings(f"k IN ({', '.join(fifty)})", "k", limit=50)) == 50
    assert bindings(f"k IN ({', '.join(fifty)})", "k", limit=49) is None
    cases = " OR ".join(f"(k = {i} AND p = '{i}')" for i in fifty)
    assert len(bindings(cases, "k", "p", limit=50)) == 50
    assert bindings(cases, "k", "p", limit=49) is None
    crossed = "((k = 1 AND p = 'a') OR (k = 2 AND p = 'b')) AND ((k = 1 AND n = 1) OR (k = 2 AND n = 2))"
    assert bindings(crossed, "k", "p", "n", limit=4) == [(1, "a", 1), (2, "b", 2)]
    assert bindings(crossed, "k", "p", "n", limit=3) is None


def test_values_that_both_sides_leave():
    assert bindings("d IN (1.5, 2.5) AND d IN (2.5, 3.5)", "d") == [(2.5,)]
    assert bindings("d = 1.5 AND d = 2.5", "d") == []


def test_times_are_bound_as_far_as_python_has_them():
    assert bindings("at = '2020-01-01'", "at") == [(dt.datetime(2020, 1, 1, tzinfo=dt.UTC),)]
    schema = pa.schema({"at": pa.timestamp("ns", "UTC")})
    assert key_bindings(bind(parse_sql("at = '2020-01-01'"), schema), ["at"]) is None
