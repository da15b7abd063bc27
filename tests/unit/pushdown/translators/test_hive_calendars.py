# ruff: noqa: DTZ001 - clock times without a zone are what Hive compares

"""Dates before 1582 and clock times before 1900: Hive may read other values than those that are stored."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushdown import ColumnStatistics, Unknown, bind, evaluate, simplify
from pushdown.translators import from_hive_tree
from pushdown.walk import leaves
from tests.unit.pushdown.translators.hive_trees import COMPARE, HOLDS, call, column, equal, sql, value

EPOCH = dt.date(1970, 1, 1)
YEAR_1, CHANGE = (dt.date(1, 1, 1) - EPOCH).days, (dt.date(1582, 10, 15) - EPOCH).days
# days of the Julian period at 1970-01-01
JULIAN_DAY = 2_440_588


def of_julian_calendar(day: int) -> int:
    """The day that Hive makes of a stored one where it takes it for one of Julius Caesar's calendar."""
    if day >= CHANGE:
        return day
    a = day + JULIAN_DAY + 32_082
    b = (4 * a + 3) // 1461
    c = a - 1461 * b // 4
    month = (5 * c + 2) // 153
    year, date = b - 4800 + month // 10, c - (153 * month + 2) // 5
    return int(np.datetime64(f"{year:04d}-{month + 3 - 12 * (month // 10):02d}", "D").astype(int)) + date


def outcomes(node: object, kind: pa.DataType, stored: list[object], zone: str = "UTC") -> list[set[bool]]:
    """What a filter may be for files of one value each; nulls aside."""
    schema = pa.schema({"a": kind})
    values = pa.array(stored, kind)
    none, one = pa.array([0] * len(stored), pa.int64()), pa.array([1] * len(stored), pa.int64())
    bound = simplify(bind(from_hive_tree(node, time_zone=zone), schema, time_zone=zone))
    truths = evaluate(bound, {"a": ColumnStatistics(values, values, none, one)}, len(stored))
    pairs = zip(truths.can_true, truths.can_false, strict=True)
    return [{truth for truth, may in zip((True, False), pair, strict=True) if may} for pair in pairs]


def test_calendars_of_the_model() -> None:
    shifts = {day: of_julian_calendar(day) - day for day in (YEAR_1 - 2, CHANGE - 1, CHANGE)}
    assert shifts == {YEAR_1 - 2: 2, CHANGE - 1: -10, CHANGE: 0}


def date(day: int) -> str:
    return (EPOCH + dt.timedelta(days=day)).isoformat()


DAYS = st.one_of(st.integers(YEAR_1, CHANGE + 400), st.integers(CHANGE - 40, CHANGE + 40))


@pytest.mark.slow
@given(DAYS, st.lists(st.integers(-40, 40), min_size=1, max_size=8), st.integers(YEAR_1 - 800, CHANGE + 800))
def test_no_day_is_lost_whatever_calendar_hive_reads_it_by(literal: int, around: list[int], other: int) -> None:
    stored = [*(literal + shift for shift in around), other]
    for operator, name in COMPARE.items():
        node = call(name, column("a", "date"), value(date(literal), "date"))
        for wanted, condition in ((True, node), (False, call("GenericUDFOPNot", node))):
            for day, possible in zip(stored, outcomes(condition, pa.date32(), stored), strict=True):
                for seen in (day, of_julian_calendar(day)):
                    assert (HOLDS[operator](seen, literal) is wanted) in possible, (operator, day, seen)
    high = literal + 3
    ends = [value(date(day), "date") for day in (literal, high)]
    between = call("GenericUDFBetween", value(False, "boolean"), column("a", "date"), *ends)
    listed = call("GenericUDFIn", column("a", "date"), *ends)
    for day, inside, member in zip(
        stored, outcomes(between, pa.date32(), stored), outcomes(listed, pa.date32(), stored), strict=True
    ):
        for seen in (day, of_julian_calendar(day)):
            assert (literal <= seen <= high) in inside
            assert (seen in (literal, high)) in member


