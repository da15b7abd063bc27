"""SQL literals as Python values, with the types that Spark's SQL gives them."""

from __future__ import annotations

import decimal
import math
import re
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from pushdown.binding.casts import can_cast, cast_values
from pushdown.kinds import Kind, kind_of
from pushdown.spark_types import CLOCK, INSTANT, MOST_DIGITS, Typed, literal_sql_type
from pushdown.temporal import TextNotUnderstoodError, parse_date, parse_timestamp

NOT_A_LITERAL: Final[Any] = object()
FOLDED: Final = "folded"
"""Key in the `meta` of a cast that stands for a folded expression of its type."""
_Type = exp.DataType.Type
_INTEGERS = {_Type.TINYINT: 8, _Type.SMALLINT: 16, _Type.INT: 32, _Type.BIGINT: 64}
_TIMESTAMPS = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ})
_TEXTS = frozenset({_Type.TEXT, _Type.VARCHAR})
_SPECIAL_FLOATS = {
    "nan": math.nan,
    "infinity": math.inf,
    "inf": math.inf,
    "+infinity": math.inf,
    "+inf": math.inf,
    "-infinity": -math.inf,
    "-inf": -math.inf,
}

_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+\Z", re.ASCII)
_TYPES: dict[Any, pa.DataType] = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIMESTAMP: INSTANT,
    _Type.TIMESTAMPTZ: INSTANT,
    _Type.TIMESTAMPLTZ: INSTANT,
    _Type.TIMESTAMPNTZ: CLOCK,
}
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})


def literal_value(node: Any) -> Any:  # noqa: PLR0911
    """The value of a literal: None for NULL, `NOT_A_LITERAL` for anything that is not one.

    ``1.5`` is a decimal, ``1e0`` a double. Casts of literals are carried out where every engine gives the same value.
    """
    if isinstance(node, exp.Paren):
        return literal_value(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        return _negative(literal_value(node.this))
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else _or_none(number_value(node.this))
    if isinstance(node, exp.RawString):
        return node.this
    if isinstance(node, exp.HexString):
        return _hex_value(node)
    if isinstance(node, exp.Concat):
        return _concatenated(node)
    if isinstance(node, exp.Cast):
        return _cast(node)
    return NOT_A_LITERAL


def number_value(text: str) -> Any:
    """A number as int, Decimal (with a point) or float (with an exponent); None for anything else."""
    if _INTEGER.match(text):
        return int(text) if len(text) < 4000 else None  # Python limits the digits of an int
    if not _FLOAT.match(text):
        return None
    if "e" in text.lower():
        value = float(text)
        return value if math.isfinite(value) else None
    return decimal.Decimal(text)


def _or_none(number: Any) -> Any:
    return NOT_A_LITERAL if number is None else number


def _negative(value: Any) -> Any:
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float | decimal.Decimal):
        return NOT_A_LITERAL
    bits = [value.type.bit_width] if isinstance(value, Typed) else [32, 64]
    if isinstance(plain, int) and any(plain == -(2 ** (one - 1)) for one in bits):
        return NOT_A_LITERAL  # its type has no such number: engines stop, or wrap, or take a wider type
    # Of a Decimal, unary minus would round to the context's precision.
    negated = plain.copy_negate() if isinstance(plain, decimal.Decimal) else -plain
    return replace(value, value=negated) if isinstance(value, Typed) else negated


def _hex_value(node: Any) -> Any:
    text = str(node.this)
    if node.args.get("is_integer") or not re.fullmatch("[0-9a-fA-F]*", text):
        return NOT_A_LITERAL
    return bytes.fromhex(text.rjust(len(text) + len(text) % 2, "0"))


def _concatenated(node: Any) -> Any:
    parts = [literal_value(part) for part in node.expressions]
    return "".join(parts) if all(isinstance(part, str) for part in parts) else NOT_A_LITERAL


def _cast(node: Any) -> Any:  # noqa: C901, PLR0911 - one line a type
    value, to = literal_value(node.this), node.to
    if value is NOT_A_LITERAL or node.args.get("format"):
        return NOT_A_LITERAL
    if value is None:
        return None
    target = to.this
    if target in _INTEGERS:
        return _to_integer(value, _INTEGERS[target])
    if target in {_Type.DOUBLE, _Type.FLOAT}:
        return _to_float(value, single=target is _Type.FLOAT)
    if target is _Type.DECIMAL:
        return _to_decimal(value, [int(param.name) for param in to.expressions])
    if target is _Type.DATE and isinstance(value, str):
        return _temporal(parse_date, value)
    if target in _TIMESTAMPS and isinstance(value, str):
        return _temporal(parse_timestamp, value)
    if target is _Type.TIMESTAMPNTZ and isinstance(value, str):
        moment = _temporal(parse_timestamp, value)
        return NOT_A_LITERAL if getattr(moment, "tzinfo", None) is not None else moment
    if target in _TEXTS and not to.expressions and isinstance(value, str):
        return value
    if target is _Type.BOOLEAN and isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return NOT_A_LITERAL


