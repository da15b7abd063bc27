"""Values to which a filter restricts some columns: they select buckets, record keys and partitions.

None means "not restricted", never an empty list: an empty list says that no row can match.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pushdown.expression import And, Constant, HudiExpression, Op, Or, Predicate
from pushdown.kinds import Kind, kind_of
from pushdown.simplify import simplify
from pushdown.walk import fold

_MOST_IN_RANGE = 1_000
_LOWER, _UPPER = frozenset({Op.GT, Op.GE}), frozenset({Op.LT, Op.LE})
_STRICT = frozenset({Op.GT, Op.LT})
# The values left to some of the fields; fields that are not in it may have any value.
_Values: TypeAlias = "dict[str, _Choice]"


class _Choice:
    """The values of one field, each once; distinguished by type and text, so that 0.0 and -0.0 are two."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = {(type(value), repr(value)): value for value in values}

    def __len__(self) -> int:
        return len(self.values)

    def intersected(self, other: _Choice) -> _Choice:
        return _Choice([value for key, value in self.values.items() if key in other.values])


def key_bindings(
    expression: HudiExpression, fields: Sequence[str], limit: int = 10_000, *, simplified: bool = False
) -> list[tuple[Any, ...]] | None:
    """All combinations of values of the fields under which the filter can be true.

    Equality, IN, ``<=>``, IS NULL and ranges of up to a thousand whole numbers or days bind a field, joined by And and
    Or; a condition on another column, indexed or not, never does. Such ranges are what engines make of an IN whose
    values follow one another.

    Args:
        expression: a bound filter.
        fields: the columns to find values for, by bound name.
        limit: with more combinations than this the fields count as not bound.
        simplified: whether it is what `simplify` returned, as a scan's filter is.

    Returns:
        Each combination once, as Python values in the order of the fields (None if a field must be null). None when
        some row could match with a value that is not among them. An empty list when the filter can't be true.
    """
    if not fields:
        return None
    cases = fold(expression if simplified else simplify(expression), _Binder(frozenset(fields), limit).visit)
    if any(len(case) < len(fields) for case in cases):
        return None
    size = sum(math.prod(len(choice) for choice in case.values()) for case in cases)
    if size > limit:
        return None
    combinations: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for case in cases:
        for combination in itertools.product(*(case[name].values.items() for name in fields)):
            combinations[tuple(key for key, _ in combination)] = tuple(value for _, value in combination)
    return list(combinations.values())


class _Binder:
    """Collects the cases of a filter: every row that makes it true is in one of them."""

    def __init__(self, fields: frozenset[str], limit: int) -> None:
        self.fields = fields
        self.limit = limit

    def visit(self, node: HudiExpression, children: list[list[_Values]]) -> list[_Values]:
        if isinstance(node, And):
            cases: list[_Values] = [{}]
            # The narrowest first, so that what exceeds the limit is given up last.
            for child in sorted([*children, *self._short_ranges(node)], key=len):
                cases = self._both(cases, child)
            return cases
        if isinstance(node, Or):
            return self._either(children)
        if isinstance(node, Constant):
            return [{}] if node.value is True else []
        if isinstance(node, Predicate) and node.column in self.fields:
            values = _values_of(node)
            if values is not None and len(values) <= self.limit:
                return [{node.column: _Choice(values)}]
        return [{}]

    def _short_ranges(self, node: And) -> Iterator[list[_Values]]:
        """The values between two limits of a field."""
        for field in self.fields:
            limits = [one for one in node.children if isinstance(one, Predicate) and one.column == field]
            low = next((one for one in limits if one.op in _LOWER), None)
            high = next((one for one in limits if one.op in _UPPER), None)
            values = None if low is None or high is None else _between(low, high, min(self.limit, _MOST_IN_RANGE))
            if values is not None:
                yield [{field: _Choice(values)}]

    def _both(self, left: list[_Values], right: list[_Values]) -> list[_Values]:
        if len(left) * len(right) > self.limit:
            # Leaving a condition out only lets more through.
            return left
        cases = (_joined(a, b) for a in left for b in right)
        return [case for case in cases if case is not None]

    def _either(self, children: list[list[_Values]]) -> list[_Values]:
        cases = [case for child in children for case in child]
        if any(not case for case in cases) or len(cases) > self.limit:
            return [{}]
        merged: dict[str, list[Any]] = {}
        others: list[_Values] = []
        for case in cases:
            if len(case) == 1:
                ((name, choice),) = case.items()
                merged.setdefault(name, []).extend(choice.values.values())
            else:
                others.append(case)
        return [{name: _Choice(values)} for name, values in merged.items()] + others


def _joined(a: _Values, b: _Values) -> _Values | None:
    case = dict(a)
    for name, choice in b.items():
        case[name] = case[name].intersected(choice) if name in case else choice
        if not len(case[name]):
            return None
    return case


def _values_of(predicate: Predicate) -> list[Any] | None:
    """The values of the column that can make the predicate true; None if they cannot be listed."""
    if predicate.op is Op.IS_NULL:
        return [None]
    if predicate.op not in {Op.EQ, Op.IN, Op.NULL_SAFE_EQ} or predicate.column_type is None:
        return None
    values: Any = predicate.values
    try:
        present: list[Any] = values.drop_null().to_pylist()
    except (ValueError, OverflowError):  # dates and times beyond Python's years
        return None
    if kind_of(predicate.column_type) is Kind.FLOAT:
        return _float_forms(present, predicate.column_type)
    if kind_of(predicate.column_type) is Kind.TIMESTAMP and str(predicate.column_type).startswith("timestamp[ns"):
        return None  # Python's times end at microseconds
    return present


def _between(low: Predicate, high: Predicate, limit: int) -> list[Any] | None:
    """The whole numbers or days between two limits; None for other types, or if there are too many."""
    kind = low.column_type
    is_date = kind == pa.date32()
    if kind is None or not (is_date or pa.types.is_integer(kind)):
        return None
    ends: list[Any] = []
    for one in (low, high):
        bound: Any = one.values
        number = bound.cast(pa.int32()) if is_date else bound
        if number.null_count:
            return None
        ends.append(number[0].as_py())
    first, last = ends[0] + (low.op in _STRICT), ends[1] - (high.op in _STRICT)
    if last - first >= limit:
        return None
    numbers: Any = pa.array(range(first, last + 1), pa.int32() if is_date else kind)
    try:
        values: list[Any] = (numbers.cast(kind) if is_date else numbers).to_pylist()
    except (ValueError, OverflowError):  # dates beyond Python's years
        return None
    return values


def _float_forms(values: list[float], column_type: pa.DataType) -> list[float]:
    """Every number that some engine considers equal to one of the values: both zeros, the nearest 32-bit float."""
    forms: list[float] = []
    for value in values:
        number = value
        if column_type == pa.float32():
            with np.errstate(over="ignore", under="ignore"):
                number = float(np.float32(value))
        forms += [0.0, -0.0] if number == 0 else [number]
    return forms
