"""Comparisons of functions of a column: the exact range of the column, or unknown."""

import datetime as dt

import pyarrow as pa
import pytest

from pushdown import Op, Predicate, bind, parse_sql
from pushdown.functions import Function, add_days, cast, trunc, year
from pushdown.walk import inexact_part

SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "sh": pa.int16(),
        "i": pa.int32(),
        "l": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "dec": pa.decimal128(10, 2),
        "narrow": pa.decimal128(15, 0),
        "wide": pa.decimal128(16, 0),
        "small": pa.uint8(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "ms": pa.timestamp("ms", "UTC"),
        "utc": pa.timestamp("us", "UTC"),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cast(i as double) > 5", "i > 5"),
        ("cast(f as double) > 5", "f > 5.0e0"),
        ("cast(dec as double) > 5", "dec > 5.00"),
        ("cast(sh as int) > 5", "sh > 5"),
        ("cast(i as int) > 5", "i > 5"),
        ("cast(i as bigint) >= 3000000000", "i IS NULL AND NULL"),
        ("cast(i as decimal(10, 0)) > 1.5", "i > 1"),
        ("cast(dec as decimal(12, 4)) > 1.5001", "dec > 1.50"),
        ("cast(dec as decimal(10, 2)) > 1.5", "dec > 1.50"),
        ("floor(i) > 2", "i > 2"),
        ("ceil(i) > 2", "i > 2"),
        ("floor(dec) > 2", "dec > 2.99"),
        ("floor(dec) <= 2", "dec <= 2.99"),
        ("ceil(dec) > 2", "dec > 2.00"),
        ("ceil(dec) < 2", "dec < 1.01"),
        ("floor(dec) > 50000000", "dec > 50000000.99"),
        ("ceil(dec) = 100000000", "dec >= 99999999.01 AND (dec IS NOT NULL OR NULL)"),
        ("ceil(dec) > 100000000", "dec IS NULL AND NULL"),
        ("date_add(day, 5) > DATE '2020-01-01'", "day > DATE '2019-12-27'"),
        ("date_sub(day, 5) > DATE '2020-01-01'", "day > DATE '2020-01-06'"),
        ("cast(day as timestamp) >= TIMESTAMP '2020-01-01 10:00:00'", "day >= DATE '2020-01-02'"),
        ("cast(day as timestamp) >= TIMESTAMP '2020-01-01 00:00:00'", "day >= DATE '2020-01-01'"),
        ("cast(at as date) > DATE '2020-01-01'", "at > TIMESTAMP '2020-01-01 23:59:59.999999'"),
        ("year(cast(at as date)) < 2020", "at < TIMESTAMP '2020-01-01 00:00:00'"),
        ("date_trunc('month', day) > DATE '2020-02-01'", "day > DATE '2020-02-29'"),
        ("date_trunc('day', at) >= TIMESTAMP '2020-02-01 00:00:01'", "at >= TIMESTAMP '2020-02-02 00:00:00'"),
        ("date_trunc('hour', at) >= TIMESTAMP '2020-02-01 00:00:00'", "at >= TIMESTAMP '2020-02-01 00:00:00'"),
        ("date_trunc('hour', at) > TIMESTAMP '2020-02-01 00:00:00'", "at > TIMESTAMP '2020-02-01 00:59:59.999999'"),
        (
            "date_trunc('millisecond', at) > TIMESTAMP '2020-02-01 00:00:00'",
            "at > TIMESTAMP '2020-02-01 00:00:00.000999'",
        ),
        ("year(at) IS NULL", "at IS NULL"),
    ],
)
def test_functions_become_ranges(text, expected):
    assert bind(parse_sql(text), SCHEMA).to_sql() == expected


