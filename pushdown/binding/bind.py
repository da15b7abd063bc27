"""Binding of a filter to a schema: columns are resolved and literals converted to their types, exactly."""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pushdown.binding.cast_texts import is_canonical
from pushdown.binding.coerce import Place, Undecided, place, rounds_beside
from pushdown.binding.comparisons import Comparisons, compared_prefix, is_prefix
from pushdown.binding.computations import bound_computation, computed
from pushdown.binding.function_images import is_narrowed, narrowed
from pushdown.binding.function_places import is_understood, place_through, result_type
from pushdown.binding.spark_rules import bind_as_spark, opposite
from pushdown.columns import ResolvedColumn, resolve_column
from pushdown.errors import LiteralTypeError
from pushdown.expression import (
    Constant,
    HudiExpression,
    Op,
    Predicate,
    RowComputation,
    Unknown,
    all_of,
    any_of,
)
from pushdown.functions import Function
from pushdown.kinds import GREATEST_LONG, LEAST_LONG, Kind, domain_of, kind_of
from pushdown.spark_types import SPARK, Typed, exact_as_single, spark_type
from pushdown.temporal import zone_of
from pushdown.walk import fold, rebuilt

# Comparisons of a function with a list are made one by one.
_MANY = 1_000
# Integers from here on may share their 64-bit float with a neighbour.
_EXACT_DOUBLES = 2**53


def bind(
    expression: HudiExpression, schema: pa.Schema, *, case_sensitive: bool = False, time_zone: str = "UTC"
) -> HudiExpression:
    """Resolve columns and coerce literals.

    The bound filter gives every row the same truth value as the filter did. A comparison that has one result for all
    values of the column's type becomes that result, and null for nulls; comparisons that engines decide differently
    become `Unknown`.

    Args:
        expression: a filter, bound or not.
        schema: the table's columns, with their Arrow types.
        case_sensitive: whether names that differ in case are different columns.
        time_zone: the session's zone, for dates and clock times against instants.

    Raises:
        UnknownColumnError: a column that is not there, or is ambiguous.
        LiteralTypeError: a literal that cannot be compared with its column.
        ExpressionError: an unknown time zone.

    >>> from pushdown import parse_sql
    >>> bind(parse_sql("a < 1.5 AND b = 'x'"), pa.schema([("A", pa.int64()), ("b", pa.string())]))
    A < 2 AND b = 'x'
    """
    zone_of(time_zone)
    resolved: dict[str, ResolvedColumn] = {}

    def resolve(name: str) -> ResolvedColumn:
        column = resolved.get(name)
        if column is None:
            column = resolve_column(name, schema, case_sensitive=case_sensitive)
            resolved[name] = column
        return column

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, RowComputation):
            return bound_computation(node, resolve, time_zone)
        if not isinstance(node, Predicate):
            return node
        column = resolve(node.column)
        bound = _bind_predicate(node, column, time_zone)
        if node.function is None or is_narrowed(bound):
            return bound
        bound = narrowed(node, column, time_zone, _bind_predicate, bound)
        return bound if node.condition is None else computed(bound, node.condition, resolve, time_zone)

    return fold(expression, visit)


def _bind_predicate(predicate: Predicate, column: ResolvedColumn, time_zone: str) -> HudiExpression:
    if predicate.bound:
        if predicate.column_type == column.type and predicate.column == column.name:
            return predicate
        raise LiteralTypeError(f"{predicate.column} was bound as {predicate.column_type}, but is {column.type} here")
    prefixed = predicate.function is not None and is_prefix(predicate.function, column.type)
    if predicate.rules == SPARK and spark_type(column.type) is not None and not prefixed:
        return bind_as_spark(predicate, column, time_zone)
    return _bind_alike(_without_types(predicate), column, time_zone)


def _without_types(predicate: Predicate) -> Predicate:
    """A predicate on a column without type rules."""
    if predicate.rules != SPARK:
        return predicate
    values = tuple(value.value if isinstance(value, Typed) else value for value in predicate.values)
    return Predicate(predicate.op, predicate.column, values, function=predicate.function)


def _bind_alike(predicate: Predicate, column: ResolvedColumn, time_zone: str) -> HudiExpression:  # noqa: PLR0911
    """A predicate as all engines mean it; `Unknown` where they differ."""
    op = predicate.op
    function = predicate.function
    if op in {Op.IS_NULL, Op.NOT_NULL}:
        if function is not None and not _is_total(function, column.type, time_zone):
            return Unknown(f"{function.name}({column.name}) {op.value} is not understood")
        return Predicate(op, column.name, pa.nulls(0), column.type)
    if op.is_negative:
        positive = _bind_alike(predicate.replaced(op.negated), column, time_zone)
        return opposite(positive, op)
    if function is not None and is_prefix(function, column.type):
        return _bind_prefix(predicate, function, column, time_zone)
    binder = _Binder(column, time_zone, function)
    if op is Op.IN:
        return binder.is_in(predicate.values)
    literal = predicate.values[0]
    if op is Op.NULL_SAFE_EQ:
        return binder.null_safe_eq(literal)
    if literal is None:
        return Constant(value=None)
    if op in {Op.STARTS_WITH, Op.LIKE}:
        if function is not None:
            return Unknown(f"{function.name}({column.name}) {op.value} is not understood")
        return binder.text_match(op, literal)
    return binder.compare(op, binder.place(literal))


def _is_total(function: Function, type_: pa.DataType, time_zone: str) -> bool:
    return is_prefix(function, type_) or is_understood(function, type_, time_zone)


