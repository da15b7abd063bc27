"""`HudiExpression` as an expression of pyarrow.compute, for readers that filter while they read.

The expression has the truth values of `pushdown.evaluation.rows`: three-valued, NaN equal to itself and above all
numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown.binding.bind import bind
from pushdown.columns import resolve_column
from pushdown.errors import InexactFilterError
from pushdown.evaluation.rows import ARROW_COMPARISONS
from pushdown.expression import And, Constant, HudiExpression, Not, Op, Predicate, RowTest, Unknown
from pushdown.kinds import Kind, kind_of
from pushdown.like import is_too_long, regex_of
from pushdown.simplify import simplify
from pushdown.walk import fold, leaves, rebuilt

# Arrow walks expressions by recursion, and makes a list of what AND or OR joins: a large one overflows the stack and
# ends the process (some 1,500 predicates where a thread's stack has one megabyte).
_MAX_DEPTH = 100
_MAX_PREDICATES = 300


def to_arrow_expression(
    expression: HudiExpression,
    schema: pa.Schema,
    *,
    unknown: Literal["refuse", "weaken"] = "refuse",
    case_sensitive: bool = False,
    time_zone: str = "UTC",
) -> pc.Expression:
    """Translate a filter.

    A list of values is one predicate, however long.

    Args:
        expression: a filter, bound or not.
        schema: the columns of the data that is read.
        unknown: what to do with what has no meaning for rows, and with filters of more than 300 predicates or 100
            levels, which Arrow cannot hold: ``refuse``, or ``weaken`` the filter so that it lets every row through
            that the whole filter may.
        case_sensitive: as for `pushdown.binding.bind`.
        time_zone: as for `pushdown.binding.bind`.

    Raises:
        InexactFilterError: with ``refuse``, a part of the filter is unknown, or it is too deep or too large.
        ExpressionError: the filter does not fit the schema.
    """
    # This leaves no NOT above predicates, so that "let through" is "true" for every unknown part.
    plain = simplify(bind(expression, schema, case_sensitive=case_sensitive, time_zone=time_zone), budget=sys.maxsize)
    problem = _problem(plain)
    if problem is not None:
        if unknown != "weaken":
            raise InexactFilterError(
                f"the filter has no exact form for reading: {problem}. Read with a weaker filter and apply the rest to "
                "the rows, or take this part out of it"
            )
        plain = _weakened(plain)
    return fold(plain, lambda node, children: _written(node, children, schema))


def _problem(expression: HudiExpression) -> str | None:
    predicates = 0
    for leaf in leaves(expression):
        if isinstance(leaf, Unknown):
            return leaf.reason
        if isinstance(leaf, RowTest):
            return f"Arrow does not cast as Spark does: {leaf!r}"
        if isinstance(leaf, Predicate) and _is_long_pattern(leaf):
            return f"{leaf.column} {leaf.op.value} a pattern that is too long"
        predicates += isinstance(leaf, Predicate)
    if predicates > _MAX_PREDICATES:
        return f"it has {predicates:,} predicates, more than {_MAX_PREDICATES}"
    if expression.depth > _MAX_DEPTH:
        return f"it is nested {expression.depth:,} levels deep, more than {_MAX_DEPTH}"
    return None


def _is_long_pattern(leaf: HudiExpression) -> bool:
    return isinstance(leaf, Predicate) and leaf.op in {Op.LIKE, Op.NOT_LIKE} and is_too_long(leaf.values[0].as_py())


def _weakened(expression: HudiExpression) -> HudiExpression:
    """The filter with every unknown or unsupported part true."""
    predicates = 0

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        nonlocal predicates
        predicates += isinstance(node, Predicate)
        excess = isinstance(node, Predicate) and predicates > _MAX_PREDICATES
        if isinstance(node, Unknown | RowTest) or excess or _is_long_pattern(node):
            return Constant(value=True)
        return rebuilt(node, children) if children else node

    small = simplify(fold(expression, visit))
    return small if small.depth <= _MAX_DEPTH else Constant(value=True)


def _written(node: HudiExpression, children: list[Any], schema: pa.Schema) -> Any:
    if isinstance(node, Predicate):
        return _predicate(node, schema)
    if isinstance(node, Constant):
        return _constant(node.value)
    if isinstance(node, Not):
        return pc.invert(children[0])
    kind = isinstance(node, And)
    return _balanced(children, pc.and_kleene if kind else pc.or_kleene) if children else _constant(kind)


def _balanced(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join neighbours, then their results, so that depth is logarithmic."""
    level = list(parts)
    while len(level) > 1:
        pairs = [join(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def _constant(value: bool | None) -> Any:
    return pc.scalar(pa.scalar(value, pa.bool_()))


def _column(predicate: Predicate, schema: pa.Schema) -> Any:
    """The column as `pushdown.evaluation.rows.column_values` has it: null where a struct on its path is null."""
    path = resolve_column(predicate.column, schema, case_sensitive=True).path
    field = pc.field(path[0])
    return pc.struct_field(field, list(path[1:])) if len(path) > 1 else field


def _predicate(predicate: Predicate, schema: pa.Schema) -> Any:
    column = _column(predicate, schema)
    op = predicate.op
    if op is Op.IS_NULL:
        return pc.is_null(column)
    if op is Op.NOT_NULL:
        return pc.is_valid(column)
    positive = op if op in _POSITIVE else op.negated
    comparison = _positive(positive, column, predicate)
    return comparison if positive is op else pc.invert(comparison)


def _positive(op: Op, column: Any, predicate: Predicate) -> Any:
    type_: Any = predicate.column_type
    values: Any = predicate.values
    kind = kind_of(type_)
    if op is Op.NULL_SAFE_EQ:
        equal = _positive(Op.EQ, column, predicate)
        return pc.and_kleene(pc.is_valid(column), equal)
    column, own = _comparable(column, type_, kind)
    if op is Op.IN:
        return _is_in(column, own, values, kind)
    if op is Op.STARTS_WITH:
        return pc.starts_with(column, pattern=values[0].as_py())
    if op is Op.LIKE:
        return pc.match_substring_regex(column, pattern=regex_of(values[0].as_py()))
    if kind is Kind.FLOAT:
        return _floats(op, column, values[0].as_py())
    return getattr(pc, ARROW_COMPARISONS[op])(column, pc.scalar(values.cast(own)[0]))


_POSITIVE = frozenset({*ARROW_COMPARISONS, Op.IN, Op.STARTS_WITH, Op.LIKE, Op.NULL_SAFE_EQ})


def _comparable(column: Any, type_: Any, kind: Kind) -> tuple[Any, Any]:
    """The column in a type that Arrow compares, and that type."""
    own = type_
    if kind is Kind.FLOAT:
        own = pa.float64()
    elif kind is Kind.BOOLEAN:
        own = pa.uint8()
    elif pa.types.is_dictionary(type_):
        own = type_.value_type
    if pa.types.is_fixed_size_binary(own):
        own = pa.binary()
    elif str(own) in {"string_view", "binary_view"}:
        own = pa.large_string() if kind is Kind.STRING else pa.large_binary()
    return (column if own == type_ else column.cast(own)), own


def _floats(op: Op, column: Any, literal: float) -> Any:
    nan = pc.is_nan(column)
    if literal != literal:  # noqa: PLR0124
        some = pc.is_valid(column)
        yes, no = pc.or_kleene(some, _constant(None)), pc.and_kleene(pc.invert(some), _constant(None))
        return {Op.EQ: nan, Op.LT: pc.invert(nan), Op.LE: yes, Op.GT: no, Op.GE: nan}[op]
    comparison = getattr(pc, ARROW_COMPARISONS[op])(column, pc.scalar(pa.scalar(literal, pa.float64())))
    return pc.or_kleene(comparison, nan) if op in {Op.GT, Op.GE} else comparison


def _is_in(column: Any, own: Any, values: Any, kind: Kind) -> Any:
    members = values.drop_null()
    if kind is Kind.FLOAT:
        is_member = _float_is_in(column, members)
    else:
        is_member = pc.is_in(column, value_set=members.cast(own), skip_nulls=True)
    # Null where the column is, or where the list holds a null and no member is equal.
    vague = _constant(None) if values.null_count else pc.and_kleene(pc.is_null(column), _constant(None))
    return pc.or_kleene(is_member, vague)


def _float_is_in(column: Any, members: Any) -> Any:
    wanted = np.from_dlpack(members) if len(members) else np.zeros(0)
    nan = np.isnan(wanted)
    numbers = wanted[~nan]
    if (numbers == 0).any():
        numbers = np.concatenate([numbers, [0.0, -0.0]])
    value_set = pa.Array.from_buffers(pa.float64(), len(numbers), [None, pa.py_buffer(numbers.tobytes())])
    is_member = pc.is_in(column, value_set=value_set, skip_nulls=True)
    if not nan.any():
        return is_member
    return pc.or_kleene(is_member, pc.and_kleene(pc.is_valid(column), pc.is_nan(column)))
