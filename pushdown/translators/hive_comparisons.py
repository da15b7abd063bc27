"""Comparisons of one Hive column with literals.

A column that Hive declares ``varchar(n)`` or ``char(n)`` is compared after its stored text was cut to n characters, a
char without its trailing spaces too. What was stored begins with what is compared, so equality needs that beginning,
and "less" is the same before and after (nothing lies between a text and itself with spaces added but texts with
characters below the space).

Old dates and times may be others in Hive than those that are stored: only what is far from the literal is certain.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from pushdown.expression import HudiExpression, Op, Predicate, Unknown, all_of, any_of, negation
from pushdown.functions import HIVES_GREATEST_DIVISOR, Function, cast, prefix16, year
from pushdown.like import canonical_pattern, shape_of
from pushdown.translators.hive_literals import (
    CALENDARS_APART,
    HiveType,
    LiteralNotUnderstoodError,
    check_clock_time,
    is_displaced,
)
from pushdown.translators.hive_nodes import Literal, Operand, arguments_of, function_of, read_operand

# Beyond this many texts of which only a prefix is known, a list is Unknown.
_MANY = 100
_NEGATED = frozenset({Op.NE, Op.GT, Op.GE, Op.NULL_SAFE_NE})
# Hive may take days before the year 1 for ones after it; this one less `CALENDARS_APART` is after it in all time zones.
_FIRST_SURE = dt.date(1, 2, 1)
# Years of which every day is one of the calendar that Hive and the files have in common.
_FIRST_YEAR, _LAST_YEAR = 1583, 9998
_EQUALITIES = frozenset({Op.EQ, Op.NE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE})
_LAST_OF_TWO_BYTES = "\uffff"


def compared(op: Op, column: str, kind: HiveType, literal: Any, time_zone: str) -> HudiExpression:
    """``column op literal``; None is NULL.

    Args:
        op: a comparison.
        column: the column's dotted name.
        kind: its type after casts.
        literal: a value as `hive_literal` reads it.
        time_zone: as for `hive_literal`.
    """
    if literal is None:
        return Predicate(op, column, (None,))
    reason = _incomparable(column, kind, literal, time_zone)
    if reason is not None:
        return Unknown(reason)
    if is_displaced(kind, literal):
        return _displaced(op, column, kind, literal)
    if not kind.limited:
        return Predicate(op, column, (literal,))
    if op in _NEGATED:
        return negation(_limited(op.negated, column, kind, literal))
    return _limited(op, column, kind, literal)


def is_in(column: str, kind: HiveType, literals: Sequence[Any], time_zone: str) -> HudiExpression:
    """``column IN (…)``; None among the literals is NULL."""
    for literal in _one_of_each_type(literals, kind):
        reason = _incomparable(column, kind, literal, time_zone)
        if reason is not None:
            return Unknown(reason)
    displaced = [literal for literal in dict.fromkeys(literals) if is_displaced(kind, literal)]
    if displaced:
        exact = [literal for literal in literals if not is_displaced(kind, literal)]
        if len(displaced) > _MANY:
            return Unknown(f"{column} is compared with {len(displaced):,} values of which Hive's calendar is not known")
        parts = [Predicate(Op.IN, column, tuple(exact))] if exact else []
        return any_of(*parts, *(_displaced(Op.EQ, column, kind, literal) for literal in displaced))
    if not kind.limited:
        return Predicate(Op.IN, column, tuple(literals))
    if kind.base == "varchar":
        exact = [text for text in literals if text is None or len(text) < kind.first]
        vague = [text for text in literals if text is not None and len(text) >= kind.first]
    else:
        exact = [text for text in literals if text is None]
        vague = [text for text in literals if text is not None]
    if len(vague) > _MANY:
        return Unknown(f"{column} is a {kind.base} in Hive and compared with {len(vague):,} texts")
    parts = [Predicate(Op.IN, column, tuple(exact))] if exact else []
    return any_of(*parts, *(_equal(column, kind, text) for text in dict.fromkeys(vague)))


def like(column: str, kind: HiveType, pattern: str | None) -> HudiExpression:
    r"""``column LIKE pattern``.

    Before ``%`` and ``_`` the backslash escapes; elsewhere releases of Hive differ on it.
    """
    if kind.family != "text":
        return Unknown(f"{column} is a {kind.base} in Hive: LIKE is for text")
    if pattern is None:
        return Predicate(Op.LIKE, column, (None,))
    plain = pattern.split("\\")
    if all(rest[:1] in {"%", "_"} for rest in plain[1:]):
        canonical = canonical_pattern(pattern, "\\")
        shape = shape_of(canonical)
        cut = kind.limited and not (shape.is_prefix and len(shape.prefix) <= kind.first and kind.base == "varchar")
        if not cut:
            return Predicate(Op.LIKE, column, (canonical,))
        beginning = shape.prefix
    else:
        beginning = shape_of(plain[0]).prefix
    return _begins(column, kind, beginning, "is matched by a pattern")


def _one_of_each_type(literals: Sequence[Any], kind: HiveType) -> list[Any]:
    """The literals to check; where the check looks at the value, all of them."""
    present = [literal for literal in literals if literal is not None]
    return present if kind.base == "timestamp" else list({type(literal): literal for literal in present}.values())


def _incomparable(column: str, kind: HiveType, literal: Any, time_zone: str) -> str | None:
    family = _family(literal)
    if kind.family is None or family != kind.family or (kind.rounded and not isinstance(literal, float)):
        return f"{column} is a {kind.base} in Hive and compared with a {type(literal).__name__}"
    if kind.base == "timestamp" and type(literal) is dt.date and not is_displaced(kind, literal):
        try:
            check_clock_time(dt.datetime.combine(literal, dt.time.min), time_zone)
        except LiteralNotUnderstoodError as error:
            return str(error)
    return None


def _family(literal: Any) -> str | None:
    if isinstance(literal, bool):
        return "boolean"
    if isinstance(literal, int | float | decimal.Decimal):
        return "number"
    if isinstance(literal, dt.date):
        return "time"
    return "text" if isinstance(literal, str) else "binary" if isinstance(literal, bytes) else None


def _displaced(op: Op, column: str, kind: HiveType, literal: dt.date) -> HudiExpression:
    """A comparison with an old date or time: decided far from it, unknown near it, and for values before the year 1."""
    if op in _NEGATED:
        return negation(_displaced(op.negated, column, kind, literal))
    vague = Unknown(f"{column}: Hive may read values around {literal} by another calendar")
    if kind.base == "timestamp" and type(literal) is dt.date:
        literal = dt.datetime.combine(literal, dt.time.min)
    first = dt.datetime.combine(_FIRST_SURE, dt.time.min) if isinstance(literal, dt.datetime) else _FIRST_SURE
    after = Predicate(Op.LT if op is Op.LT else Op.LE, column, (literal + CALENDARS_APART,))
    if literal < first:
        expression = all_of(after, vague)
    elif op in {Op.LT, Op.LE}:
        low = Predicate(op, column, (literal - CALENDARS_APART,))
        expression = any_of(all_of(Predicate(Op.GE, column, (first,)), low), all_of(after, vague))
    else:
        near = all_of(Predicate(Op.GE, column, (literal - CALENDARS_APART,)), after)
        expression = all_of(any_of(Predicate(Op.LT, column, (first,)), near), vague)
    return all_of(Predicate(Op.NOT_NULL, column), expression) if op is Op.NULL_SAFE_EQ else expression


def _limited(op: Op, column: str, kind: HiveType, text: str) -> HudiExpression:
    if op is Op.EQ:
        return _equal(column, kind, text)
    if op is Op.NULL_SAFE_EQ:
        equal = _equal(column, kind, text)
        if isinstance(equal, Predicate):
            return equal.replaced(Op.NULL_SAFE_EQ)
        return all_of(Predicate(Op.NOT_NULL, column), equal)
    less = _less(column, kind, text)
    return less if op is Op.LT else any_of(less, _equal(column, kind, text))


def _equal(column: str, kind: HiveType, text: str) -> HudiExpression:
    if kind.base == "varchar" and len(text) < kind.first:
        return Predicate(Op.EQ, column, (text,))
    return _begins(column, kind, text, f"is compared with {text!r}")


def _less(column: str, kind: HiveType, text: str) -> HudiExpression:
    bare = text.rstrip(" ") if kind.base == "char" else text
    lost = kind.stripped and bare != text
    below_space = kind.base == "char" and bool(bare) and min(bare) < " "
    if lost or below_space or len(bare) > kind.first:
        return Unknown(f"{column} is a {kind.base} in Hive and compared with {text!r}")
    return Predicate(Op.LT, column, (bare,))


def _begins(column: str, kind: HiveType, beginning: str, what: str) -> HudiExpression:
    """A condition that is false where the stored text lacks this prefix, and unknown elsewhere."""
    unknown = Unknown(f"{column}, a {kind.base} in Hive, {what}")
    if kind.base == "char":
        beginning = beginning.rstrip(" ")
    return all_of(Predicate(Op.STARTS_WITH, column, (beginning,)), unknown) if beginning else unknown


@dataclass(frozen=True)
class _Comparison:
    """A comparison of a function's operand with a literal that is not NULL."""

    op: Op
    operand: Operand
    rest: list[Any]
    literal: Any
    time_zone: str


