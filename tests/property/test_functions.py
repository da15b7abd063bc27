# ruff: noqa: DTZ001 - clock times without a zone are what is tested
"""Comparisons of functions of a column, bound to ranges, against Python's and DuckDB's own values."""

import datetime as dt
import functools
import math
import operator
import zoneinfo
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pushdown import Op, Predicate, bind, matches
from pushdown.functions import Function, add_days, cast, prefix, prefix16, trunc, year
from pushdown.walk import inexact_part

COMPARE = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
ZONES = (
    "UTC",
    "+05:30",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "America/St_Johns",
    "Australia/Lord_Howe",
)
ZONES += ("America/Sao_Paulo", "Africa/Monrovia", "Pacific/Apia", "America/Havana")
MICRO = dt.timedelta(microseconds=1)
OPS = st.sampled_from(list(COMPARE))
_WANTED = settings.default.max_examples
# Three times as many as elsewhere, and no fewer than the nightly profile has.
EXAMPLES = settings(max_examples=max(min(300, 3 * _WANTED), _WANTED), deadline=None)


def zone(name):
    return dt.timezone(dt.timedelta(hours=5, minutes=30)) if name == "+05:30" else zoneinfo.ZoneInfo(name)


@functools.cache
def transitions(name):
    """Days on which the clocks of a zone were changed from 1960 to 2030."""
    start = dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
    days = [start + dt.timedelta(days=day) for day in range(25_567)]
    offsets = [day.astimezone(zone(name)).utcoffset() for day in days]
    return [day for day, a, b in zip(days, offsets, offsets[1:], strict=False) if a != b] or [days[3652]]


def start_of(unit, day):
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1}.get(unit, day.month)
    return day if unit == "day" else day.replace(month=month, day=1)


def expected(values, image, op, literal):
    return [None if value is None else COMPARE[op](image(value), literal) for value in values]


def check(column, predicate, want, time_zone="UTC", *, must=True):
    table = pa.table({"a": column})
    bound = bind(predicate, table.schema, time_zone=time_zone)
    if inexact_part(bound):
        assert not must, inexact_part(bound)
        assume(False)
    assert matches(bound, table).to_pylist() == want, (bound, column, predicate)


DAYS = st.dates(dt.date(1, 2, 1), dt.date(9998, 12, 1))
NEAR_DAYS = st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1))
UNITS = st.sampled_from(["year", "quarter", "month", "week", "day"])


@EXAMPLES
@given(st.lists(st.none() | DAYS, max_size=8), OPS, st.integers(-1, 10_001), st.data())
def test_years_of_dates(days, op, wanted, data):
    pool = [day.year for day in days if day]
    wanted = data.draw(st.sampled_from([*pool, wanted]))
    check(
        pa.array(days, pa.date32()),
        Predicate(op, "a", (wanted,), function=year()),
        expected(days, lambda d: d.year, op, wanted),
    )


@EXAMPLES
@given(st.lists(st.none() | DAYS, max_size=8), OPS, DAYS, UNITS, st.data())
def test_units_of_dates(days, op, literal, unit, data):
    pool = [start_of(unit, day) for day in days if day]
    literal = data.draw(st.sampled_from([*pool, literal]))
    want = expected(days, lambda d: start_of(unit, d), op, literal)
    check(pa.array(days, pa.date32()), Predicate(op, "a", (literal,), function=trunc(unit)), want)


@st.composite
def moments(draw):
    """A zone, and instants near its changes of clocks."""
    name = draw(st.sampled_from(ZONES))
    change = draw(st.sampled_from(transitions(name)))
    shift = st.one_of(
        st.integers(-3 * 60, 30 * 60).map(lambda minutes: dt.timedelta(minutes=minutes)),
        st.integers(-(10**11), 10**11).map(lambda micros: dt.timedelta(microseconds=micros)),
        st.integers(-400, 400).map(lambda days: dt.timedelta(days=days)),
    )
    return name, draw(st.lists(st.none() | shift.map(change.__add__), min_size=1, max_size=8))


def clock(moment, name):
    return moment.astimezone(zone(name)).replace(tzinfo=None)


UNIT_OF_ARROW = {"s": 10**6, "ms": 10**3, "us": 1}


