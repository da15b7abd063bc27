"""Casts of columns as Spark does in ANSI mode; values on which Spark fails are marked, not made null."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.binding import cast_texts
from pushdown.kinds import Kind, domain_of, kind_of

_MICROS_A_DAY = 86_400_000_000
_TIMES_END = 1 << 63  # of microseconds
_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.BOOLEAN})
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})
WIDE = decimal.Context(prec=1000)
"""For arithmetic on decimals that must not round."""

Failures = NDArray[np.bool_]
# A value's cast, for one value; it raises ValueError where Spark stops.
_Cast = Callable[[Any], Any]
_Maker = Callable[[Any, Any, str], _Cast]


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether `cast_values` supports this cast; types are those of `pushdown.spark_types`."""
    return source == target or _maker(source, target) is not None


def cast_values(values: Any, target: pa.DataType, time_zone: str, *, lenient: bool = False) -> tuple[Any, Failures]:
    """Cast a column.

    Args:
        values: the column, of one of Spark's types.
        target: the type wanted; `can_cast` accepts the pair.
        time_zone: the session's.
        lenient: cast as try_cast does: what cannot be cast becomes null.

    Returns:
        The column in the target type, null where a value cannot be cast; and a mask of the values at which Spark stops
        with an error. With `lenient` it marks only texts that Spark may accept and that are not parsed here.
    """
    nothing = np.zeros(len(values), np.bool_)
    if values.type == target:
        return values, nothing
    maker = _maker(values.type, target)
    if maker is None:
        raise ValueError(f"{values.type} is not cast to {target}")
    one = maker(values.type, target, time_zone)
    # Each distinct value is cast once: most columns that are compared with a cast have few.
    coded = values.dictionary_encode()
    distinct: list[Any] = []
    failed: list[bool] = []
    unsure: list[bool] = []
    for value in _python_values(coded.dictionary):
        try:
            distinct.append(one(value))
            failed.append(False)
            unsure.append(False)
        except cast_texts.UnsureError:
            distinct.append(None)
            failed.append(True)
            unsure.append(True)
        except (ValueError, OverflowError):
            distinct.append(None)
            failed.append(True)
            unsure.append(False)
    marks: Any = pa.array(unsure if lenient else failed, pa.bool_())
    cast: Any = _array(distinct, target).take(coded.indices)
    return cast, pc.fill_null(marks.take(coded.indices), False).to_numpy(zero_copy_only=False)


def _python_values(distinct: Any) -> list[Any]:
    """Dates and times as their numbers, decimals as decimals; all else as Python values."""
    kind = kind_of(distinct.type)
    if kind is Kind.DATE:
        return distinct.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    return (distinct.cast(pa.int64()) if kind is Kind.TIMESTAMP else distinct).to_pylist()  # type: ignore[no-any-return]


def _array(values: list[Any], target: pa.DataType) -> Any:
    if kind_of(target) in _TIMES:
        numbers: Any = pa.array(values, pa.int32() if kind_of(target) is Kind.DATE else pa.int64())
        return numbers.cast(target)
    return pa.array(values, target)


def _maker(source: pa.DataType, target: pa.DataType) -> _Maker | None:
    kinds = kind_of(source), kind_of(target)
    if kinds[0] is Kind.STRING:
        return _FROM_TEXT.get(kinds[1])
    if kinds[1] is Kind.STRING:
        return _to_text if kinds[0] is not Kind.FLOAT and kinds[0] is not Kind.OTHER else None
    if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
        # A double's decimal places are those of its text, on which releases of Java differ.
        return None if kinds == (Kind.FLOAT, Kind.DECIMAL) else _between_numbers
    if kinds[0] in _TIMES and kinds[1] in _TIMES:
        return _between_times
    if kinds == (Kind.TIMESTAMP, Kind.INTEGER) and getattr(source, "tz", None) is not None:
        return _to_seconds
    return None


def _between_numbers(source: Any, target: Any, _zone: str) -> _Cast:
    kind = kind_of(target)
    if kind is Kind.BOOLEAN:
        return lambda value: value != 0
    if kind is Kind.FLOAT:
        return _single if pa.types.is_float32(target) else float
    if kind is Kind.DECIMAL:
        return lambda value: rounded_decimal(decimal.Decimal(value), target)
    del source
    domain = domain_of(target)

    def whole(value: Any) -> int:
        number = int(value)  # towards zero; NaN and infinities raise
        if not domain.first <= number <= domain.last:
            raise OverflowError
        return number

    return whole