_Translate: TypeAlias = "Callable[[_Comparison], HudiExpression | None]"


def compared_function(op: Op, node: Any, literal: Any, time_zone: str) -> HudiExpression | None:
    """``function(column) op literal``; None when it cannot be expressed.

    Args:
        op: a comparison.
        node: the function's node.
        literal: a value as `hive_literal` reads it; None is NULL.
        time_zone: as for `from_hive_tree`.
    """
    translate = FUNCTIONS.get(function_of(node) or "")
    arguments = arguments_of(node)
    if translate is None or not arguments or literal is None:
        return None
    operand = read_operand(arguments[0], time_zone)
    if not isinstance(operand, Operand) or operand.kind is None:
        return None
    return translate(_Comparison(op, operand, arguments[1:], literal, time_zone))


def _to_date(comparison: _Comparison) -> HudiExpression | None:
    kind = comparison.operand.kind
    if (
        comparison.rest
        or kind is None
        or type(comparison.literal) is not dt.date
        or comparison.literal.year > _LAST_YEAR
    ):
        return None
    if kind.base == "date":
        return compared(comparison.op, comparison.operand.column, kind, comparison.literal, comparison.time_zone)
    if kind.base != "timestamp" or not _plain_midnights(
        comparison, comparison.literal, comparison.literal + dt.timedelta(days=1)
    ):
        return None
    return Predicate(comparison.op, comparison.operand.column, (comparison.literal,), function=cast(pa.date32()))


