"""Constant expressions in a parsed condition, replaced by literals: ``1999 + 1``, sums of dates and intervals, casts.

An expression is folded only where the engine's own result is certain. Whole numbers divide to a whole number in Trino
and Presto alone, so elsewhere `/` stays; a result beyond its type is an error in one engine and wraps in another, and
stays too. What stays is not understood, as before.
"""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from pushdown.spark_types import SPARK
from pushdown.sql.calls import TRINO
from pushdown.sql.literal import FOLDED, literal_value, number_value
from pushdown.sql.operands import days_of, whole_number
from pushdown.temporal import TextNotUnderstoodError, parse_date

_Type = exp.DataType.Type
_BITS: Final = {_Type.TINYINT: 8, _Type.SMALLINT: 16, _Type.INT: 32, _Type.BIGINT: 64}
_TYPE_OF_BITS: Final = {bits: type_ for type_, bits in _BITS.items()}
_CLOCK_TYPES: Final = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPNTZ})
_SPARK_TIMES: Final = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPNTZ, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ})
_TEXTS: Final = frozenset({_Type.TEXT, _Type.VARCHAR})
_MONTHS: Final = {"MONTH": 1, "MONTHS": 1, "YEAR": 12, "YEARS": 12, "QUARTER": 3, "QUARTERS": 3}
_SECONDS: Final = {"HOUR": 3600, "HOURS": 3600, "MINUTE": 60, "MINUTES": 60, "SECOND": 1, "SECONDS": 1}
_EXACT_IN_DOUBLE: Final = 2**53
_MOST_DIGITS: Final = 38
_WIDE: Final = decimal.Context(prec=2 * _MOST_DIGITS + 2)
_MILLISECONDS: Final = 3
_MANY: Final = 10_000


def fold_constants(tree: Any, dialect: str) -> Any:
    """Replace the constant expressions of a tree by literals, in place.

    Args:
        tree: sqlglot's syntax tree.
        dialect: spark, hive, trino or presto.

    Returns:
        The tree; another node if all of it was constant.
    """
    nodes = list(tree.find_all(*_FOLDERS, bfs=True))
    for node in reversed(nodes if len(nodes) <= _MANY else []):  # operands come first
        made = _FOLDERS[type(node)](node, dialect) if type(node) in _FOLDERS else None
        if made is None:
            continue
        if node is tree:
            return made
        node.replace(made)
    return tree


def moved(moment: Any, interval: Any, sign: int, dialect: str) -> dt.date | None:  # noqa: PLR0911
    """A date or clock time plus an interval; None if engines or zones differ, or beyond Python's years.

    Spark's timestamps are instants, whose sum with an interval depends on the session's zone.
    """
    is_time = isinstance(moment, dt.datetime)
    if not isinstance(moment, dt.date) or not isinstance(interval, exp.Interval):
        return None
    if is_time and (dialect == SPARK or getattr(moment, "tzinfo", None) is not None):
        return None
    unit = interval.args.get("unit")
    number = whole_number(interval.this)
    if number is None or type(unit) is not exp.Var:
        return None
    name = str(unit.name).upper()
    days = days_of(interval.this, unit)
    try:
        if days is not None:
            return moment + dt.timedelta(days=sign * days)
        if name in _MONTHS:
            return _months_later(moment, sign * number * _MONTHS[name])
        if is_time and name in _SECONDS:
            return moment + dt.timedelta(seconds=sign * number * _SECONDS[name])
    except (OverflowError, ValueError):
        return None
    return None


def _months_later(moment: dt.date, months: int) -> dt.date:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


@dataclass(frozen=True)
class _Number:
    """A constant number: an `int` with the bits of its type, a `Decimal` or a `float` (a double)."""

    value: Any
    bits: int = 0


def _number(node: Any) -> _Number | None:  # noqa: PLR0911 - one line a node
    """The number of a literal, signed or cast to a type of whole numbers; None for anything else."""
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        positive = _number(node.this)
        # engines differ on the type of the least number
        if positive is None or (positive.bits and positive.value == 2 ** (positive.bits - 1)):
            return None
        negated = positive.value.copy_negate() if isinstance(positive.value, decimal.Decimal) else -positive.value
        return _Number(negated, positive.bits)
    if isinstance(node, exp.Literal):
        value = None if node.is_string else number_value(node.this)
        bits = 32 if value is not None and isinstance(value, int) and value < 2**31 else 64
        if isinstance(value, int):
            return _Number(value, bits) if value < 2**63 else None
        return None if value is None else _Number(value)
    if isinstance(node, exp.Cast) and node.to.this in _BITS and not node.to.expressions:
        value = literal_value(node)
        return _Number(value, _BITS[node.to.this]) if type(value) is int else None
    return None


