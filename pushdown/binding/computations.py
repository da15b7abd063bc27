"""Computations bound to columns: each term gets the type that it has in Spark (PySpark 4, ANSI mode).

Casts that Spark adds itself become terms called ``coerce``. What is not certain is refused: operands of different
classes, decimals that need more than 38 digits, casts on whose result releases of Java or Spark's optimizer differ.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pushdown.binding.casts import can_cast, cast_values
from pushdown.columns import ResolvedColumn
from pushdown.computation import COLUMN, LITERAL, MOST_DEEP, Term
from pushdown.expression import And, HudiExpression, ImageTest, Not, Or, RowComputation, Unknown
from pushdown.kinds import GREATEST_LONG, LEAST_LONG, Kind, kind_of
from pushdown.spark_types import (
    INSTANT,
    LIST_SIZE,
    WHOLE,
    Typed,
    decimal_for,
    decimal_of,
    decimal_result,
    decimal_type,
    literal_sql_type,
    lossless_decimal,
    spark_type,
)
from pushdown.temporal import instant_fraction
from pushdown.walk import leaves

Resolve = Callable[[str], ResolvedColumn]

_BOOL, _DATE, _INT, _LONG, _TEXT = pa.bool_(), pa.date32(), pa.int32(), pa.int64(), pa.string()
_FLOAT, _DOUBLE, _NULL = pa.float32(), pa.float64(), pa.null()
_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
_COMPARED = frozenset({Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN})
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">=", "<=>"})
_CASES = frozenset({"lower", "upper"})
_CHOICES = frozenset({"case", "coalesce", "greatest", "least", "coerce"})
_MICROS = 1_000_000


class _RefusedError(ValueError):
    """A term that is not computed."""


def computed(bound: HudiExpression, condition: Term, resolve: Resolve, time_zone: str) -> HudiExpression:
    """A bound comparison of a function, whose rows are decided by its computation where statistics only narrow it.

    Each part that does not decide rows stands for the whole comparison there. That gives the comparison's truth: as And
    and Or of parts it is true at most, and at least, where the comparison is.

    Args:
        bound: the comparison as bound for plans.
        condition: the comparison as a computation without types.
        resolve: finds a column by its name.
        time_zone: the session's.
    """
    if not any(isinstance(leaf, Unknown) for leaf in leaves(bound)):
        return bound
    term = typed(condition, resolve, time_zone)
    return bound if term is None else _decided(bound, term, time_zone)


def bound_computation(node: RowComputation, resolve: Resolve, time_zone: str) -> HudiExpression:
    """A computation with its columns and types; `Unknown` if it is not one for them.

    Raises:
        UnknownColumnError: a column that is not there.
    """
    if node.time_zone is not None:
        return node
    term = typed(node.condition, resolve, time_zone)
    return Unknown(node.reason) if term is None else RowComputation(node.reason, term, time_zone)


def typed(condition: Term, resolve: Resolve, time_zone: str) -> Term | None:
    """A condition with the types of its terms; None if it is refused."""
    resolved = {name: resolve(name) for name in condition.columns()}  # all of them: a wrong name is an error
    try:
        term = _Types(resolved, time_zone).of(condition)
    except _RefusedError:
        return None
    return term if term.type == _BOOL else None


def literal_array(value: Any, type_: pa.DataType, time_zone: str) -> Any:
    """A literal as an Arrow array of one value.

    Raises:
        ValueError: it is a text that is none of the type.
    """
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, str) and type_ != _TEXT:
        made, failed = cast_values(pa.array([plain], _TEXT), type_, time_zone)
        if failed.any():
            raise ValueError(f"{plain!r} is no value of type {type_}")
        return made
    if type_ == INSTANT and plain is not None:
        return pa.array([int(instant_fraction(plain, time_zone) * _MICROS)], pa.int64()).cast(type_)
    if kind_of(type_) is Kind.DECIMAL and plain is not None:
        plain = decimal.Decimal(plain)
    return pa.array([plain], type_)


def _decided(bound: HudiExpression, term: Term, time_zone: str) -> HudiExpression:
    if isinstance(bound, Not):
        return Not(_decided(bound.child, term.negated(), time_zone))
    if isinstance(bound, And | Or):
        children = [_decided(child, term, time_zone) for child in bound.children]
        return And(children) if isinstance(bound, And) else Or(children)
    if isinstance(bound, ImageTest):
        return replace(bound, condition=term)
    return RowComputation(bound.reason, term, time_zone) if isinstance(bound, Unknown) else bound


class _Types:
    """The types of terms over resolved columns."""

    def __init__(self, columns: dict[str, ResolvedColumn], time_zone: str) -> None:
        self._columns = columns
        self._zone = time_zone

    def of(self, term: Term, depth: int = 0) -> Term:
        """A term with its type; `_RefusedError` if it is not computed."""
        if depth > 2 * MOST_DEEP:
            raise _RefusedError
        if term.name == COLUMN:
            return self._column(term)
        if term.name == LITERAL:
            return self._literal(term)
        arguments = [self.of(argument, depth + 1) for argument in term.arguments]
        rule = _RULES.get(term.name)
        if rule is None:
            raise _RefusedError
        return rule(self, term, arguments)

    def _column(self, term: Term) -> Term:
        column = self._columns[term.value]
        type_ = spark_type(column.type)
        if type_ is None or kind_of(type_) is Kind.BINARY:
            raise _RefusedError
        return Term(COLUMN, value=column.name, type=type_)

    def _literal(self, term: Term) -> Term:
        type_ = _NULL if term.value is None else literal_sql_type(term.value)
        if type_ is None or type_ == pa.binary():
            raise _RefusedError
        try:
            literal_array(term.value, type_, self._zone)
        except (ValueError, OverflowError):
            raise _RefusedError from None
        return replace(term, type=type_)

    def compared(self, term: Term, arguments: list[Term]) -> Term:
        return replace(term, arguments=_operands(arguments), type=_BOOL)

    def arithmetic(self, term: Term, arguments: list[Term]) -> Term:
        left, right = _numbers(arguments)
        if term.name == "div" and kind_of(_type(left)) is Kind.INTEGER:
            left, right = _coerced(left, _LONG), _coerced(right, _LONG)
        if term.name == "divide" and kind_of(_type(left)) is not Kind.DECIMAL:
            left, right = _coerced(left, _DOUBLE), _coerced(right, _DOUBLE)
        type_ = _type(left)
        kind = kind_of(type_)
        if kind is Kind.DECIMAL:
            type_ = _known(decimal_result(term.name, type_, _type(right)))
        elif term.name == "div":
            if kind is Kind.FLOAT:
                raise _RefusedError
            type_ = _LONG
        return replace(term, arguments=(left, right), type=type_)

    def signed(self, term: Term, arguments: list[Term]) -> Term:
        if kind_of(_type(arguments[0])) not in _NUMBERS:
            raise _RefusedError
        return replace(term, arguments=tuple(arguments), type=arguments[0].type)

    def whole(self, term: Term, arguments: list[Term]) -> Term:
        """`floor` and `ceil`."""
        source: Any = _type(arguments[0])
        if kind_of(source) is Kind.DECIMAL:
            return replace(
                term, arguments=tuple(arguments), type=_known(decimal_type(source.precision - source.scale + 1, 0))
            )
        if kind_of(source) is Kind.INTEGER:
            return replace(term, arguments=(_coerced(arguments[0], _LONG),), type=_LONG)
        if kind_of(source) is not Kind.FLOAT:
            raise _RefusedError
        return replace(term, arguments=(_coerced(arguments[0], _DOUBLE),), type=_LONG)

    def rounded(self, term: Term, arguments: list[Term]) -> Term:
        source: Any = _type(arguments[0])
        if kind_of(source) is Kind.INTEGER:
            return arguments[0]
        if kind_of(source) is not Kind.DECIMAL:
            raise _RefusedError  # a float is rounded by its text, on which releases of Java differ
        scale = min(source.scale, term.value[0])
        type_ = _known(decimal_type(source.precision - source.scale + 1 + scale, scale))
        return replace(term, arguments=tuple(arguments), type=type_)

    def logical(self, term: Term, arguments: list[Term]) -> Term:
        return replace(term, arguments=tuple(_coerced_null(one, _BOOL) for one in arguments), type=_BOOL)

    def null_test(self, term: Term, arguments: list[Term]) -> Term:
        return replace(term, arguments=tuple(arguments), type=_BOOL)

    def text(self, term: Term, arguments: list[Term]) -> Term:
        types: dict[str, pa.DataType] = {"length": _INT, "like": _BOOL}
        same = tuple(_coerced_null(one, _TEXT) for one in arguments)
        if term.name in _CASES:
            # Spark's optimizer leaves out an inner one, though it changes some characters
            same = same[0].arguments if same[0].name in _CASES else same
            if _has_case(same[0]):
                raise _RefusedError
        return replace(term, arguments=same, type=types.get(term.name, _TEXT))

    def part(self, term: Term, arguments: list[Term]) -> Term:
        """A part of a date or time."""
        kind = kind_of(_type(arguments[0]))
        of_clock = term.name in {"hour", "minute", "second"}
        if kind is not Kind.TIMESTAMP and (of_clock or kind is not Kind.DATE):
            raise _RefusedError
        return replace(term, arguments=tuple(arguments), type=_INT)

    def first_known(self, term: Term, arguments: list[Term]) -> Term:
        """`coalesce`, `greatest`, `least`: of one type."""
        same = _alike(arguments)
        return replace(term, arguments=tuple(same), type=same[0].type)

    def case(self, term: Term, arguments: list[Term]) -> Term:
        tests = [_coerced_null(one, _BOOL) for one in arguments[:-1:2]]
        results = _alike([*arguments[1:-1:2], arguments[-1]])
        pairs = zip(tests, results[:-1], strict=True)
        flat = [one for pair in pairs for one in pair]
        return replace(term, arguments=(*flat, results[-1]), type=results[0].type)

    def member(self, term: Term, arguments: list[Term]) -> Term:
        same = _alike(arguments)
        has_null = any(one.name == LITERAL and one.value is None for one in arguments[1:])
        if kind_of(_type(same[0])) is Kind.FLOAT and has_null and len(same) > LIST_SIZE:
            raise _RefusedError
        return replace(term, arguments=tuple(same), type=_BOOL)

    def cast(self, term: Term, arguments: list[Term]) -> Term:
        source, target = _type(arguments[0]), term.value
        if source == _NULL:
            return Term("coerce", tuple(arguments), type=target)
        if source == target:
            return arguments[0]
        times = kind_of(target) is Kind.TIMESTAMP or (kind_of(source) is Kind.TIMESTAMP and target != _DATE)
        # An integer's cast to FLOAT and on to DOUBLE may be one to DOUBLE, by Spark's optimizer.
        if times or target in {_FLOAT, pa.binary()} or not can_cast(source, target):
            raise _RefusedError
        return replace(term, arguments=tuple(arguments), type=target)


def _has_case(term: Term) -> bool:
    """Whether the optimizer may find `lower` or `upper` right below another one."""
    return term.name in _CASES or (term.name in _CHOICES and any(map(_has_case, term.arguments)))


def _type(term: Term) -> pa.DataType:
    if term.type is None:
        raise ValueError(f"{term.name} has no type")
    return term.type


def _coerced(term: Term, target: pa.DataType) -> Term:
    return term if term.type == target else Term("coerce", (term,), type=target)


def _coerced_null(term: Term, target: pa.DataType) -> Term:
    """A term of a type, or NULL, as that type."""
    if term.type not in {target, _NULL}:
        raise _RefusedError
    return _coerced(term, target)


def _operands(arguments: list[Term]) -> tuple[Term, ...]:
    """Two operands of a comparison, as the type in which Spark compares them."""
    types = [_type(one) for one in arguments]
    kinds = {kind_of(one) for one in types}
    if _NULL not in types and kinds <= _NUMBERS:
        left, right = _numbers(arguments)
        if kind_of(_type(left)) is Kind.DECIMAL:
            _refuse_beyond(arguments)
            wider = _lossless([_type(left), _type(right)])
            return _coerced(left, wider), _coerced(right, wider)
        return left, right
    return tuple(_alike(arguments))


def _refuse_beyond(arguments: list[Term]) -> None:
    """Beside a decimal beyond all integers Spark may answer for an integer's nulls, too."""
    for one, other in (arguments, arguments[::-1]):
        value = one.value.value if isinstance(one.value, Typed) else one.value
        beyond = isinstance(value, int | decimal.Decimal) and not LEAST_LONG < value < GREATEST_LONG
        if one.name == LITERAL and kind_of(_type(other)) is Kind.INTEGER and beyond:
            raise _RefusedError