def _bind_prefix(predicate: Predicate, function: Function, column: ResolvedColumn, time_zone: str) -> HudiExpression:
    """A comparison of a text's first characters; the operator is not a negative one."""

    def compare(op: Op, literal: Any) -> HudiExpression:
        comparison = compared_prefix(op, function, column.name, column.type, literal)
        return fold(comparison, visit)

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        return _bind_predicate(node, column, time_zone) if isinstance(node, Predicate) else node

    op = predicate.op
    if op is Op.IN:
        if len(predicate.values) > _MANY:
            return Unknown(f"the beginning of {column.name} is compared with {len(predicate.values):,} texts")
        parts = [Constant(value=None) if v is None else compare(Op.EQ, v) for v in dict.fromkeys(predicate.values)]
        return any_of(*parts) if parts else Constant(value=False)
    literal = predicate.values[0]
    if op is Op.NULL_SAFE_EQ:
        if literal is None:
            return Predicate(Op.IS_NULL, column.name, pa.nulls(0), column.type)
        return all_of(Predicate(Op.NOT_NULL, column.name, pa.nulls(0), column.type), compare(Op.EQ, literal))
    return Constant(value=None) if literal is None else compare(op, literal)


class _Binder(Comparisons):
    """Predicates over one resolved column, or over a function of it, that engines agree on."""

    def __init__(self, column: ResolvedColumn, time_zone: str, function: Function | None) -> None:
        super().__init__(column)
        self.time_zone = time_zone
        self.function = function

    def place(self, literal: Any) -> Place:
        if isinstance(literal, Typed):
            if not self._exact_as_single([literal.value]):
                return Undecided(f"{self.name} may be rounded beside the 32-bit float {literal.value!r}")
            literal = literal.value
        if self.function is None:
            return place(literal, self.type, self.name, self.time_zone)
        return place_through(self.function, literal, self.type, self.name, self.time_zone)

    def _exact_as_single(self, literals: Iterable[Any]) -> bool:
        """Whether literals are comparable as 32-bit floats; what is no number is refused elsewhere."""
        type_ = self.type if self.function is None else result_type(self.function, self.type, self.time_zone)
        numbers = [one for one in literals if isinstance(one, int | float | decimal.Decimal)]
        return type_ is None or exact_as_single(kind_of(type_), numbers)

    def null_safe_eq(self, literal: Any) -> HudiExpression:
        if literal is None:
            if self.function is not None and not _is_total(self.function, self.type, self.time_zone):
                return Unknown(f"{self.function.name}({self.name}) is not understood")
            return self.null_test(Op.IS_NULL)
        return self.null_safe(self.compare(Op.EQ, self.place(literal)))

    def is_in(self, literals: Iterable[Any]) -> HudiExpression:  # noqa: PLR0911 - one case a line
        values = list(literals)
        if not values:
            return Constant(value=False)
        present = [value for value in values if value is not None]
        has_null = len(present) < len(values)
        if Typed in set(map(type, present)):
            present = [value.value if isinstance(value, Typed) else value for value in present]
            if not self._exact_as_single(present):
                return Unknown(f"{self.name} may be rounded beside a list with 32-bit floats")
        quick = self._quick_array(present) if self.function is None else None
        if quick is not None:
            return self.in_set(quick, has_null=has_null)
        types = {type(value) for value in present}
        if str in types and types & {int, float, decimal.Decimal} and self.kind is not Kind.STRING:
            return Unknown(f"{self.name} is compared with a list that mixes texts and numbers")
        if str in types and not all(is_canonical(text, self.type) for text in present if isinstance(text, str)):
            # Some engines compare the column's spelling with the members of a list.
            return Unknown(f"{self.name} is compared with a list of texts")
        if self.function is not None and (len(present) > _MANY or (float in types and len(types) > 1)):
            return Unknown(f"{self.function.name}({self.name}) is compared with a list of {len(present):,} literals")
        if float in types and self.kind in {Kind.INTEGER, Kind.DECIMAL}:
            # Engines bring the column and the whole list to one type, which is double then.
            present = [_as_float(value) for value in present]
        elif decimal.Decimal in types and rounds_beside(present, self.type):
            return Unknown(f"{self.name} is of type {self.type}, which engines round beside so long a decimal")
        return self.among((self.place(literal) for literal in present), has_null=has_null)

    def _quick_array(self, values: list[Any]) -> pa.Array[Any] | None:
        """Long lists of one type, converted as whole columns."""
        types = set(map(type, values))
        if types == {str} and self.kind is Kind.STRING:
            try:
                return pa.array(values, pa.string())
            except (UnicodeEncodeError, pa.ArrowInvalid):
                return None
        if types <= {int, float} and types and self.kind is Kind.INTEGER:
            whole = values if types == {int} else _whole_numbers(values)
            if whole is None:
                return None
            try:
                wide: Any = pa.array(whole, pa.int64())
            except (OverflowError, pa.ArrowInvalid):
                return None
            domain = domain_of(self.type)
            low, high = max(domain.first, LEAST_LONG), min(domain.last, GREATEST_LONG)
            inside: Any = wide.filter(pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)))
            narrowed: pa.Array[Any] = inside.cast(self.type)
            return narrowed
        return None


def _whole_numbers(values: list[Any]) -> list[int] | None:
    """The whole numbers among doubles that are exact, so that each equals at most one integer."""
    if not all(-_EXACT_DOUBLES < value < _EXACT_DOUBLES for value in values):
        return None
    return [int(value) for value in values if value == int(value)]


def _as_float(value: Any) -> Any:
    if not isinstance(value, int | decimal.Decimal) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError:
        return value