@EXAMPLES
@given(moments(), OPS, st.data())
def test_dates_and_years_of_instants(drawn, op, data):
    name, instants = drawn
    unit = data.draw(st.sampled_from(["ms", "us"]))
    stored = [None if m is None else m - m.microsecond % UNIT_OF_ARROW[unit] * MICRO for m in instants]
    pool = [clock(m, name).date() for m in stored if m is not None] + [dt.date(1970, 1, 1)]
    literal = data.draw(st.sampled_from(pool))
    column = pa.array(stored, pa.timestamp(unit, "UTC"))
    check(
        column,
        Predicate(op, "a", (literal,), function=cast(pa.date32())),
        expected(stored, lambda m: clock(m, name).date(), op, literal),
        name,
        must=name != "America/St_Johns",
    )
    check(
        column,
        Predicate(op, "a", (literal.year,), function=year()),
        expected(stored, lambda m: clock(m, name).year, op, literal.year),
        name,
    )
    start = start_of("month", literal)
    check(
        column,
        Predicate(op, "a", (start,), function=trunc("month").of(cast(pa.date32()))),
        expected(stored, lambda m: start_of("month", clock(m, name).date()), op, start),
        name,
        must=name != "America/St_Johns",
    )


def java_start_of_day(day, name):
    """The instant at which a day starts, or all that engines may take for it."""
    local = dt.datetime.combine(day, dt.time.min)
    return {local.replace(tzinfo=zone(name), fold=fold).astimezone(dt.UTC) for fold in (0, 1)}


@EXAMPLES
@given(moments(), OPS, UNITS, st.data())
def test_units_of_instants(drawn, op, unit, data):
    name, instants = drawn
    pool = [
        next(iter(java_start_of_day(start_of(unit, clock(m, name).date()), name))) for m in instants if m is not None
    ]
    literal = data.draw(st.sampled_from([*pool, dt.datetime(1970, 1, 1, tzinfo=dt.UTC), *(m for m in instants if m)]))

    def start(moment, fold):
        return fold(java_start_of_day(start_of(unit, clock(moment, name).date()), name))

    results = [expected(instants, functools.partial(start, fold=fold), op, literal) for fold in (min, max)]
    column = pa.array(instants, pa.timestamp("us", "UTC"))
    for want in results:
        check(column, Predicate(op, "a", (literal,), function=trunc(unit)), want, name, must=False)


@EXAMPLES
@given(st.lists(st.none() | st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1)), max_size=8), OPS, st.data())
def test_clock_times(times, op, data):
    size = data.draw(
        st.sampled_from(["hour", "minute", "second", "millisecond", "day", "week", "month", "quarter", "year"])
    )

    def image(moment):
        if size in {"day", "week", "month", "quarter", "year"}:
            return dt.datetime.combine(start_of(size, moment.date()), dt.time.min)
        parts = {"hour": {"minute": 0, "second": 0, "microsecond": 0}, "minute": {"second": 0, "microsecond": 0}}
        parts |= {"second": {"microsecond": 0}, "millisecond": {"microsecond": moment.microsecond // 1000 * 1000}}
        return moment.replace(**parts[size])

    pool = [image(m) for m in times if m] + [m for m in times if m] + [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
    literal = data.draw(st.sampled_from(pool))
    check(
        pa.array(times, pa.timestamp("us")),
        Predicate(op, "a", (literal,), function=trunc(size)),
        expected(times, image, op, literal),
    )


@EXAMPLES
@given(moments(), OPS, st.sampled_from(["hour", "minute", "second"]), st.data())
def test_hours_of_instants(drawn, op, unit, data):
    name, instants = drawn
    size = {"hour": 3600, "minute": 60, "second": 1}[unit] * 10**6

    def image(moment):
        shown = moment.astimezone(zone(name))
        ahead = shown.utcoffset() // MICRO
        micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MICRO + ahead
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + (micros // size * size - ahead) * MICRO

    literal = data.draw(
        st.sampled_from(
            [m for m in instants if m] + [image(m) for m in instants if m] + [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]
        )
    )
    check(
        pa.array(instants, pa.timestamp("us", "UTC")),
        Predicate(op, "a", (literal,), function=trunc(unit)),
        expected(instants, image, op, literal),
        name,
        must=name in {"UTC", "+05:30"},
    )


DECIMALS = st.decimals(Decimal("-999999.99"), Decimal("999999.99"), places=2)


@EXAMPLES
@given(st.lists(st.none() | DECIMALS, max_size=8), OPS, st.sampled_from(["floor", "ceil"]), DECIMALS, st.data())
def test_whole_numbers_of_decimals(numbers, op, name, literal, data):
    literal = data.draw(
        st.sampled_from(
            [
                literal,
                int(literal),
                *(math.floor(n) for n in numbers if n is not None),
                *(math.ceil(n) for n in numbers if n is not None),
            ]
        )
    )
    want = expected(numbers, getattr(math, name), op, literal)
    check(pa.array(numbers, pa.decimal128(8, 2)), Predicate(op, "a", (literal,), function=Function(name)), want)


@EXAMPLES
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8), OPS, st.floats(allow_nan=False), st.data())
def test_integers_as_doubles(numbers, op, literal, data):
    literal = data.draw(
        st.sampled_from(
            [literal, *(float(n) for n in numbers if n is not None), *(n for n in numbers if n is not None)]
        )
    )
    want = expected(numbers, float, op, float(literal))
    check(pa.array(numbers, pa.int64()), Predicate(op, "a", (literal,), function=cast(pa.float64())), want)


@EXAMPLES
@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=8), OPS, st.integers(-(2**40), 2**40), st.data())
def test_wider_numbers(numbers, op, literal, data):
    literal = data.draw(st.sampled_from([literal, *(n for n in numbers if n is not None)]))
    for type_ in (pa.int64(), pa.decimal128(20, 3)):
        check(
            pa.array(numbers, pa.int32()),
            Predicate(op, "a", (literal,), function=cast(type_)),
            expected(numbers, int, op, literal),
        )


