"""Hive's filter expression, the ExprNodeDesc tree that a table's input format gets, as `HudiExpression`.

The tree comes as JSON, see `pushdown.translators.hive_nodes`. Unlike the SearchArgument of RFC-27 it holds the whole
filter: LIKE, casts, functions and fields of structs too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pushdown.errors import FilterSyntaxError
from pushdown.expression import And, Constant, HudiExpression, Not, Op, Or, Predicate, Unknown, all_of, any_of, negation
from pushdown.temporal import zone_of
from pushdown.translators.hive_comparisons import compared, compared_function, is_in, like
from pushdown.translators.hive_nodes import (
    Literal,
    NotUnderstood,
    Operand,
    arguments_of,
    function_of,
    read_operand,
    read_struct,
    shown,
)
from pushdown.walk import Branch, translate_tree

COMPARISONS = {
    "GenericUDFOPEqual": Op.EQ,
    "GenericUDFOPNotEqual": Op.NE,
    "GenericUDFOPLessThan": Op.LT,
    "GenericUDFOPEqualOrLessThan": Op.LE,
    "GenericUDFOPGreaterThan": Op.GT,
    "GenericUDFOPEqualOrGreaterThan": Op.GE,
    "GenericUDFOPEqualNS": Op.NULL_SAFE_EQ,
    "GenericUDFOPNotEqualNS": Op.NULL_SAFE_NE,
}
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
# An IN list of structs with more members is reduced to one list a field, one of a function's values to nothing.
_MANY = 100


def from_hive_json(text: str, *, time_zone: str = "UTC") -> HudiExpression:
    """Translate the tree's JSON text; see `from_hive_tree`.

    Raises:
        FilterSyntaxError: it is no JSON.
    """
    try:
        node = json.loads(text)
    except RecursionError:
        return Unknown("the filter is nested too deeply for JSON")
    except ValueError as error:
        raise FilterSyntaxError(f"the filter is no JSON: {error}") from None
    return from_hive_tree(node, time_zone=time_zone)


def from_hive_tree(node: Mapping[str, Any] | None, *, time_zone: str = "UTC") -> HudiExpression:
    """Translate a filter of Hive.

    Nothing is guessed: a node that is not known, or is malformed, becomes `Unknown`.

    Args:
        node: the root of the tree; None when Hive sends no filter.
        time_zone: the zone whose clock times Hive makes of stored instants (that of its JVM). Clock times around a
            change of clocks there are `Unknown`: Hive compares clock times, and their order is another one there. Bind
            the filter with the same zone.

    Raises:
        FilterSyntaxError: the root is not an object.
        ExpressionError: an unknown time zone.
    """
    zone_of(time_zone)
    if node is None:
        return Constant(value=True)
    if not isinstance(node, Mapping):
        raise FilterSyntaxError(f"a filter of Hive is an object, not {type(node).__name__}")
    return translate_tree(node, _branch_of, _Translator(time_zone).leaf)


class _Translator:
    """Translates leaves: comparisons, IN, LIKE, BETWEEN, tests for null, bare booleans."""

    def __init__(self, time_zone: str) -> None:
        self.time_zone = time_zone

    def leaf(self, node: Any) -> HudiExpression:
        name, arguments = function_of(node), arguments_of(node)
        if name in COMPARISONS and len(arguments) == 2:
            return self.compare(COMPARISONS[name], *arguments)
        method = LEAVES.get(name or "")
        if method is not None:
            return method(self, node, arguments)
        return self.bare(node)

    def bare(self, node: Any) -> HudiExpression:
        """A boolean column or constant."""
        operand = read_operand(node, self.time_zone)
        if isinstance(operand, Operand) and operand.kind is not None and operand.kind.base == "boolean":
            return Predicate(Op.EQ, operand.column, (True,))
        if isinstance(operand, Literal) and (operand.value is None or isinstance(operand.value, bool)):
            return Constant(operand.value)
        return Unknown(shown(node))

    def compare(self, op: Op, left: Any, right: Any) -> HudiExpression:
        first, second = read_operand(left, self.time_zone), read_operand(right, self.time_zone)
        if isinstance(first, Literal):
            op, left, first, second = _FLIPPED.get(op, op), right, second, first
        if not isinstance(second, Literal):
            return Unknown(second.reason if isinstance(second, NotUnderstood) else "columns are compared")
        if isinstance(first, Operand) and first.kind is not None:
            if second.single and not first.kind.exact_as_single([second.value]):
                return Unknown(f"{first.column} may be rounded beside a float")
            return compared(op, first.column, first.kind, second.value, self.time_zone)
        comparison = compared_function(op, left, second.value, self.time_zone)
        return Unknown(shown(left)) if comparison is None else comparison

    def null_test(self, node: Any, arguments: list[Any], op: Op) -> HudiExpression:
        operand = read_operand(arguments[0], self.time_zone) if len(arguments) == 1 else None
        return Predicate(op, operand.column) if isinstance(operand, Operand) else Unknown(shown(node))

    def is_null(self, node: Any, arguments: list[Any]) -> HudiExpression:
        return self.null_test(node, arguments, Op.IS_NULL)

    def not_null(self, node: Any, arguments: list[Any]) -> HudiExpression:
        return self.null_test(node, arguments, Op.NOT_NULL)

    def between(self, node: Any, arguments: list[Any]) -> HudiExpression:
        if len(arguments) != 4:
            return Unknown(shown(node))
        inverted = read_operand(arguments[0], self.time_zone)
        if not isinstance(inverted, Literal) or not isinstance(inverted.value, bool):
            return Unknown(shown(node))
        tested, low, high = arguments[1:]
        inside = all_of(self.compare(Op.GE, tested, low), self.compare(Op.LE, tested, high))
        return Not(inside) if inverted.value else inside

    def member(self, node: Any, arguments: list[Any]) -> HudiExpression:
        if len(arguments) < 2:
            return Unknown(shown(node))
        if function_of(arguments[0]) == "GenericUDFStruct":
            return self.struct_member(node, arguments_of(arguments[0]), arguments[1:])
        operand = read_operand(arguments[0], self.time_zone)
        if not isinstance(operand, Operand) or operand.kind is None:
            if len(arguments) > _MANY:
                return Unknown(shown(node))
            return any_of(*(self.compare(Op.EQ, arguments[0], member) for member in arguments[1:]))
        values, single = [], False
        for argument in arguments[1:]:
            literal = read_operand(argument, self.time_zone)
            if not isinstance(literal, Literal):
                return Unknown(literal.reason if isinstance(literal, NotUnderstood) else shown(node))
            values.append(literal.value)
            single = single or literal.single
        rounded = Unknown(f"{operand.column} may be rounded beside a list with floats")
        exact = not single or operand.kind.exact_as_single(values)
        return is_in(operand.column, operand.kind, values, self.time_zone) if exact else rounded

    def struct_member(self, node: Any, fields: list[Any], members: list[Any]) -> HudiExpression:
        """``(a, b) IN ((1, 2), …)``: null equals null here in Hive, so the equality is NULL-safe."""
        operands = [read_operand(field, self.time_zone) for field in fields]
        kinds = [operand.kind if isinstance(operand, Operand) else None for operand in operands]
        tuples = [read_struct(member, self.time_zone, kinds) for member in members]
        if not fields or any(values is None for values in tuples):
            return Unknown(shown(node))
        columns = [operand.column for operand in operands if isinstance(operand, Operand)]
        rows = [values for values in tuples if values is not None]
        if len(rows) <= _MANY:
            return any_of(*(self.equal_fields(columns, kinds, row) for row in rows))
        vague = Unknown(f"{len(rows):,} combinations of {', '.join(columns)}")
        fields_of_rows = zip(columns, kinds, zip(*rows, strict=True), strict=True)
        lists = [self.one_field(column, kind, values) for column, kind, values in fields_of_rows]
        return all_of(*lists, vague)

    def equal_fields(self, columns: list[str], kinds: list[Any], row: tuple[Any, ...]) -> HudiExpression:
        parts = zip(columns, kinds, row, strict=True)
        return all_of(
            *(compared(Op.NULL_SAFE_EQ, column, kind, value, self.time_zone) for column, kind, value in parts)
        )

    def one_field(self, column: str, kind: Any, values: tuple[Any, ...]) -> HudiExpression:
        present = is_in(column, kind, [value for value in values if value is not None], self.time_zone)
        return any_of(present, Predicate(Op.IS_NULL, column)) if None in values else present

    def like(self, node: Any, arguments: list[Any]) -> HudiExpression:
        if len(arguments) != 2:
            return Unknown(shown(node))
        operand, pattern = (read_operand(argument, self.time_zone) for argument in arguments)
        plain = isinstance(pattern, Literal) and (pattern.value is None or isinstance(pattern.value, str))
        if not isinstance(operand, Operand) or operand.kind is None or not isinstance(pattern, Literal) or not plain:
            return Unknown(shown(node))
        return like(operand.column, operand.kind, pattern.value)


def _branch_of(node: Any) -> Branch[Any, HudiExpression] | None:
    name = function_of(node)
    if name not in CONNECTIVES or not arguments_of(node):
        return None
    return Branch(_operands(node, name), CONNECTIVES[name])


def _operands(node: Any, name: str) -> Iterator[Any]:
    """The operands of a connective, and those of the same connective directly below it."""
    flat = name in {"GenericUDFOPAnd", "GenericUDFOPOr"}
    pending = arguments_of(node)[::-1]
    while pending:
        child = pending.pop()
        if flat and function_of(child) == name and arguments_of(child):
            pending.extend(reversed(arguments_of(child)))
        else:
            yield child


def _joined_and(parts: list[HudiExpression]) -> HudiExpression:
    return And(parts) if len(parts) > 1 else parts[0]


def _joined_or(parts: list[HudiExpression]) -> HudiExpression:
    return Or(parts) if len(parts) > 1 else parts[0]


def _not(parts: list[HudiExpression]) -> HudiExpression:
    if len(parts) != 1:
        return Unknown("NOT of more than one condition is not understood")
    return negation(parts[0])


def _is_true(parts: list[HudiExpression]) -> HudiExpression:
    """IS TRUE is false where the condition is null: exact for a boolean column, else one or the other."""
    if len(parts) != 1:
        return Unknown("IS TRUE of more than one condition is not understood")
    part = parts[0]
    if isinstance(part, Predicate) and part.op in {Op.EQ, Op.NE} and type(part.values[0]) is bool:
        return Predicate(Op.NULL_SAFE_EQ, part.column, ((part.op is Op.EQ) is part.values[0],))
    return And([part, Unknown("IS TRUE is false where the condition is null")])


def _is_false(parts: list[HudiExpression]) -> HudiExpression:
    return _is_true([_not(parts)])


def _is_not_true(parts: list[HudiExpression]) -> HudiExpression:
    return _not([_is_true(parts)])


def _is_not_false(parts: list[HudiExpression]) -> HudiExpression:
    return _not([_is_false(parts)])


CONNECTIVES: dict[str, Callable[[list[HudiExpression]], HudiExpression]] = {
    "GenericUDFOPAnd": _joined_and,
    "GenericUDFOPOr": _joined_or,
    "GenericUDFOPNot": _not,
    "GenericUDFOPTrue": _is_true,
    "GenericUDFOPFalse": _is_false,
    "GenericUDFOPNotTrue": _is_not_true,
    "GenericUDFOPNotFalse": _is_not_false,
}
LEAVES: dict[str, Callable[[_Translator, Any, list[Any]], HudiExpression]] = {
    "GenericUDFOPNull": _Translator.is_null,
    "GenericUDFOPNotNull": _Translator.not_null,
    "GenericUDFBetween": _Translator.between,
    "GenericUDFIn": _Translator.member,
    "like": _Translator.like,
    "UDFLike": _Translator.like,
}
