"""Exact evaluation of a filter over rows, as Spark does: NaN equals NaN and is the greatest number, -0.0 equals 0.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.binding.bind import bind
from pushdown.binding.casts import cast_values
from pushdown.columns import resolve_column
from pushdown.computation import Term
from pushdown.computed.evaluator import Computations, Computed
from pushdown.errors import InexactFilterError, RowCastError
from pushdown.evaluation.evaluate import Outcomes
from pushdown.expression import Constant, HudiExpression, ImageTest, Op, Predicate, RowComputation, RowTest
from pushdown.functions import Function, type_sql
from pushdown.kinds import Kind, kind_of
from pushdown.like import like
from pushdown.ordering import mask_of
from pushdown.spark_types import spark_type
from pushdown.text import literal_sql
from pushdown.walk import Logic, computed_condition, fold_logic, inexact_part, leaves

ARROW_COMPARISONS: dict[Op, str] = {
    Op.EQ: "equal",
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
}
"""Names of the functions in Arrow and in numpy."""


def matches(expression: HudiExpression, table: pa.Table, *, case_sensitive: bool = False) -> pa.BooleanArray:
    """The truth value of the filter for each row: true, false or null.

    Args:
        expression: a filter; one that is not bound is bound to the table's schema, with time zone UTC.
        table: the rows; it has every column that the filter mentions.
        case_sensitive: how columns of a filter that is not bound are found.

    Raises:
        InexactFilterError: a part of the filter is unknown, or a pattern too long: the matching rows are not known.
        RowCastError: the result of a row depends on a value that cannot be cast, or on a computation that fails.
        ExpressionError: the filter does not fit the table.

    >>> from pushdown import parse_sql
    >>> matches(parse_sql("a > 1.5"), pa.table({"a": [1, 2, None]})).to_pylist()
    [False, True, None]
    """
    bound = bind(expression, table.schema, case_sensitive=case_sensitive)
    reason = inexact_part(bound)
    if reason is not None:
        raise InexactFilterError(
            f"rows cannot be selected exactly: {reason}. Plan files with this filter and let the engine apply it to "
            "the rows, or take this part out of it"
        )
    count = table.num_rows
    rows = _Rows(table)
    stopped = [leaf for leaf in leaves(bound) if rows.failures(leaf).any()]
    if stopped:
        return _decided(bound, rows, count, stopped)
    logic = Logic(
        leaf=lambda node: rows.truth(node, count),
        both=pc.and_kleene,
        either=pc.or_kleene,
        negate=pc.invert,
        empty_and=lambda: _constant(True, count),
        empty_or=lambda: _constant(False, count),
    )
    result: pa.BooleanArray = fold_logic(bound, logic)
    return result


class _Rows:
    """The rows of a table, and their columns cast to other types."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, Any] = {}
        self._casts: dict[tuple[str, Function, str], tuple[Any, Any]] = {}
        self._computations: dict[str, Computations] = {}

    def column(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = column_values(self._table, name)
        return self._columns[name]

    def _cast(self, test: RowTest) -> tuple[Any, Any]:
        key = test.column, test.function, test.time_zone
        if key not in self._casts:
            values = self.column(test.column)
            own: Any = spark_type(values.type)
            values = values.cast(own)
            failed = np.zeros(len(values), np.bool_)
            for step in reversed(list(test.function.chain())):
                values, stopped = cast_values(
                    values, step.arguments[0], test.time_zone, lenient=step.name == "try_cast"
                )
                failed |= stopped
            self._casts[key] = values, failed
        return self._casts[key]

    def _computed(self, node: HudiExpression, condition: Term) -> Computed:
        if not isinstance(node, ImageTest | RowComputation) or node.time_zone is None:
            raise ValueError(f"{node!r} is not bound")
        if node.time_zone not in self._computations:
            made = Computations(self.column, self._table.num_rows, node.time_zone)
            self._computations[node.time_zone] = made
        return self._computations[node.time_zone].of(condition)

    def failures(self, node: HudiExpression) -> NDArray[np.bool_]:
        """The rows for which a cast or a computation fails."""
        if isinstance(node, RowTest):
            failed: NDArray[np.bool_] = self._cast(node)[1]
            return failed
        condition = computed_condition(node)
        return np.zeros(0, np.bool_) if condition is None else self._computed(node, condition).failed

    def truth(self, node: HudiExpression, count: int) -> Any:
        """The truth value of a leaf for each row."""
        if isinstance(node, Predicate):
            return _predicate(node, self.column(node.column))
        if isinstance(node, RowTest):
            values, _ = self._cast(node)
            return _predicate(Predicate(node.op, node.column, node.values, values.type), values)
        condition = computed_condition(node)
        if condition is not None:
            return self._computed(node, condition).values
        return _constant(node.value if isinstance(node, Constant) else None, count)

    def outcomes(self, node: HudiExpression, count: int) -> Outcomes:
        """The truth values that a leaf may have for each row: any of them where it fails."""
        truth = self.truth(node, count)
        true, null = (mask_of(pc.fill_null(truth, False)), mask_of(pc.is_null(truth)))
        failed = self.failures(node) if len(self.failures(node)) else np.zeros(count, np.bool_)
        return Outcomes(true | failed, (~true & ~null) | failed, null | failed)


def _decided(bound: HudiExpression, rows: _Rows, count: int, stopped: Sequence[HudiExpression]) -> pa.BooleanArray:
    """Truth values where some leaves fail for some rows: correct for every row that does not depend on them."""

    def whole(value: bool) -> Outcomes:
        return rows.outcomes(Constant(value), count)

    logic = Logic(
        leaf=lambda node: rows.outcomes(node, count),
        both=Outcomes.both,
        either=Outcomes.either,
        negate=Outcomes.negated,
        empty_and=lambda: whole(True),
        empty_or=lambda: whole(False),
    )
    result = fold_logic(bound, logic)
    unsure = result.can_true & ~result.only_true
    if unsure.any():
        cause = next(leaf for leaf in stopped if (unsure & rows.failures(leaf)).any())
        raise _failure(cause, rows, int((unsure & rows.failures(cause)).argmax()))
    null = result.can_null & ~result.only_true
    return pa.array(result.only_true, pa.bool_(), mask=null)


def _failure(cause: HudiExpression, rows: _Rows, at: int) -> RowCastError:
    """The error for a row whose result depends on a leaf that fails."""
    if isinstance(cause, RowTest):
        value = literal_sql(rows.column(cause.column)[at])
        types = " and ".join(type_sql(step.arguments[0]) for step in reversed(list(cause.function.chain())))
        return RowCastError(
            f"column {cause.column} holds {value}, which cannot be cast to {types} for {cause!r}: Spark stops "
            f"at such a value, too, or reads a form that is not read here. Write TRY_CAST({cause.column} AS …) to "
            "take it for null, or leave these rows out by another condition"
        )
    condition = computed_condition(cause)
    names = dict.fromkeys(condition.columns() if condition is not None else ())
    values = ", ".join(f"{name} = {literal_sql(rows.column(name)[at])}" for name in names)
    return RowCastError(
        f"{cause!r} has no result for a row with {values}: a number is beyond its type, a divisor is zero, a text "
        "cannot be cast, or its case is not known. Spark stops at such a row, too; leave it out by another condition"
    )


def _constant(value: bool | None, count: int) -> Any:
    return pa.nulls(count, pa.bool_()) if value is None else pa.repeat(pa.scalar(value), count)


def column_values(table: pa.Table, name: str) -> pa.Array[Any]:
    """A column, or a field of a struct by its dotted path, as one array; null where a struct on the path is null."""
    path = resolve_column(name, table.schema, case_sensitive=True).path
    column: Any = table.column(path[0])
    for part in path[1:]:
        column = pc.struct_field(column, part)
    values: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    if str(values.type) == "string_view":
        values = values.cast(pa.large_string())
    simple: pa.Array[Any] = values
    return simple


def _predicate(predicate: Predicate, column: Any) -> Any:
    op = predicate.op
    if op is Op.IS_NULL:
        return pc.is_null(column)
    if op is Op.NOT_NULL:
        return pc.is_valid(column)
    if op is Op.NULL_SAFE_EQ:
        return pc.fill_null(_predicate(predicate.replaced(Op.EQ), column), False)
    if op in ARROW_COMPARISONS or op in _MATCHERS:
        return _compared(op, column, predicate.values)
    return pc.invert(_predicate(predicate.replaced(op.negated), column))


def _compared(op: Op, column: Any, values: Any) -> Any:
    if op in _MATCHERS:
        return _MATCHERS[op](column, values)
    if kind_of(column.type) is Kind.FLOAT:
        return _floats(op, column, values[0].as_py())
    if pa.types.is_boolean(column.type):
        column, values = column.cast(pa.uint8()), values.cast(pa.uint8())
    return getattr(pc, ARROW_COMPARISONS[op])(column, values.cast(column.type)[0])


def _floats(op: Op, column: Any, literal: float) -> Any:
    numbers = _doubles(column)
    nan = np.isnan(numbers)
    if literal != literal:  # noqa: PLR0124
        yes, no = np.ones(len(nan), np.bool_), np.zeros(len(nan), np.bool_)
        truths = {Op.EQ: nan, Op.LT: ~nan, Op.LE: yes, Op.GT: no, Op.GE: nan}[op]
    else:
        truths = getattr(np, ARROW_COMPARISONS[op])(numbers, literal)
        if op in {Op.GT, Op.GE}:
            truths = truths | nan
    return _with_nulls(truths, column)


def _doubles(column: Any) -> Any:
    return pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)


