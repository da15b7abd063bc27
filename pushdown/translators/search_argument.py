"""Hive's SearchArgument, the filter format named by RFC-27, as `HudiExpression`.

A SearchArgument is weaker than the query's filter: Hive leaves out what it cannot hold (LIKE, casts, functions, fields
of structs). It is true wherever the filter is, so files can be planned with it, and rows cannot be selected by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pushdown.errors import FilterSyntaxError
from pushdown.expression import And, Constant, HudiExpression, Op, Or, Predicate, Unknown, all_of, negation
from pushdown.temporal import zone_of
from pushdown.translators.hive_comparisons import compared, is_in
from pushdown.translators.hive_literals import HiveType, LiteralNotUnderstoodError, hive_literal, hive_type
from pushdown.walk import Branch, translate_tree

TRUTH_VALUES: dict[str, HudiExpression] = {
    "YES": Constant(value=True),
    "NO": Constant(value=False),
    "NULL": Constant(value=None),
    "YES_NULL": Or([Constant(value=None), Unknown("YES_NULL")]),
    "NO_NULL": And([Constant(value=None), Unknown("NO_NULL")]),
    "YES_NO": Unknown("YES_NO"),
    "YES_NO_NULL": Unknown("YES_NO_NULL"),
}
OPERATORS = {
    "EQUALS": Op.EQ,
    "NULL_SAFE_EQUALS": Op.NULL_SAFE_EQ,
    "LESS_THAN": Op.LT,
    "LESS_THAN_EQUALS": Op.LE,
    "IN": Op.IN,
    "BETWEEN": Op.GE,
    "IS_NULL": Op.IS_NULL,
}
LEAF_TYPES = {
    "BOOLEAN": HiveType("boolean"),
    "INTEGER": HiveType("bigint"),
    "LONG": HiveType("bigint"),
    "FLOAT": HiveType("double"),
    "DECIMAL": HiveType("decimal", 38),
    "STRING": HiveType("string"),
    "DATE": HiveType("date"),
    "TIMESTAMP": HiveType("timestamp"),
}
# Types with which a padded literal may have been compared, when the column's type is not known.
_ANY_CHAR = HiveType("char", 255)


def from_search_argument(
    argument: Mapping[str, Any], *, types: Mapping[str, str] | None = None, time_zone: str = "UTC"
) -> HudiExpression:
    """Translate a SearchArgument.

    ::

        {"expression": {"operator": "AND", "children": [{"operator": "LEAF", "leaf": 0},
                                                        {"operator": "CONSTANT", "constant": "YES_NO_NULL"}]},
         "leaves": [{"operator": "LESS_THAN", "type": "LONG", "columnName": "id", "literal": "10"}]}

    The names are those of Hive's classes ExpressionTree and PredicateLeaf; the operands of IN and BETWEEN are in
    ``literalList``. Literals are JSON values or the texts that Java prints. Nothing is guessed: what is not known or
    malformed becomes `Unknown`.

    Args:
        argument: the object.
        types: Hive's types of columns, by name. A SearchArgument calls ``char`` and ``varchar`` columns STRING; without
            their types only a literal with trailing spaces is taken for one of a char.
        time_zone: as for `from_hive_tree`.

    Raises:
        FilterSyntaxError: the root is not an object with an expression.
        ExpressionError: an unknown time zone.
    """
    zone_of(time_zone)
    if not isinstance(argument, Mapping) or not isinstance(argument.get("expression"), Mapping):
        raise FilterSyntaxError("a SearchArgument is an object with an expression and leaves")
    leaves = argument.get("leaves")
    reader = _Leaves({name.lower(): hive_type(text) for name, text in (types or {}).items()}, time_zone)
    known = [reader.leaf(leaf) for leaf in leaves] if isinstance(leaves, list | tuple) else []
    return translate_tree(argument["expression"], _branch_of, lambda node: _end(node, known))


def _operator(node: Any) -> Any:
    return node.get("operator") if isinstance(node, Mapping) else None


def _branch_of(node: Any) -> Branch[Any, HudiExpression] | None:
    operator = _operator(node)
    if not isinstance(operator, str) or operator not in _BRANCHES:
        return None
    return Branch(_operands(node, operator), _BRANCHES[operator])


def _children(node: Mapping[str, Any]) -> list[Any]:
    children = node.get("children")
    return list(children) if isinstance(children, list | tuple) else []


def _operands(node: Mapping[str, Any], operator: str) -> Iterator[Any]:
    """The children of a branch, and those of branches of its kind directly below it."""
    pending = _children(node)[::-1]
    while pending:
        child = pending.pop()
        nested = _children(child) if operator != "NOT" and isinstance(child, Mapping) else []
        if nested and child.get("operator") == operator:
            pending.extend(reversed(nested))
        else:
            yield child


def _and(parts: list[HudiExpression]) -> HudiExpression:
    # A branch without children is malformed, so it is not "true" as AND of nothing is.
    return _joined(And, parts)


def _or(parts: list[HudiExpression]) -> HudiExpression:
    return _joined(Or, parts)


def _joined(kind: type[And | Or], parts: list[HudiExpression]) -> HudiExpression:
    if not parts:
        return Unknown("a branch without children")
    return parts[0] if len(parts) == 1 else kind(parts)


def _not(parts: list[HudiExpression]) -> HudiExpression:
    if len(parts) != 1:
        return Unknown("NOT of more or less than one condition")
    return negation(parts[0])


_BRANCHES: dict[str, Callable[[list[HudiExpression]], HudiExpression]] = {"AND": _and, "OR": _or, "NOT": _not}


def _end(node: Any, leaves: list[HudiExpression]) -> HudiExpression:
    operator = _operator(node)
    if operator == "LEAF":
        index = node.get("leaf")
        if type(index) is int and 0 <= index < len(leaves):
            return leaves[index]
        return Unknown(f"there is no leaf {ascii(index)[:40]}")
    if operator == "CONSTANT":
        constant = node.get("constant")
        if isinstance(constant, str) and constant in TRUTH_VALUES:
            return TRUTH_VALUES[constant]
        return Unknown(f"the constant {ascii(constant)[:40]}")
    return Unknown(f"the operator {ascii(operator)[:40]}")


class _Leaves:
    """Translates the leaves."""

    def __init__(self, types: Mapping[str, HiveType | None], time_zone: str) -> None:
        self.types = types
        self.time_zone = time_zone

    def leaf(self, leaf: Any) -> HudiExpression:
        if not isinstance(leaf, Mapping):
            return Unknown("a leaf that is not an object")
        column, operator, type_name = leaf.get("columnName"), leaf.get("operator"), leaf.get("type")
        if not isinstance(column, str) or not column or not isinstance(operator, str) or operator not in OPERATORS:
            return Unknown(f"a leaf {ascii(operator)[:40]} of column {ascii(column)[:40]}")
        if operator == "IS_NULL":
            return Predicate(Op.IS_NULL, column)
        kind = LEAF_TYPES.get(type_name) if isinstance(type_name, str) else None
        if kind is None:
            return Unknown(f"{column}: a leaf of type {ascii(type_name)[:40]}")
        try:
            return self.condition(operator, column, kind, self.literals(leaf, operator, kind))
        except LiteralNotUnderstoodError as error:
            return Unknown(f"{column}: {error}")

    def literals(self, leaf: Mapping[str, Any], operator: str, kind: HiveType) -> list[Any]:
        if operator not in {"IN", "BETWEEN"}:
            if "literal" not in leaf:
                raise LiteralNotUnderstoodError("a leaf without its literal")
            return [hive_literal(leaf.get("literal"), kind, self.time_zone)]
        values = leaf.get("literalList")
        # Empty where Hive will only know the values when the query runs.
        if not isinstance(values, list | tuple) or not values or (operator == "BETWEEN" and len(values) != 2):
            raise LiteralNotUnderstoodError("a leaf without its literals")
        return [hive_literal(value, kind, self.time_zone) for value in values]

    def condition(self, operator: str, column: str, kind: HiveType, literals: list[Any]) -> HudiExpression:
        kind = self.column_kind(column, kind, literals)
        if operator == "IN":
            return is_in(column, kind, literals, self.time_zone)
        if operator == "BETWEEN":
            low, high = literals
            return all_of(
                compared(Op.GE, column, kind, low, self.time_zone), compared(Op.LE, column, kind, high, self.time_zone)
            )
        if literals[0] is None and operator != "NULL_SAFE_EQUALS":
            return Unknown(f"{column}: a leaf without its literal")
        return compared(OPERATORS[operator], column, kind, literals[0], self.time_zone)

    def column_kind(self, column: str, kind: HiveType, literals: list[Any]) -> HiveType:
        if kind.base != "string":
            return kind
        own = self.types.get(column.lower())
        if own is not None:
            return own
        padded = any(text is not None and text.endswith(" ") for text in literals)
        return _ANY_CHAR if padded else kind
