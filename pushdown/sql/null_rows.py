"""Whether a filter rejects a row whose columns are all null, as an outer join makes one for a row that is missing."""

from __future__ import annotations

from pushdown.expression import And, Constant, HudiExpression, Not, Op, Or, Predicate
from pushdown.walk import fold

# Whether a part may be true, and whether it may be false.
_Truths = tuple[bool, bool]


def rejects_nulls(expression: HudiExpression) -> bool:
    """Whether a filter, not bound, is false or null for a row of nulls, whatever its unknown parts are."""
    return not fold(expression, _visit)[0]


def _visit(node: HudiExpression, children: list[_Truths]) -> _Truths:
    if isinstance(node, Not):
        return children[0][1], children[0][0]
    if isinstance(node, And):
        return all(true for true, _ in children), any(false for _, false in children)
    if isinstance(node, Or):
        return any(true for true, _ in children), all(false for _, false in children)
    if isinstance(node, Constant):
        return node.value is True, node.value is False
    return _leaf(node) if isinstance(node, Predicate) else (True, True)


def _leaf(predicate: Predicate) -> _Truths:
    op = predicate.op
    if op in {Op.IS_NULL, Op.NOT_NULL}:
        return op is Op.IS_NULL, op is Op.NOT_NULL
    if op in {Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE}:
        equal = predicate.values[0] is None
        return equal is (op is Op.NULL_SAFE_EQ), equal is not (op is Op.NULL_SAFE_EQ)
    if op in {Op.IN, Op.NOT_IN} and not len(predicate.values):
        return op is Op.NOT_IN, op is Op.IN
    return False, False