def _with_nulls(truths: Any, column: Any) -> Any:
    return pa.array(truths, pa.bool_(), mask=pc.is_null(column).to_numpy(zero_copy_only=False))


def _is_in(column: Any, values: Any) -> Any:
    has_null = values.null_count > 0
    members = values.drop_null()
    if kind_of(column.type) is Kind.FLOAT:
        wanted = members.to_numpy(zero_copy_only=False)
        numbers = _doubles(column)
        hit = np.isin(numbers, wanted[~np.isnan(wanted)])
        if np.isnan(wanted).any():
            hit |= np.isnan(numbers)
        truths = _with_nulls(hit, column)
    else:
        hits = pc.is_in(column, value_set=members.cast(column.type))
        truths = pc.if_else(pc.is_valid(column), hits, None)
    # A value that is not in a list with a null may be equal to it, for all SQL knows.
    return pc.if_else(pc.fill_null(truths, False), True, None) if has_null else truths


def _starts_with(column: Any, values: Any) -> Any:
    return pc.starts_with(column, pattern=values[0].as_py())


def _like(column: Any, values: Any) -> Any:
    return like(column, values[0].as_py())


_MATCHERS: dict[Op, Callable[[Any, Any], Any]] = {Op.IN: _is_in, Op.STARTS_WITH: _starts_with, Op.LIKE: _like}
