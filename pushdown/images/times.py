"""Images of the parts of dates and times, such as hours and months.

The parts of a range are a range where the whole of it lies within one period: hours within a day, months within a
year. Elsewhere every value is possible. An instant's clock is the session's: around a change of clocks both offsets
count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pushdown.clocks import DAY, zone_clocks
from pushdown.images.image import Bounds, Image, numbers, within
from pushdown.images.numbers import add
from pushdown.kinds import UNITS_PER_SECOND, Kind, kind_of

# Days from 1900 to 2100: tables of a zone's offsets. Between two changes of clocks there are some days.
_FIRST_DAY, _LAST_DAY = -25_567, 47_482
# Engines have two calendars before 1582-10-15, and other ends of time.
_FIRST_SURE, _LAST_SURE = -141_427, 2_932_896
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Part:
    """A part of a date or clock time.

    Attributes:
        least: its least value.
        greatest: its greatest.
        value: of days, or of seconds of a clock.
        period: the number of the period in which a day or second lies, in which the part does not decrease.
        of_day: whether the other two take days.
    """

    least: int
    greatest: int
    value: Callable[[_Ints], _Ints]
    period: Callable[[_Ints], _Ints]
    of_day: bool = True


def _months(days: _Ints) -> _Ints:
    """Months since January of 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _years(days: _Ints) -> _Ints:
    return np.floor_divide(_months(days), 12)


def _first_day(months: _Ints) -> _Ints:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _thursday(days: _Ints) -> _Ints:
    """The Thursday of a day's week, whose year is the week's."""
    return days - (days + 3) % 7 + 3


def _day_of_year(days: _Ints) -> _Ints:
    return days - _first_day(_years(days) * 12) + 1


