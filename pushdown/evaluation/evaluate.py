"""Evaluation of a bound filter over the statistics of all files at once: the truth values that their rows may have.

A comparison is reduced to the regions in which a file's values may lie relative to the literal (below, at, above), and
`TABLE` has the truth values of each operator there. Texts that start with a prefix lie "at" it, and so do the members
of an IN list.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown.errors import ExpressionError, InexactFilterError
from pushdown.evaluation.statistics import Believed, ColumnStatistics, nothing_known
from pushdown.expression import Constant, HudiExpression, ImageTest, Op, Predicate
from pushdown.kinds import Kind, kind_of
from pushdown.like import like, shape_of
from pushdown.ordering import Comparable, Mask, comparable, greater, greater_equal, less, less_equal, mask_of
from pushdown.walk import Logic, fold_logic

_NULL_TESTS = frozenset({Op.IS_NULL, Op.NOT_NULL})


class Truth(enum.Flag):
    """A set of truth values."""

    T = 1
    F = 2
    N = 4


T, F, N = Truth.T, Truth.F, Truth.N


@dataclass(frozen=True)
class OperatorRow:
    """One operator's truth values.

    Attributes:
        below: for values below the literal.
        at: for values equal to it, or in it.
        above: for values above it.
        nan: for NaN against a literal that is not NaN. Spark sorts NaN above all numbers, Trino and Hive's vectorised
            operators compare as IEEE 754 does; a set of both is right for each of them.
        null: for null.
    """

    below: Truth
    at: Truth
    above: Truth
    nan: Truth
    null: Truth


TABLE = {
    Op.EQ: OperatorRow(F, T, F, F, N),
    Op.LT: OperatorRow(T, F, F, T | F, N),
    Op.LE: OperatorRow(T, T, F, T | F, N),
    Op.GT: OperatorRow(F, F, T, T | F, N),
    Op.GE: OperatorRow(F, T, T, T | F, N),
    Op.IN: OperatorRow(F, T, F, F, N),
    Op.STARTS_WITH: OperatorRow(F, T, F, F, N),
    # "At" is the pattern's literal prefix, and the rest of the text decides.
    Op.LIKE: OperatorRow(F, T | F, F, F, N),
    Op.NULL_SAFE_EQ: OperatorRow(F, T, F, F, F),
}


def negated(truth: Truth) -> Truth:
    """NOT of every member: null stays null."""
    swapped = Truth(0)
    if T in truth:
        swapped |= F
    if F in truth:
        swapped |= T
    return swapped | (truth & N)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The truth values that a filter may have in each file: three masks, one entry a file.

    A mask that is false is a proof; one that is true is a possibility only.
    """

    can_true: Mask
    can_false: Mask
    can_null: Mask

    @property
    def only_true(self) -> Mask:
        """Files in which the filter is true for every row."""
        sure: Mask = self.can_true & ~self.can_false & ~self.can_null
        return sure

    def negated(self) -> Outcomes:
        """The outcomes of NOT."""
        return Outcomes(self.can_false, self.can_true, self.can_null)

    def both(self, other: Outcomes) -> Outcomes:
        """The outcomes of AND, in Kleene's logic."""
        true = self.can_true & other.can_true
        false = self.can_false | other.can_false
        null = (self.can_null & (other.can_true | other.can_null)) | (self.can_true & other.can_null)
        return Outcomes(true, false, null)

    def either(self, other: Outcomes) -> Outcomes:
        """The outcomes of OR, in Kleene's logic."""
        return self.negated().both(other.negated()).negated()


