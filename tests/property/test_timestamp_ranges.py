"""A partition's range holds every value whose path is the partition's."""

from typing import Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from table_format.keys.timestamp_keys import TimestampFormat, bounds_of_paths

PATTERNS = [
    "yyyy",
    "yyyy/MM",
    "yyyy-MM-dd",
    "yyyy/MM/dd/HH",
    "yyyyMMdd",
    "yyyy-MM-dd HH:mm",
    "HH yyyy dd MM",
    "yyyy-M-d",
]
ZONES = ["UTC", "GMT+5:30", "GMT-8", "Europe/Paris", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata", "UTC+8"]
UNITS = {
    "UNIX_TIMESTAMP": 1,
    "EPOCHMILLISECONDS": 1_000,
    "EPOCHMICROSECONDS": 1_000_000,
}
# Around the epoch, days on which clocks changed in one of the zones, and any day of some centuries.
SECONDS = st.one_of(
    st.integers(-200_000, 200_000),
    st.sampled_from([1_711_846_800, 1_729_990_800, 1_540_609_200, 1_325_239_200, 951_782_400]).flatmap(
        lambda at: st.integers(at - 90_000, at + 90_000)
    ),
    st.integers(-2_000_000_000, 6_000_000_000),
)


@st.composite
def times(draw: st.DrawFn) -> tuple[str, int, int]:
    kind = draw(st.sampled_from(sorted(UNITS)))
    per_second = UNITS[kind]
    return kind, draw(SECONDS) * per_second + draw(st.integers(0, per_second - 1)), per_second


@given(times(), st.sampled_from(PATTERNS), st.sampled_from([*ZONES, None]))
def test_a_value_lies_in_the_range_of_its_path(
    given_time: tuple[str, int, int], pattern: str, zone: str | None
) -> None:
    kind, value, _ = given_time
    column: Any = pa.array([value], pa.int64())
    # What a writer in any zone writes, where the table does not say which it is.
    written = TimestampFormat(kind, _unit(kind), (), pattern, None, zone or "Pacific/Kiritimati")
    path = written.partition_texts(column)[0].as_py()
    layout = TimestampFormat(kind, _unit(kind), (), pattern, None, zone)
    bounds = bounds_of_paths([path], layout, pa.int64())
    assert bounds is not None
    lower, upper = (side[0].as_py() for side in bounds)
    assert lower is not None
    assert lower <= value <= upper


@given(times(), st.sampled_from(PATTERNS))
def test_ranges_are_as_narrow_as_the_pattern(given_time: tuple[str, int, int], pattern: str) -> None:
    kind, value, per_second = given_time
    time_format = TimestampFormat(kind, _unit(kind), (), pattern, None, "UTC")
    path = time_format.partition_texts(pa.array([value], pa.int64()))[0].as_py()
    bounds = bounds_of_paths([path], time_format, pa.int64())
    assert bounds is not None
    lower, upper = (side[0].as_py() for side in bounds)
    beyond = upper + per_second  # a second, in which Java's rounding towards zero is lost
    assume(lower - per_second > -60_000_000_000 * per_second)
    for outside in (lower - per_second, beyond):
        assert time_format.partition_texts(pa.array([outside], pa.int64()))[0].as_py() != path


def _unit(kind: str) -> str:
    return {"UNIX_TIMESTAMP": "SECONDS", "EPOCHMILLISECONDS": "MILLISECONDS"}.get(kind, "MICROSECONDS")
