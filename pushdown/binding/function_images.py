"""Comparisons of functions that are no ranges of their column, bound so that statistics narrow them.

The results of such a function are a column of their own: the comparison is bound to it as to any other, with its type
and the engine's casts. Its statistics are the image of the column's (`pushdown.images`). Where the image is not known,
or the literal does not fit, the comparison says no more than that the column is not null.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pushdown.binding.function_places import RANGES
from pushdown.columns import ResolvedColumn
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, ImageTest, Op, Predicate, RowTest, Unknown
from pushdown.functions import Function, function_sql
from pushdown.images.chains import image_of, widest_output
from pushdown.kinds import GREATEST_LONG, LEAST_LONG, Kind, kind_of
from pushdown.spark_types import SPARK, Typed
from pushdown.text import literal_sql
from pushdown.walk import fold, leaves, rebuilt

_Bind = Callable[[Predicate, ResolvedColumn, str], HudiExpression]
_NULL_TESTS = frozenset({Op.IS_NULL, Op.NOT_NULL})
#: Functions whose results are texts in every engine.
_OF_TEXT = frozenset({"lower", "ltrim", "md5", "replace", "reverse", "rtrim", "soundex", "substring", "trim", "upper"})


def is_narrowed(bound: HudiExpression) -> bool:
    """Whether a bound comparison of a function says something of every file."""
    return all(type(leaf) is not Unknown for leaf in leaves(bound))


def narrowed(
    predicate: Predicate, column: ResolvedColumn, time_zone: str, bind: _Bind, refusal: HudiExpression
) -> HudiExpression:
    """A comparison of a function, by the function's image.

    Args:
        predicate: not bound.
        column: that it names.
        time_zone: the session's.
        bind: binds a predicate to a column; it refuses functions that are no ranges of it.
        refusal: what it gave for the predicate; the result, if nothing is known of the function.
    """
    function = predicate.function
    if function is None or kind_of(column.type) is Kind.OTHER:
        return refusal
    shown = _shown(function, column.name)
    reason, strict = f"{shown} narrows a plan, but is not computed for rows", f"{shown} is not understood"
    if all(step.name in RANGES for step in function.chain()):
        # a range of the column but for this type, literal or time
        strict = next((leaf.reason for leaf in leaves(refusal) if isinstance(leaf, Unknown)), strict)
    steps = list(function.chain())
    for outer in range(len(steps)):
        inner = _chained(steps[outer:])
        image = image_of(inner, column.type, time_zone)
        if image is not None:
            spark = predicate.rules == SPARK
            output = image.output if spark else widest_output(inner, column.type, time_zone)
            test = replace(predicate, column="results", function=_chained(steps[:outer]) if outer else None)
            results = None if output is None else ResolvedColumn((_shown(inner, column.name),), output)
            bound = None if results is None else _bound(test, results, time_zone, bind)
            if bound is not None:
                return _on_column(bound, inner, column, time_zone, reason)
            break
    of_nulls = _strict(predicate, function, column, time_zone, strict)
    return refusal if of_nulls is None else of_nulls


def _chained(steps: list[Function]) -> Function:
    """Functions from the outermost inward as one."""
    chain: Function | None = None
    for step in reversed(steps):
        chain = replace(step, inner=None).of(chain)
    if chain is None:
        raise ValueError("no function")
    return chain


def _bound(test: Predicate, results: ResolvedColumn, time_zone: str, bind: _Bind) -> HudiExpression | None:
    """The comparison bound to the results as to a column; None if it is not understood."""
    try:
        bound = bind(test, results, time_zone)
    except ExpressionError:
        return None
    parts = list(leaves(bound))
    understood = any(isinstance(leaf, Predicate | Constant) for leaf in parts)
    return bound if understood and all(type(leaf) is not Unknown for leaf in parts) else None


def _on_column(
    bound: HudiExpression, function: Function, column: ResolvedColumn, time_zone: str, reason: str
) -> HudiExpression:
    """A condition on results as one on the column."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, RowTest):
            return Unknown(reason)
        if not isinstance(node, Predicate) or node.column_type is None:
            return rebuilt(node, children) if children else node
        if node.op in _NULL_TESTS:
            return Predicate(node.op, column.name, node.values, column.type)
        return ImageTest(
            reason=reason,
            op=node.op,
            column=column.name,
            column_type=column.type,
            function=function,
            values=node.values,
            result_type=node.column_type,
            time_zone=time_zone,
        )

    return fold(bound, visit)


def _strict(
    predicate: Predicate, function: Function, column: ResolvedColumn, time_zone: str, reason: str
) -> HudiExpression | None:
    if predicate.op not in _NULL_TESTS and not predicate.values:
        return None
    safe = predicate.op in {Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE}
    if any(_is_beyond(value) or (safe and _may_be_null(value, function)) for value in predicate.values):
        return None
    return ImageTest(
        reason=reason,
        op=predicate.op,
        column=column.name,
        column_type=column.type,
        function=function,
        values=predicate.values,
        result_type=None,
        time_zone=time_zone,
    )


def _may_be_null(value: Any, function: Function) -> bool:
    """Whether a literal is null, or a text beside something else, which without ANSI mode Spark may take for null."""
    if isinstance(value, str):
        return function.name not in _OF_TEXT
    return value is None or (isinstance(value, Typed) and isinstance(value.value, str))


def _is_beyond(value: Any) -> bool:
    """Whether Spark may answer for rows of null, too, beside a number beyond all integers."""
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, pa.Scalar):
        plain = plain.as_py()
    return isinstance(plain, int | float | decimal.Decimal) and not LEAST_LONG <= plain <= GREATEST_LONG


def _shown(function: Function, column: str) -> str:
    return function_sql(function, column, literal_sql)
