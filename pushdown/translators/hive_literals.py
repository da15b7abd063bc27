"""Hive's types by name, and its literals, texts with a type, as Python values."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pushdown.kinds import Kind
from pushdown.spark_types import exact_as_single
from pushdown.temporal import TextNotUnderstoodError, parse_date, parse_timestamp, zone_of

_NAME = re.compile(r"([a-z][a-z ]*?)(?:\((\d{1,9})(?:,\s*(\d{1,9}))?\))?\Z")
# How many decimal digits the values of an integer type have at most, and how many bits.
_INTEGERS = {"tinyint": (3, 8), "smallint": (5, 16), "int": (10, 32), "bigint": (19, 64)}
_FLOAT_BITS = {"float": 24, "double": 53}
_FAMILIES = {
    **dict.fromkeys((*_INTEGERS, "float", "double", "decimal"), "number"),
    **dict.fromkeys(("string", "varchar", "char"), "text"),
    **dict.fromkeys(("date", "timestamp"), "time"),
    "boolean": "boolean",
    "binary": "binary",
}
_INTEGER = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?\Z", re.ASCII)
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}
_FIRST_YEAR_OF_CLOCKS = 1900
CALENDARS_APART = dt.timedelta(days=14)
"""More than the time between a stored value and the one that Hive may make of it.

