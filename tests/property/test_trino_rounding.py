"""A filter on times is never surely false where Trino, whatever its precision, may find it true; nor the other way."""

import datetime as dt
import operator
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.gateway.trino_filter import as_trino_filters
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression
from pushdown.sql import parse_sql
from tests.property.profile import examples

MICROS = pa.timestamp("us", "UTC")
EPOCH = dt.datetime.fromisoformat("1970-01-01")
DAY = dt.datetime.fromisoformat("2024-01-01")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# a base time, and microseconds from it, so that values and literals meet within rounding
bases = st.sampled_from([EPOCH, EPOCH - dt.timedelta(seconds=1), DAY, dt.datetime.fromisoformat("1900-02-28T23:59:59")])
shifts = st.integers(-2_000, 2_000)


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def rounded(value: int, unit: int) -> int:
    """Half up, as Trino rounds the microseconds of files and of literals that are cast."""
    return int((Decimal(value) / unit + Decimal("0.5")).to_integral_value(ROUND_FLOOR)) * unit


def outcomes(expression: HudiExpression, values: list[Any], kind: pa.DataType) -> Any:
    """What the planner makes of files that hold one value each."""
    exact = pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)
    counts = pa.array([1] * len(values), pa.int64())
    none = pa.array([0] * len(values), pa.int64())
    return evaluate(expression, {"at": ColumnStatistics(exact, exact, none, counts)}, len(values))


def check(text: str, truth: Callable[[int], bool], stored: list[int], kind: pa.DataType = MICROS) -> None:
    condition = as_trino_filters(parse_sql(text, "trino"), pa.schema([("at", kind)]))
    verdicts = outcomes(condition, stored, kind)
    true = np.array([truth(value) for value in stored])
    assert verdicts.can_true[true].all(), f"{text} loses {[v for v, t in zip(stored, true, strict=True) if t]}"
    assert verdicts.can_false[~true].all(), f"{text} is thought to hold for all of {stored}"


@given(bases, shifts, st.lists(shifts, min_size=1), st.sampled_from(list(COMPARISONS)), st.booleans(), st.data())
@examples(150)
def test_one_comparison(
    base: dt.datetime, shift: int, near: list[int], op: str, negated: bool, data: st.DataObject
) -> None:
    literal = base + dt.timedelta(microseconds=shift)
    stored = [micros(base) + value for value in near]
    seen_unit = data.draw(st.sampled_from([1, 1000]))
    form, literal_unit = data.draw(
        st.sampled_from([("TIMESTAMP '{}'", 1), ("CAST('{}' AS timestamp)", 1000), ("CAST('{}' AS timestamp(6))", 1)])
    )
    compared = rounded(micros(literal), literal_unit)
    text = f"at {op} {form.format(literal.isoformat(' ', 'microseconds'))}"
    compare = COMPARISONS[op]

    def truth(value: int) -> bool:
        return compare(rounded(value, seen_unit), compared) is not negated

    check(f"NOT ({text})" if negated else text, truth, stored)


@given(bases, st.lists(shifts, min_size=1, max_size=4), st.lists(shifts, min_size=1), st.booleans(), st.booleans())
@examples(80)
def test_lists_and_ranges(base: dt.datetime, members: list[int], near: list[int], negated: bool, coarse: bool) -> None:
    literals = [base + dt.timedelta(microseconds=shift) for shift in members]
    stored = [micros(base) + value for value in near]
    texts = [f"TIMESTAMP '{literal.isoformat(' ', 'microseconds')}'" for literal in literals]
    unit = 1000 if coarse else 1
    word = "NOT " if negated else ""
    values = [micros(literal) for literal in literals]
    check(f"at {word}IN ({', '.join(texts)})", lambda v: (rounded(v, unit) in values) is not negated, stored)
    low, high = texts[0], texts[-1]
    check(
        f"at {word}BETWEEN {low} AND {high}",
        lambda v: (values[0] <= rounded(v, unit) <= values[-1]) is not negated,
        stored,
    )


