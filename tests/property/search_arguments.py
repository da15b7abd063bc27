"""Filters as the SearchArguments that Hive would send for them."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pushdown import And, Constant, HudiExpression, Not, Op, Or, Predicate
from pushdown.walk import fold

_LEAVES = {
    Op.EQ: "EQUALS",
    Op.NULL_SAFE_EQ: "NULL_SAFE_EQUALS",
    Op.LT: "LESS_THAN",
    Op.LE: "LESS_THAN_EQUALS",
    Op.IN: "IN",
    Op.IS_NULL: "IS_NULL",
}
_TRUTHS = {True: "YES", False: "NO", None: "NULL"}
# Python's type of a literal of each type; Hive leaves out what it would have to cast.
_LITERALS: dict[str, type] = {
    "BOOLEAN": bool,
    "LONG": int,
    "FLOAT": float,
    "DECIMAL": Decimal,
    "STRING": str,
    "DATE": dt.date,
    "TIMESTAMP": dt.datetime,
}


def search_argument(expression: HudiExpression, types: Mapping[str, str], *, between: bool = False) -> dict[str, Any]:
    """A filter as Hive's optimizer sends it.

    Args:
        expression: not bound.
        types: of leaves, by column; conditions on other columns are left out.
        between: send equality as a range.
    """
    leaves: list[dict[str, Any]] = []

    def node(one: HudiExpression, children: list[dict[str, Any]]) -> dict[str, Any]:
        if isinstance(one, Not):
            return _branch("NOT", *children)
        if isinstance(one, And | Or):
            # Hive has no connective without operands.
            empty = _constant("YES" if isinstance(one, And) else "NO")
            return _branch("AND" if isinstance(one, And) else "OR", *(children or [empty]))
        if not isinstance(one, Predicate):
            assert isinstance(one, Constant)
            return _constant(_TRUTHS[one.value])
        negated = one.op not in _LEAVES and one.op.negated in _LEAVES
        leaf = _leaf(one.replaced(one.op.negated) if negated else one, types.get(one.column), between=between)
        if leaf is None:
            return _constant("YES_NO_NULL")
        leaves.append(leaf)
        sent = {"operator": "LEAF", "leaf": len(leaves) - 1}
        return _branch("NOT", sent) if negated else sent

    return {"expression": fold(expression, node), "leaves": leaves}


def _branch(operator: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"operator": operator, "children": list(children)}


def _constant(name: str) -> dict[str, Any]:
    return {"operator": "CONSTANT", "constant": name}


def _leaf(predicate: Predicate, kind: str | None, *, between: bool) -> dict[str, Any] | None:
    """None for what a SearchArgument cannot hold."""
    if kind is None or predicate.op not in _LEAVES:
        return None
    if any(value is not None and type(value) is not _LITERALS[kind] for value in predicate.values):
        return None
    leaf = {"operator": _LEAVES[predicate.op], "type": kind, "columnName": predicate.column}
    literals = [_literal(value) for value in predicate.values]
    if predicate.op is Op.IN:
        return leaf | {"literalList": literals}
    if predicate.op is Op.EQ and between and literals != [None]:
        return leaf | {"operator": "BETWEEN", "literalList": literals * 2}
    return leaf | {"literal": literals[0]} if literals else leaf


def _literal(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    return str(value.replace(tzinfo=None)) if isinstance(value, dt.datetime) else str(value)
