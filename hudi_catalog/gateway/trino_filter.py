"""A query's filter as Trino evaluates it on the rows of its Hive connector, bound to a Hudi table's columns.

The result is true wherever Trino's filter may be true, and false only where Trino's is surely false. What depends on a
session or connector setting is `Unknown` in the range where it matters.

Rounding is one such case. The connector returns timestamps in milliseconds unless `hive.timestamp-precision` says
otherwise, rounding half up what files hold in microseconds; `CAST(… AS timestamp)` rounds a literal to milliseconds
too, and a literal with a time zone is compared in the session's. Between the values for which a comparison is surely
true and those for which it is surely false, it is `Unknown`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from pushdown.binding.bind import bind
from pushdown.columns import resolve_column
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, ImageTest, Not, Op, Predicate, Unknown, all_of, any_of, never
from pushdown.functions import near
from pushdown.kinds import UNITS_PER_SECOND, Kind, array_of, domain_of, kind_of
from pushdown.walk import fold, rebuilt

_DAY: Final = 86_400

# Longer lists are replaced by the range that contains them.
_MANY = 100


class Slack(enum.Enum):
    """How far a literal, truncated to a millisecond or a day, may be from the value that the engine compares with."""

    NONE = "none"
    MILLISECOND = "a millisecond to either side, or a day"
    ZONE = "two days"


def widened_for_rounding(predicate: Predicate, slack: Slack) -> HudiExpression:
    """The predicate, unknown where rounding decides.

    Args:
        predicate: bound; timestamps without a time zone.
        slack: of the literals.
    """
    kind = None if predicate.column_type is None else kind_of(predicate.column_type)
    if kind not in {Kind.DATE, Kind.TIMESTAMP} or predicate.op in {Op.IS_NULL, Op.NOT_NULL}:
        return predicate
    rounding = _Rounding(predicate.column, predicate.column_type, slack)
    return rounding.of(predicate.op, predicate.values) if rounding.matters else predicate


class _Rounding:
    """Comparisons of one column; numbers are in the column's unit: days, or fractions of a second."""

    def __init__(self, column: str, type_: Any, slack: Slack) -> None:
        self.column = column
        self.type = type_
        is_date = kind_of(type_) is Kind.DATE
        per_second = 0 if is_date else UNITS_PER_SECOND[type_.unit]
        self.per_millisecond = 1 if is_date else max(per_second // 1000, 1)
        # Largest rounding error of a value rounded to a whole millisecond.
        self.half = 0 if self.per_millisecond == 1 else self.per_millisecond // 2
        wide = {
            Slack.NONE: 0,
            Slack.MILLISECOND: self.per_millisecond * (1 if is_date else 2),
            Slack.ZONE: 2 * (_DAY * per_second or 1),
        }
        self.slack = wide[slack]

    @property
    def matters(self) -> bool:
        """Whether anything is rounded."""
        return bool(self.slack or self.half)

    def of(self, op: Op, values: Any) -> HudiExpression:  # noqa: PLR0911 - one line per operator
        if op in {Op.NE, Op.NOT_IN, Op.NULL_SAFE_NE}:
            return Not(self.of(op.negated, values))
        if op in {Op.GT, Op.LE}:
            at_most = self._at_most(_number(values[0]))
            return at_most if op is Op.LE else Not(at_most)
        if op in {Op.LT, Op.GE}:
            below = self._below(_number(values[0]))
            return below if op is Op.LT else Not(below)
        if op is Op.EQ:
            return self._in([_number(values[0])])
        if op is Op.NULL_SAFE_EQ:
            present = Predicate(Op.NOT_NULL, self.column, pa.nulls(0), self.type)
            if values.null_count:
                return Not(present)
            return all_of(present, self._in([_number(values[0])]))
        if op is Op.IN:
            matches = self._in([_number(value) for value in values.drop_null()])
            return any_of(matches, Constant(value=None)) if values.null_count else matches
        return Unknown(f"{self.column} {op.value} … is not understood")

    def _aligned(self, number: int) -> bool:
        return not self.slack and number % self.per_millisecond == 0

    def _below(self, number: int) -> HudiExpression:
        if self._aligned(number):
            return self._between_two(self._compare(Op.LT, number - self.half), self._compare(Op.LT, number))
        reach = self._reach
        return self._between_two(self._compare(Op.LT, number - reach), self._compare(Op.LE, number + reach))

    def _at_most(self, number: int) -> HudiExpression:
        if self._aligned(number):
            return self._between_two(self._compare(Op.LE, number), self._compare(Op.LE, number + self.half))
        reach = self._reach
        return self._between_two(self._compare(Op.LT, number - reach), self._compare(Op.LE, number + reach))

    def _in(self, numbers: list[int]) -> HudiExpression:
        aligned = [number for number in numbers if self._aligned(number)]
        reach = self.half if len(aligned) == len(numbers) else self._reach
        narrow = self._members(aligned)
        if not reach:
            return narrow
        spans = [(number, number) for number in numbers]
        if len(spans) > _MANY:
            spans = [(min(numbers), max(numbers))]
        wide = [all_of(self._compare(Op.GE, low - reach), self._compare(Op.LE, high + reach)) for low, high in spans]
        return self._between_two(narrow, any_of(*wide))

    @property
    def _reach(self) -> int:
        """Largest distance of two values that the engine may consider equal."""
        return self.slack + max(self.half, 0 if self.slack else self.per_millisecond - 1)

    def _between_two(self, surely: HudiExpression, perhaps: HudiExpression) -> HudiExpression:
        if surely == perhaps:
            return surely
        return any_of(surely, all_of(perhaps, Unknown(f"{self.column} is compared as it was rounded")))

    def _members(self, numbers: list[int]) -> HudiExpression:
        if not numbers:
            return never(self.column, self.type)
        distinct = array_of(self.type, sorted(set(numbers)))
        return Predicate(Op.EQ if len(distinct) == 1 else Op.IN, self.column, distinct, self.type)

    def _compare(self, op: Op, number: int) -> HudiExpression:
        domain = domain_of(self.type)
        number = min(max(number, domain.first), domain.last)
        return Predicate(op, self.column, array_of(self.type, [number]), self.type)


def _number(value: Any) -> int:
    return int(value.value)


# Decimals with up to this many digits convert to doubles without loss.
_EXACT_DIGITS = 15
_NULL_TESTS = frozenset({Op.IS_NULL, Op.NOT_NULL})

_COMPARED = frozenset(
    {Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.STRING, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP}
)


def as_trino_filters(expression: HudiExpression, schema: pa.Schema) -> HudiExpression:
    """Bind a filter of a query to a table's columns.

    Args:
        expression: unbound, as `pushdown.sql` parses it from Trino's SQL.
        schema: the table's columns, with Hudi's types.

    Returns:
        A filter bound to the schema. Never raises: what Trino would refuse is unknown.
    """
    seen = trino_schema(schema)

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        return _leaf(node, schema, seen) if isinstance(node, Predicate) else node

    return fold(expression, visit)


def trino_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as the Hive connector presents them: instants become timestamps without a zone, in UTC."""
    return pa.schema([field.with_type(_seen_type(field.type)) for field in schema])


def _seen_type(type_: Any) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit)
    if pa.types.is_struct(type_):
        return pa.struct([member.with_type(_seen_type(member.type)) for member in type_])
    plain: pa.DataType = type_
    return plain


def _leaf(predicate: Predicate, schema: pa.Schema, seen: pa.Schema) -> HudiExpression:
    try:
        column = resolve_column(predicate.column, seen)
        doubt = _doubt(predicate, column.type)
        if doubt:
            return Unknown(f"{predicate.column}: {doubt}")
        slack = _slack(predicate, column.type)
        if slack is not Slack.NONE and predicate.function is not None:
            return Unknown(f"{predicate.function.name} of {column.name} is compared with a time that is rounded")
        bound = bind(predicate if slack is Slack.NONE else _on_units(predicate, column.type), seen)
        stored = resolve_column(column.name, schema, case_sensitive=True).type
    except (ExpressionError, OverflowError) as error:
        return Unknown(str(error))

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, ImageTest):
            return _of_rounded(node)
        if not isinstance(node, Predicate):
            return node
        return fold(
            widened_for_rounding(node, slack),
            lambda part, parts: rebuilt(part, parts) if parts else _stored(part, stored),
        )

    return fold(bound, visit)


def _of_rounded(test: ImageTest) -> ImageTest:
    """A test of a function, whose argument the connector may have rounded to a millisecond."""
    if test.result_type is None or kind_of(test.column_type) is not Kind.TIMESTAMP:
        return test
    half = _Rounding(test.column, test.column_type, Slack.NONE).half
    return replace(test, function=test.function.of(near(half))) if half else test


def _doubt(predicate: Predicate, column_type: pa.DataType) -> str:
    """Why a comparison is not evaluated; empty if it is."""
    if predicate.op in _NULL_TESTS:
        return ""
    kind = kind_of(column_type)
    if kind not in _COMPARED:
        return f"values of type {column_type} are not compared"
    described: Any = column_type
    types = {type(value) for value in predicate.values}
    if kind is Kind.DECIMAL and float in types and described.precision > _EXACT_DIGITS:
        return "decimals of so many digits are rounded twice when cast to double"
    if kind is Kind.FLOAT and any(_has_many_digits(value) for value in predicate.values):
        return "a decimal literal of so many digits is rounded twice when cast to double"
    if str in types and kind not in {Kind.STRING, Kind.BINARY}:
        return "Trino compares no texts with such a column"
    return ""


def _has_many_digits(value: Any) -> bool:
    return isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) > _EXACT_DIGITS


def _slack(predicate: Predicate, column_type: pa.DataType) -> Slack:
    """How far the literals may be from the values that Trino compares with."""
    kind = kind_of(column_type)
    if kind not in {Kind.DATE, Kind.TIMESTAMP} or predicate.op in _NULL_TESTS:
        return Slack.NONE
    times = [value for value in predicate.values if isinstance(value, dt.datetime)]
    if any(time.tzinfo is not None for time in times):
        return Slack.ZONE
    if any(time.microsecond % 1000 for time in times):
        return Slack.MILLISECOND
    return Slack.NONE


def _on_units(predicate: Predicate, column_type: Any) -> Predicate:
    """The predicate with its times truncated to values that the column can hold, without zones.

    A literal between two representable values equals none of them, but its rounded value may.
    """
    whole = kind_of(column_type) is Kind.DATE

    def moved(value: Any) -> Any:
        if not isinstance(value, dt.datetime):
            return value
        clock = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        if whole:
            return clock.date()
        return clock.replace(microsecond=0 if column_type.unit == "s" else clock.microsecond // 1000 * 1000)

    return replace(predicate, values=tuple(map(moved, predicate.values)))


def _stored(node: HudiExpression, stored: pa.DataType) -> HudiExpression:
    """The same predicate on the column's own type, which differs in the time zone only."""
    if not isinstance(node, Predicate) or node.column_type == stored:
        return node
    values: Any = node.values
    if pa.types.is_timestamp(stored) and len(values):
        values = values.view(stored)
    return Predicate(node.op, node.column, values, stored)
