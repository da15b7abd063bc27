"""Functions of texts and of dates and times, as Spark's."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.binding.casts import cast_values
from pushdown.clocks import day_of, month_of
from pushdown.computed.numbers import nulls
from pushdown.kinds import Kind, kind_of
from pushdown.spark_types import CLOCK

Mask = NDArray[np.bool_]
_DAY = 86_400_000_000
_UNITS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_COUNTS = {"hour": 24, "minute": 60, "second": 60}
_END = 2**31 - 1
# Letters that got another case, or another nature beside a sigma, after Unicode 14, which Python 3.11 has. What Python
# has no character for, a newer Unicode may have in two cases.
_CHANGED = frozenset("\u019b\u0264\u0295\ua7d3\ua7d5\U0001171e")


class UnknownCharacterError(ValueError):
    """A text with a character of which this Python's tables of Unicode do not know the other case."""


def text_function(name: str, texts: Any, literals: Sequence[Any]) -> tuple[Any, Mask]:
    """A function of a column of texts, and a mask of the rows whose result is not known."""
    failed = np.zeros(len(texts), np.bool_)
    if name == "length":
        return pc.utf8_length(texts).cast(pa.int32()), failed
    if name in _TRIMS:
        return _TRIMS[name](texts, characters=" "), failed
    one = _of_one(name, literals)
    # Each distinct text is changed once.
    coded = texts.dictionary_encode()
    made: list[str | None] = []
    unknown: list[bool] = []
    for text in coded.dictionary.to_pylist():
        try:
            made.append(one(text))
            unknown.append(False)
        except UnknownCharacterError:
            made.append(None)
            unknown.append(True)
    marks: Any = pa.array(unknown, pa.bool_()).take(coded.indices)
    result: Any = pa.array(made, pa.string()).take(coded.indices)
    return result, pc.fill_null(marks, False).to_numpy(zero_copy_only=False)


def _of_one(name: str, literals: Sequence[Any]) -> Callable[[str], str]:
    if name in {"lower", "upper"}:
        return _lowered if name == "lower" else _raised
    if name == "reverse":
        return lambda text: text[::-1]
    if name == "replace":
        search, replacement = literals
        return lambda text: text.replace(search, replacement) if search else text
    start, *rest = literals
    length = rest[0] if rest else _END
    return lambda text: _substring(text, start, length)


def _lowered(text: str) -> str:
    return _known(text).lower()


def _raised(text: str) -> str:
    return _known(text).upper()


def _known(text: str) -> str:
    if not text.isascii() and any(
        character in _CHANGED or unicodedata.category(character) == "Cn" for character in text
    ):
        raise UnknownCharacterError
    return text


def _substring(text: str, start: int, length: int) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = min(max(first + length, -(2**31)), _END)
    return text[max(first, 0) : max(last, 0)] if last > first else ""


def joined(columns: Sequence[Any]) -> Any:
    """Texts one after the other; null where one is."""
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, pa.scalar("", pa.string()))


_TRIMS: dict[str, Callable[..., Any]] = {
    "trim": pc.utf8_trim,
    "ltrim": pc.utf8_ltrim,
    "rtrim": pc.utf8_rtrim,
}


def part_of_time(name: str, values: Any, time_zone: str) -> Any:
    """A part of a column of dates or times; that of an instant on the session's clock."""
    null = nulls(values)
    if kind_of(values.type) is Kind.DATE:
        days = _whole(values, pa.int32())
    else:
        clocks = values if values.type == CLOCK else cast_values(values, CLOCK, time_zone)[0]
        micros = _whole(clocks, pa.int64())
        if name in _UNITS:
            return pa.array((micros // _UNITS[name] % _COUNTS[name]).astype(np.int32), pa.int32(), mask=null)
        days = micros // _DAY
    return pa.array(_PARTS[name](days).astype(np.int32), pa.int32(), mask=null)


def _whole(values: Any, type_: pa.DataType) -> NDArray[np.int64]:
    numbers: Any = pc.fill_null(values.cast(type_), 0).to_numpy(zero_copy_only=False)
    wide: NDArray[np.int64] = numbers.astype(np.int64)
    return wide


def _months(days: Any) -> tuple[Any, Any]:
    parts: tuple[Any, Any] = month_of(days)
    return parts


def _first(year: Any, month: Any) -> Any:
    return day_of(np.array(year), month)  # type: ignore[arg-type]


def _day(days: Any) -> Any:
    year, month = _months(days)
    return days - _first(year, month) + 1


def _day_of_year(days: Any) -> Any:
    year, month = _months(days)
    return days - _first(year, np.ones_like(month)) + 1


def _week(days: Any) -> Any:
    # A week is of the year of its Thursday.
    return (_day_of_year(days - (days + 3) % 7 + 3) - 1) // 7 + 1


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": lambda days: _months(days)[0],
    "quarter": lambda days: (_months(days)[1] - 1) // 3 + 1,
    "month": lambda days: _months(days)[1],
    "day": _day,
    "dayofyear": _day_of_year,
    "dayofweek": lambda days: (days + 4) % 7 + 1,  # Sunday is the first; 1970-01-01 was a Thursday
    "weekday": lambda days: (days + 3) % 7,
    "weekofyear": _week,
}
