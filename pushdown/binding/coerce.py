"""The place of a literal among the values of a column's type.

A comparison with a literal that the type cannot hold is neither an error nor rounded: it becomes a comparison with a
neighbouring value of the type. On a 32-bit integer column ``a = 1.5`` holds for no value, ``a < 1.5`` is ``a < 2``, and
every value is below ``9999999999``. Where engines cast the *column* (a number against text), its order is lost and the
comparison is unknown.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from pushdown.errors import LiteralTypeError
from pushdown.kinds import DOUBLE_DIGITS, UNITS_PER_SECOND, Domain, Kind, domain_of, kind_of
from pushdown.spark_types import MOST_DIGITS, decimal_for, decimal_of, spark_type
from pushdown.temporal import TextNotUnderstoodError, instant_fraction, parse_date, parse_timestamp, wall_clock

_EPOCH_DATE = dt.date(1970, 1, 1)
# Beyond this a Decimal's exponent is far outside every decimal type, and exact arithmetic would only burn memory.
_MAX_EXPONENT = 400
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?\Z", re.ASCII)


@dataclass(frozen=True)
class Point:
    """The literal equals this value of the column's type."""

    value: Any


@dataclass(frozen=True)
class Span:
    """The literal lies between neighbours in the column's domain.

    Attributes:
        first: the least number that is not below the literal; None when all are below.
        last: the greatest number that is not above it; None when all are above.
            ``first <= last`` when the engines see the numbers from first to last as equal to the literal (a 64-bit
            integer against a 64-bit float), ``first > last`` when the literal lies between two neighbours.
    """

    first: int | None
    last: int | None


@dataclass(frozen=True)
class Undecided:
    """Engines differ on this comparison, or cast the column."""

    reason: str


Place: TypeAlias = Point | Span | Undecided


def place(literal: Any, type_: pa.DataType, column: str, time_zone: str) -> Place:  # noqa: PLR0911
    """Where a literal other than None lies among the values of a column's type.

    Raises:
        LiteralTypeError: no engine compares such a literal with such a column.
    """
    kind = kind_of(type_)
    if kind is Kind.OTHER:
        return Undecided(f"{column} is of type {type_}, whose values are not compared")
    if kind is Kind.STRING:
        return _in_text(literal, column)
    if kind is Kind.BINARY:
        return _in_bytes(literal, column)
    if kind is Kind.BOOLEAN:
        return _in_booleans(literal, column)
    if kind is Kind.FLOAT:
        return _in_floats(literal, type_, column)
    if kind is Kind.DATE:
        return _in_dates(literal, column, time_zone)
    if kind is Kind.TIMESTAMP:
        return _in_timestamps(literal, type_, column, time_zone)
    return _in_numbers(literal, type_, column)


def _mismatch(literal: Any, column: str, kind: str) -> LiteralTypeError:
    return LiteralTypeError(
        f"{column} holds {kind}: it cannot be compared with {literal!r} ({type(literal).__name__}); "
        f"write the literal as {kind}"
    )


def _in_text(literal: Any, column: str) -> Place:
    if isinstance(literal, str):
        try:
            literal.encode()
        except UnicodeEncodeError:
            raise LiteralTypeError(f"{column}: the text {literal!r} is not valid Unicode") from None
        return Point(literal)
    if isinstance(literal, bytes):
        try:
            return Point(literal.decode())
        except UnicodeDecodeError:
            return Undecided(f"{column} holds text and is compared with bytes that are not UTF-8")
    # Engines cast the column, and the order of texts is not the order of what they spell.
    return Undecided(f"{column} holds text and is compared with the {type(literal).__name__} {literal!r}")


def _in_bytes(literal: Any, column: str) -> Place:
    if isinstance(literal, bytes | bytearray | memoryview):
        return Point(bytes(literal))
    if isinstance(literal, str):
        return Point(literal.encode("utf-8", "surrogatepass"))
    raise _mismatch(literal, column, "binary")


def _in_booleans(literal: Any, column: str) -> Place:
    if isinstance(literal, bool):
        return Point(literal)
    if isinstance(literal, str) and literal.lower() in {"true", "false"}:
        return Point(literal.lower() == "true")
    if isinstance(literal, str | int | float | decimal.Decimal):
        return Undecided(f"{column} holds booleans and is compared with {literal!r}")
    raise _mismatch(literal, column, "booleans")


def _in_floats(literal: Any, type_: pa.DataType, column: str) -> Place:
    if isinstance(literal, str) and pa.types.is_float32(type_):
        # Some engines read the text as a 64-bit float, others as a 32-bit one.
        return Undecided(f"{column} holds 32-bit floats and is compared with the text {literal!r}")
    number = _number(literal, column, "numbers")
    if isinstance(number, Undecided):
        return number
    try:
        value = float(number)
    except OverflowError:
        return Undecided(f"{column}: {literal!r} is beyond the range of a double")
    if math.isinf(value) and not (isinstance(number, float) and math.isinf(number)):
        return Undecided(f"{column}: {literal!r} is beyond the range of a double")
    # One zero: Spark and Trino do not distinguish -0.0 from 0.0, and the evaluator allows for engines that do.
    return Point(value + 0.0)


def _number(literal: Any, column: str, kind: str) -> Any:
    if isinstance(literal, bool):
        return Undecided(f"{column} holds {kind} and is compared with {literal!r}")
    if isinstance(literal, int | float | decimal.Decimal):
        if isinstance(literal, decimal.Decimal) and not literal.is_finite():
            return float(literal)
        return literal
    if isinstance(literal, str):
        return _number_from_text(literal, column)
    raise _mismatch(literal, column, kind)


