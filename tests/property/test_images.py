# ruff: noqa: DTZ001 - the clock times that Hypothesis draws have no zone
"""The image of a function holds what the function makes of every value between the bounds, as Python computes it."""

import datetime as dt
import math
import zoneinfo

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pushdown import ColumnStatistics
from pushdown.functions import Function

EXAMPLES = settings(max_examples=300, deadline=None)
ZONES = st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "+05:30"])
LEAST, GREATEST = -(2**31), 2**31 - 1
NUMBERS = st.one_of(st.integers(-50, 50), st.integers(LEAST, GREATEST), st.sampled_from([LEAST, GREATEST]))


def image(values, kind, function, zone="UTC"):
    numbers = pa.array(values, pa.int64()).cast(kind) if not pa.types.is_string(kind) else pa.array(values, kind)
    low, high = min(values), max(values)
    ends = [numbers[values.index(end) : values.index(end) + 1] for end in (low, high)]
    statistics = ColumnStatistics(*ends, pa.array([0]), pa.array([len(values)]), all_null_is_certain=True)
    found = statistics.of_function(function, kind, zone)
    if found.no_lower[0] or found.no_upper[0]:
        return None
    return [end[0].as_py() if isinstance(end, pa.Array) else int(end[0]) for end in (found.lower, found.upper)]


def holds(bounds, results, *, exact=False):
    if bounds is None:
        return not exact
    inside = all(bounds[0] <= result <= bounds[1] for result in results)
    return inside and (not exact or bounds == [min(results), max(results)])


@EXAMPLES
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.integers(-20, 20).filter(bool) | NUMBERS.filter(bool))
def test_numbers(values, number):
    size = abs(number)
    references = {
        ("mod", number): lambda value: int(math.fmod(value, number)),
        ("add", number): lambda value: value + number,
        ("multiply", number): lambda value: value * number,
        ("div", number): lambda value: abs(value) // size * (1 if (value < 0) == (number < 0) else -1),
        ("pmod", size): lambda value: value % size,
        ("negative",): lambda value: -value,
        ("abs",): abs,
    }
    kind = pa.int32()
    for (name, *arguments), reference in references.items():
        results = [reference(value) for value in values]
        bounds = image(values, kind, Function(name, tuple(arguments)))
        if all(LEAST <= result <= GREATEST for result in results):
            assert holds(bounds, results, exact=len(set(values)) == 1), (name, arguments)
        elif name in {"add", "multiply", "negative", "abs"}:
            assert bounds is None, (name, arguments)


PARTS = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "dayofyear": lambda at: at.timetuple().tm_yday,
    "weekofyear": lambda at: at.isocalendar().week,
    "dayofweek": lambda at: at.isoweekday() % 7 + 1,
    "weekday": lambda at: at.weekday(),
    "dayofweek_iso": lambda at: at.isoweekday(),
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
}


@EXAMPLES
@given(
    st.datetimes(dt.datetime(1880, 1, 1), dt.datetime(2105, 1, 1)),
    st.lists(st.integers(0, 10**9) | st.integers(0, 4 * 10**11) | st.integers(0, 10**14), min_size=1, max_size=4),
    ZONES,
    st.sampled_from(sorted(PARTS)),
)
def test_parts_of_times(start, shifts, zone, part):
    moments = [start.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=shift) for shift in shifts]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    micros = [(moment - epoch) // dt.timedelta(microseconds=1) for moment in moments]
    offset = dt.timezone(dt.timedelta(hours=5, minutes=30))
    shown = [moment.astimezone(offset if zone == "+05:30" else zoneinfo.ZoneInfo(zone)) for moment in moments]
    bounds = image(micros, pa.timestamp("us", "UTC"), Function(part), zone)
    assert holds(bounds, [PARTS[part](moment) for moment in shown]), (shown, bounds)
    exact = image(micros, pa.timestamp("us"), Function(part), zone)
    plain = [PARTS[part](moment) for moment in moments]
    assert holds(exact, plain, exact=len(set(micros)) == 1)


TEXTS = st.text(st.sampled_from("abIiKzZ019 ~-_\täß\u0130\u0131\u212a\u3000😀"), max_size=6)


@EXAMPLES
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 4))
def test_texts(prefix, rest, start, size):
    values = sorted({prefix + text for text in rest}, key=str.encode)
    turkish = str.maketrans({"I": "\u0131"})
    references = {
        ("lower",): [str.lower, lambda text: text.translate(turkish).lower()],
        ("upper",): [str.upper, lambda text: text.replace("i", "\u0130").upper()],
        ("trim",): [str.strip, lambda text: text.strip(" ")],
        ("ltrim",): [str.lstrip, lambda text: text.lstrip(" ")],
        ("rtrim",): [str.rstrip, lambda text: text.rstrip(" ")],
        ("substring", start, size): [lambda text: text[start - 1 :][:size]],
        ("substring", start): [lambda text: text[start - 1 :]],
        ("prefix", size): [lambda text: text[:size]],
    }
    ends = pa.array([values[0]]), pa.array([values[-1]])
    statistics = ColumnStatistics(*ends, pa.array([0]), pa.array([len(values)]), all_null_is_certain=True)
    for (name, *arguments), functions in references.items():
        found = statistics.of_function(Function(name, tuple(arguments)), pa.string(), "UTC")
        if not found.no_lower[0]:
            bounds = [end[0].as_py() for end in (found.lower, found.upper)]
            for function in functions:
                assert holds(bounds, [function(value).encode() for value in values]), (name, arguments, bounds)
    found = statistics.of_function(Function("length"), pa.string(), "UTC")
    assert holds([int(found.lower[0]), int(found.upper[0])], [len(value) for value in values])