def _year(comparison: _Comparison) -> HudiExpression | None:
    kind, number = comparison.operand.kind, comparison.literal
    if comparison.rest or kind is None or type(number) is not int or not _FIRST_YEAR <= number <= _LAST_YEAR:
        return None
    is_time = kind.base == "timestamp" and _plain_midnights(
        comparison, dt.date(number, 1, 1), dt.date(number + 1, 1, 1)
    )
    if kind.base != "date" and not is_time:
        return None
    return Predicate(comparison.op, comparison.operand.column, (number,), function=year())


def _plain_midnights(comparison: _Comparison, *days: dt.date) -> bool:
    """Whether no clock change touches the midnights at which the days begin."""
    try:
        for day in days:
            check_clock_time(dt.datetime.combine(day, dt.time.min), comparison.time_zone)
    except LiteralNotUnderstoodError:
        return False
    return True


def _substring(comparison: _Comparison) -> HudiExpression | None:
    """A prefix of a text: Hive's row operators count UTF-16 units, the vectorised ones characters.

    They agree on equality with a text whose characters are one unit each, and not on order.
    """
    kind, literal = comparison.operand.kind, comparison.literal
    start, length = (_whole(argument, comparison.time_zone) for argument in (*comparison.rest, None, None)[:2])
    if len(comparison.rest) != 2 or start != 1 or length is None or length < 1 or comparison.op not in _EQUALITIES:
        return None
    if (
        kind is None
        or kind.base != "string"
        or not isinstance(literal, str)
        or max(literal, default="") > _LAST_OF_TWO_BYTES
    ):
        return None
    return Predicate(comparison.op, comparison.operand.column, (literal,), function=prefix16(length))