def _arithmetic(node: Any, dialect: str) -> Any:
    left, right = _number(node.this), _number(node.expression)
    if left is None or right is None:
        return _longer_interval(node)
    if left.bits and right.bits:
        return _of_whole(node, left, right, dialect)
    if isinstance(left.value, float) or isinstance(right.value, float):
        return _of_doubles(node, left.value, right.value)
    return _of_decimals(node, left.value, right.value) if dialect in TRINO else None


def _of_whole(node: Any, left: _Number, right: _Number, dialect: str) -> Any:
    """Arithmetic of whole numbers: the result has the wider type."""
    a, b = left.value, right.value
    bits = max(left.bits, right.bits)
    if isinstance(node, exp.Div | exp.IntDiv | exp.Mod):
        if b == 0 or (isinstance(node, exp.Div) and dialect not in TRINO):
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        value = a - quotient * b if isinstance(node, exp.Mod) else quotient
        bits = 64 if isinstance(node, exp.IntDiv) and dialect == SPARK else bits
    else:
        value = _PLAIN[type(node)](a, b)
    # the least number has no literal
    if not -(2 ** (bits - 1)) < value < 2 ** (bits - 1):
        return None
    literal = _signed(str(abs(value)), negative=value < 0)
    if dialect != SPARK and bits == (32 if abs(value) < 2**31 else 64):
        return literal
    return _cast(literal, _TYPE_OF_BITS[bits])


def _of_doubles(node: Any, a: Any, b: Any) -> Any:
    exact = all(isinstance(v, float) or (isinstance(v, int) and abs(v) <= _EXACT_IN_DOUBLE) for v in (a, b))
    if not exact or isinstance(node, exp.Mod | exp.IntDiv) or (isinstance(node, exp.Div) and float(b) == 0):
        return None
    a, b = float(a), float(b)
    value = a / b if isinstance(node, exp.Div) else _PLAIN[type(node)](a, b)
    if not math.isfinite(value):
        return None
    text = repr(abs(value))
    return _signed(text if "e" in text else f"{text}e0", negative=math.copysign(1.0, value) < 0)


def _of_decimals(node: Any, a: Any, b: Any) -> Any:
    """Trino's sums and products of decimals, which are exact; quotients are rounded."""
    if type(node) not in _PLAIN:
        return None
    a, b = decimal.Decimal(a), decimal.Decimal(b)
    calculate = {exp.Add: _WIDE.add, exp.Sub: _WIDE.subtract, exp.Mul: _WIDE.multiply}[type(node)]
    value = calculate(a, b)
    text = format(abs(value), "f")
    if len(text.replace(".", "")) > _MOST_DIGITS or "." not in text:
        return None
    return _signed(text, negative=value.is_signed())


def _longer_interval(node: Any) -> Any:
    """A multiple of an interval."""
    left, right = _unwrapped(node.this), _unwrapped(node.expression)
    if not isinstance(node, exp.Mul):
        return None
    interval, factor = (left, right) if isinstance(left, exp.Interval) else (right, left)
    count, times = whole_number(interval.this) if isinstance(interval, exp.Interval) else None, _number(factor)
    if count is None or times is None or not times.bits:
        return None
    return exp.Interval(this=exp.Literal.string(str(count * times.value)), unit=interval.args["unit"].copy())


def _sum(node: Any, dialect: str) -> Any:
    date = _date(node.this)
    if date is None:
        return _arithmetic(node, dialect)
    interval = _unwrapped(node.expression)
    return _date_literal(moved(date, interval, -1 if isinstance(node, exp.Sub) else 1, dialect))


def _date_add(node: Any, dialect: str) -> Any:
    date, unit = _date(node.this), node.args.get("unit")
    if date is None or dialect not in TRINO:
        return None
    count = _number(node.expression)
    if count is None or not count.bits or type(unit) is not exp.Var:
        return None
    return _date_literal(moved(date, exp.Interval(this=exp.Literal.string(str(count.value)), unit=unit), 1, dialect))