def _numbers(arguments: list[Term]) -> tuple[Term, Term]:
    """Two numbers as Spark's operators take them: both integers or floats of one type, or both decimals."""
    left, right = arguments
    types: list[Any] = [_type(left), _type(right)]
    if _NULL in types:
        other = next((one for one in types if one != _NULL), None)
        if other is None or kind_of(other) not in _NUMBERS:
            raise _RefusedError
        return _coerced(left, other), _coerced(right, other)
    kinds = {kind_of(one) for one in types}
    if not kinds <= _NUMBERS:
        raise _RefusedError
    if Kind.FLOAT in kinds:
        type_ = _FLOAT if types == [_FLOAT, _FLOAT] else _DOUBLE
        return _coerced(left, type_), _coerced(right, type_)
    if Kind.DECIMAL in kinds:
        return _as_decimal(left), _as_decimal(right)
    type_ = max(types, key=WHOLE.index)
    return _coerced(left, type_), _coerced(right, type_)


def _as_decimal(term: Term) -> Term:
    """A number as a decimal: a literal integer with its own digits, another one with all of its type."""
    type_ = _type(term)
    if kind_of(type_) is Kind.DECIMAL:
        return term
    written = not isinstance(term.value, Typed) or term.value.written
    if term.name != LITERAL or not written:
        return _coerced(term, decimal_for(type_))
    value = term.value.value if isinstance(term.value, Typed) else term.value
    own = decimal_of(decimal.Decimal(value))
    if own is None:
        raise _RefusedError
    return _coerced(term, own)