def evaluate(expression: HudiExpression, statistics: Mapping[str, ColumnStatistics], count: int) -> Outcomes:
    """The truth values that rows of each file may have.

    The outcomes hold for Spark's, Hive's and Trino's orders of NaN and zeros alike. A column without sound statistics
    (`ColumnStatistics.believed`) may have all outcomes.

    Args:
        expression: a bound filter.
        statistics: of columns by bound name, each with an entry for each of the `count` files, in the same order.
        count: how many files.

    Raises:
        ExpressionError: the filter is not bound.
        ValueError: statistics of another number of files.

    >>> from pushdown import bind, parse_sql
    >>> stats = ColumnStatistics(pa.array([0, 5]), pa.array([4, 9]), pa.array([0, 0]), pa.array([10, 10]))
    >>> outcomes = evaluate(bind(parse_sql("a >= 5"), pa.schema([("a", pa.int64())])), {"a": stats}, 2)
    >>> outcomes.can_true.tolist(), outcomes.only_true.tolist()
    ([False, True], [False, True])
    """
    for name, stats in statistics.items():
        if len(stats) != count:
            raise ValueError(f"statistics of {name} are for {len(stats)} files, not {count}")

    def leaf(node: HudiExpression) -> Outcomes:
        if isinstance(node, Predicate):
            if node.column_type is None:
                raise ExpressionError(f"bind the filter to a schema before it is evaluated: {node!r} is not bound")
            stats = statistics.get(node.column)
            believed = nothing_known(count) if stats is None else stats.believed(node.column_type)
            return _predicate(node, believed, node.column_type)
        if isinstance(node, ImageTest):
            stats = statistics.get(node.column)
            return _of_image(node, ColumnStatistics.unknown(node.column_type, count) if stats is None else stats)
        if isinstance(node, Constant):
            return _constant(node.value, count)
        return _all(count)

    logic = Logic(
        leaf=leaf,
        both=Outcomes.both,
        either=Outcomes.either,
        negate=Outcomes.negated,
        empty_and=lambda: _constant(True, count),
        empty_or=lambda: _constant(False, count),
    )
    return fold_logic(expression, logic)


def _constant(value: bool | None, count: int) -> Outcomes:
    yes, no = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    return Outcomes(*(yes if value is case else no for case in (True, False, None)))


def _all(count: int) -> Outcomes:
    yes = np.ones(count, np.bool_)
    return Outcomes(yes, yes, yes)


def _of_image(test: ImageTest, stats: ColumnStatistics) -> Outcomes:
    if test.result_type is None:
        return _of_strict(test, stats.believed(test.column_type))
    image = stats.of_function(test.function, test.column_type, test.time_zone)
    return _predicate(Predicate(test.op, test.column, test.values, test.result_type), image, test.result_type)


def _of_strict(test: ImageTest, believed: Believed) -> Outcomes:
    """The outcomes of a strict function: of a null those of null, of values all."""
    if test.op not in TABLE and test.op is not Op.IS_NULL:
        return _of_strict(test.replaced(test.op.negated), believed).negated()
    of_null = Truth.T if test.op is Op.IS_NULL else TABLE[test.op].null
    value, null = believed.may_value, believed.may_null
    any_value = (value, Truth.T | Truth.F if test.op in {Op.IS_NULL, Op.NULL_SAFE_EQ} else Truth.T | Truth.F | Truth.N)
    return Outcomes(*(_any((any_value, (null, of_null)), truth) for truth in (Truth.T, Truth.F, Truth.N)))


def _predicate(predicate: Predicate, believed: Believed, column_type: pa.DataType) -> Outcomes:
    if predicate.op in _NULL_TESTS:
        none = np.zeros(len(believed.may_null), np.bool_)
        outcomes = Outcomes(believed.may_null, believed.may_value, none)
        return outcomes if predicate.op is Op.IS_NULL else outcomes.negated()
    if predicate.op not in TABLE:
        return _predicate(predicate.replaced(predicate.op.negated), believed, column_type).negated()
    if kind_of(column_type) is Kind.OTHER:
        return _all(len(believed.may_null))
    return _compared(predicate, believed, column_type)


@dataclass(frozen=True, eq=False)
class _Regions:
    """Where values of each file may lie relative to the literal."""

    below: Mask
    at: Mask
    above: Mask