@EXAMPLES
@given(st.lists(st.none() | NEAR_DAYS, max_size=8), OPS, st.integers(-1000, 1000), NEAR_DAYS, st.data())
def test_days_later(days, op, shift, literal, data):
    later = dt.timedelta(days=shift)
    literal = data.draw(st.sampled_from([literal, *(day + later for day in days if day)]))
    check(
        pa.array(days, pa.date32()),
        Predicate(op, "a", (literal,), function=add_days(shift)),
        expected(days, lambda d: d + later, op, literal),
    )


TEXT = st.text(st.sampled_from("ab?\x00é￿😀 "), max_size=5)


@EXAMPLES
@given(st.lists(st.none() | TEXT, max_size=8), OPS, TEXT, st.integers(1, 4))
def test_first_characters(texts, op, literal, size):
    check(
        pa.array(texts, pa.string()),
        Predicate(op, "a", (literal,), function=prefix(size)),
        expected(texts, lambda t: t[:size], op, literal),
    )


def java_prefix(text, size):
    return (
        text.encode("utf-16-le", "surrogatepass")[: 2 * size]
        .decode("utf-16-le", "surrogatepass")
        .encode("utf-8", "replace")
        .decode()
    )


@EXAMPLES
@given(st.lists(st.none() | TEXT, max_size=8), OPS, TEXT, st.integers(1, 4))
def test_first_units(texts, op, literal, size):
    check(
        pa.array(texts, pa.string()),
        Predicate(op, "a", (literal,), function=prefix16(size)),
        expected(texts, lambda t: java_prefix(t, size), op, literal),
        must=False,
    )


@pytest.mark.parametrize("op", [Op.IN, Op.NOT_IN])
@EXAMPLES
@given(st.lists(st.none() | NEAR_DAYS, max_size=8), st.lists(st.none() | st.integers(1960, 2030), max_size=4))
def test_lists_of_years(op, days, years):
    def in_years(day):
        if not years:
            return False
        return None if day is None else True if day.year in years else None if None in years else False

    want = [in_years(day) for day in days]
    if op is Op.NOT_IN:
        want = [None if value is None else not value for value in want]
    check(pa.array(days, pa.date32()), Predicate(op, "a", tuple(years), function=year()), want)


def test_years_as_duckdb_has_them():
    numbers = list(range(-1_000_000, 1_000_000, 9973))
    column = pa.array(numbers, pa.int32()).cast(pa.date32())
    table = pa.table({"a": column})
    connection = duckdb.connect()
    connection.register("t", table)
    for unit in ("year", "quarter", "month", "week"):
        for literal in (
            dt.date(1, 1, 1),
            dt.date(1582, 10, 15),
            dt.date(1969, 12, 29),
            dt.date(1970, 1, 1),
            dt.date(2000, 3, 1),
        ):
            rows = connection.sql(f"SELECT date_trunc('{unit}', a) <= DATE '{literal}' FROM t").fetchall()
            bound = bind(Predicate(Op.LE, "a", (literal,), function=trunc(unit)), table.schema)
            assert matches(bound, table).to_pylist() == [row[0] for row in rows], (unit, literal)
    rows = connection.sql("SELECT year(a) FROM t").fetchall()
    for wanted in (-767, -1, 0, 1, 1969, 1970, 4707):
        bound = bind(Predicate(Op.EQ, "a", (wanted,), function=year()), table.schema)
        assert matches(bound, table).to_pylist() == [row[0] == wanted for row in rows]
