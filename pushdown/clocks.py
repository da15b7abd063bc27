"""Calendar and time zone arithmetic on whole numbers: days and seconds of any year.

A clock time is counted in seconds as if its zone were UTC. All years are of ISO 8601's calendar, as in engines, also
those before 1 and after 9999, which Python's dates lack.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable

from pushdown.temporal import zone_of

DAY = 86_400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# The calendar and its weekdays repeat every 400 years, and with them the rules of time zones.
_CYCLE = 146_097 * DAY
_FIRST, _LAST = -50_000_000_000, 240_000_000_000  # in the years 385 and 9575
_MAX_OFFSET = 26 * 3600
_SAMPLE = 1800
_LONGEST = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1}


def day_of(year: int, month: int) -> int:
    """The first day of a month, in days since 1970-01-01."""
    # Years that start in March end with the leap day.
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def month_of(day: int) -> tuple[int, int]:
    """The year and month of a day."""
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    month = (5 * (of_era - (365 * year + year // 4 - year // 100)) + 2) // 153
    return era * 400 + year + (month >= 10), (month + 2) % 12 + 1


def _months(size: int) -> Callable[[int], int]:
    def start(day: int) -> int:
        year, month = month_of(day)
        return day_of(year, (month - 1) // size * size + 1)

    return start


def _week(day: int) -> int:
    return day - (day + 3) % 7  # 1970-01-01 was a Thursday


# The first day of the unit in which a day lies.
STARTS: dict[str, Callable[[int], int]] = {
    "year": _months(12),
    "quarter": _months(3),
    "month": _months(1),
    "week": _week,
    "day": lambda day: day,
}


def next_start(unit: str, day: int) -> int:
    """The first start of a unit on or after a day."""
    start = STARTS[unit](day)
    return start if start == day else STARTS[unit](start + _LONGEST[unit])


class AmbiguousClockError(ValueError):
    """Clocks change around a time, so that instants and clock times are ordered differently there."""


class Zone:
    """The clocks of a time zone.

    Attributes:
        fixed: the offset from UTC in seconds if it never changes, else None.
    """

    def __init__(self, name: str) -> None:
        self._zone = zone_of(name)
        shift = self._zone.utcoffset(None) if isinstance(self._zone, dt.timezone) else None
        self.fixed: int | None = None if shift is None else int(shift.total_seconds())

    def offset(self, second: int) -> int:
        """The offset from UTC at an instant, in seconds."""
        if self.fixed is not None:
            return self.fixed
        if not _FIRST <= second <= _LAST:
            edge = _FIRST if second < _FIRST else _LAST - _CYCLE
            second = edge + (second - edge) % _CYCLE
        shift = (_EPOCH + dt.timedelta(seconds=second)).astimezone(self._zone).utcoffset()
        return int(shift.total_seconds()) if shift is not None else 0

    def reached(self, clock: int) -> int:
        """The first instant at which the clocks show this time or a later one.

        Raises:
            AmbiguousClockError: they show an earlier one again afterwards.
        """
        if self.fixed is not None:
            return clock - self.fixed
        earliest: int | None = None
        for start, end, offset in self._pieces(clock - _MAX_OFFSET, clock + _MAX_OFFSET):
            if earliest is None:
                first = max(start, clock - offset)
                earliest = first if first < end else None
            elif start + offset < clock:
                raise AmbiguousClockError
        if earliest is None:
            raise AmbiguousClockError
        return earliest

    def instants(self, clock: int) -> tuple[int, int]:
        """The first and last instant that an engine may take a clock time for: two where clocks change."""
        offsets = {offset for _, _, offset in self._pieces(clock - _MAX_OFFSET, clock + _MAX_OFFSET)}
        shown = [clock - offset for offset in offsets if self.offset(clock - offset) == offset]
        if not shown:
            shown = [clock - offset for offset in offsets]
        return min(shown), max(shown)

    def _pieces(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Spans of time with one offset each."""
        if self.fixed is not None:
            return [(start, end, self.fixed)]
        pieces = []
        begin, offset = start, self.offset(start)
        for sample in range(start + _SAMPLE, end + _SAMPLE, _SAMPLE):
            if self.offset(sample) != offset:
                low, high = sample - _SAMPLE, sample
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self.offset(middle) == offset else (low, middle)
                pieces.append((begin, high, offset))
                begin, offset = high, self.offset(high)
        pieces.append((begin, end + _SAMPLE, offset))
        return pieces


@functools.lru_cache(maxsize=64)
def zone_clocks(name: str) -> Zone:
    """The clocks of a time zone by its name.

    Raises:
        ExpressionError: there is no such zone.
    """
    return Zone(name)