def _number_from_text(text: str, column: str) -> Any:
    undecided = Undecided(f"{column} holds numbers and is compared with the text {text!r}")
    stripped = text.strip(" ")
    if not _PLAIN_NUMBER.match(stripped) or len(stripped) > DOUBLE_DIGITS:
        return undecided
    return decimal.Decimal(stripped) if "." in stripped else int(stripped)


def _in_numbers(literal: Any, type_: pa.DataType, column: str) -> Place:
    domain = domain_of(type_)
    number = _number(literal, column, "numbers")
    if isinstance(number, Undecided):
        return number
    if isinstance(literal, str) and (
        not isinstance(number, int) or (pa.types.is_decimal(type_) and len(str(domain.last)) > DOUBLE_DIGITS)
    ):
        # Engines cast the text to the column's type, or both to double, each with its own rounding.
        return Undecided(f"{column} is of type {type_} and is compared with the text {literal!r}")
    if isinstance(number, float):
        return float_in_numbers(number, domain, column)
    if rounds_beside([number], type_):
        return Undecided(f"{column} is of type {type_}, which engines round beside {literal!r}")
    return exact_in_numbers(number, domain)


def rounds_beside(literals: Iterable[Any], type_: pa.DataType) -> bool:
    """Whether 38 digits are too few to compare an integer or decimal type with these numbers exactly.

    Spark rounds both sides then, other engines round, stop or give null.
    """
    own = spark_type(type_)
    if own is None or kind_of(own) not in {Kind.INTEGER, Kind.DECIMAL}:
        return False
    numbers = [decimal.Decimal(value) for value in literals if type(value) in {int, decimal.Decimal}]
    described: list[Any] = [type_ for type_ in map(decimal_of, numbers) if type_ is not None]
    if kind_of(own) is Kind.INTEGER and not any(one.scale for one in described):
        return False
    described.append(decimal_for(own))
    digits: int = max(one.scale for one in described) + max(one.precision - one.scale for one in described)
    return digits > MOST_DIGITS


def exact_in_numbers(number: int | decimal.Decimal, domain: Domain) -> Span:
    """The place of a number among the numbers of a domain."""
    if isinstance(number, decimal.Decimal) and number and abs(number.adjusted()) > _MAX_EXPONENT:
        if number.adjusted() < 0:
            # Next to zero, on one side of it.
            return Span(1, 0) if number > 0 else Span(0, -1)
        return Span(None, domain.last) if number > 0 else Span(domain.first, None)
    scaled = Fraction(number) * 10**domain.scale
    return clipped(math.ceil(scaled), math.floor(scaled), domain)


def float_in_numbers(number: float, domain: Domain, column: str) -> Place:
    """The numbers whose doubles are not less, and not more, than this one; engines cast the column to double."""
    if math.isnan(number):
        return Undecided(f"{column} has no NaN; engines order NaN differently")
    if math.isinf(number):
        return Span(None, domain.last) if number > 0 else Span(domain.first, None)
    unit = 10**domain.scale
    below = _midpoint(number, -math.inf) * unit
    above = _midpoint(number, math.inf) * unit
    first, last = math.ceil(below), math.floor(above)
    # The midpoints themselves round to the neighbour with an even last digit, which may be the other one.
    if first / unit < number:
        first += 1
    if last / unit > number:
        last -= 1
    return clipped(first, last, domain)


def _midpoint(number: float, towards: float) -> Fraction:
    neighbour = math.nextafter(number, towards)
    if math.isinf(neighbour):
        return Fraction(number)
    return (Fraction(number) + Fraction(neighbour)) / 2


def clipped(first: int, last: int, domain: Domain) -> Span:
    """A span of two numbers that may lie outside the domain."""
    if first > domain.last:
        return Span(None, domain.last)
    if last < domain.first:
        return Span(domain.first, None)
    return Span(max(first, domain.first), min(last, domain.last))


def _in_dates(literal: Any, column: str, time_zone: str) -> Place:
    if isinstance(literal, str):
        try:
            literal = parse_date(literal)
        except TextNotUnderstoodError as error:
            return Undecided(f"{column} holds dates and is compared with the text {literal!r}: {error}")
    if isinstance(literal, dt.datetime):
        # A date is the midnight that starts it, on the session's clock.
        clock = wall_clock(literal, time_zone)
        day = (clock.date() - _EPOCH_DATE).days
        return Span(day + (clock.time() != dt.time.min), day)
    if isinstance(literal, dt.date):
        day = (literal - _EPOCH_DATE).days
        return Span(day, day)
    raise _mismatch(literal, column, "dates")


def _in_timestamps(literal: Any, type_: pa.DataType, column: str, time_zone: str) -> Place:
    described: Any = type_
    if isinstance(literal, str):
        try:
            literal = parse_timestamp(literal)
        except TextNotUnderstoodError as error:
            return Undecided(f"{column} holds timestamps and is compared with the text {literal!r}: {error}")
    if not isinstance(literal, dt.date):
        raise _mismatch(literal, column, "timestamps")
    if not isinstance(literal, dt.datetime):
        literal = dt.datetime.combine(literal, dt.time.min)
    if described.tz is None:
        if literal.tzinfo is not None and time_zone.upper() not in {"UTC", "GMT", "Z", "ETC/UTC"}:
            # The column's clock times map to instants out of order where clocks are changed.
            return Undecided(f"{column} has no time zone and is compared with an instant")
        literal = wall_clock(literal, time_zone)
        seconds = instant_fraction(literal, "UTC")
    else:
        seconds = instant_fraction(literal, time_zone)
    scaled = seconds * UNITS_PER_SECOND[described.unit]
    return clipped(math.ceil(scaled), math.floor(scaled), domain_of(type_))