def _single(value: Any) -> float:
    return cast_texts.single_of(Fraction(value), float(value)) if value == value and abs(value) != np.inf else value  # noqa: PLR0124


def rounded_decimal(value: decimal.Decimal, target: Any) -> decimal.Decimal:
    """A number with the decimal places of a decimal type, ties away from zero.

    Raises:
        ValueError: the type has too few digits.
    """
    places = decimal.Decimal((0, (1,), -target.scale))
    rounded = value.quantize(places, decimal.ROUND_HALF_UP, WIDE)
    if rounded and rounded.adjusted() >= target.precision - target.scale:
        raise ValueError("it has too many digits")
    return rounded


def _to_text(source: Any, _target: Any, zone: str) -> _Cast:
    kind = kind_of(source)
    if kind is Kind.BOOLEAN:
        return lambda value: "true" if value else "false"
    if kind is Kind.DECIMAL:
        return lambda value: f"{value:f}"
    if kind is Kind.DATE:
        return cast_texts.day_text
    if kind is Kind.BINARY:
        return lambda value: value.decode()
    if kind is Kind.TIMESTAMP:
        clocked = source.tz is not None
        return lambda value: cast_texts.clock_text(cast_texts.clock_of(value, zone) if clocked else value)
    return str


def _between_times(source: Any, target: Any, zone: str) -> _Cast:
    moved = _moved_times(source, target, zone)

    def within(value: Any) -> int:
        number: int = moved(value)
        if not -_TIMES_END <= number < _TIMES_END:
            raise OverflowError
        return number

    return within


def _moved_times(source: Any, target: Any, zone: str) -> _Cast:
    if kind_of(source) is Kind.DATE:
        if target.tz is None:
            return lambda day: day * _MICROS_A_DAY
        return lambda day: cast_texts.instant_of(day * _MICROS_A_DAY, zone)
    if kind_of(target) is Kind.DATE:
        if source.tz is None:
            return lambda clock: clock // _MICROS_A_DAY
        return lambda instant: cast_texts.clock_of(instant, zone) // _MICROS_A_DAY
    if source.tz is None:
        return lambda clock: cast_texts.instant_of(clock, zone)
    return lambda instant: cast_texts.clock_of(instant, zone)


def _to_seconds(_source: Any, target: Any, _zone: str) -> _Cast:
    whole = _between_numbers(None, target, "")
    return lambda instant: whole(instant // 1_000_000)


def _text_to_whole(_source: Any, target: Any, _zone: str) -> _Cast:
    whole = _between_numbers(None, target, "")
    return lambda text: whole(cast_texts.read_whole(text))


def _text_to_float(_source: Any, target: Any, _zone: str) -> _Cast:
    return cast_texts.read_float if pa.types.is_float32(target) else cast_texts.read_double


def _text_to_decimal(_source: Any, target: Any, _zone: str) -> _Cast:
    return lambda text: rounded_decimal(cast_texts.read_decimal(text), target)


def _text_to_time(_source: Any, target: Any, zone: str) -> _Cast:
    if target.tz is None:
        return cast_texts.read_clock
    return lambda text: cast_texts.read_instant(text, zone)


_FROM_TEXT: dict[Kind, _Maker] = {
    Kind.INTEGER: _text_to_whole,
    Kind.FLOAT: _text_to_float,
    Kind.DECIMAL: _text_to_decimal,
    Kind.BOOLEAN: lambda *_: cast_texts.read_boolean,
    Kind.DATE: lambda *_: cast_texts.read_day,
    Kind.TIMESTAMP: _text_to_time,
    Kind.BINARY: lambda *_: str.encode,
}


def numbers_of(values: Any) -> list[int]:
    """The numbers of an array of integers, decimals, dates or times in the domain of its type; none is null."""
    numbers = _python_values(values)
    if kind_of(values.type) is not Kind.DECIMAL:
        return numbers
    scale = domain_of(values.type).scale
    return [int(value.scaleb(scale, WIDE)) for value in numbers]
