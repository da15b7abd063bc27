"""Bound predicates from comparisons: of a column with places among its values, and of a text column's first characters.

Texts are ordered by code points, and so are their prefixes: cutting a text never changes its order relative to a text
that is not longer than the cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from pushdown.binding.coerce import Place, Point, Span, Undecided
from pushdown.columns import ResolvedColumn
from pushdown.errors import LiteralTypeError
from pushdown.expression import (
    Constant,
    HudiExpression,
    Not,
    Op,
    Predicate,
    RowTest,
    Unknown,
    all_of,
    always,
    any_of,
    never,
)
from pushdown.functions import Function
from pushdown.kinds import Kind, array_of, domain_of, kind_of, literal_type
from pushdown.like import shape_of
from pushdown.ordering import sorted_distinct

_NAMES = frozenset({"prefix", "prefix16"})
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
# What Java may write in place of half a surrogate pair.
_REPLACED = ("?", "\ufffd")


class Comparisons:
    """Predicates over one resolved column."""

    def __init__(self, column: ResolvedColumn) -> None:
        self.name = column.name
        self.type = column.type
        self.kind = kind_of(column.type)

    def compare(self, op: Op, at: Place) -> HudiExpression:  # noqa: PLR0911
        """The column compared with a place; the operator is EQ or a range."""
        if isinstance(at, Undecided):
            return Unknown(at.reason)
        if isinstance(at, Point):
            return self._predicate(op, pa.array([at.value], literal_type(self.type)))
        if op is Op.EQ:
            return self._equals(at)
        if op in {Op.LT, Op.GE}:
            # Below the literal is below the first number that is not below it.
            if at.first is None:
                return self.always() if op is Op.LT else self.never()
            return self._number(op, at.first)
        if at.last is None:
            return self.never() if op is Op.LE else self.always()
        return self._number(op, at.last)

    def _equals(self, at: Span) -> HudiExpression:
        if at.first is None or at.last is None or at.first > at.last:
            return self.never()
        if at.first == at.last:
            return self._number(Op.EQ, at.first)
        return all_of(self._number(Op.GE, at.first), self._number(Op.LE, at.last))

    def null_safe(self, equal: HudiExpression) -> HudiExpression:
        """The result of ``<=>``, from that of ``=``."""
        if isinstance(equal, Predicate | RowTest):
            return equal.replaced(Op.NULL_SAFE_EQ)
        if isinstance(equal, Unknown):
            # Never null, whatever the comparison is.
            return equal
        return all_of(self.not_null(), equal)

    def among(self, places: Iterable[Place], *, has_null: bool) -> HudiExpression:
        """IN, for the places of a list's members other than null."""
        points: list[Any] = []
        numbers: list[int] = []
        others: list[HudiExpression] = []
        for at in places:
            if isinstance(at, Undecided):
                others.append(Unknown(at.reason))
            elif isinstance(at, Point):
                points.append(at.value)
            elif at.first is not None and at.first == at.last:
                numbers.append(at.first)
            elif at.first is not None and at.last is not None and at.first < at.last:
                others.append(self._equals(at))
        array = array_of(self.type, numbers) if numbers else pa.array(points, literal_type(self.type))
        return any_of(self.in_set(array, has_null=has_null), *dict.fromkeys(others))

    def in_set(self, values: pa.Array[Any], *, has_null: bool) -> HudiExpression:
        """IN, for values of the column's type."""
        distinct = sorted_distinct(values)
        if len(distinct) == 0:
            return Constant(value=None) if has_null else self.never()
        if has_null:
            with_null: Any = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
            return self._predicate(Op.IN, with_null)
        return self._predicate(Op.EQ if len(distinct) == 1 else Op.IN, distinct)

    def text_match(self, op: Op, pattern: Any) -> HudiExpression:
        """LIKE or STARTS_WITH."""
        if self.kind is not Kind.STRING or not isinstance(pattern, str):
            return Unknown(f"{self.name} is of type {self.type}: {op.value} is for text")
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise LiteralTypeError(f"{self.name}: the text {pattern!r} is not valid Unicode") from None
        if op is Op.LIKE:
            shape = shape_of(pattern)
            if shape.is_literal:
                return self.compare(Op.EQ, Point(shape.prefix))
            if not shape.is_prefix:
                return self._predicate(Op.LIKE, pa.array([pattern], pa.string()))
            pattern = shape.prefix
        if not pattern:
            return self.always()
        return self._predicate(Op.STARTS_WITH, pa.array([pattern], pa.string()))

    def _number(self, op: Op, number: int) -> HudiExpression:
        domain = domain_of(self.type)
        if (op, number) in {(Op.LT, domain.first), (Op.GT, domain.last)}:
            return self.never()
        if (op, number) in {(Op.GE, domain.first), (Op.LE, domain.last)}:
            return self.always()
        return self._predicate(op, array_of(self.type, [number]))

    def _predicate(self, op: Op, values: pa.Array[Any]) -> Predicate:
        return Predicate(op, self.name, values, self.type)

    def null_test(self, op: Op) -> Predicate:
        """IS_NULL or NOT_NULL."""
        return Predicate(op, self.name, pa.nulls(0), self.type)

    def not_null(self) -> Predicate:
        """IS NOT NULL."""
        return self.null_test(Op.NOT_NULL)

    def never(self) -> HudiExpression:
        """A comparison that no value satisfies."""
        return never(self.name, self.type)

    def always(self) -> HudiExpression:
        """A comparison that every value satisfies."""
        return always(self.name, self.type)


def is_prefix(function: Function, type_: pa.DataType) -> bool:
    """Whether a function is a prefix of a text column."""
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
    """Whether cutting by UTF-16 units, which may halve the last character, decides as cutting by characters does."""
    halved = literal[size - 1 : size] in _REPLACED
    return op not in _RANGES and all(character <= "\uffff" for character in literal) and not halved