Before 1582-10-15 Hive may read days, of files of other writers, by the Julian calendar (10 days apart at most since the
year 1), and before 1900 clock times by local mean time, and by that calendar too.
"""
FIRST_COMMON_DATE = dt.date(1582, 10, 15) + CALENDARS_APART
"""From here on, Hive reads dates as they are stored, whoever wrote them."""
_FIRST_CLOCK_TIME = dt.date(_FIRST_YEAR_OF_CLOCKS, 1, 1) + CALENDARS_APART


@dataclass(frozen=True)
class HiveType:
    """A type as Hive spells it.

    Attributes:
        base: its name without parameters, e.g. ``decimal``.
        first: the precision of a decimal, the length of a varchar or char in characters; 0 when it has none.
        scale: the scale of a decimal.
        stripped: a char that was cast to a text type: its padding is gone, and that of literals counts.
        rounded: a 64-bit integer that was cast to double: only doubles can be compared with it.
    """

    base: str
    first: int = 0
    scale: int = 0
    stripped: bool = False
    rounded: bool = False

    @property
    def family(self) -> str | None:
        """The family of types that are compared with each other; None for types that are not compared here."""
        return _FAMILIES.get(self.base)

    @property
    def limited(self) -> bool:
        """Whether Hive cuts stored texts to a length when it reads them."""
        return self.base in {"varchar", "char"}

    def exact_as_single(self, literals: Iterable[Any]) -> bool:
        """Whether values compare with literals as 32-bit floats as they do exactly."""
        kind = Kind.DECIMAL if self.base == "decimal" else Kind.INTEGER if self.base in _INTEGERS else Kind.OTHER
        return exact_as_single(kind, (one for one in literals if isinstance(one, int | float | decimal.Decimal)))


def hive_type(name: object) -> HiveType | None:
    """Parse a type name such as ``bigint``, ``decimal(11,1)`` or ``char(5)``; None for any other, nested ones too."""
    return _hive_type(name) if isinstance(name, str) and len(name) < 100 else None


@functools.lru_cache(maxsize=1024)
def _hive_type(name: str) -> HiveType | None:
    match = _NAME.match(name.strip().lower())
    if match is None:
        return None
    base = "int" if match[1] == "integer" else match[1]
    first, scale = int(match[2] or 0), int(match[3] or 0)
    if base not in _FAMILIES or (base in {"varchar", "char"} and first == 0):
        return None
    if base == "decimal" and first == 0:
        first = 10
    return HiveType(base, first, scale)


def cast_type(own: HiveType, to: HiveType) -> HiveType | None:  # noqa: PLR0911
    """The type of a column after a lossless cast.

    Returns:
        The type to compare by, if the cast keeps every value; None if it rounds, wraps or respells values.
    """
    if own == to:
        return own
    if own.rounded:
        return None
    if own.family == to.family == "text":
        return _cast_text(own, to)
    if own.base == "date" and to.base == "timestamp":
        # The midnight that starts it, which is how a date is compared with a time anyway.
        return own
    if own.base in _INTEGERS:
        return _cast_integer(own, to)
    if own.base == "decimal" and to.base == "decimal":
        fits = to.scale >= own.scale and to.first - to.scale >= own.first - own.scale
        return to if fits else None
    return to if (own.base, to.base) == ("float", "double") else None


def _cast_text(own: HiveType, to: HiveType) -> HiveType:
    length = min((kind.first for kind in (own, to) if kind.limited), default=0)
    if to.base == "char":
        return HiveType("char", length)
    if own.base == "char":
        return replace(own, first=length, stripped=True)
    return HiveType("varchar", length) if length else to


def _cast_integer(own: HiveType, to: HiveType) -> HiveType | None:
    digits, bits = _INTEGERS[own.base]
    if to.base in _INTEGERS:
        return to if _INTEGERS[to.base][1] >= bits else None
    if to.base == "decimal":
        return to if to.first - to.scale >= digits else None
    if to.base in _FLOAT_BITS and bits <= _FLOAT_BITS[to.base]:
        return to
    return HiveType("double", rounded=True) if to.base == "double" else None


class LiteralNotUnderstoodError(ValueError):
    """A literal without a value here; the message says why."""


def hive_literal(value: Any, kind: HiveType, time_zone: str) -> Any:
    """The value of a literal.

    Args:
        value: its text as Java prints it, or the JSON value (None, a boolean, a whole number, or a float for a float).
        kind: its type.
        time_zone: the zone whose clock times Hive makes of stored instants.

    Raises:
        LiteralNotUnderstoodError: a text that is not a value of the type, or a value that Hive's operators treat
            differently from one another.
    """
    if value is None:
        return None
    reader = _READERS.get(kind.base)
    if reader is None:
        raise LiteralNotUnderstoodError(f"a literal of type {kind.base}")
    literal = reader(value, kind)
    if isinstance(literal, dt.datetime) and not is_displaced(kind, literal):
        check_clock_time(literal, time_zone)
    return literal


def is_displaced(kind: HiveType, literal: Any) -> bool:
    """Whether Hive may read stored values around a date or time as others, up to `CALENDARS_APART` away.

    Args:
        kind: of the column that is compared with it.
        literal: a value as `hive_literal` reads it.
    """
    if not isinstance(literal, dt.date):
        return False
    day = literal.date() if isinstance(literal, dt.datetime) else literal
    return day < (FIRST_COMMON_DATE if kind.base == "date" and type(literal) is dt.date else _FIRST_CLOCK_TIME)


def check_clock_time(moment: dt.datetime, time_zone: str) -> None:
    """Refuse a clock time that a clock change skips or repeats: instants and clock times differ in order there.

    Raises:
        LiteralNotUnderstoodError: it is one.
    """
    if moment.year < _FIRST_YEAR_OF_CLOCKS:
        raise LiteralNotUnderstoodError(f"{moment} is before {_FIRST_YEAR_OF_CLOCKS}")
    if moment.tzinfo is None:
        zone = zone_of(time_zone)
        first, second = (moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        if first != second:
            raise LiteralNotUnderstoodError(f"clocks in {time_zone} are changed around {moment}")


def _boolean(value: Any, kind: HiveType) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _not_understood(value, kind)


def _integer(value: Any, kind: HiveType) -> int:
    if isinstance(value, str) and _INTEGER.match(value):
        value = int(value)
    limit = 1 << (_BITS[kind.base] - 1)
    if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
        return value
    raise _not_understood(value, kind)


def _double(value: Any, kind: HiveType) -> float:
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if plain or (isinstance(value, str) and _NUMBER.match(value)):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        # NaN: Hive's row operators take it for the greatest number, the vectorised ones for none.
        if math.isfinite(number):
            return number
    raise _not_understood(value, kind)


def _single(value: Any, kind: HiveType) -> float:
    number = _double(value, kind)
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    if math.isinf(single) and not math.isinf(number):
        raise _not_understood(value, kind)
    return single


def _decimal(value: Any, kind: HiveType) -> decimal.Decimal:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**400:
        return decimal.Decimal(value)
    if isinstance(value, str) and _NUMBER.match(value):
        return decimal.Decimal(value)
    raise _not_understood(value, kind)


def _text(value: Any, kind: HiveType) -> str:
    if not isinstance(value, str):
        raise _not_understood(value, kind)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _not_understood(value, kind) from None
    return value


def _date(value: Any, kind: HiveType) -> dt.date:
    date: dt.date = _parsed(parse_date, value, kind)
    return date


def _timestamp(value: Any, kind: HiveType) -> dt.datetime:
    timestamp: dt.datetime = _parsed(parse_timestamp, value, kind)
    if timestamp.tzinfo is not None:
        raise _not_understood(value, kind)
    return timestamp


def _parsed(parse: Callable[[str], Any], value: Any, kind: HiveType) -> Any:
    if not isinstance(value, str):
        raise _not_understood(value, kind)
    try:
        return parse(value)
    except TextNotUnderstoodError:
        raise _not_understood(value, kind) from None


def _not_understood(value: Any, kind: HiveType) -> LiteralNotUnderstoodError:
    shown = ascii(value)
    return LiteralNotUnderstoodError(f"{shown if len(shown) < 60 else shown[:60] + '…'} as a {kind.base}")


_READERS: dict[str, Callable[[Any, HiveType], Any]] = {
    "boolean": _boolean,
    **dict.fromkeys(_BITS, _integer),
    "double": _double,
    "float": _single,
    "decimal": _decimal,
    **dict.fromkeys(("string", "varchar", "char"), _text),
    "date": _date,
    "timestamp": _timestamp,
}