def _lossless(types: Sequence[pa.DataType]) -> pa.DataType:
    return _known(lossless_decimal(types))


def _known(type_: pa.DataType | None) -> pa.DataType:
    if type_ is None:
        raise _RefusedError
    return type_


def _alike(arguments: list[Term]) -> list[Term]:
    """Terms of one class, or NULL, as the type that Spark finds for all of them."""
    types: list[Any] = [_type(one) for one in arguments if one.type != _NULL]
    if not types:
        raise _RefusedError
    kinds = {kind_of(one) for one in types}
    if len(set(types)) == 1 and kinds <= _NUMBERS | _COMPARED:
        target = types[0]
    elif kinds <= _NUMBERS:
        if Kind.FLOAT in kinds:
            target = _DOUBLE
        elif Kind.DECIMAL in kinds:
            target = _lossless([decimal_for(one) for one in types])
        else:
            target = max(types, key=WHOLE.index)
    else:
        raise _RefusedError
    return [_coerced(one, target) for one in arguments]


_DAY_PARTS = ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear")
_PARTS = (*_DAY_PARTS, "hour", "minute", "second")
_TEXTS = ("lower", "upper", "length", "trim", "ltrim", "rtrim", "concat", "substring", "reverse", "replace", "like")
_RULES: dict[str, Callable[[_Types, Term, list[Term]], Term]] = {
    **dict.fromkeys(_COMPARISONS, _Types.compared),
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "div", "mod", "pmod"), _Types.arithmetic),
    **dict.fromkeys(("negative", "abs"), _Types.signed),
    **dict.fromkeys(("floor", "ceil"), _Types.whole),
    **dict.fromkeys(("and", "or", "not"), _Types.logical),
    **dict.fromkeys(_PARTS, _Types.part),
    **dict.fromkeys(_TEXTS, _Types.text),
    **dict.fromkeys(("coalesce", "greatest", "least"), _Types.first_known),
    "round": _Types.rounded,
    "is_null": _Types.null_test,
    "case": _Types.case,
    "in": _Types.member,
    "cast": _Types.cast,
    "try_cast": _Types.cast,
}