def _temporal(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except TextNotUnderstoodError:
        return NOT_A_LITERAL


def _to_integer(value: Any, bits: int) -> Any:
    if isinstance(value, str) and _INTEGER.match(value) and len(value) < 40:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return NOT_A_LITERAL
    return value


def _to_float(value: Any, *, single: bool) -> Any:
    if isinstance(value, str):
        special = _SPECIAL_FLOATS.get(value.lower())
        if special is not None:
            return special
        if not _FLOAT.match(value):
            return NOT_A_LITERAL
    elif isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return NOT_A_LITERAL
    try:
        number = float(value)
        with np.errstate(over="ignore"):
            number = float(np.float32(number)) if single else number
    except OverflowError:
        return NOT_A_LITERAL
    return NOT_A_LITERAL if math.isinf(number) and value not in {math.inf, -math.inf} else number


def _to_decimal(value: Any, parameters: list[int]) -> Any:
    """The value, if the type holds it without rounding."""
    precision, scale = [*parameters, 0][:2] if parameters else (10, 0)
    if isinstance(value, str) and _FLOAT.match(value) and "e" not in value.lower():
        value = decimal.Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return NOT_A_LITERAL
    number = decimal.Decimal(value)
    digits = number.as_tuple()
    if not isinstance(digits.exponent, int) or -digits.exponent > scale or number.adjusted() >= precision - scale:
        return NOT_A_LITERAL
    return number


def spark_type_of(node: Any) -> pa.DataType | None:
    """The type of a type name in Spark's SQL; None for nested and unknown ones."""
    if node.this is not _Type.DECIMAL:
        return None if node.expressions else _TYPES.get(node.this)
    parameters = [literal_value(parameter.this) for parameter in node.expressions] or [10]
    if len(parameters) > 2 or not all(type(parameter) is int for parameter in parameters):
        return None
    precision, scale = [*parameters, 0][:2]
    return pa.decimal128(precision, scale) if 0 <= scale <= precision <= MOST_DIGITS and precision else None


def spark_literal(node: Any, *, suffixes: bool = False) -> Any:  # noqa: PLR0911
    """The value of a literal, as `Typed` if a cast or a suffix gives it another type than its value's default.

    None for NULL, `NOT_A_LITERAL` for anything that is not one.

    Args:
        node: of sqlglot's tree, in which a suffix is a cast.
        suffixes: whether the text has no casts of its own, so that all are suffixes.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and suffixes and _has_suffix(node.this):
        node = node.this.copy()
        node.set("this", exp.Neg(this=node.this))  # the sign is the literal's: -128Y is a TINYINT, -(128Y) an error
    if isinstance(node, exp.Neg):
        return _negative(spark_literal(node.this, suffixes=suffixes))
    if not isinstance(node, exp.Cast):
        return literal_value(node)
    target = spark_type_of(node.to)
    value = spark_literal(node.this)
    if value is NOT_A_LITERAL or node.args.get("format") or target is None or node.args.get("safe"):
        return NOT_A_LITERAL if value is not None or target is None else None
    if value is None:
        return None
    plain = literal_value(node)
    same = plain is not NOT_A_LITERAL and plain is not None and literal_sql_type(plain) == target
    if same and isinstance(plain, int) and FOLDED in node.meta:
        return Typed(plain, target)  # beside a decimal an expression counts with all digits of its type
    if same:
        return plain
    made = _typed_cast(value, target)
    suffixes = suffixes and FOLDED not in node.meta
    whole = isinstance(made, Typed) and kind_of(made.type) is Kind.INTEGER
    return replace(made, written=suffixes) if whole else made


def _has_suffix(node: Any) -> bool:
    """Whether a node of a text without casts is a whole number with a suffix."""
    whole = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.to.this in _INTEGERS
    return whole and FOLDED not in node.meta


def _typed_cast(value: Any, target: pa.DataType) -> Any:
    """A literal in another type; a text is parsed when the filter is bound, with the session's time zone."""
    source = literal_sql_type(value)
    plain = value.value if isinstance(value, Typed) else value
    if source == target or (isinstance(plain, str) and source == pa.string()):
        return plain if source == target == pa.string() else Typed(plain, target)
    if source is None or isinstance(plain, str) or kind_of(source) in _TIMES or kind_of(target) in _TIMES:
        return NOT_A_LITERAL
    if not can_cast(source, target):
        return NOT_A_LITERAL
    made, failed = cast_values(pa.array([plain], source), target, "UTC")
    if failed.any():
        # A cast on which Spark fails is reported when the filter is bound.
        return Typed(str(plain), target) if kind_of(source) is not Kind.FLOAT else NOT_A_LITERAL
    result = made[0].as_py()
    return result if literal_sql_type(result) == target else Typed(result, target)
