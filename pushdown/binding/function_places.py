"""The place of a literal among a column's values when a function of the column is compared with it.

A monotonically increasing function over whole numbers maps ranges back to ranges: ``f(x) >= n`` is ``x >= least(n)``.
Each function here is defined by its `least`, which is exact; nested functions apply the rule again. Comparisons of
other functions are undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.binding.coerce import Place, Point, Span, Undecided, clipped, place
from pushdown.clocks import DAY, STARTS, AmbiguousClockError, Zone, day_of, next_start, zone_clocks
from pushdown.errors import LiteralTypeError
from pushdown.functions import UNITS, Function
from pushdown.kinds import DOUBLE_DIGITS, UNITS_PER_SECOND, Kind, domain_of, kind_of

_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_PARTS = {"millisecond": 1_000, "microsecond": 1_000_000}
_MAX_PRECISION = 38
# Adding no more than these, dates within 5,000,000 years stay dates.
_MAX_DAYS = 1_000_000


@dataclass(frozen=True)
class _Step:
    """One monotonically increasing function over whole numbers.

    Attributes:
        output: the type of its results.
        least: the least argument whose result is not below a number, both as numbers of their types' domains.
    """

    output: pa.DataType
    least: Callable[[int], int]


def place_through(function: Function, literal: Any, type_: pa.DataType, column: str, time_zone: str) -> Place:
    """Where a literal other than None lies among a column's values, given a function of the column."""
    text = _named(function, column)
    steps = _steps(function, type_, time_zone)
    if steps is None:
        return Undecided(f"{text} is not understood for a column of type {type_}")
    types = [type_, *(step.output for step in steps)]
    try:
        at = place(literal, types[-1], text, time_zone)
    except LiteralTypeError as error:
        return Undecided(str(error))
    if isinstance(at, Point) and pa.types.is_float64(types[-1]):
        return place(at.value, type_, column, time_zone)
    if not isinstance(at, Span):
        return at if isinstance(at, Undecided) else Undecided(f"{text} is not understood")
    try:
        return _back(at, steps, types)
    except AmbiguousClockError:
        return Undecided(f"{text}: clocks are changed in {time_zone} at the time that it is compared with")


def _back(at: Span, steps: list[_Step], types: list[pa.DataType]) -> Span:
    """The span of arguments whose results are in a span."""
    for step, argument in zip(reversed(steps), reversed(types[:-1]), strict=True):
        at = _argument_of(at, step, argument)
    return at


def spans_through(function: Function, places: Iterable[Span], type_: pa.DataType, time_zone: str) -> list[Span] | None:
    """The column's numbers whose results are in each of some spans; None if those are not spans.

    Args:
        function: of the column.
        places: in the domain of its results.
        type_: the column's.
        time_zone: the session's.

    Raises:
        AmbiguousClockError: clocks are changed around a place.
    """
    steps = _steps(function, type_, time_zone)
    if steps is None or pa.types.is_float64(steps[-1].output):
        return None
    types = [type_, *(step.output for step in steps)]
    return [_back(at, steps, types) for at in places]


def result_type(function: Function, type_: pa.DataType, time_zone: str) -> pa.DataType | None:
    """The type of a function's results; None if it is not understood for the column's type."""
    steps = _steps(function, type_, time_zone)
    return None if steps is None else steps[-1].output


def is_understood(function: Function, type_: pa.DataType, time_zone: str) -> bool:
    """Whether a function is defined for every value of the type and gives null for null."""
    return _steps(function, type_, time_zone) is not None


def _named(function: Function, column: str) -> str:
    text = column
    for step in reversed(list(function.chain())):
        text = f"{step.name}({text})"
    return text


def _argument_of(at: Span, step: _Step, argument: pa.DataType) -> Span:
    domain = domain_of(argument)
    if at.first is None:
        return Span(None, domain.last)
    if at.last is None:
        return Span(domain.first, None)
    return clipped(step.least(at.first), step.least(at.last + 1) - 1, domain)


