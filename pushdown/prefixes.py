"""Comparisons of a text's first characters as comparisons of the text.

Texts are ordered by code points, and so are their beginnings: what cuts a text never changes its order with a text that
is not longer than the cut.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pushdown.expression import HudiExpression, Not, Op, Predicate, Unknown, any_of, never
from pushdown.functions import Function
from pushdown.kinds import Kind, kind_of
from pushdown.like import shape_of

_NAMES = frozenset({"prefix", "prefix16"})
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
# What Java puts for half of a character that was cut in two, or may put.
_REPLACED = ("?", "\ufffd")


def is_prefix(function: Function, type_: pa.DataType) -> bool:
    """Whether a function is the beginning of a text column."""
    return (
        function.name in _NAMES
        and function.inner is None
        and kind_of(type_) is Kind.STRING
        and len(function.arguments) == 1
        and type(function.arguments[0]) is int
        and function.arguments[0] > 0
    )


def compared_prefix(  # noqa: PLR0911
    op: Op, function: Function, column: str, type_: pa.DataType, literal: Any
) -> HudiExpression:
    """``prefix(column, n) op literal`` as a condition on the column, bound in part.

    Args:
        op: EQ, a range, STARTS_WITH or LIKE.
        function: what `is_prefix` accepts.
        column: the column's bound name.
        type_: its type.
        literal: what it is compared with, not None.
    """
    size = function.arguments[0]
    unknown = Unknown(f"the first {size} characters of {column} are compared with {literal!r}")
    if not isinstance(literal, str):
        return unknown
    if op is Op.LIKE:
        shape = shape_of(literal)
        if not (shape.is_literal or shape.is_prefix):
            return unknown
        op, literal = Op.EQ if shape.is_literal else Op.STARTS_WITH, shape.prefix
    if function.name == "prefix16" and not _whole_characters(op, literal, size):
        return unknown
    if op in {Op.GT, Op.GE}:
        return Not(_below(op.negated, column, literal, size))
    if op in _RANGES:
        return _below(op, column, literal, size)
    if len(literal) > size:
        return never(column, type_)
    if op is Op.EQ and len(literal) < size:
        return Predicate(Op.EQ, column, (literal,))
    return Predicate(Op.STARTS_WITH, column, (literal,))


def _below(op: Op, column: str, literal: str, size: int) -> HudiExpression:
    if len(literal) < size or (len(literal) == size and op is Op.LT):
        return Predicate(op, column, (literal,))
    # No more characters than these are looked at: a beginning that equals them is below a longer literal.
    seen = literal[:size]
    return any_of(Predicate(Op.LT, column, (seen,)), Predicate(Op.STARTS_WITH, column, (seen,)))


def _whole_characters(op: Op, literal: str, size: int) -> bool:
    """Whether a cut by UTF-16 units, which may halve the last character, decides as one by characters does."""
    halved = literal[size - 1 : size] in _REPLACED
    return op not in _RANGES and all(character <= "\uffff" for character in literal) and not halved
