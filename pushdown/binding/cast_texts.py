"""Texts parsed as values of other types, as Spark's casts do in ANSI mode.

Each reader returns the value, raises ValueError for what Spark refuses, and `UnsureError` for a form that Spark may
accept and that is not parsed here.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from fractions import Fraction

import pyarrow as pa

from pushdown.clocks import DAY, day_of, month_of, zone_clocks
from pushdown.kinds import Kind, kind_of
from pushdown.temporal import zone_of

_WHOLE = re.compile(r"[+-]?\d+\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "+inf": math.inf, "+infinity": math.inf}

_SPECIAL |= {"-inf": -math.inf, "-infinity": -math.inf}

_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\Z", re.ASCII | re.DOTALL)
_TIME = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?)?)?)?\Z",
    re.ASCII | re.DOTALL,
)

_TIME_OF_TODAY = re.compile(r"T\d|\d{1,2}:", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2}):(\d{1,2})\Z", re.ASCII)
# Java's String.trim and Spark's trimAll take off spaces and control characters.
_BLANK = "".join(map(chr, range(33)))
_MOST_EXPONENT = 500
_MICROS = 1_000_000
_MOST_OFFSET = 18 * 3600
_MAX_DAYS = 2**31
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a clock time
_FIRST_CLOCK, _LAST_CLOCK = -62_135_510_400, 253_402_214_400  # in Python's years, a day off their ends
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_CANONICAL_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class UnsureError(ValueError):
    """A form that Spark may accept and that is not parsed here."""


def read_whole(text: str) -> int:
    """An integer, of any size."""
    stripped = text.strip(_BLANK + "\x7f")
    if not _WHOLE.match(stripped):
        raise ValueError("it is not a whole number")
    if len(stripped) > _MOST_EXPONENT:
        raise UnsureError("it is longer than any integer")
    return int(stripped)


def read_decimal(text: str) -> decimal.Decimal:
    """A decimal number, of any precision."""
    stripped = text.strip(_BLANK)
    if not _NUMBER.match(stripped):
        if stripped.isascii():
            raise ValueError("it is not a number")
        raise UnsureError("it has other digits than 0 to 9")
    number = decimal.Decimal(stripped)
    if abs(number.adjusted()) > _MOST_EXPONENT:
        raise UnsureError("its exponent is beyond every decimal type")
    return number


def read_double(text: str) -> float:
    """A 64-bit float."""
    return _float_of(text, float)


def read_float(text: str) -> float:
    """A 32-bit float, rounded once from the text's digits."""
    return _float_of(text, lambda digits: single_of(Fraction(decimal.Decimal(digits)), float(digits)))


def _float_of(text: str, read: object) -> float:
    stripped = text.strip(_BLANK)
    special = _SPECIAL.get(stripped.lower())
    if special is not None:
        return special
    digits = stripped[:-1] if stripped[-1:] in {"d", "D", "f", "F"} else stripped
    if not _NUMBER.match(digits):
        if "x" in stripped.lower():
            raise UnsureError("it may be a hexadecimal number")
        raise ValueError("it is not a number")
    exponent = decimal.Decimal(digits).adjusted()
    if abs(exponent) > _MOST_EXPONENT:
        return float(digits)
    value: float = read(digits)  # type: ignore[operator]
    return value


