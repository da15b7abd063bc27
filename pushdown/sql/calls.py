"""Calls of functions and arithmetic that statistics narrow, as parsed by sqlglot: what is applied, and to what."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from pushdown.functions import HIVES_GREATEST_DIVISOR, Function
from pushdown.spark_types import SPARK, Typed
from pushdown.sql.literal import NOT_A_LITERAL, literal_value, spark_literal

TRINO = frozenset({"trino", "presto"})
# Functions from the outermost inward, and the node that they are applied to.
Applied: TypeAlias = "tuple[list[Function], Any]"

# By class: the function's name, and the keys of the literals after its first argument, `this`.
_CALLS: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ()),
    exp.Ascii: ("ascii", ()),
    exp.Day: ("day", ()),
    exp.DayOfMonth: ("day", ()),
    exp.DayOfYear: ("dayofyear", ()),
    exp.Exp: ("exp", ()),
    exp.Hour: ("hour", ()),
    exp.LastDay: ("last_day", ()),
    exp.Length: ("length", ()),
    exp.Lower: ("lower", ()),
    exp.MD5: ("md5", ()),
    exp.Minute: ("minute", ()),
    exp.Month: ("month", ()),
    exp.Neg: ("negative", ()),
    exp.Quarter: ("quarter", ()),
    exp.Replace: ("replace", ("expression", "replacement")),
    exp.Reverse: ("reverse", ()),
    exp.Right: ("right", ("expression",)),
    exp.Round: ("round", ("decimals",)),
    exp.Second: ("second", ()),
    exp.Sign: ("sign", ()),
    exp.Soundex: ("soundex", ()),
    exp.Sqrt: ("sqrt", ()),
    exp.StrPosition: ("instr", ("substr",)),
    exp.Substring: ("substring", ("start", "length")),
    exp.Upper: ("upper", ()),
    exp.WeekOfYear: ("weekofyear", ()),
}
# Functions that sqlglot does not know, by how many literals follow the column.
_NAMED = {
    "pmod": 1,
    "weekday": 0,
    "dayofweek_iso": 0,
    "crc32": 0,
    "trim": 0,
    "ltrim": 0,
    "rtrim": 0,
    "day_of_month": 0,
    "add_months": 1,
}
_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_FIELDS = {
    "MONTH": "month",
    "DAY": "day",
    "HOUR": "hour",
    "MINUTE": "minute",
    "QUARTER": "quarter",
    "WEEK": "weekofyear",
    "DOY": "dayofyear",
}
_SINGLE = frozenset({exp.DataType.Type.FLOAT})
_SHORT = frozenset({exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT})
_DAYS_OF_WEEK = frozenset({"DOW", "DAYOFWEEK", "DAY_OF_WEEK"})


def read_call(node: Any, dialect: str) -> Applied | None:
    """A function or operator with a column or function as its argument, and literals; None for anything else."""
    known = _CALLS.get(type(node))
    if known is not None:
        name, keys = known
        return _call(node, name, keys, dialect)
    read = _READERS.get(type(node))
    return None if read is None else read(node, dialect)


def literal_of(node: Any, dialect: str, *, suffixes: bool = True) -> Any:
    """The value of a literal in a dialect, `NOT_A_LITERAL` for anything else; see `spark_literal`.

    In other dialects than Spark's only a 32-bit float is `Typed`.
    """
    if dialect == SPARK:
        return spark_literal(node, suffixes=suffixes)
    value = literal_value(node)
    return Typed(value, pa.float32()) if type(value) is float and _is_cast_to(node, _SINGLE) else value


def _is_cast_to(node: Any, types: frozenset[Any]) -> bool:
    """Whether a signed literal is written as one of some types."""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Cast) and node.to.this in types


def _call(node: Any, name: str, keys: tuple[str, ...], dialect: str) -> Applied | None:
    others = {key: value for key, value in node.args.items() if key != "this" and value not in (None, False, [], "")}
    if not set(others) <= {*keys, "ignore_nulls"}:
        return None
    literals = [literal_of(others[key], dialect) for key in keys if key in others]
    if any(literal is NOT_A_LITERAL or literal is None for literal in literals):
        return None
    return [Function(name, tuple(literals))], node.this


def _named(node: Any, dialect: str) -> Applied | None:
    name, arguments = str(node.this).lower(), node.expressions
    if name == "date_part" and len(arguments) == 2 and dialect == SPARK:
        field = literal_value(arguments[0])
        return _field(field.upper(), arguments[1], dialect) if isinstance(field, str) else None
    if len(arguments) != _NAMED.get(name, -2) + 1:
        return None
    literals = [literal_of(argument, dialect) for argument in arguments[1:]]
    if any(literal is NOT_A_LITERAL or literal is None for literal in literals):
        return None
    if name == "pmod" and dialect == "hive" and type(literals[0]) is int and literals[0] > HIVES_GREATEST_DIVISOR:
        return None
    return [Function(name, tuple(literals))], arguments[0]


def _extract(node: Any, dialect: str) -> Applied | None:
    return _field(node.name.upper(), node.expression, dialect)


def _field(name: str, argument: Any, dialect: str) -> Applied | None:
    if name in _DAYS_OF_WEEK:
        return [Function("dayofweek_iso" if dialect in TRINO else "dayofweek")], argument
    if name == "SECOND" and dialect != SPARK:  # Spark's has decimal places
        return [Function("second")], argument
    return ([Function(_FIELDS[name])], argument) if name in _FIELDS else None


def _day_of_week(node: Any, dialect: str) -> Applied | None:
    iso = dialect in TRINO or isinstance(node, exp.DayOfWeekIso)
    return [Function("dayofweek_iso" if iso else "dayofweek")], node.this


def _trim(node: Any, dialect: str) -> Applied | None:
    del dialect
    if node.args.get("expression") is not None or node.args.get("collation") is not None:
        return None
    name = _TRIMS.get(str(node.args.get("position") or "").upper())
    return None if name is None else ([Function(name)], node.this)


def _arithmetic(name: str, *, either: bool = False) -> Callable[[Any, str], Applied | None]:
    def read(node: Any, dialect: str) -> Applied | None:
        argument, literal = node.this, _number(node.expression, dialect)
        if literal is None and either:
            argument, literal = node.expression, _number(node.this, dialect)
        return None if literal is None else ([Function(name, (literal,))], argument)

    return read


def _difference(node: Any, dialect: str) -> Applied | None:
    literal = _number(node.expression, dialect)
    if literal is not None:
        return [Function("add", (_negative(literal),))], node.this
    literal = _number(node.this, dialect)
    return None if literal is None else ([Function("add", (literal,)), Function("negative")], node.expression)


def _quotient(node: Any, dialect: str) -> Applied | None:
    """Trino's and Presto's quotient of integers is one; that of others is not understood by its image."""
    literal = _number(node.expression, dialect)
    return None if literal is None else ([Function("div" if dialect in TRINO else "divide", (literal,))], node.this)


def _number(node: Any, dialect: str) -> Any:
    """A literal number, `Typed` or not; None for anything else, and for those beside which Hive wraps around early."""
    if dialect == "hive" and _is_cast_to(node, _SHORT):
        return None
    literal = literal_of(node, dialect)
    plain = literal.value if isinstance(literal, Typed) else literal
    return literal if isinstance(plain, int | float | decimal.Decimal) and not isinstance(plain, bool) else None


def _negative(literal: Any) -> Any:
    return replace(literal, value=-literal.value) if isinstance(literal, Typed) else -literal


_READERS: dict[type[Any], Callable[[Any, str], Applied | None]] = {
    exp.Add: _arithmetic("add", either=True),
    exp.Anonymous: _named,
    exp.DayOfWeek: _day_of_week,
    exp.DayOfWeekIso: _day_of_week,
    exp.Div: _quotient,
    exp.Extract: _extract,
    exp.IntDiv: _arithmetic("div"),
    exp.Mod: _arithmetic("mod"),
    exp.Mul: _arithmetic("multiply", either=True),
    exp.Sub: _difference,
    exp.Trim: _trim,
}