def _compared(predicate: Predicate, believed: Believed, column_type: pa.DataType) -> Outcomes:
    row = TABLE[predicate.op]
    values: Any = predicate.values
    literal_null = values.null_count > 0
    literal_nan = kind_of(column_type) is Kind.FLOAT and bool(pc.any(pc.is_nan(values)).as_py())
    if literal_nan and predicate.op not in {Op.EQ, Op.IN, Op.NULL_SAFE_EQ}:
        # Engines order NaN differently, so every outcome is possible.
        everything = believed.may_value
        return Outcomes(everything, everything, believed.may_null)
    if literal_nan:
        values = values.filter(pc.invert(pc.is_nan(values)))
    regions = _regions(predicate.op, values, believed, column_type)
    nan = Truth.T | Truth.F if literal_nan else row.nan
    places = (
        (regions.below, row.below),
        (regions.at, row.at),
        (regions.above, row.above),
        (believed.may_nan, nan),
        (believed.may_null, row.null),
    )
    true, false, null = (_any(places, truth) for truth in (Truth.T, Truth.F, Truth.N))
    if predicate.op is Op.LIKE:
        matched, unmatched = _matching(values[0].as_py(), believed)
        true, false = true & ~unmatched, false & ~matched
    if literal_null:
        # `x IN (1, NULL)` is null, not false, where no member is equal.
        null, false = null | false, np.zeros_like(false)
    return Outcomes(true, false, null)


def _any(places: tuple[tuple[Mask, Truth], ...], truth: Truth) -> Mask:
    combined: Mask | None = None
    for mask, outcomes in places:
        if truth in outcomes:
            combined = mask if combined is None else combined | mask
    return np.zeros_like(places[0][0]) if combined is None else combined


def _regions(op: Op, values: Any, believed: Believed, column_type: pa.DataType) -> _Regions:
    if believed.lower is None or believed.upper is None:
        return _Regions(believed.may_value, believed.may_value, believed.may_value)
    kind = kind_of(column_type)
    if op is Op.IN or len(values) != 1:
        return _set_regions(values.drop_null(), believed, column_type)
    if op in {Op.STARTS_WITH, Op.LIKE}:
        prefix = values[0].as_py()
        return _prefix_regions((shape_of(prefix).prefix if op is Op.LIKE else prefix).encode(), believed)
    if kind is Kind.FLOAT:
        low, high, vague = float_interval(values[0].as_py(), column_type)
        return _interval_regions(low, high, believed, vague=vague)
    literal = _literal(values, column_type)
    return _interval_regions(literal, literal, believed, vague=False)


def _literal(values: Any, column_type: pa.DataType) -> Any:
    """The literal in the form of the bounds it is compared with."""
    literals: Any = comparable(values, column_type)
    return literals[0]


def _interval_regions(low: Any, high: Any, believed: Believed, *, vague: bool) -> _Regions:
    """Regions for a literal that is all values from low to high; a vague one may lie to either side of them too."""
    below = believed.may_value & (believed.no_lower | less(believed.lower, low))
    above = believed.may_value & (believed.no_upper | greater(believed.upper, high))
    at = (
        believed.may_value
        & (believed.no_lower | less_equal(believed.lower, high))
        & (believed.no_upper | greater_equal(believed.upper, low))
    )
    return _Regions(below | at, at, above | at) if vague else _Regions(below, at, above)


def _prefix_regions(prefix: bytes, believed: Believed) -> _Regions:
    """Regions for a prefix: texts that start with it lie from it up to, but not at, the first text beyond them."""
    start: Any = pa.scalar(prefix, pa.large_binary())
    below = believed.may_value & (believed.no_lower | less(believed.lower, start))
    at = believed.may_value & (believed.no_upper | greater_equal(believed.upper, start))
    end_bytes = _beyond_prefix(prefix)
    if end_bytes is None:
        return _Regions(below, at, np.zeros_like(at))
    end: Any = pa.scalar(end_bytes, pa.large_binary())
    at &= believed.no_lower | less(believed.lower, end)
    above = believed.may_value & (believed.no_upper | greater_equal(believed.upper, end))
    return _Regions(below, at, above)


