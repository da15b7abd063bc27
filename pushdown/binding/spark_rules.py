"""Comparisons bound as Spark evaluates them, with its casts of the column and of the literals.

Where a cast keeps the order of values, the comparison becomes one of the column itself, which statistics can decide.
Otherwise, as for a text that is compared as a number, it becomes a `RowTest`, which only rows decide.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pushdown.binding.cast_texts import is_canonical, read_decimal
from pushdown.binding.casts import WIDE, can_cast, cast_values, numbers_of
from pushdown.binding.coerce import Place, Point, Span, exact_in_numbers, float_in_numbers, place
from pushdown.binding.comparisons import Comparisons
from pushdown.binding.function_places import result_type, spans_through
from pushdown.clocks import DAY, AmbiguousClockError, zone_clocks
from pushdown.columns import ResolvedColumn
from pushdown.expression import Constant, HudiExpression, Not, Op, Predicate, RowTest, Unknown, all_of, any_of, negation
from pushdown.functions import Function, cast, type_sql
from pushdown.kinds import GREATEST_LONG, LEAST_LONG, Kind, domain_of, kind_of, literal_type
from pushdown.spark_types import (
    CLOCK,
    INSTANT,
    LIST_SIZE,
    Typed,
    common_type,
    common_type_of,
    decimal_for,
    decimal_of,
    exact_as_single,
    literal_sql_type,
    spark_type,
    wider_decimal,
)
from pushdown.temporal import instant_fraction
from pushdown.text import literal_sql

_CASTS = frozenset({"cast", "try_cast"})
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_EXACT_KINDS = frozenset({Kind.INTEGER, Kind.DECIMAL})
_MICROS = 1_000_000


class _RefusedError(ValueError):
    """A comparison that Spark refuses, or that is not understood; the message is the reason."""


def opposite(positive: HudiExpression, op: Op) -> HudiExpression:
    """A bound comparison with the negated operator."""
    if isinstance(positive, Predicate | RowTest) and positive.op is op.negated:
        return positive.replaced(op)
    return Not(positive)


def bind_as_spark(predicate: Predicate, column: ResolvedColumn, time_zone: str) -> HudiExpression:
    """Bind a predicate on a column whose type Spark has, as `pushdown.binding.bind` would.

    Raises:
        LiteralTypeError: a literal that cannot be compared with the column.
    """
    if predicate.op.is_negative:
        return opposite(bind_as_spark(predicate.replaced(predicate.op.negated), column, time_zone), predicate.op)
    try:
        return _Spark(column, predicate.function, time_zone).bound(predicate.op, list(predicate.values))
    except _RefusedError as error:
        return Unknown(str(error))


class _Spark(Comparisons):
    """Spark's comparisons of a column, or of a function of it."""

    def __init__(self, column: ResolvedColumn, function: Function | None, time_zone: str) -> None:
        super().__init__(column)
        self._column = column
        own: Any = spark_type(column.type)
        self.own: pa.DataType = own
        self.time_zone = time_zone
        self.function = function
        self.result = self._result_type(own)

    def _result_type(self, own: pa.DataType) -> pa.DataType:
        """The type of the compared column or function in Spark."""
        if self.function is None:
            return own
        understood = result_type(self.function, self.type, self.time_zone)
        if understood is not None:
            return spark_type(understood) or understood
        type_ = own
        for step in reversed(list(self.function.chain())):
            if step.name in _CASTS:
                self._check_cast(type_, step.arguments[0])
            else:
                raise _RefusedError(f"{self._shown()} is not understood for a column of type {self.type}")
            type_ = step.arguments[0]
        return type_

    def _check_cast(self, source: pa.DataType, target: pa.DataType) -> None:
        if can_cast(source, target):
            return
        if kind_of(source) is Kind.FLOAT and kind_of(target) in {Kind.STRING, Kind.DECIMAL}:
            raise _RefusedError(
                f"{self._shown()} is a float, whose digits releases of Java write differently: compare it as a number"
            )
        raise _RefusedError(
            f"{self._shown()}: a cast of {type_sql(source)} to {type_sql(target)} is left to Spark; compare the column "
            "itself"
        )

    def _shown(self) -> str:
        text = self.name
        for step in reversed(list(self.function.chain())) if self.function is not None else ():
            text = f"{step.name}({text})"
        return text

    def bound(self, op: Op, values: list[Any]) -> HudiExpression:
        """The predicate with this operator, which is not a negative one."""
        values = [self._resolved(value) for value in values]
        if op in {Op.IS_NULL, Op.NOT_NULL}:
            return self._null_test(op)
        if op is Op.IN:
            return self._in(values)
        value = values[0]
        if value is None:
            return self._null_test(Op.IS_NULL) if op is Op.NULL_SAFE_EQ else Constant(value=None)
        if op in {Op.LIKE, Op.STARTS_WITH}:
            return self._text_match(op, value)
        if op is Op.NULL_SAFE_EQ:
            return self._null_safe(value)
        return self._compared(op, value)

    def _resolved(self, value: Any) -> Any:
        """Parse a literal whose text denotes a value of another type."""
        if not isinstance(value, Typed) or not isinstance(value.value, str) or pa.types.is_string(value.type):
            return value
        scalar = self._cast([value.value], pa.string(), value.type)[0]
        return Typed(scalar if kind_of(value.type) in {Kind.DATE, Kind.TIMESTAMP} else scalar.as_py(), value.type)

    def _null_test(self, op: Op) -> HudiExpression:
        if self.function is None or result_type(self.function, self.type, self.time_zone) is not None:
            return self.null_test(op)
        nothing: Any = pa.array([], self.result)
        return self._row_test(op, self.function, nothing)

    def _null_safe(self, value: Any) -> HudiExpression:
        equal = self._compared(Op.EQ, value)
        if isinstance(value, str) and not isinstance(equal, Predicate | RowTest | Unknown):
            # Without ANSI mode Spark takes a text beyond the column's type for null: no plan rests on it.
            target = self._target(value, pa.string())
            function = self._function_to(target) or cast(self.own)
            return self._row_test(Op.NULL_SAFE_EQ, function, self._literals([value], target))
        return self.null_safe(equal)

    def _text_match(self, op: Op, pattern: Any) -> HudiExpression:
        if self.function is None and pa.types.is_string(self.own):
            return self.text_match(op, pattern)
        text = pa.string()
        if not isinstance(pattern, str):
            return Unknown(f"{self._shown()} is of type {self.result}: {op.value} is for text")
        casts = self._function_to(text)
        if casts is None or not _only_casts(casts):
            return Unknown(f"{self._shown()} {op.value} is not understood")
        return self._row_test(op, casts, pa.array([pattern], text))

    def _compared(self, op: Op, value: Any) -> HudiExpression:
        if literal_sql_type(value) is None and self.function is None:
            # No engine has a type for it, which numbers of too many digits get past: they are beyond all values.
            return self.compare(op, place(value, self.type, self.name, self.time_zone))
        type_ = self._type_of(value)
        if kind_of(self.result) is Kind.INTEGER and pa.types.is_decimal(type_) and op in _RANGES:
            return self._integer_beside_decimal(op, value, type_)
        target = self._target(value, type_)
        literal = self._literals([value], target)
        function = self._function_to(target)
        rounded = self._read_otherwise(value) or self._beside_single([value], literal)
        places = None if rounded else self._places(literal, function)
        return self._row_test(op, function, literal) if places is None else self.compare(op, places[0])

    def _integer_beside_decimal(self, op: Op, value: Any, type_: pa.DataType) -> HudiExpression:
        """Spark compares with the nearest integer; beyond all integers it answers for null rows, too.

        There rows get standard SQL's null, while no plan rests on it.
        """
        number = decimal.Decimal(_plain(value))
        target = wider_decimal(decimal_for(self.result), type_)
        if isinstance(value, Typed) and _scale(target) < _scale(type_):
            raise _RefusedError(
                f"{self._shown()} is rounded beside {literal_sql(value)}: write a decimal without a cast"
            )
        if LEAST_LONG <= number <= GREATEST_LONG:
            spans = self._through([exact_in_numbers(number, domain_of(self.result))], self.function)
            if spans is not None:
                return self.compare(op, spans[0])
        function = self._function_to(target)
        if function is not None and _only_casts(function):
            return self._row_test(op, function, self._literals([value], target))
        null = RowTest(Op.EQ, self.name, self.type, cast(self.own), pa.array([None], self.own), self.time_zone)
        if (op in {Op.LT, Op.LE}) is (number > 0):
            return any_of(self.not_null(), null)
        return all_of(self.null_test(Op.IS_NULL), null)

    def _in(self, values: list[Any]) -> HudiExpression:
        present = [value for value in values if value is not None]
        has_null = len(present) < len(values)
        if not present:
            return Constant(value=None if has_null else False)
        target = common_type_of([self.result, *(type_ for type_, _ in groupby(map(self._type_of, present)))])
        if target is None:
            place(present[0], self.type, self.name, self.time_zone)  # refuses what fits no engine
            raise _RefusedError(
                f"Spark does not compare {self._shown()} of type {type_sql(self.result)} with this list"
            )
        members = self._literals(present, target)
        listed = self._listed(present, members, self._function_to(target), has_null=has_null)
        if not has_null or kind_of(target) is not Kind.FLOAT or not self._is_set(members.unique(), target):
            return listed
        # Spark looks longer lists up in a set, where NaN is found missing in spite of the null.
        nan = pa.array([math.nan], target)
        function, places = self._function_to(target), self._places(nan, self._function_to(target))
        equal = self._row_test(Op.EQ, function, nan) if places is None else self.compare(Op.EQ, places[0])
        return all_of(listed, negation(equal))

    def _is_set(self, distinct: Any, target: pa.DataType) -> bool:
        """Whether Spark evaluates a list of floats with a null as a set without NaN."""
        if len(distinct) < LIST_SIZE or _has_nan(distinct):
            return False
        if pa.types.is_float32(self.result) and pa.types.is_float64(target):
            # It may leave out of the list what no 32-bit float is equal to.
            numbers = distinct.to_numpy(zero_copy_only=False)
            with np.errstate(over="ignore"):
                singles = numbers.astype(np.float32) == numbers
            if singles.sum() < LIST_SIZE:
                raise _RefusedError(
                    f"{self._shown()} is compared with a list of more than ten numbers and NULL, among which Spark "
                    "takes NaN in two ways: leave NULL out"
                )
        return True

    def _listed(self, present: list[Any], members: Any, function: Function | None, *, has_null: bool) -> HudiExpression:
        if self._listed_as_texts(present):
            # Without ANSI mode Spark compares the column's spelling with such a list: no plan rests on it.
            return self._row_test(Op.IN, function or cast(self.own), _with_null(members, has_null=has_null))
        if function is None:
            return self.in_set(members.cast(literal_type(self.type)), has_null=has_null)
        places = None if self._beside_single(present, members) else self._places(members.unique(), function)
        if places is None:
            return self._row_test(Op.IN, function, _with_null(members, has_null=has_null))
        return self.among(places, has_null=has_null)

    def _listed_as_texts(self, members: list[Any]) -> bool:
        """Whether comparing the column's text with a list that has texts selects other rows."""
        if not any(isinstance(member, str) for member in members):
            return False
        kind = kind_of(self.result)
        return not all(
            is_canonical(member, self.result) if isinstance(member, str) else kind_of(self._type_of(member)) is kind
            for member in members
        )

    def _read_otherwise(self, value: Any) -> bool:
        """Whether Spark without ANSI mode rounds a text beside a decimal column to the column's type."""
        if not isinstance(value, str) or not pa.types.is_decimal(self.result):
            return False
        try:
            number = read_decimal(value)
        except ValueError:
            return True
        return number != number.quantize(decimal.Decimal((0, (1,), -_scale(self.result))), context=WIDE)

    def _beside_single(self, values: list[Any], literals: Any) -> bool:
        """Whether Spark without ANSI mode compares an integer as a 32-bit float, where that selects other rows.

        Args:
            values: what the integer is compared with.
            literals: the same as doubles, to which ANSI mode casts it.
        """
        if kind_of(self.result) is not Kind.INTEGER or all(self._type_of(value) != pa.float32() for value in values):
            return False
        return not exact_as_single(Kind.INTEGER, literals.to_pylist())

    def _type_of(self, value: Any) -> pa.DataType:
        type_ = literal_sql_type(value)
        if type_ is None:
            place(value, self.type, self.name, self.time_zone)  # refuses what fits no engine
            raise _RefusedError(f"{self._shown()} is compared with {literal_sql(value)}, for which Spark has no type")
        return type_

    def _target(self, value: Any, type_: pa.DataType) -> pa.DataType:
        """The common type of the column and one literal."""
        if pa.types.is_decimal(self.result) and kind_of(type_) is Kind.INTEGER:
            own: Any = self.result
            # Beside a decimal a whole number counts with its own digits; a cast of one with all of its type.
            short: Any = decimal_of(decimal.Decimal(_plain(value)))
            as_literal, as_cast = wider_decimal(own, short), wider_decimal(own, decimal_for(type_))
            if isinstance(value, Typed) and not value.written and as_literal != as_cast and _scale(as_cast) < own.scale:
                raise _RefusedError(
                    f"{self._shown()} of type {own} is rounded beside {literal_sql(value)}: write a decimal"
                )
            return as_literal
        target = common_type(self.result, type_)
        if target is None:
            place(_plain(value), self.type, self.name, self.time_zone)  # refuses what fits no engine
            raise _RefusedError(
                f"Spark does not compare {self._shown()} of type {type_sql(self.result)} with {literal_sql(value)}"
            )
        return target

    def _literals(self, values: list[Any], target: pa.DataType) -> Any:
        """Literals as an array of the type to which Spark casts them."""
        by_type: dict[pa.DataType, list[Any]] = {}
        for value in values:
            type_ = self._type_of(value)
            by_type.setdefault(type_, []).append(_plain(value))
        return pa.concat_arrays([self._cast(some, type_, target) for type_, some in by_type.items()])

    def _cast(self, values: list[Any], type_: pa.DataType, target: pa.DataType) -> Any:
        array = self._array(values, type_)
        if not can_cast(type_, target):
            raise _RefusedError(
                f"{literal_sql(values[0])} beside {self._shown()}: the cast to {type_sql(target)} is left to Spark"
            )
        made, failed = cast_values(array, target, self.time_zone)
        if failed.any():
            value = values[int(failed.argmax())]
            raise _RefusedError(
                f"{self._shown()} is compared as {type_sql(target)}, which {literal_sql(value)} is not: Spark stops at "
                "it, too"
            )
        return made

    def _array(self, values: list[Any], type_: pa.DataType) -> Any:
        if any(isinstance(value, pa.Scalar) for value in values):
            each = [_one(value) if isinstance(value, pa.Scalar) else self._array([value], type_) for value in values]
            return pa.concat_arrays(each)
        if type_ == INSTANT:
            micros = [int(instant_fraction(value, self.time_zone) * _MICROS) for value in values]
            return pa.array(micros, pa.int64()).cast(type_)
        try:
            if kind_of(type_) is Kind.DECIMAL:
                values = [decimal.Decimal(value) for value in values]
            return pa.array(values, type_)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            place(values[0], self.type, self.name, self.time_zone)  # refuses what is not Unicode
            raise _RefusedError(f"{self._shown()} is compared with {literal_sql(values[0])}: {error}") from None

    def _function_to(self, target: pa.DataType) -> Function | None:
        """The function that gives the column's values in that type; None for the column itself."""
        function = self.function
        if function is None and self.type != self.own and self.kind is Kind.TIMESTAMP:
            function = cast(self.own)
        if target == self.result:
            return function
        self._check_cast(self.result, target)
        if function is not None and pa.types.is_float64(target) and function.arguments == (pa.float32(),):
            # Spark's optimizer takes an integer's cast to a float and then to a double for one to a double.
            argument = function.inner
            if kind_of(_Spark(self._column, argument, self.time_zone).result) is Kind.INTEGER:
                function = argument
        return cast(target).of(function)

    def _places(self, values: Any, function: Function | None) -> list[Place] | None:
        """Where values lie among the column's, through the function; None if it changes the order."""
        kind = kind_of(values.type)
        if kind in _EXACT_KINDS or kind in {Kind.DATE, Kind.TIMESTAMP}:
            return self._through([Span(number, number) for number in numbers_of(values)], function)
        find = self._place_of_float if kind is Kind.FLOAT else self._place_of_value
        places = [find(value, function) for value in values.to_pylist()]
        known = [at for at in places if at is not None]
        return known if len(known) == len(places) else None

    def _through(self, spans: list[Span], function: Function | None) -> list[Place] | None:
        if function is None:
            return [*spans]
        unclear = _RefusedError(
            f"{self._shown()}: clocks are changed in {self.time_zone} at the time that it is compared with; compare "
            "the column itself with an instant such as TIMESTAMP '2020-11-01 01:30:00Z'"
        )
        try:
            mapped = spans_through(_with_rounding(function, self.own), spans, self.type, self.time_zone)
        except AmbiguousClockError:
            raise unclear from None
        last: Any = function.arguments[0] if function.name in _CASTS else None
        if mapped is None and last in {CLOCK, INSTANT}:
            # Spark may cast the literal instead, which is another comparison where clocks are changed.
            zone = zone_clocks(self.time_zone)
            seconds = [(span.first or 0) // _MICROS for span in spans]
            if any(zone.offset(second - 2 * DAY) != zone.offset(second + 2 * DAY) for second in seconds):
                raise unclear
        return None if mapped is None else [*mapped]

    def _place_of_float(self, value: float, function: Function | None) -> Place | None:
        if function is None or (self.kind is Kind.FLOAT and function == cast(pa.float64())):
            # One zero, as in `place`.
            return Point(value + 0.0)
        if function.name in _CASTS and function.inner is None and pa.types.is_float64(function.arguments[0]):
            domain = domain_of(self.type) if self.kind in _EXACT_KINDS else None
            if domain is not None:
                # NaN is above all numbers.
                return Span(None, domain.last) if value != value else float_in_numbers(value, domain, self.name)  # noqa: PLR0124
        return None

    def _place_of_value(self, value: Any, function: Function | None) -> Place | None:
        """The place of a text, bytes or a truth value; bytes compare with texts by the texts' bytes."""
        if function is None:
            return Point(value)
        if self.kind is Kind.STRING and isinstance(value, bytes) and function == cast(pa.binary()):
            try:
                return Point(value.decode())
            except UnicodeDecodeError:
                return None
        return None

    def _row_test(self, op: Op, function: Function | None, values: Any) -> HudiExpression:
        if function is None or not _only_casts(function):
            raise _RefusedError(f"{self._shown()} is compared in a way that is left to Spark")
        return RowTest(op, self.name, self.type, function, values, self.time_zone)


def _only_casts(function: Function) -> bool:
    return all(step.name in _CASTS for step in function.chain())


def _has_nan(numbers: Any) -> bool:
    return any(math.isnan(number) for number in numbers.to_pylist())


def _with_null(members: Any, *, has_null: bool) -> Any:
    return pa.concat_arrays([members, pa.nulls(1, members.type)]) if has_null else members


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Typed) else value


def _scale(type_: Any) -> int:
    return int(type_.scale)


def _one(scalar: Any) -> Any:
    """A scalar as an array; its value may be one that Python cannot hold."""
    return pa.repeat(scalar, 1)


def _with_rounding(function: Function, own: pa.DataType) -> Function:
    """Casts of decimals to fewer decimal places as the function `rounded`."""
    chain = list(function.chain())
    source: Any = own
    made: Function | None = None
    for step in reversed(chain):
        to: Any = step.arguments[0] if step.name in _CASTS else None
        shorter = _is_decimal(source) and _is_decimal(to) and to.scale < source.scale
        made = replace(step, name="rounded" if shorter else step.name, inner=None).of(made)
        source = to
    return function if made is None else made


def _is_decimal(type_: Any) -> bool:
    return isinstance(type_, pa.DataType) and pa.types.is_decimal(type_)