def single_of(exact: Fraction, double: float) -> float:
    """The 32-bit float nearest to a number, given its nearest 64-bit float."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", double))
    except OverflowError:
        return math.copysign(math.inf, double)
    if double in (single, 0.0) or Fraction(double) == exact:
        return float(single)
    # The double lies halfway between two singles while the number itself does not.
    up = _next_single(single, towards_greater=double > single)
    if not math.isinf(up) and Fraction(single) + Fraction(up) == 2 * Fraction(double):
        nearer_up = (exact > Fraction(double)) == (up > single)
        return up if nearer_up else float(single)
    return float(single)


def _next_single(value: float, *, towards_greater: bool) -> float:
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    if value == 0:
        bits = 1 if towards_greater else -(2**31) + 1
    else:
        bits += 1 if (value > 0) == towards_greater else -1
    (single,) = struct.unpack("<f", struct.pack("<i", bits))
    return float(single)


def read_boolean(text: str) -> bool:
    """A truth value."""
    lowered = text.strip(_BLANK + "\x7f").lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("it is not a truth value")


def read_day(text: str) -> int:
    """A date, as days since 1970-01-01."""
    match = _DATE.match(text.strip(_BLANK + "\x7f"))
    if match is None:
        raise ValueError("it is not a date")
    year = int(match[1] + match[2])
    return _day(year, int(match[3] or 1), int(match[4] or 1))


def _day(year: int, month: int, day: int) -> int:
    if not 1 <= month <= 12:
        raise ValueError("it has no such month")
    first = day_of(year, month)
    following = day_of(year + month // 12, month % 12 + 1)
    if not 1 <= day <= following - first:
        raise ValueError("its month has no such day")
    day_number = first + day - 1
    if not -_MAX_DAYS <= day_number < _MAX_DAYS:
        raise ValueError("it is beyond all dates")
    return day_number


def read_clock(text: str) -> int:
    """A clock time without a zone, in microseconds; like Spark, a zone in the text is ignored."""
    return _moment(text)[0]


def read_instant(text: str, time_zone: str) -> int:
    """An instant, in microseconds since the epoch; a text without a zone is in the session's."""
    clock, zone = _moment(text)
    shift = _shift(zone) if zone is not None else None
    return clock - shift * _MICROS if shift is not None else instant_of(clock, time_zone)


def instant_of(clock: int, time_zone: str) -> int:
    """The instant of a clock time: shifted where the clocks skip it, the earlier one where they repeat it."""
    second, micro = divmod(clock, _MICROS)
    zone = zone_clocks(time_zone)
    if zone.fixed is not None:
        return clock - zone.fixed * _MICROS
    if _FIRST_CLOCK <= second <= _LAST_CLOCK:
        moment = (_EPOCH + dt.timedelta(seconds=second)).replace(tzinfo=zone_of(time_zone), fold=0)
        # What held before a change of clocks decides both cases.
        shift = moment.utcoffset() or dt.timedelta(0)
        return clock - int(shift.total_seconds()) * _MICROS
    return zone.instants(second)[0] * _MICROS + micro


def clock_of(instant: int, time_zone: str) -> int:
    """The clock time of an instant, both in microseconds."""
    return instant + zone_clocks(time_zone).offset(instant // _MICROS) * _MICROS


def _moment(text: str) -> tuple[int, str | None]:
    stripped = text.strip(_BLANK + "\x7f")
    match = _TIME.match(stripped)
    if match is None:
        if _TIME_OF_TODAY.match(stripped):
            raise UnsureError("it is a time of the day on which it is read")
        raise ValueError("it is not a time")
    day = _day(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    hour, minute, second = (int(match[at] or 0) for at in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("it is not a time of a day")
    micros = int((match[7] or "").ljust(9, "0")[:6])
    return (day * DAY + hour * 3600 + minute * 60 + second) * _MICROS + micros, match[8]


def _shift(zone: str) -> int:
    """An offset from UTC in seconds."""
    name = zone.strip()
    if name in {"Z", "UTC", "GMT", "UT"}:
        return 0
    match = _OFFSET.match(name)
    if match is None:
        raise UnsureError("its time zone is left to Spark")
    hours, minutes = int(match[2]), int(match[3])
    size = hours * 3600 + minutes * 60
    if minutes > 59 or size > _MOST_OFFSET:
        raise ValueError("there is no such time zone")
    return -size if match[1] == "-" else size


def day_text(day: int) -> str:
    """A date as Spark writes it."""
    year, month = month_of(day)
    if not 0 <= year <= 9999:
        raise UnsureError("its year has no four digits")
    return f"{year:04}-{month:02}-{day - day_of(year, month) + 1:02}"


def clock_text(clock: int) -> str:
    """A clock time as Spark writes it: without trailing zeros in its fraction."""
    second, micro = divmod(clock, _MICROS)
    day, second = divmod(second, DAY)
    fraction = f".{micro:06}".rstrip("0").rstrip(".")
    return f"{day_text(day)} {dt.timedelta(seconds=second)!s:0>8}{fraction}"


def is_canonical(text: str, type_: pa.DataType) -> bool:
    """Whether comparing texts with this one gives the same result as comparing values of the type."""
    kind = kind_of(type_)
    if kind is Kind.INTEGER:
        return _CANONICAL_INTEGER.fullmatch(text) is not None
    if kind is Kind.DATE:
        return _CANONICAL_DATE.fullmatch(text) is not None
    return kind in {Kind.STRING, Kind.BINARY}
