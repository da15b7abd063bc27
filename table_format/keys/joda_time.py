"""Joda-Time patterns, used by Hudi's timestamp-based key generator: formatting and parsing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from table_format.errors import OptionError, RecordError

_DAY_MINUTES = 24 * 60
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_zone(name: str | None) -> tzinfo | None:
    """Look up a time zone by its Java name (`UTC`, `GMT+8:00`, `+05:30`, `Europe/Paris`); None for no name.

    Raises:
        OptionError: no such zone.
    """
    if not name:
        return None
    offset = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < _DAY_MINUTES:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    if name in ("UTC", "GMT", "Z", "UT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionError(f"{name!r} is not a known time zone (hoodie.keygen.timebased.timezone)") from error


def format_time(epoch_ms: int, pattern: str, zone: tzinfo | None) -> str:
    """Format a moment.

    Args:
        epoch_ms: milliseconds since 1970-01-01 UTC.
        pattern: Joda-Time pattern.
        zone: time zone; None for that of this process.

    Raises:
        OptionError: the pattern has a letter that is not supported.
        RecordError: the year is not between 1 and 9999.
    """
    try:
        moment = (_EPOCH + timedelta(milliseconds=epoch_ms)).astimezone(zone)
    except OverflowError as error:
        raise RecordError(
            f"partition time {epoch_ms} ms is outside the years 1 to 9999; check hoodie.keygen.timebased.timestamp.type"
        ) from error
    return "".join(
        literal if letter == "" else _format_token(moment, letter, literal) for letter, literal in _tokens(pattern)
    )


def _format_token(moment: datetime, letter: str, run: str) -> str:
    width = len(run)
    if letter in "yYx":
        year = moment.isocalendar().year if letter == "x" else moment.year
        return f"{year % 100:02d}" if width == 2 else f"{year:0{width}d}"
    if letter in "EaSZ" or (letter == "M" and width >= 3):
        return _format_text(moment, letter, width)
    numbers = {
        "M": moment.month,
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "e": moment.isoweekday(),
        "w": moment.isocalendar().week,
        "H": moment.hour,
        "k": moment.hour or 24,
        "h": moment.hour % 12 or 12,
        "K": moment.hour % 12,
        "m": moment.minute,
        "s": moment.second,
    }
    if letter not in numbers:
        raise OptionError(f"letter {letter!r} of a hoodie.keygen.timebased date format is not supported")
    return f"{numbers[letter]:0{width}d}"


def _format_text(moment: datetime, letter: str, width: int) -> str:
    if letter in "ME":
        name = _MONTHS[moment.month - 1] if letter == "M" else _DAYS[moment.weekday()]
        return name if width > 3 else name[:3]
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "S":
        return f"{moment.microsecond // 1000:03d}"[:width].ljust(width, "0")
    return _offset_text(moment, colon=width > 1)


def _offset_text(moment: datetime, *, colon: bool) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds()) // 60
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes // 60:02d}{':' if colon else ''}{minutes % 60:02d}"


def letters_of(pattern: str) -> tuple[tuple[str, int], ...]:
    """Letters of a pattern in order, with their widths.

    >>> letters_of("yyyy/MM/dd 'at' HH")
    (('y', 4), ('M', 2), ('d', 2), ('H', 2))

    Raises:
        OptionError: the pattern is empty.
    """
    return tuple((letter, len(run)) for letter, run in _tokens(pattern) if letter)


@dataclass(frozen=True, slots=True)
class ParsedTime:
    """A moment parsed from text.

    Attributes:
        epoch_ms: milliseconds since 1970-01-01 UTC.
        zone: the offset in the text, else the default zone.
    """

    epoch_ms: int
    zone: tzinfo | None


def parse_time(text: str, pattern: str, zone: tzinfo | None) -> ParsedTime | None:
    """Parse a moment; None if the text does not match the pattern.

    Args:
        text: the whole text.
        pattern: Joda-Time pattern; letters y M d H h a m s S Z are supported.
        zone: zone of texts without an offset; None for UTC.

    Raises:
        OptionError: the pattern has a letter that is not supported.
    """
    expression, letters = _reading(pattern)
    match = expression.fullmatch(text)
    if match is None:
        return None
    fields = dict(zip(letters, match.groups(), strict=True))
    hour = int(fields.get("H") or 0)
    if "h" in fields:
        hour = int(fields["h"]) % 12 + (12 if (fields.get("a") or "").upper() == "PM" else 0)
    try:
        offset = _parse_offset(fields["Z"]) if "Z" in fields else None
        moment = datetime(
            _year(fields.get("y")),
            _month(fields.get("M")),
            int(fields.get("d") or 1),
            hour,
            int(fields.get("m") or 0),
            int(fields.get("s") or 0),
            int((fields.get("S") or "0").ljust(3, "0")[:3]) * 1000,
            tzinfo=offset or zone or UTC,
        )
    except ValueError:
        return None
    return ParsedTime((moment - _EPOCH) // timedelta(milliseconds=1), offset or zone)


@cache
def _tokens(pattern: str) -> tuple[tuple[str, str], ...]:
    """`(letter, run)` for each run of a letter, `("", text)` for each literal."""
    if not pattern:
        raise OptionError("hoodie.keygen.timebased.output.dateformat or input.dateformat is missing")
    result = []
    for match in _TOKEN.finditer(pattern):
        if match.group(2):
            result.append((match.group(2), match.group(0)))
        else:
            quoted = match.group(1)
            text = match.group(0) if quoted is None else (quoted.replace("''", "'") or "'")
            result.append(("", text))
    return tuple(result)


@cache
def _reading(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    tokens = _tokens(pattern)
    letters, parts = [], []
    for position, (letter, run) in enumerate(tokens):
        if letter == "":
            parts.append(re.escape(run))
            continue
        # Directly before another number a run has as many digits as letters; otherwise any number of digits.
        fixed = position + 1 < len(tokens) and tokens[position + 1][0] not in ("", "Z", "a")
        parts.append(_reading_part("y" if letter in "Yy" else letter, len(run), fixed=fixed))
        letters.append("y" if letter in "Yy" else letter)
    if len(set(letters)) != len(letters):
        raise OptionError(f"date format {pattern!r} names a part twice")
    return re.compile("".join(parts), re.IGNORECASE), tuple(letters)


def _reading_part(letter: str, width: int, *, fixed: bool) -> str:
    if letter == "M" and width >= 3:
        return "([A-Za-z]+)"
    if letter in "yMdHhmsS":
        if fixed:
            return f"(\\d{{{width}}})"
        return "(\\d{1,9})" if letter in "yS" else "(\\d{1,2})"
    if letter == "a":
        return "(AM|PM)"
    if letter == "Z":
        return r"(Z|[+-]\d{2}(?::?\d{2})?)"
    raise OptionError(f"letter {letter!r} of hoodie.keygen.timebased.input.dateformat is not supported")


def _year(text: str | None) -> int:
    if text is None:
        return 1970
    return 2000 + int(text) if len(text) == 2 and int(text) < 70 else int(text) + (1900 if len(text) == 2 else 0)


def _month(text: str | None) -> int:
    if text is None or text.isdigit():
        return int(text or 1)
    names = [name for name in _MONTHS if name.lower().startswith(text.lower())]
    if len(names) != 1:
        raise ValueError(text)
    return _MONTHS.index(names[0]) + 1


def _parse_offset(text: str) -> tzinfo:
    if text.upper() == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