@given(bases, st.lists(shifts, min_size=1), st.sampled_from(list(COMPARISONS)), st.booleans())
@examples(80)
def test_functions_see_what_is_rounded(base: dt.datetime, near: list[int], op: str, coarse: bool) -> None:
    stored = [micros(base) + value for value in near]
    unit = 1000 if coarse else 1
    compare = COMPARISONS[op]

    def seen(value: int) -> dt.datetime:
        return EPOCH + dt.timedelta(microseconds=rounded(value, unit))

    check(f"year(at) {op} {base.year}", lambda v: compare(seen(v).year, base.year), stored)
    check(f"CAST(at AS date) {op} DATE '{base:%Y-%m-%d}'", lambda v: compare(seen(v).date(), base.date()), stored)
    second = base.replace(microsecond=0)
    check(
        f"date_trunc('second', at) {op} TIMESTAMP '{second}'",
        lambda v: compare(seen(v).replace(microsecond=0), second),
        stored,
    )


PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "year(at) - 1": lambda clock: clock.year - 1,
    "quarter(at)": lambda clock: (clock.month + 2) // 3,
    "month(at)": lambda clock: clock.month,
    "week(at)": lambda clock: clock.isocalendar().week,
    "day(at)": lambda clock: clock.day,
    "day_of_week(at)": lambda clock: clock.isoweekday(),
    "day_of_year(at)": lambda clock: clock.timetuple().tm_yday,
    "hour(at)": lambda clock: clock.hour,
    "minute(at)": lambda clock: clock.minute,
    "second(at)": lambda clock: clock.second,
}


@pytest.mark.parametrize("part", PARTS)
@given(bases, st.lists(shifts, min_size=1), shifts, st.sampled_from(list(COMPARISONS)), st.booleans(), st.booleans())
@examples(40)
def test_parts_are_those_of_what_is_rounded(
    part: str, base: dt.datetime, near: list[int], shift: int, op: str, coarse: bool, negated: bool
) -> None:
    unit = 1000 if coarse else 1
    value_of, compare = PARTS[part], COMPARISONS[op]

    def seen(value: int) -> int:
        return value_of(EPOCH + dt.timedelta(microseconds=rounded(value, unit)))

    literal = seen(micros(base) + shift)
    text = f"{part} {op} {literal}"
    check(
        f"NOT ({text})" if negated else text,
        lambda value: compare(seen(value), literal) is not negated,
        [micros(base) + value for value in near],
    )


@given(bases, st.integers(-40, 40), st.integers(-18, 18), st.sampled_from(list(COMPARISONS)))
@examples(80)
def test_literals_with_a_zone_are_compared_in_any_zone(base: dt.datetime, hours: int, zone: int, op: str) -> None:
    stored = micros(base + dt.timedelta(hours=hours))
    compare = COMPARISONS[op]

    def truth(value: int) -> bool:
        # the column's clock time is of the session's zone
        return compare(value - zone * 3_600_000_000, micros(base))

    check(f"at {op} TIMESTAMP '{base} UTC'", truth, [stored])


@pytest.mark.parametrize("op", list(COMPARISONS))
@pytest.mark.parametrize("negated", [False, True])
def test_dates_meet_times(op: str, negated: bool) -> None:
    day = dt.date(2024, 1, 1)
    days = [(day - EPOCH.date()).days + shift for shift in range(-3, 4)]
    compare = COMPARISONS[op]
    for text, seconds in (
        ("TIMESTAMP '2024-01-01 00:00:00'", Decimal(0)),
        ("TIMESTAMP '2024-01-01 12:00:00'", Decimal(43_200)),
        ("CAST('2023-12-31 23:59:59.9996' AS timestamp)", Decimal(0)),
        ("CAST('2024-01-01 00:00:00.0004' AS timestamp)", Decimal(0)),
        ("TIMESTAMP '2024-01-01 00:00:00.000001'", Decimal("0.000001")),
    ):
        whole = f"NOT (at {op} {text})" if negated else f"at {op} {text}"
        moment = Decimal((day - EPOCH.date()).days * 86_400) + seconds

        def truth(value: int, moment: Decimal = moment) -> bool:
            return compare(Decimal(value * 86_400), moment) is not negated

        check(whole, truth, days, pa.date32())


def test_a_whole_day_keeps_the_files_of_the_day_alone() -> None:
    text = "at >= TIMESTAMP '2024-01-02 00:00:00' AND at < TIMESTAMP '2024-01-03 00:00:00'"
    condition = as_trino_filters(parse_sql(text, "trino"), pa.schema([("at", MICROS)]))
    day = micros(DAY + dt.timedelta(1))
    day_length = 86_400_000_000
    stored = [day - 501, day - 500, day, day + day_length - 1, day + day_length]
    assert outcomes(condition, stored, MICROS).can_true.tolist() == [False, True, True, True, False]
