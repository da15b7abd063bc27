"""Comparisons of Hive's functions of a column with a literal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.expression import HudiExpression, Op, Predicate
from pushdown.functions import cast, prefix16, year
from pushdown.translators.hive_comparisons import compared
from pushdown.translators.hive_literals import LiteralNotUnderstoodError, check_clock_time
from pushdown.translators.hive_nodes import Literal, Operand, arguments_of, function_of, read_operand

# Years of which every day is one of the calendar that Hive and the files have in common.
_FIRST_YEAR, _LAST_YEAR = 1583, 9998
_EQUALITIES = frozenset({Op.EQ, Op.NE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE})
_LAST_OF_TWO_BYTES = "\uffff"


@dataclass(frozen=True)
class _Comparison:
    """A function's operand under a comparison with a literal that is not NULL."""

    op: Op
    operand: Operand
    rest: list[Any]
    literal: Any
    time_zone: str


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


def _to_date(asked: _Comparison) -> HudiExpression | None:
    kind = asked.operand.kind
    if asked.rest or kind is None or type(asked.literal) is not dt.date or asked.literal.year > _LAST_YEAR:
        return None
    if kind.base == "date":
        return compared(asked.op, asked.operand.column, kind, asked.literal, asked.time_zone)
    if kind.base != "timestamp" or not _plain_midnights(asked, asked.literal, asked.literal + dt.timedelta(days=1)):
        return None
    return Predicate(asked.op, asked.operand.column, (asked.literal,), function=cast(pa.date32()))


def _year(asked: _Comparison) -> HudiExpression | None:
    kind, number = asked.operand.kind, asked.literal
    if asked.rest or kind is None or type(number) is not int or not _FIRST_YEAR <= number <= _LAST_YEAR:
        return None
    is_time = kind.base == "timestamp" and _plain_midnights(asked, dt.date(number, 1, 1), dt.date(number + 1, 1, 1))
    if kind.base != "date" and not is_time:
        return None
    return Predicate(asked.op, asked.operand.column, (number,), function=year())


def _plain_midnights(asked: _Comparison, *days: dt.date) -> bool:
    """Whether no change of clocks touches the midnights that the days begin with."""
    try:
        for day in days:
            check_clock_time(dt.datetime.combine(day, dt.time.min), asked.time_zone)
    except LiteralNotUnderstoodError:
        return False
    return True


def _substring(asked: _Comparison) -> HudiExpression | None:
    """The beginning of a text: Hive's row operators count UTF-16 units, the vectorised ones characters.

    They agree on equality with a text whose characters are one unit each, and not on order.
    """
    kind, literal = asked.operand.kind, asked.literal
    start, length = (_whole(argument, asked.time_zone) for argument in (*asked.rest, None, None)[:2])
    if len(asked.rest) != 2 or start != 1 or length is None or length < 1 or asked.op not in _EQUALITIES:
        return None
    if (
        kind is None
        or kind.base != "string"
        or not isinstance(literal, str)
        or max(literal, default="") > _LAST_OF_TWO_BYTES
    ):
        return None
    return Predicate(asked.op, asked.operand.column, (literal,), function=prefix16(length))


def _whole(node: Any, time_zone: str) -> int | None:
    found = read_operand(node, time_zone)
    return found.value if isinstance(found, Literal) and type(found.value) is int else None


FUNCTIONS: dict[str, Callable[[_Comparison], HudiExpression | None]] = {
    "GenericUDFDate": _to_date,
    "GenericUDFToDate": _to_date,
    "UDFYear": _year,
    "year": _year,
    "UDFSubstr": _substring,
    "substr": _substring,
    "substring": _substring,
}