@pytest.mark.parametrize(
    ("name", "function", "literal"),
    [
        ("i", cast(pa.float64()), "x"),
        ("s", cast(pa.float64()), 5),
        ("s", cast(pa.int32()), 5),
        ("wide", cast(pa.float64()), 5),
        ("l", cast(pa.int32()), 5),
        ("small", cast(pa.int8()), 5),
        ("sh", cast(pa.uint64()), 5),
        ("d", cast(pa.int32()), 5),
        ("i", cast(pa.date32()), dt.date(2020, 1, 1)),
        ("i", cast(pa.string()), "5"),
        ("i", cast(pa.timestamp("us")), dt.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("day", cast(pa.int32()), 5),
        ("at", cast(pa.int64()), 5),
        ("at", cast(pa.timestamp("ms")), dt.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("at", cast(pa.timestamp("ns", "UTC")), dt.datetime(2020, 1, 1)),  # noqa: DTZ001
        ("dec", cast(pa.decimal128(9, 1)), 5),
        ("dec", cast(pa.decimal128(9, 2)), 5),
        ("i", Function("cast"), 5),
        ("i", Function("cast", ("int",)), 5),
        ("i", Function("cast", (pa.int32(), pa.int64())), 5),
        ("i", year(), 2020),
        ("day", Function("year", (1,)), 2020),
        ("i", trunc("month"), 5),
        ("day", trunc("fortnight"), dt.date(2020, 1, 1)),
        ("day", Function("trunc"), dt.date(2020, 1, 1)),
        ("day", Function("trunc", ("month", "month")), dt.date(2020, 1, 1)),
        ("d", Function("floor"), 5),
        ("s", Function("ceil"), 5),
        ("dec", Function("floor", (1,)), 5),
        ("i", add_days(1), dt.date(2020, 1, 1)),
        ("day", Function("add_days"), dt.date(2020, 1, 1)),
        ("day", Function("add_days", (True,)), dt.date(2020, 1, 1)),
        ("day", add_days(1_000_000), dt.date(2020, 1, 1)),
        ("day", add_days(-1_000_000), dt.date(2020, 1, 1)),
        ("i", Function("floor", inner=cast(pa.float64())), 5),
        ("i", Function("soundex"), 5),
        ("day", year(), b"2020"),
    ],
)
def test_functions_that_are_not_understood(name, function, literal):
    assert inexact_part(bind(Predicate(Op.GT, name, (literal,), function=function), SCHEMA))


def test_the_last_that_are_understood():
    assert bind(Predicate(Op.GT, "narrow", (5,), function=cast(pa.float64())), SCHEMA).op is Op.GT
    assert bind(Predicate(Op.GT, "small", (5,), function=cast(pa.uint16())), SCHEMA).op is Op.GT
    for days in (999_999, -999_999):
        assert bind(Predicate(Op.GT, "day", (dt.date(2020, 1, 1),), function=add_days(days)), SCHEMA).op is Op.GT


def test_clock_hours_of_zones():
    at = dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC)
    for zone in ("UTC", "Europe/Berlin", "+05:30", "Asia/Kolkata"):
        bound = bind(Predicate(Op.GT, "utc", (at,), function=trunc("hour")), SCHEMA, time_zone=zone)
        # Where clocks are half an hour off, the hour that 12:00 UTC lies in ends at 12:30.
        late = dt.timedelta(minutes=30) if zone in {"+05:30", "Asia/Kolkata"} else dt.timedelta(hours=1)
        assert (bound.op, bound.values[0].as_py()) == (Op.GT, at + late - dt.timedelta(microseconds=1))


def test_days_of_zones():
    # 23:30 of UTC is the next day in Berlin, which ends at 22:00 of UTC.
    at = dt.datetime(2020, 7, 1, 23, 30, tzinfo=dt.UTC)
    bound = bind(Predicate(Op.GE, "utc", (at,), function=trunc("day")), SCHEMA, time_zone="Europe/Berlin")
    assert (bound.op, bound.values[0].as_py()) == (Op.GE, dt.datetime(2020, 7, 2, 22, tzinfo=dt.UTC))
    # In New York it is the evening before.
    at = dt.datetime(2020, 7, 2, 0, 30, tzinfo=dt.UTC)
    bound = bind(Predicate(Op.GE, "utc", (at,), function=trunc("day")), SCHEMA, time_zone="America/New_York")
    assert (bound.op, bound.values[0].as_py()) == (Op.GE, dt.datetime(2020, 7, 2, 4, tzinfo=dt.UTC))


def test_days_that_start_twice():
    # Havana's clocks went back from 01:00 to 00:00: midnight was at 04:00 and at 05:00 of UTC.
    midnight = dt.datetime(2020, 11, 1, 4, tzinfo=dt.UTC)
    for minutes, known in ((-1, True), (0, False), (1, False), (59, False), (60, False), (61, True)):
        at = midnight + dt.timedelta(minutes=minutes)
        bound = bind(Predicate(Op.GE, "utc", (at,), function=trunc("day")), SCHEMA, time_zone="America/Havana")
        assert (inexact_part(bound) is None) is known, minutes