def _narrowed(name: str, bases: frozenset[str], literals: type, rest: int = 0) -> _Translate:
    """A function that statistics narrow, of columns of some types, compared with literals of one type.

    Its further arguments are whole numbers.
    """

    def translate(comparison: _Comparison) -> HudiExpression | None:
        kind, literal = comparison.operand.kind, comparison.literal
        numbers = [_whole(argument, comparison.time_zone) for argument in comparison.rest]
        if kind is None or kind.base not in bases or kind.limited or kind.rounded or type(literal) is not literals:
            return None
        if len(numbers) != rest or any(number is None for number in numbers):
            return None
        function = Function(name, tuple(numbers))
        return Predicate(comparison.op, comparison.operand.column, (literal,), function=function)

    return translate


def _positive_remainder(comparison: _Comparison) -> HudiExpression | None:
    divisor = _whole(comparison.rest[0], comparison.time_zone) if len(comparison.rest) == 1 else None
    if divisor is None or divisor > HIVES_GREATEST_DIVISOR:
        return None
    return _narrowed("pmod", _INTEGERS, int, 1)(comparison)


def _whole(node: Any, time_zone: str) -> int | None:
    operand = read_operand(node, time_zone)
    return operand.value if isinstance(operand, Literal) and type(operand.value) is int else None


_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_TEXTS = frozenset({"string"})
_TIMES = frozenset({"timestamp"})
_DATES = frozenset({"date", "timestamp"})
FUNCTIONS: dict[str, _Translate] = {
    "GenericUDFDate": _to_date,
    "GenericUDFToDate": _to_date,
    "UDFYear": _year,
    "year": _year,
    "UDFSubstr": _substring,
    "substr": _substring,
    "substring": _substring,
    "hour": _narrowed("hour", _TIMES, int),
    "minute": _narrowed("minute", _TIMES, int),
    "second": _narrowed("second", _TIMES, int),
    "month": _narrowed("month", _DATES, int),
    "day": _narrowed("day", _DATES, int),
    "dayofmonth": _narrowed("day", _DATES, int),
    "dayofweek": _narrowed("dayofweek", _DATES, int),
    "weekofyear": _narrowed("weekofyear", _DATES, int),
    "GenericUDFQuarter": _narrowed("quarter", _DATES, int),
    "GenericUDFOPMod": _narrowed("mod", _INTEGERS, int, 1),
    "GenericUDFPosMod": _positive_remainder,
    "GenericUDFOPPlus": _narrowed("add", _INTEGERS, int, 1),
    "GenericUDFOPMultiply": _narrowed("multiply", _INTEGERS, int, 1),
    "GenericUDFAbs": _narrowed("abs", _INTEGERS, int),
    "GenericUDFLower": _narrowed("lower", _TEXTS, str),
    "GenericUDFUpper": _narrowed("upper", _TEXTS, str),
    "GenericUDFTrim": _narrowed("trim", _TEXTS, str),
    "GenericUDFLTrim": _narrowed("ltrim", _TEXTS, str),
    "GenericUDFRTrim": _narrowed("rtrim", _TEXTS, str),
    "GenericUDFLength": _narrowed("length", _TEXTS, int),
    "GenericUDFCharacterLength": _narrowed("length", _TEXTS, int),
}
for _bridged, _name in {
    "UDFHour": "hour",
    "UDFMinute": "minute",
    "UDFSecond": "second",
    "UDFMonth": "month",
    "UDFDayOfMonth": "day",
    "UDFDayOfWeek": "dayofweek",
    "UDFWeekOfYear": "weekofyear",
}.items():
    FUNCTIONS[_bridged] = FUNCTIONS[_name]
