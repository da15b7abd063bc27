"""Dates and times in filters: text forms that all engines read alike, and time zones."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from fractions import Fraction

from pushdown.errors import ExpressionError

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})\Z", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{2}:\d{2}|[+-]\d{2})?)?\Z",
    re.ASCII,
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO = dt.timedelta(microseconds=1)


class TextNotUnderstoodError(ValueError):
    """A text that is not a date or time in a form that all engines read alike."""


def parse_date(text: str) -> dt.date:
    """Read ``YYYY-MM-DD``.

    Raises:
        TextNotUnderstoodError: any other form, which engines cut, pad or refuse, each in another way.
    """
    match = _DATE.match(text.strip(" "))
    if match is None:
        raise TextNotUnderstoodError("write it as 'YYYY-MM-DD'")
    try:
        return dt.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise TextNotUnderstoodError(str(error)) from None


def parse_timestamp(text: str) -> dt.datetime:
    """Read ``YYYY-MM-DD[ HH:MM[:SS[.ffffff]][zone]]``; zone is ``Z`` or an offset such as ``+02:00``.

    Returns:
        A time with its zone, or a clock time without one when the text names none.

    Raises:
        TextNotUnderstoodError: any other form, or more digits than microseconds hold.
    """
    match = _TIMESTAMP.match(text.strip(" "))
    if match is None:
        raise TextNotUnderstoodError("write it as 'YYYY-MM-DD HH:MM:SS.ffffff', with +HH:MM or Z if it has a zone")
    day = parse_date(match[1])
    digits = (match[5] or "").ljust(9, "0")
    if digits[6:].strip("0"):
        raise TextNotUnderstoodError("it is finer than microseconds")
    try:
        clock = dt.time(int(match[2] or 0), int(match[3] or 0), int(match[4] or 0), int(digits[:6]))
        return dt.datetime.combine(day, clock, tzinfo=_offset(match[6]))
    except ValueError as error:
        raise TextNotUnderstoodError(str(error)) from None


def _offset(text: str | None) -> dt.tzinfo | None:
    if text is None:
        return None
    if text in {"Z", "UTC", "GMT"}:
        return dt.UTC
    hours, minutes = int(text[1:3]), int(text[4:6] or 0)
    size = dt.timedelta(hours=hours, minutes=minutes)
    return dt.timezone(-size if text[0] == "-" else size)


def zone_of(name: str) -> dt.tzinfo:
    """The time zone of a name (``UTC``, ``Europe/Berlin``) or an offset (``+02:00``).

    Raises:
        ExpressionError: there is no such zone.
    """
    if name.upper() in {"UTC", "GMT", "Z"}:
        return dt.UTC
    try:
        offset = _offset(name) if re.fullmatch(r"[+-]\d{2}:\d{2}", name) else None
        return zoneinfo.ZoneInfo(name) if offset is None else offset
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ExpressionError(f"there is no time zone {name!r}; use a name such as Europe/Berlin, or UTC") from None


def wall_clock(moment: dt.datetime, time_zone: str) -> dt.datetime:
    """The clock time of a moment in a zone; a time without a zone is one already."""
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(zone_of(time_zone)).replace(tzinfo=None)
    except OverflowError:
        raise ExpressionError(f"{moment} has no date in time zone {time_zone}") from None


def instant_fraction(moment: dt.datetime, time_zone: str) -> Fraction:
    """Seconds since the epoch, exact; a time without a zone is of the session's zone.

    Clock times that a change of clocks skips or repeats are taken as Java does: shifted by the gap, the earlier of two.
    """
    if moment.tzinfo is None:
        zone = zone_of(time_zone)
        shift = moment.replace(tzinfo=zone, fold=0).utcoffset() or dt.timedelta(0)
    else:
        shift = moment.utcoffset() or dt.timedelta(0)
    plain = moment.replace(tzinfo=dt.UTC)
    return Fraction((plain - _EPOCH) // _MICRO - shift // _MICRO, 1_000_000)
