"""Simplification of filters, which keeps the truth value (true, false or null) of every row.

Nothing is multiplied out, so a filter never grows; one beyond the budget is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from pushdown.expression import (
    And,
    Constant,
    HudiExpression,
    ImageTest,
    Not,
    Op,
    Or,
    Predicate,
    RowComputation,
    RowTest,
    always,
    never,
)
from pushdown.kinds import Kind, kind_of
from pushdown.ordering import comparable, sorted_distinct
from pushdown.walk import leaves

_Branch: TypeAlias = "type[And | Or]"
_OPPOSITE: dict[_Branch, _Branch] = {And: Or, Or: And}
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_UPPER = frozenset({Op.LT, Op.LE})
_POINTS = frozenset({Op.EQ, Op.IN})
_EXCLUSIONS = frozenset({Op.NE, Op.NOT_IN})
_JOINED = _RANGES | _POINTS | _EXCLUSIONS


def simplify(expression: HudiExpression, *, budget: int = 500_000) -> HudiExpression:
    """Push NOT to the predicates, fold constants, drop duplicates, and join predicates on one column.

    Of ranges of one column the narrowest stays under And, the widest under Or; its equalities become one list, cut by
    the ranges, and its inequalities another. Predicates on floating-point columns are not joined: engines differ on
    which of their literals are equal.

    Args:
        expression: a filter, bound or not; only bound predicates are joined.
        budget: greatest number of predicates and literals; a larger filter is returned unchanged.

    >>> from pushdown import bind, parse_sql
    >>> schema = pa.schema([("a", pa.int64())])
    >>> simplify(bind(parse_sql("NOT (a < 3 OR a <= 5) AND a IN (4, 6, 8)"), schema))
    a IN (6, 8)
    """
    size = 0
    for leaf in leaves(expression):
        size += 1 + (len(leaf.values) if isinstance(leaf, Predicate) else 0)
        if size > budget:
            return expression
    return _simplified(expression)


class _Frame:
    __slots__ = ("done", "kind", "rest")

    def __init__(self, kind: _Branch, rest: Iterator[tuple[HudiExpression, bool]]) -> None:
        self.kind = kind
        self.rest = rest
        self.done: list[HudiExpression] = []


def _simplified(root: HudiExpression) -> HudiExpression:
    frames = [_Frame(And, iter([(root, False)]))]
    while True:
        frame = frames[-1]
        operand = next(frame.rest, None)
        if operand is None:
            frames.pop()
            result = _join(frame.kind, frame.done)
            if not frames:
                return result
            frames[-1].done.append(result)
            continue
        node, negate = _without_not(*operand)
        kind = _kind(node, negate=negate)
        if kind is None:
            frame.done.append(_leaf(node, negate=negate))
        else:
            frames.append(_Frame(kind, _operands(node, kind, negate=negate)))


def _without_not(node: HudiExpression, negate: bool) -> tuple[HudiExpression, bool]:
    while isinstance(node, Not):
        node, negate = node.child, not negate
    return node, negate


def _kind(node: HudiExpression, *, negate: bool) -> _Branch | None:
    """The kind of a node once NOT is pushed below it (De Morgan's laws hold in three-valued logic)."""
    if not isinstance(node, And | Or):
        return None
    return _OPPOSITE[type(node)] if negate else type(node)


def _operands(node: HudiExpression, kind: _Branch, *, negate: bool) -> Iterator[tuple[HudiExpression, bool]]:
    """The operands of a branch, and of branches of the same kind directly below it."""
    pending = [(child, negate) for child in reversed(node.children)]
    while pending:
        child, flipped = _without_not(*pending.pop())
        if _kind(child, negate=flipped) is kind:
            pending.extend((below, flipped) for below in reversed(child.children))
        else:
            yield child, flipped


def _leaf(node: HudiExpression, *, negate: bool) -> HudiExpression:
    if not negate:
        return node
    if isinstance(node, Predicate | RowTest | ImageTest):
        return node.replaced(node.op.negated)
    if isinstance(node, Constant):
        return Constant(None if node.value is None else not node.value)
    if isinstance(node, RowComputation):
        return node.negated()
    return node if not isinstance(node, And | Or) else Not(node)  # NOT of what is unknown is as unknown


def _join(kind: _Branch, parts: list[HudiExpression]) -> HudiExpression:
    neutral, decisive = (True, False) if kind is And else (False, True)
    distinct: dict[HudiExpression, None] = {}
    for part in parts:
        for item in part.children if isinstance(part, kind) else (part,):
            if isinstance(item, Constant) and item.value is decisive:
                return item
            if not (isinstance(item, Constant) and item.value is neutral):
                distinct[item] = None
    if not distinct:
        return Constant(neutral)
    joined = _joined_columns(kind, list(distinct))
    return joined[0] if len(joined) == 1 else kind(joined)


def _joined_columns(kind: _Branch, parts: list[HudiExpression]) -> list[HudiExpression]:
    groups: dict[tuple[str, bool], list[Predicate]] = {}
    for part in parts:
        if isinstance(part, Predicate) and _joinable(part):
            groups.setdefault(_group_of(part), []).append(part)
    out: list[HudiExpression] = []
    for part in parts:
        group = groups[_group_of(part)] if isinstance(part, Predicate) and _joinable(part) else []
        if len(group) < 2:
            out.append(part)
        elif group[0] is part:
            out.extend(_joined_group(kind, group))
    return out


def _group_of(predicate: Predicate) -> tuple[str, bool]:
    return predicate.column, predicate.op in _EXCLUSIONS


def _joined_group(kind: _Branch, group: list[Predicate]) -> list[HudiExpression]:
    if group[0].op not in _EXCLUSIONS:
        return _intersection(group) if kind is And else _union(group)
    # What is left out of one or of the other is the negation of what is in both or either.
    positive = [part.replaced(part.op.negated) for part in group]
    (joined,) = _union(positive) if kind is And else _intersection(positive)
    if isinstance(joined, Predicate):
        return [joined.replaced(joined.op.negated)]
    type_: Any = group[0].column_type
    return [always(group[0].column, type_)]


def _joinable(predicate: Predicate) -> bool:
    type_ = predicate.column_type
    if type_ is None or predicate.op not in _JOINED or kind_of(type_) in {Kind.FLOAT, Kind.OTHER}:
        return False
    values: Any = predicate.values
    return bool(values.null_count == 0)


def _keys(predicate: Predicate) -> list[Any]:
    """The literals as Python values that sort as the column does."""
    values: Any = predicate.values
    comparable_values: Any = comparable(values, predicate.column_type) if predicate.column_type is not None else values
    keys: list[Any] = (
        comparable_values.to_pylist() if isinstance(comparable_values, pa.Array) else comparable_values.tolist()
    )
    return keys


def _inside(key: Any, limit: Predicate, bound: Any) -> bool:
    if limit.op is Op.LT:
        return bool(key < bound)
    if limit.op is Op.LE:
        return bool(key <= bound)
    return bool(key > bound) if limit.op is Op.GT else bool(key >= bound)


def _intersection(group: list[Predicate]) -> list[HudiExpression]:
    low = _extreme([p for p in group if p.op in _RANGES and p.op not in _UPPER], greatest=True)
    high = _extreme([p for p in group if p.op in _UPPER], greatest=False)
    limits = [(p, _keys(p)[0]) for p in (low, high) if p is not None]
    points = sorted((p for p in group if p.op in _POINTS), key=lambda p: len(p.values))
    first = group[0]
    type_: Any = first.column_type
    if not points:
        if len(limits) == 2 and not _inside(limits[0][1], *limits[1]) and limits[0][1] != limits[1][1]:
            return [never(first.column, type_)]
        if len(limits) == 2 and limits[0][1] == limits[1][1]:
            both = {limits[0][0].op, limits[1][0].op} == {Op.GE, Op.LE}
            return [limits[0][0].replaced(Op.EQ)] if both else [never(first.column, type_)]
        return [limit for limit, _ in limits]
    allowed = [set(_keys(p)) for p in points[1:]]
    keys = _keys(points[0])
    common = [
        i
        for i, key in enumerate(keys)
        if all(key in other for other in allowed) and all(_inside(key, limit, bound) for limit, bound in limits)
    ]
    if not common:
        return [never(first.column, type_)]
    values: Any = points[0].values
    return [_points(first, values.take(pa.array(common)))]


def _extreme(limits: list[Predicate], *, greatest: bool) -> Predicate | None:
    """Of limits on one side the one with the greatest (or least) literal; of equal ones the strict one."""
    best: tuple[Any, Predicate] | None = None
    for limit in limits:
        key = _keys(limit)[0]
        beyond = best is None or (key > best[0] if greatest else key < best[0])
        if beyond or (best is not None and key == best[0] and limit.op in {Op.LT, Op.GT}):
            best = key, limit
    return best[1] if best else None


def _union(group: list[Predicate]) -> list[HudiExpression]:
    # The widest limit is the one with the narrowest negation.
    lows = [p.replaced(p.op.negated) for p in group if p.op in _RANGES and p.op not in _UPPER]
    highs = [p.replaced(p.op.negated) for p in group if p.op in _UPPER]
    widest = [_extreme(lows, greatest=False), _extreme(highs, greatest=True)]
    out: list[HudiExpression] = [limit.replaced(limit.op.negated) for limit in widest if limit is not None]
    points = [p for p in group if p.op in _POINTS]
    if points:
        arrays: list[Any] = [p.values for p in points]
        out.append(_points(points[0], sorted_distinct(pa.concat_arrays(arrays))))
    return out


def _points(like: Predicate, values: pa.Array[Any]) -> Predicate:
    return Predicate(Op.EQ if len(values) == 1 else Op.IN, like.column, values, like.column_type)