def _date_trunc(node: Any, dialect: str) -> Any:
    """Trino's date_trunc of a date, which is a date."""
    date, unit = _date(node.this), node.args.get("unit")
    if date is None or dialect not in TRINO or unit is None:
        return None
    starts: dict[str, dt.date] = {
        "DAY": date,
        "WEEK": date - dt.timedelta(days=min(date.weekday(), date.toordinal() - 1)),
        "MONTH": date.replace(day=1),
        "QUARTER": date.replace(month=date.month - (date.month - 1) % 3, day=1),
        "YEAR": date.replace(month=1, day=1),
    }
    return _date_literal(starts.get(str(unit.name).upper()))


def _to_date(node: Any, dialect: str) -> Any:
    """``date('2000-01-01')``; with a format, texts are read in another way."""
    if any(value not in (None, False, [], "") and key not in {"this", "safe"} for key, value in node.args.items()):
        return None
    return _as_date(_unwrapped(node.this), dialect)


def _casts(node: Any, dialect: str) -> Any:
    target, inner = node.to, _unwrapped(node.this)
    if target.expressions or node.args.get("format"):
        return None
    if target.this is _Type.DATE and not isinstance(inner, exp.Literal):
        return _as_date(inner, dialect)
    if target.this in (_SPARK_TIMES if dialect == SPARK else _CLOCK_TYPES):
        date = _date(inner)
        return None if date is None else _cast(exp.Literal.string(f"{date.isoformat()} 00:00:00"), target.this)
    if target.this in _TEXTS:
        number = _number(inner)
        return exp.Literal.string(str(number.value)) if number is not None and number.bits else None
    return None


def _as_date(node: Any, dialect: str) -> Any:
    """A literal text, date or clock time as a date."""
    if isinstance(node, exp.Literal):
        try:
            return _date_literal(parse_date(node.this)) if node.is_string else None
        except TextNotUnderstoodError:
            return None
    if not isinstance(node, exp.Cast):
        return None
    value = literal_value(node)
    if node.to.this not in (_SPARK_TIMES if dialect == SPARK else _CLOCK_TYPES) or not isinstance(value, dt.datetime):
        return _date_literal(_date(node))
    return _date_literal(value.date()) if value.tzinfo is None and _is_exact(node) else None


def _is_exact(node: Any) -> bool:
    """Whether a text keeps all its digits when cast to a type of times, which in Trino may round to the next day."""
    digits = len(node.this.name.rpartition(".")[2]) if "." in node.this.name else 0
    precision = whole_number(node.to.expressions[0].this) if node.to.expressions else _MILLISECONDS
    return isinstance(node.this, exp.Literal) and precision is not None and digits <= precision


def _joined(node: Any, dialect: str) -> Any:
    del dialect
    parts = [_unwrapped(part) for part in (node.this, node.expression)]
    if not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
        return None
    return exp.Literal.string("".join(part.this for part in parts))


def _date(node: Any) -> dt.date | None:
    """The value of a literal date."""
    node = _unwrapped(node)
    is_date = isinstance(node, exp.Cast) and node.to.this is _Type.DATE and isinstance(node.this, exp.Literal)
    value = literal_value(node) if is_date else None
    return value if type(value) is dt.date else None


def _date_literal(date: dt.date | None) -> Any:
    return None if date is None else _cast(exp.Literal.string(date.isoformat()), _Type.DATE)


def _unwrapped(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _signed(text: str, *, negative: bool) -> Any:
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if negative else literal


def _cast(literal: Any, type_: Any) -> Any:
    node = exp.Cast(this=literal, to=exp.DataType(this=type_, nested=False))
    node.meta[FOLDED] = True
    return node


_PLAIN: dict[Any, Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
}
_FOLDERS: dict[Any, Callable[[Any, str], Any]] = {
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.Mul: _arithmetic,
    exp.Div: _arithmetic,
    exp.IntDiv: _arithmetic,
    exp.Mod: _arithmetic,
    exp.DPipe: _joined,
    exp.Cast: _casts,
    exp.TryCast: _casts,
    exp.Date: _to_date,
    exp.TsOrDsToDate: _to_date,
    exp.DateAdd: _date_add,
    exp.DateTrunc: _date_trunc,
    exp.TimestampTrunc: _date_trunc,
}
