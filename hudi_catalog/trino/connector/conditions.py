"""Conditions as Trino's connector sends them: trees of Trino's `ConnectorExpression` as JSON, one for each conjunct.

A node is a call ``{"call": name, "args": [node, …], "type": type}``, a column ``{"column": name, "type": type}``, a
field of a row ``{"field": number, "of": node, "type": type}``, a literal ``{"value": value, "type": type}``, written as
in domains, or ``{"unknown": reason, "type": type}``. Types are Trino's SQL.

Trino checks each row by the whole condition again, so what is not understood may be `Unknown`. Every function here is
known to be strict in Trino: null in gives null out. Those that `pushdown` narrows mean the same there as in Trino; all
times with a zone that tables hold are in UTC for Trino, which takes the zone of the value, not the session's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_catalog.trino.connector.domains import NotUnderstoodError, field_of, value_reader
from hudi_catalog.trino.connector.types import ConnectorColumn, plain_type
from pushdown.expression import Constant, HudiExpression, Not, Op, Predicate, Unknown, all_of, any_of
from pushdown.functions import UNITS, Function, add_days, cast, prefix, trunc
from pushdown.like import canonical_pattern, quoted

types = pa.types
_DEEPEST = 150
_NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, ArithmeticError)
_DAY_MILLIS = 86_400_000
_TYPE = re.compile(r"([a-z]+)(?:\((\d+)(?:, ?(\d+))?\))?( with time zone)?\Z", re.ASCII)
_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "varchar": pa.string(),
    "varbinary": pa.binary(),
}
_UNITS: Mapping[int, Any] = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_INTERVAL = "interval day to second"
_COMPARISONS = {
    "$equal": Op.EQ,
    "$not_equal": Op.NE,
    "$less_than": Op.LT,
    "$less_than_or_equal": Op.LE,
    "$greater_than": Op.GT,
    "$greater_than_or_equal": Op.GE,
    "$identical": Op.NULL_SAFE_EQ,
}
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
# Functions of one argument by their names in Trino.
_OF_ONE = {
    **{name: name for name in ("abs", "floor", "length", "lower", "ltrim", "rtrim", "trim", "upper")},
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute", "second")},
    "$negate": "negative",
    "ceil": "ceil",
    "ceiling": "ceil",
    "day_of_month": "day",
    "day_of_week": "dayofweek_iso",
    "dow": "dayofweek_iso",
    "day_of_year": "dayofyear",
    "doy": "dayofyear",
    "week": "weekofyear",
    "week_of_year": "weekofyear",
}
_COMMUTATIVE = frozenset({"add", "multiply"})
_REMAINDER = ("$modulus", "$modulo", "mod")  # of Trino 476, of 483, and in SQL
_ARITHMETIC = {"$add": "add", "$multiply": "multiply", "$divide": "divide", **dict.fromkeys(_REMAINDER, "mod")}
#: Functions that give null for null, of which nothing else is used.
_STRICT = frozenset(
    {
        *("$add", "$cast", "$divide", "$multiply", "$negate", "$subtract", "$try_cast"),
        *("$like", "at_timezone", "cbrt", "concat", "date_add", "date_diff", "date_format", "date_trunc", "ends_with"),
        *("exp", "format_datetime", "from_utf8", "instr", "last_day_of_month", "length", "ln", "log10", "log2", "lpad"),
        *("md5", "millisecond", "pow", "power", "regexp_extract", "regexp_like", "regexp_replace", "replace"),
        *("reverse", "round", "rpad", "sha256", "sign", "split_part", "sqrt", "starts_with", "strpos", "substr"),
        *("substring", "to_hex", "to_utf8", "truncate", "week", "year_of_week", "yow"),
        *_OF_ONE,
        *_REMAINDER,
    }
)


@dataclass(frozen=True)
class _Operand:
    """A column, or functions of one.

    Attributes:
        column: its name in the table, a field's dotted path.
        type: of the value; None for a type that is not compared.
        function: of the column.
    """

    column: str
    type: pa.DataType | None
    function: Function | None = None

    def compared(self, op: Op, *values: Any) -> Predicate:
        return Predicate(op, self.column, values, function=self.function)

    def under(self, function: Function, type_: pa.DataType | None) -> _Operand:
        return replace(self, function=function.of(self.function), type=type_)


def conditions_filter(columns: Sequence[ConnectorColumn], trees: Sequence[Any]) -> list[HudiExpression]:
    """The filters of some conditions, not bound.

    Each is true, or unknown, for every row for which the condition is true.

    Args:
        columns: of the table in Trino.
        trees: as described above, from JSON; not validated.
    """
    translation = _Translation({column.name: column for column in columns})
    return [translation.truth(tree) for tree in trees]


def arrow_type(text: Any) -> pa.DataType | None:
    """The Arrow type with the values of a type of Trino's; None if there is none, or it is nested.

    >>> arrow_type("timestamp(6) with time zone"), arrow_type("varchar(20)"), arrow_type("char(2)")
    (TimestampType(timestamp[us, tz=UTC]), DataType(string), None)
    """
    match = _TYPE.match(text) if isinstance(text, str) else None
    if match is None:
        return None
    name, first, second, zoned = match.groups()
    if name == "decimal" and first and second:
        return pa.decimal128(int(first), int(second)) if 0 < int(first) <= 38 and int(second) <= int(first) else None
    if name == "timestamp" and first:
        unit = _UNITS.get(int(first))
        if unit is None:
            return None
        return pa.timestamp(unit, "UTC") if zoned else pa.timestamp(unit)
    return _PLAIN.get(name) if first is None or name == "varchar" else None


class _Translation:
    """Translates the nodes of a tree over the columns of one table."""

    def __init__(self, columns: Mapping[str, ConnectorColumn]) -> None:
        self._columns = columns

    def truth(self, node: Any, depth: int = 0) -> HudiExpression:
        """A node that is true, false or null as a filter."""
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            return Unknown("a condition that is no tree, or too deep")
        if "value" in node:
            value = node["value"]
            return Constant(value) if value is None or isinstance(value, bool) else Unknown("a literal that is no flag")
        operand = None if node.get("call") in _READERS else self._operand(node, depth)
        if operand is not None:
            return operand.compared(Op.EQ, True)
        if not isinstance(node.get("call"), str) or not isinstance(node.get("args"), list):
            return Unknown(str(node.get("unknown", "a condition that is no call"))[:200])
        known = self._call_truth(node["call"], node["args"], depth)
        return self._of_nulls(node, depth) if known is None else known

    def _call_truth(self, name: str, arguments: Sequence[Any], depth: int) -> HudiExpression | None:
        """A call that is true, false or null as a filter; None if it is not understood."""
        if name in {"$and", "$or"}:
            parts = [self.truth(one, depth + 1) for one in arguments]
            return all_of(*parts) if name == "$and" else any_of(*parts)
        if name == "$between" and len(arguments) == 3:
            value, low, high = arguments
            bounds = (("$greater_than_or_equal", low), ("$less_than_or_equal", high))
            return all_of(*(self.truth({"call": op, "args": [value, one]}, depth + 1) for op, one in bounds))
        if name == "$not" and len(arguments) == 1:
            return Not(self.truth(arguments[0], depth + 1))
        read = _READERS.get(name)
        try:
            return None if read is None else read(self, name, arguments, depth)
        except _NOT_UNDERSTOOD:
            return None

    def _of_nulls(self, node: Mapping[str, Any], depth: int) -> HudiExpression:
        """What is known of a strict call: it is null where a column in it is."""
        reason = f"{_shown(node)} is not understood"
        columns = self._strict_columns(node, depth)
        if not columns:
            return Unknown(reason)
        null = Constant(value=None)
        return all_of(*(any_of(Predicate(Op.NOT_NULL, name), null) for name in columns), Unknown(reason))

    def _strict_columns(self, node: Any, depth: int) -> dict[str, None]:
        """The columns of which any null makes a node null."""
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            return {}
        if "call" not in node:
            operand = self._operand(node, depth)
            return {} if operand is None else {operand.column: None}
        name = node["call"]
        if name not in _STRICT and (name not in _COMPARISONS or name == "$identical"):
            return {}
        columns: dict[str, None] = {}
        for one in node.get("args") or ():
            columns |= self._strict_columns(one, depth + 1)
        return columns

    def _operand(self, node: Any, depth: int) -> _Operand | None:
        """A column, or functions of it; None for anything else."""
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            return None
        if "column" in node:
            column = self._columns.get(str(node["column"]))
            return None if column is None else _Operand(column.source, plain_type(column.kind))
        if "field" in node:
            return self._field(node, depth)
        name, arguments = node.get("call"), node.get("args")
        if not isinstance(name, str) or not isinstance(arguments, list) or name not in _STRICT:
            return None
        try:
            return self._call(name, arguments, node.get("type"), depth + 1)
        except _NOT_UNDERSTOOD:
            return None

    def _field(self, node: Mapping[str, Any], depth: int) -> _Operand | None:
        path: list[Any] = []
        one: Any = node
        while isinstance(one, Mapping) and "field" in one and len(path) + depth < _DEEPEST:
            path.insert(0, one["field"])
            one = one.get("of")
        column = self._columns.get(str(one.get("column"))) if isinstance(one, Mapping) else None
        try:
            for number in path:
                column = None if column is None else field_of(column, number)
        except NotUnderstoodError:
            return None
        return None if column is None else _Operand(column.source, plain_type(column.kind))

    def _call(self, name: str, arguments: Sequence[Any], type_name: Any, depth: int) -> _Operand | None:
        """A strict call whose arguments are literals but for one."""
        at = [index for index, one in enumerate(arguments) if "value" not in one]
        if len(at) != 1:
            return None
        operand = self._operand(arguments[at[0]], depth)
        if operand is None:
            return None
        literals = [None if index == at[0] else _literal(one) for index, one in enumerate(arguments)]
        others = [literal for index, literal in enumerate(literals) if index != at[0]]
        if None in others:
            return None  # it is null for all rows
        type_ = arrow_type(type_name)
        function = _Call(name, operand.type, at[0], others, str(type_name)).function()
        return operand.under(
            function or Function(f"trino_{name.lstrip('$')}", (str(type_name), at[0], *literals)), type_
        )

    def comparison(self, name: str, arguments: Sequence[Any], depth: int) -> HudiExpression | None:
        """A column or function beside a literal."""
        left, right = arguments
        op = _COMPARISONS[name]
        if "value" in left:
            left, right, op = right, left, _FLIPPED.get(op, op)
        operand = self._operand(left, depth + 1)
        if operand is None or "value" not in right:
            return None
        value = _literal(right)
        return operand.compared(op, value) if operand.type is not None or value is None else None

    def is_null(self, name: str, arguments: Sequence[Any], depth: int) -> HudiExpression | None:
        """A test of a column or function."""
        del name
        (one,) = arguments
        operand = self._operand(one, depth + 1)
        return None if operand is None else operand.compared(Op.IS_NULL)

    def is_in(self, name: str, arguments: Sequence[Any], depth: int) -> HudiExpression | None:
        """A column or function in a list of literals."""
        del name
        one, members = arguments
        operand = self._operand(one, depth + 1)
        if operand is None or operand.type is None or members["call"] != "$array":
            return None
        return operand.compared(Op.IN, *(_literal(member) for member in members["args"]))

    def like(self, name: str, arguments: Sequence[Any], depth: int) -> HudiExpression | None:
        """A pattern, and the functions that are one."""
        one, text, *escape = arguments
        operand, pattern = self._operand(one, depth + 1), _literal(text)
        if operand is None or operand.type != pa.string() or not isinstance(pattern, str | None):
            return None
        if name != "$like":
            before, after = {"starts_with": ("", "%"), "ends_with": ("%", "")}.get(name, ("%", "%"))
            return operand.compared(Op.LIKE, None if pattern is None else before + quoted(pattern) + after)
        character = _literal(escape[0]) if escape else None
        if pattern is None or (escape and not isinstance(character, str)):
            return None
        return operand.compared(Op.LIKE, canonical_pattern(pattern, character))


_Reader = Callable[[_Translation, str, Sequence[Any], int], "HudiExpression | None"]
_READERS: Mapping[str, _Reader] = {
    **dict.fromkeys(_COMPARISONS, _Translation.comparison),
    **dict.fromkeys(("$like", "starts_with", "ends_with", "contains"), _Translation.like),
    "$is_null": _Translation.is_null,
    "$in": _Translation.is_in,
}


def _literal(node: Mapping[str, Any]) -> Any:
    """The value of a literal; None for null.

    Raises:
        NotUnderstoodError: it is none, or of a type that is not compared; likewise ValueError and other errors.
    """
    value = node["value"]
    if value is None:
        return None
    if node.get("type") == _INTERVAL:
        days, rest = divmod(int(value), _DAY_MILLIS)
        if rest:
            raise NotUnderstoodError("an interval that is not of whole days")
        return _Days(days)
    type_ = arrow_type(node.get("type"))
    if type_ is None:
        raise NotUnderstoodError(f"a literal of type {node.get('type')}")
    return value_reader(type_)(value)


@dataclass(frozen=True)
class _Days:
    """An interval."""

    days: int


@dataclass(frozen=True)
class _Call:
    """A call whose arguments are literals but for one.

    Attributes:
        name: of Trino's function.
        source: type of the argument that is no literal.
        at: its place.
        others: the literals, in order.
        type_name: Trino's type of the result.
    """

    name: str
    source: Any
    at: int
    others: Sequence[Any]
    type_name: str

    def function(self) -> Function | None:
        """The function of `pushdown` that is the same; None where there is none."""
        if self.name in _OF_ONE:
            return Function(_OF_ONE[self.name]) if not self.others and self._is_of_text() else None
        make = _MAKERS.get(self.name)
        return None if make is None or self.source is None or arrow_type(self.type_name) is None else make(self)

    def _is_of_text(self) -> bool:
        """Whether the argument is of a type for which the function means what it does in `pushdown`."""
        of_text = self.name in {"length", "lower", "ltrim", "rtrim", "trim", "upper"}
        return self.source is not None and bool(types.is_string(self.source)) == of_text

    def sum(self) -> Function | None:
        """A sum or difference; of a date, with days."""
        (other,) = self.others
        if isinstance(other, _Days):
            days = other.days if self.name == "$add" else -other.days
            return add_days(days) if types.is_date(self.source) and (self.at == 0 or self.name == "$add") else None
        if self.name == "$add":
            return self.arithmetic()
        if self.at == 0:
            return replace(self, name="$add", others=(-other,)).arithmetic()
        added = replace(self, name="$add").arithmetic()
        return None if added is None else added.of(Function("negative"))

    def arithmetic(self) -> Function | None:
        """Arithmetic with a number."""
        (literal,) = self.others
        word = _ARITHMETIC[self.name]
        if isinstance(literal, bool) or not _is_number(self.source) or (self.at == 1 and word not in _COMMUTATIVE):
            return None
        return Function("div" if word == "divide" and types.is_integer(self.source) else word, (literal,))

    def cast(self) -> Function | None:
        """A cast; None where it depends on the session, or Trino rounds or cuts otherwise."""
        source: Any = self.source
        target: Any = arrow_type(self.type_name)
        if types.is_string(target):
            length = self.type_name.removeprefix("varchar").strip("()")
            if not types.is_string(source) or length == "0":
                return None
            return prefix(int(length)) if length else cast(pa.string())
        if types.is_timestamp(target) and target.tz and not (types.is_timestamp(source) and source.tz):
            return None  # the clock of the session's zone
        of_time = types.is_date(source) or types.is_timestamp(source)
        return cast(target) if of_time or _is_number(source) else None

    def part(self) -> Function | None:
        """A part of a text."""
        if self.at or not types.is_string(self.source):
            return None
        start, *size = self.others
        return prefix(size[0]) if start == 1 and size and size[0] > 0 else Function("substring", (start, *size))

    def trunc(self) -> Function | None:
        """The start of a unit of time."""
        unit = str(self.others[0]).lower()
        is_time = types.is_date(self.source) or types.is_timestamp(self.source)
        return trunc(unit) if self.at == 1 and unit in UNITS and is_time else None

    def later(self) -> Function | None:
        """A date some days later."""
        unit, days = self.others
        return add_days(days) if self.at == 2 and str(unit).lower() == "day" and types.is_date(self.source) else None


_MAKERS: Mapping[str, Callable[[_Call], Function | None]] = {
    **dict.fromkeys(("$add", "$subtract"), _Call.sum),
    **dict.fromkeys(("$multiply", "$divide", *_REMAINDER), _Call.arithmetic),
    **dict.fromkeys(("$cast", "$try_cast"), _Call.cast),
    **dict.fromkeys(("substr", "substring"), _Call.part),
    "date_add": _Call.later,
    "date_trunc": _Call.trunc,
}


def _is_number(type_: Any) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _shown(node: Mapping[str, Any]) -> str:
    """A call for messages: names of functions and columns."""
    names: list[str] = []
    pending: list[Any] = [node]
    while pending and len(names) < 8:
        one = pending.pop(0)
        if isinstance(one, Mapping):
            names.append(str(one.get("call") or one.get("column") or one.get("unknown") or "a literal").lstrip("$"))
            pending.extend(one.get("args") or ([one["of"]] if "of" in one else []))
    name, *inner = [one for one in names if one != "a literal"] or ["a literal"]
    return f"{name}({', '.join(inner)})" if inner else name