def _matching(pattern: str, believed: Believed) -> tuple[Mask, Mask]:
    """Files whose texts are all one that matches a pattern, or one that does not."""
    none = np.zeros_like(believed.may_value)
    if not isinstance(believed.lower, pa.Array):
        return none, none
    known = holds_one_value(believed)
    if not known.any():
        return none, none
    values: Any = believed.lower
    try:
        texts = pc.if_else(pa.array(known), values, b"").cast(pa.large_string())
        match = mask_of(like(texts, pattern))
    except (pa.ArrowInvalid, InexactFilterError):  # not all of them are UTF-8, or the pattern is too long
        return none, none
    return known & match, known & ~match


def _beyond_prefix(prefix: bytes) -> bytes | None:
    """The least bytes greater than every text with the prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _set_regions(values: Any, believed: Believed, column_type: pa.DataType) -> _Regions:
    """Regions for an IN list: at a member, or not at any (called below)."""
    members, certain = members_of(values, column_type)
    at = believed.may_value & may_hold_member(members, believed)
    only_members = holds_one_value(believed) & is_member(believed.lower, certain)
    return _Regions(believed.may_value & ~only_members, at, np.zeros_like(at))


def float_interval(value: float, column_type: pa.DataType) -> tuple[float, float, bool]:
    """The least and greatest number that some engine considers equal to the literal, and whether engines differ.

    A 32-bit column against a literal between its values is compared in 64 bits by Spark and in 32 bits by Trino.
    -0.0 and 0.0 are equal to most, different to Java's Double.compare.
    """
    if column_type == pa.float32() and math.isfinite(value):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        if rounded != value:
            return min(value, rounded), max(value, rounded), True
    return value, value, value == 0


def members_of(values: pa.Array[Any], column_type: pa.DataType) -> tuple[Comparable, Comparable]:
    """The members of an IN list, sorted, in the form of the bounds.

    Returns:
        All members, and of them those that every engine considers equal to the same value of the column.
    """
    if kind_of(column_type) is not Kind.FLOAT:
        members: Any = comparable(values, column_type)
        return members, members
    exact: Any = values.to_numpy(zero_copy_only=False)
    intervals = [float_interval(value, column_type) for value in exact.tolist()]
    every = np.unique([edge for low, high, _ in intervals for edge in (low, high)])
    certain = np.unique([low for low, _, vague in intervals if not vague])
    return every.astype(np.float64), certain.astype(np.float64)


def may_hold_member(members: Comparable, believed: Believed) -> Mask:
    """Whether a member lies between a file's bounds.

    Args:
        members: sorted and distinct.
        believed: the bounds; what is not known is no limit.
    """
    count = len(members)
    if count == 0:
        return np.zeros_like(believed.may_value)
    if isinstance(members, np.ndarray):
        bounds: Any = believed.lower
        at = np.searchsorted(members, bounds, side="left")
        at[believed.no_lower] = 0
        nearest_number: Any = members[np.minimum(at, count - 1)]
        may_hold: Mask = (at < count) & (believed.no_upper | less_equal(nearest_number, believed.upper))
        return may_hold
    at = _first_not_below(members, believed.lower)
    at[believed.no_lower] = 0
    holds: Mask = (at < count) & (believed.no_upper | less_equal(_at(members, at), believed.upper))
    return holds


def _at(members: Any, at: Any) -> Any:
    return members.take(pa.array(np.minimum(at, len(members) - 1)))


def _first_not_below(members: Any, bounds: Any) -> Any:
    """Binary search for text and binary, for all bounds at once: the first member that is not less."""
    low = np.zeros(len(bounds), np.int64)
    high = np.full(len(bounds), len(members), np.int64)
    for _ in range(len(members).bit_length()):
        middle = (low + high) // 2
        below = (low < high) & greater(bounds, _at(members, middle))
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def holds_one_value(believed: Believed) -> Mask:
    """Whether the bounds of a file leave room for one value only."""
    alike = less_equal(believed.upper, believed.lower) & greater_equal(believed.upper, believed.lower)
    return alike & ~believed.no_lower & ~believed.no_upper & ~believed.may_nan


def is_member(values: Comparable, members: Comparable) -> Mask:
    """Whether each value is a member; members are sorted."""
    if isinstance(values, np.ndarray):
        mask: Mask = np.isin(values, np.asarray(members))
        return mask
    return mask_of(pc.is_in(values, value_set=members))