@given(
    st.datetimes(dt.datetime(1, 1, 1), dt.datetime(1899, 12, 31)),
    st.lists(st.integers(-30 * 86_400, 30 * 86_400), min_size=1, max_size=8),
    st.integers(-12 * 86_400, 12 * 86_400),
    st.sampled_from([pa.timestamp("us"), pa.timestamp("us", "UTC")]),
    st.booleans(),
)
def test_no_clock_time_is_lost_that_hive_shows_days_away(
    literal: dt.datetime, around: list[int], shift: int, kind: pa.DataType, is_day: bool
) -> None:
    """Hive's clock time is the stored one, moved by a calendar and by the local time of a place."""
    moment = dt.datetime.combine(literal.date(), dt.time.min) if is_day else literal
    text, own = (str(literal.date()), "date") if is_day else (str(literal), "timestamp")
    exact = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    stored = [exact + seconds * 1_000_000 for seconds in around]
    for operator, name in COMPARE.items():
        node = call(name, column("a", "timestamp"), value(text, own))
        for microseconds, possible in zip(stored, outcomes(node, kind, stored, "Europe/Berlin"), strict=True):
            seen = microseconds + shift * 1_000_000
            assert HOLDS[operator](seen, exact) in possible, (operator, microseconds)


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [
        # Files of 1200-06-01, 1400-06-01, 1600-06-01
        ("=", "1400-06-01", ["F", "TF", "F"]),
        ("<>", "1400-06-01", ["T", "TF", "T"]),
        ("<=>", "1400-06-09", ["F", "TF", "F"]),
        ("=", "1400-07-01", ["F", "F", "F"]),
        ("<", "1400-07-01", ["T", "T", "F"]),
        ("<=", "1400-06-09", ["T", "TF", "F"]),
        (">=", "1400-06-09", ["F", "TF", "T"]),
        (">", "1400-01-01", ["F", "T", "T"]),
        ("=", "0001-01-01", ["F", "F", "F"]),
        (">", "0001-01-01", ["T", "T", "T"]),
    ],
)
def test_old_dates_prune(kind: str, operator: str, text: str, expected: list[str]) -> None:
    days = [dt.date(year, 6, 1) for year in (1200, 1400, 1600)]
    stored = [dt.datetime.combine(day, dt.time.min) for day in days] if kind == "timestamp" else days
    node = call(COMPARE[operator], column("a", kind), value(text if kind == "date" else f"{text} 00:00:00", kind))
    arrow = pa.date32() if kind == "date" else pa.timestamp("us")
    got = outcomes(node, arrow, stored)
    assert ["".join(name for name, truth in (("T", True), ("F", False)) if truth in one) for one in got] == expected


def test_lists_of_old_dates() -> None:
    few = call("GenericUDFIn", column("a", "date"), *(value(text, "date") for text in ("1400-06-01", "2024-01-01")))
    assert sql(few).startswith(
        "a IN (DATE '2024-01-01') OR ((a < DATE '0001-02-01' OR "
        "(a >= DATE '1400-05-18' AND a <= DATE '1400-06-15')) AND unknown("
    )
    days = [value(str(dt.date(1400, 1, 1) + dt.timedelta(days=day)), "date") for day in range(101)]
    assert isinstance(from_hive_tree(call("GenericUDFIn", column("a", "date"), *days)), Unknown)


@pytest.mark.parametrize(
    ("own", "text", "kind"),
    [("date", "1400-06-01 12:00:00", "timestamp"), ("timestamp", "1400-06-01", "date")],
)
def test_old_dates_and_times_beside_each_other(own: str, text: str, kind: str) -> None:
    expression = from_hive_tree(equal(own, text, kind))
    reasons = [leaf.reason for leaf in leaves(expression) if isinstance(leaf, Unknown)]
    assert reasons == [f"a: Hive may read values around {text} by another calendar"]


def test_times_of_files_that_cannot_hold_so_old_ones() -> None:
    """Nanoseconds begin in 1677."""
    stored = [dt.datetime(1700, 1, 1), dt.datetime(2024, 1, 1)]
    for text, expected in (("1500-01-01 00:00:00", [{False}] * 2), ("1700-01-02 00:00:00", [{True, False}, {False}])):
        assert outcomes(equal("timestamp", text), pa.timestamp("ns"), stored) == expected