def _steps(function: Function, type_: pa.DataType, time_zone: str) -> list[_Step] | None:
    """The functions from the column outward; None if one of them is not understood for its argument's type."""
    steps: list[_Step] = []
    for inner in reversed(list(function.chain())):
        make = _MAKERS.get(inner.name)
        step = None if make is None else make(type_, inner.arguments, zone_clocks(time_zone))
        # Doubles are not whole numbers: nothing can be applied to them.
        if step is None or (steps and pa.types.is_float64(step.output)):
            return None
        steps.append(step)
        type_ = step.output
    return steps


def _same(number: int) -> int:
    return number


def _identity(type_: pa.DataType) -> _Step:
    return _Step(type_, _same)


class _Time:
    """A date or timestamp type: conversion of its numbers to clock times and back."""

    def __init__(self, type_: Any, zone: Zone) -> None:
        self.type: pa.DataType = type_
        self.is_date = kind_of(type_) is Kind.DATE
        self.zone = None if self.is_date or type_.tz is None else zone
        self.per_second = 1 if self.is_date else UNITS_PER_SECOND[type_.unit]

    def reached(self, day: int) -> int:
        """The least number whose clock time is not before the start of a day."""
        if self.is_date:
            return day
        clock = day * DAY
        return (clock if self.zone is None else self.zone.reached(clock)) * self.per_second

    def least_start(self, unit: str, number: int) -> int:
        """The least day at which a unit starts whose moment is not before the number."""
        if self.is_date:
            return next_start(unit, number)
        if self.zone is None:
            return next_start(unit, -(-number // (DAY * self.per_second)))
        second = -(-number // self.per_second)
        day = STARTS[unit]((second + self.zone.offset(second)) // DAY)
        # The start of a unit may be two moments where clocks are changed, and engines differ on which it is.
        days = [STARTS[unit](day - 1), day, next_start(unit, day + 1)]
        sure: int | None = None
        for start in reversed(days):
            first, last = self.zone.instants(start * DAY)
            if first < second <= last:
                raise AmbiguousClockError
            if first >= second:
                sure = start
        if sure is None or sure == days[0]:
            raise AmbiguousClockError
        return sure


def _time(type_: pa.DataType, zone: Zone) -> _Time | None:
    return _Time(type_, zone) if kind_of(type_) in {Kind.DATE, Kind.TIMESTAMP} else None


def _year(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    time = _time(type_, zone)
    if time is None or arguments:
        return None
    return _Step(pa.int32(), lambda year: time.reached(day_of(year, 1)))


def _trunc(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    time = _time(type_, zone)
    if time is None or len(arguments) != 1 or arguments[0] not in UNITS:
        return None
    unit = arguments[0]
    if unit in STARTS:
        return _Step(type_, lambda number: time.reached(time.least_start(unit, number)))
    if time.is_date:
        return _identity(type_)
    if unit in _PARTS:
        size = max(time.per_second // _PARTS[unit], 1)
        return _Step(type_, lambda number: -(-number // size) * size)
    seconds = _SECONDS[unit]

    def least(number: int) -> int:
        size = seconds * time.per_second
        shift = 0 if time.zone is None else _even_offset(time.zone, number // time.per_second, seconds)
        shift *= time.per_second
        return -(-(number + shift) // size) * size - shift

    return _Step(type_, least)


def _even_offset(zone: Zone, second: int, unit: int) -> int:
    """The offset at which hours or minutes start around an instant."""
    if zone.fixed is not None:
        return zone.fixed
    offsets = {zone.offset(second + shift) % unit for shift in (-10_800, -3600, 0, 3600, 10_800)}
    if len(offsets) > 1:
        raise AmbiguousClockError
    return offsets.pop()


def _cast(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:  # noqa: PLR0911
    if len(arguments) != 1 or not isinstance(arguments[0], pa.DataType):
        return None
    to = arguments[0]
    kinds = kind_of(type_), kind_of(to)
    if to == type_ and kinds[0] in {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP}:
        return _identity(type_)
    if pa.types.is_float64(to):
        return _to_double(type_)
    if kinds[0] in {Kind.INTEGER, Kind.DECIMAL} and kinds[1] in {Kind.INTEGER, Kind.DECIMAL}:
        return _to_wider(type_, to)
    if kinds == (Kind.TIMESTAMP, Kind.DATE):
        return _Step(to, _Time(type_, zone).reached)
    if kinds == (Kind.DATE, Kind.TIMESTAMP):
        moments = _Time(to, zone)
        return _Step(to, lambda number: moments.least_start("day", number))
    if kinds == (Kind.TIMESTAMP, Kind.TIMESTAMP):
        return _to_finer(type_, to) or _between_clocks(type_, to, zone)
    return None


def _between_clocks(type_: Any, to: Any, zone: Zone) -> _Step | None:
    """Instants to clock times or back, in a zone whose clocks never change."""
    if zone.fixed is None or type_.unit != to.unit:
        return None
    shift = zone.fixed * UNITS_PER_SECOND[to.unit] * (1 if to.tz is None else -1)
    return _Step(to, lambda number: number - shift)


def _rounded(type_: Any, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    """A decimal with fewer decimal places, ties away from zero."""
    del zone
    (to,) = arguments
    own, short = domain_of(type_), domain_of(to)
    if kind_of(type_) is not Kind.DECIMAL or short.scale >= own.scale:
        return None
    factor = 10 ** (own.scale - short.scale)
    half = factor // 2
    if (own.last + half) // factor > short.last:
        return None
    # A tie above zero goes up, one below it down.
    return _Step(to, lambda number: number * factor - half + (number <= 0))


def _to_double(type_: Any) -> _Step | None:
    kind = kind_of(type_)
    exact = kind in {Kind.INTEGER, Kind.FLOAT} or (kind is Kind.DECIMAL and type_.precision <= DOUBLE_DIGITS)
    return _Step(pa.float64(), _same) if exact else None


def _to_wider(type_: pa.DataType, to: pa.DataType) -> _Step | None:
    own, wide = domain_of(type_), domain_of(to)
    if wide.scale < own.scale:
        return None
    factor = 10 ** (wide.scale - own.scale)
    if own.last * factor > wide.last or own.first * factor < wide.first:
        return None
    return _Step(to, lambda number: -(-number // factor))


def _to_finer(type_: Any, to: Any) -> _Step | None:
    factor, rest = divmod(UNITS_PER_SECOND[to.unit], UNITS_PER_SECOND[type_.unit])
    if rest or (type_.tz is None) is not (to.tz is None):
        return None
    return _Step(to, lambda number: -(-number // factor))


def _whole(type_: Any, arguments: tuple[Any, ...], *, up: bool) -> _Step | None:
    if arguments:
        return None
    kind = kind_of(type_)
    if kind is Kind.INTEGER:
        return _identity(type_)
    if kind is not Kind.DECIMAL:
        return None
    unit = 10**type_.scale
    output = pa.decimal128(min(max(type_.precision - type_.scale, 0) + 1, _MAX_PRECISION), 0)
    if up:
        return _Step(output, lambda number: (number - 1) * unit + 1)
    return _Step(output, lambda number: number * unit)


def _floor(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    del zone
    return _whole(type_, arguments, up=False)


def _ceil(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    del zone
    return _whole(type_, arguments, up=True)


def _add_days(type_: pa.DataType, arguments: tuple[Any, ...], zone: Zone) -> _Step | None:
    del zone
    if kind_of(type_) is not Kind.DATE or len(arguments) != 1 or type(arguments[0]) is not int:
        return None
    days = arguments[0]
    return _Step(type_, lambda number: number - days) if abs(days) < _MAX_DAYS else None


_MAKERS: dict[str, Callable[[pa.DataType, tuple[Any, ...], Zone], _Step | None]] = {
    "year": _year,
    "trunc": _trunc,
    "cast": _cast,
    "try_cast": _cast,
    "rounded": _rounded,
    "floor": _floor,
    "ceil": _ceil,
    "add_days": _add_days,
}
RANGES = frozenset({*_MAKERS, "prefix", "prefix16"})
"""Names of functions whose comparisons are ranges of the column, where its type and the literal allow."""
