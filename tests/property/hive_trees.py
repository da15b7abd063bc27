"""Filters as the expression trees that Hive would send for them."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import assume

from pushdown import And, Constant, HudiExpression, Not, Op, Or, Predicate
from pushdown.walk import fold

FUNCTIONS = {
    Op.EQ: "GenericUDFOPEqual",
    Op.NE: "GenericUDFOPNotEqual",
    Op.LT: "GenericUDFOPLessThan",
    Op.LE: "GenericUDFOPEqualOrLessThan",
    Op.GT: "GenericUDFOPGreaterThan",
    Op.GE: "GenericUDFOPEqualOrGreaterThan",
    Op.NULL_SAFE_EQ: "GenericUDFOPEqualNS",
    Op.NULL_SAFE_NE: "GenericUDFOPNotEqualNS",
    Op.IN: "GenericUDFIn",
    Op.LIKE: "like",
    Op.IS_NULL: "GenericUDFOPNull",
    Op.NOT_NULL: "GenericUDFOPNotNull",
}


def call(name: str, *arguments: Any) -> dict[str, Any]:
    return {"f": name, "t": "boolean", "a": list(arguments)}


def hive_literal(value: Any) -> dict[str, Any]:
    """A constant as Hive would write it."""
    if value is None:
        return {"v": None, "t": "void"}
    if isinstance(value, bool):
        return {"v": str(value).lower(), "t": "boolean"}
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return {"v": str(value), "t": "bigint"}
    if isinstance(value, int | Decimal):
        return {"v": str(value), "t": "decimal(38,18)"}
    if isinstance(value, float):
        return {"v": repr(value).replace("inf", "Infinity").replace("nan", "NaN"), "t": "double"}
    if isinstance(value, str):
        return {"v": value, "t": "string"}
    if isinstance(value, bytes):
        return {"v": value.hex(), "t": "binary", "e": "hex"}
    if isinstance(value, dt.datetime):
        return {"v": str(value.replace(tzinfo=None)), "t": "timestamp"}
    return {"v": str(value), "t": "date"}


def hive_tree(expression: HudiExpression, types: Mapping[str, str]) -> dict[str, Any]:
    """A filter as Hive's storage handler would send it.

    Args:
        expression: not bound.
        types: Hive's, by column.
    """
    made: dict[str, Any] = fold(expression, lambda node, children: _node(node, children, types))
    return made


def _node(node: HudiExpression, children: list[Any], types: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(node, And | Or):
        # Hive has no connective without operands.
        empty = hive_literal(isinstance(node, And))
        return call("GenericUDFOPAnd" if isinstance(node, And) else "GenericUDFOPOr", *children or [empty])
    if isinstance(node, Not):
        return call("GenericUDFOPNot", *children)
    if not isinstance(node, Predicate):
        assert isinstance(node, Constant)
        return hive_literal(node.value)
    column = {"c": node.column.upper(), "t": types[node.column]}
    values = list(node.values)
    if node.op in {Op.STARTS_WITH, Op.NOT_STARTS_WITH}:
        node, values = starting(node), [None if node.values[0] is None else prefix_pattern(node.values[0])]
    if node.op in FUNCTIONS:
        return call(FUNCTIONS[node.op], column, *map(hive_literal, values))
    return call("GenericUDFOPNot", call(FUNCTIONS[node.op.negated], column, *map(hive_literal, values)))


def starting(node: Predicate) -> Predicate:
    return node.replaced(Op.LIKE if node.op is Op.STARTS_WITH else Op.NOT_LIKE)


def prefix_pattern(prefix: str) -> str:
    assume("\\" not in prefix)  # Hive's LIKE has no way to write one before the percent sign
    return prefix.replace("%", "\\%").replace("_", "\\_") + "%"