def _of_week(first: int, shift: int) -> _Part:
    """Days of the week from a number on; the shift brings the first day of weeks to a multiple of seven."""
    return _Part(first, first + 6, lambda days: (days + shift) % 7 + first, lambda days: (days + shift) // 7)


def _of_clock(size: int, count: int) -> _Part:
    return _Part(0, count - 1, lambda clock: clock // size % count, lambda clock: clock // (size * count), of_day=False)


_PARTS = {
    "year": _Part(-6_000_000, 6_000_000, lambda days: _years(days) + 1970, np.zeros_like),
    "quarter": _Part(1, 4, lambda days: _months(days) % 12 // 3 + 1, _years),
    "month": _Part(1, 12, lambda days: _months(days) % 12 + 1, _years),
    "day": _Part(1, 31, lambda days: days - _first_day(_months(days)) + 1, _months),
    "dayofyear": _Part(1, 366, _day_of_year, _years),
    "weekofyear": _Part(
        1, 53, lambda days: (_day_of_year(_thursday(days)) - 1) // 7 + 1, lambda days: _years(_thursday(days))
    ),
    "dayofweek": _of_week(1, 4),  # Sunday is the first; 1970-01-01 was a Thursday
    "weekday": _of_week(0, 3),
    "dayofweek_iso": _of_week(1, 3),
    "hour": _of_clock(3600, 24),
    "minute": _of_clock(60, 60),
    "second": _of_clock(1, 60),
}
PARTS = frozenset(_PARTS)
"""Names of functions that give a part of a date or time."""


def part(name: str, type_: pa.DataType, time_zone: str) -> Image | None:
    """A part of a date or time; None for other types, and for clock times of dates."""
    of = _PARTS[name]
    kind = kind_of(type_)
    if kind is not Kind.TIMESTAMP and not (kind is Kind.DATE and of.of_day):
        return None

    def image(bounds: Bounds) -> Bounds:
        clocks = _days(bounds) if kind is Kind.DATE else _clock(bounds, type_, time_zone)
        if kind is not Kind.DATE and of.of_day:
            clocks = Bounds(np.asarray(clocks.lower) // DAY, np.asarray(clocks.upper) // DAY, clocks.known)
        lower, upper = numbers(clocks)
        clear = clocks.known & (of.period(lower) == of.period(upper))
        return within(Bounds(lower, upper, clear), of.value(lower), of.value(upper), of.least, of.greatest)

    return Image(pa.int32(), image)


def days_later(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """A date plus a number of days."""
    return add(type_, arguments) if kind_of(type_) is Kind.DATE else None


def near(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The times that readers may have rounded a time to, or left as it is: up to so many units from it."""
    if kind_of(type_) is not Kind.TIMESTAMP:
        return None
    distance = int(arguments[0])

    def image(bounds: Bounds) -> Bounds:
        lower, upper = numbers(bounds)
        ends = np.iinfo(np.int64)
        return Bounds(
            np.maximum(lower, ends.min + distance) - distance,
            np.minimum(upper, ends.max - distance) + distance,
            bounds.known,
        )

    return Image(type_, image)


def to_date(type_: pa.DataType, time_zone: str) -> Image | None:
    """The date of a time."""
    if kind_of(type_) is not Kind.TIMESTAMP:
        return None

    def image(bounds: Bounds) -> Bounds:
        clocks = _clock(bounds, type_, time_zone)
        return Bounds(np.asarray(clocks.lower) // DAY, np.asarray(clocks.upper) // DAY, clocks.known)

    return Image(pa.date32(), image)


def _days(bounds: Bounds) -> Bounds:
    lower, upper = numbers(bounds)
    return Bounds(lower, upper, bounds.known & (lower >= _FIRST_SURE) & (upper <= _LAST_SURE))


def _clock(bounds: Bounds, type_: Any, time_zone: str) -> Bounds:
    """The seconds that clocks of the zone may show, counted as if they were of UTC."""
    lower, upper = (edge // UNITS_PER_SECOND[type_.unit] for edge in numbers(bounds))
    zone = zone_clocks(time_zone)
    sure = bounds.known & (lower >= _FIRST_SURE * DAY) & (upper < _LAST_SURE * DAY)
    if type_.tz is None or zone.fixed is not None:
        shift = 0 if type_.tz is None or zone.fixed is None else zone.fixed
        return Bounds(lower + shift, upper + shift, sure)
    sure &= (lower >= _FIRST_DAY * DAY) & (upper < _LAST_DAY * DAY)
    least, greatest = _offsets(time_zone)
    first, last = (np.where(sure, edge // DAY - _FIRST_DAY, 0) for edge in (lower, upper))
    return Bounds(
        np.where(sure, lower + _extreme(least, first, last, np.minimum), 0),
        np.where(sure, upper + _extreme(greatest, first, last, np.maximum), 0),
        sure,
    )


def _extreme(offsets: _Ints, first: _Ints, last: _Ints, choose: Any) -> _Ints:
    """The least or greatest offset of the days from first to last, of each file; of all days for long ranges."""
    at_ends: _Ints = choose(offsets[first], offsets[last])
    between = last - first > 1
    if between.any():
        every = choose.reduce(offsets)
        short = between & (last - first < 400)
        pairs = np.stack([first[short], last[short]], axis=1).ravel()
        at_ends[between] = every
        if len(pairs):
            at_ends[short] = choose.reduceat(np.append(offsets, offsets[-1]), pairs)[::2]
            at_ends[short] = choose(at_ends[short], offsets[last[short]])
    return at_ends


@functools.lru_cache(maxsize=16)
def _offsets(time_zone: str) -> tuple[_Ints, _Ints]:
    """The least and the greatest offset from UTC in each day of UTC, in seconds."""
    zone = zone_clocks(time_zone)
    starts = np.array([zone.offset(day * DAY) for day in range(_FIRST_DAY, _LAST_DAY + 2)], np.int64)
    return np.minimum(starts[:-1], starts[1:]), np.maximum(starts[:-1], starts[1:])
