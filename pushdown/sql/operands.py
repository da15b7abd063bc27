"""The column's side of a comparison: a column, or a function of one that `bind` turns into ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pushdown.expression import Op, Predicate
from pushdown.functions import UNITS, Function, add_days, cast, prefix, prefix16, trunc, year
from pushdown.spark_types import SPARK
from pushdown.sql.calls import TRINO, Applied, read_call
from pushdown.sql.literal import NOT_A_LITERAL, literal_value, spark_type_of

_Type = exp.DataType.Type
_TYPES: dict[Any, pa.DataType] = {
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.DOUBLE: pa.float64(),
    _Type.DATE: pa.date32(),
}
# The formats of Spark's trunc; its date_trunc and Trino's take names of units.
_FORMATS = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month"}
_DAYS = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}
_DATE = cast(pa.date32())
_JAVA_STRINGS = frozenset({"hive"})
_PARTS_OF_DATES = frozenset({"year", "quarter", "month", "day", "dayofyear", "weekofyear", "dayofweek", "weekday"})


@dataclass(frozen=True)
class Operand:
    """A column by its dotted name, the function applied to it, and the engine whose casts bind its comparisons."""

    column: str
    function: Function | None = None
    rules: str = ""

    def predicate(self, op: Op, *values: Any) -> Predicate:
        """The predicate with this operator and these literals."""
        return Predicate(op, self.column, values, function=self.function, rules=self.rules)


def column_name(node: Any) -> str | None:
    """The dotted name of a column, or None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    tail: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        tail.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return ".".join([part.name for part in node.parts] + tail[::-1])


def read_operand(node: Any, dialect: str) -> Operand | None:
    """Read a column under functions; None for anything else."""
    functions: list[Function] = []
    while True:
        while isinstance(node, exp.Paren):
            node = node.this
        column = column_name(node)
        if column is not None:
            chain: Function | None = None
            for function in reversed(functions):
                chain = function.of(chain)
            return Operand(column, chain, SPARK if dialect == SPARK else "")
        read = _READERS.get(type(node))
        operand = read(node, dialect) if read is not None else None
        if operand is None:
            operand = read_call(node, dialect)
        if operand is None:
            return None
        outer, node = operand
        for function in outer:
            # A date is its own date, and in the same year, month, week.
            if function != _DATE or not functions or (functions[-1] != _DATE and not _is_of_date(functions[-1])):
                functions.append(function)


def _is_of_date(function: Function) -> bool:
    return function.name in _PARTS_OF_DATES and not function.arguments


def _plain(node: Any, *known: str) -> bool:
    """Whether a call has only these arguments."""
    return all(value in (None, False, [], "") or key in known for key, value in node.args.items())


def _year(node: Any, dialect: str) -> Applied | None:
    del dialect
    return ([year()], node.this) if _plain(node, "this") else None


def _extract(node: Any, dialect: str) -> Applied | None:
    del dialect
    return ([year()], node.expression) if node.name.upper() == "YEAR" else None


def _to_date(node: Any, dialect: str) -> Applied | None:
    del dialect
    # With a format, texts are read.
    return ([cast(pa.date32())], node.this) if _plain(node, "this", "safe") else None


def _cast(node: Any, dialect: str) -> Applied | None:
    if not _plain(node, "this", "to", "safe", "_type"):
        return None
    to = node.to
    if dialect == SPARK:
        target = spark_type_of(to)
        word = "try_cast" if node.args.get("safe") else "cast"
        return None if target is None else ([Function(word, (target,))], node.this)
    if to.this is _Type.DECIMAL and len(to.expressions) == 2:
        precision, scale = (literal_value(parameter.this) for parameter in to.expressions)
        valid = type(precision) is int and type(scale) is int and 0 <= scale <= precision <= 38 and precision > 0
        return ([cast(pa.decimal128(precision, scale))], node.this) if valid else None
    if to.expressions:
        return None
    type_ = _TYPES.get(to.this)
    return ([cast(type_)], node.this) if type_ is not None else None


def _time_trunc(node: Any, dialect: str) -> Applied | None:
    unit = node.args.get("unit")
    name = str(unit.name if unit is not None else "").lower()
    if dialect in _JAVA_STRINGS or name not in UNITS or not _plain(node, "this", "unit"):
        return None
    return [trunc(name)], node.this


def _date_trunc(node: Any, dialect: str) -> Applied | None:
    """Spark's trunc, which gives a date. Hive's gives a text."""
    unit = node.args.get("unit")
    name = str(unit.name if unit is not None else "").lower()
    name = _FORMATS.get(name, name)
    if not _plain(node, "this", "unit"):
        return None
    if dialect in TRINO:
        return ([trunc(name)], node.this) if name in UNITS else None
    if dialect != "spark" or name not in {"year", "quarter", "month", "week"}:
        return None
    return [trunc(name), cast(pa.date32())], node.this


def _substring(node: Any, dialect: str) -> Applied | None:
    if literal_value(node.args.get("start")) != 1 or not _plain(node, "this", "start", "length"):
        return None
    return _beginning(node.this, node.args.get("length"), dialect)


def _left(node: Any, dialect: str) -> Applied | None:
    return _beginning(node.this, node.expression, dialect) if _plain(node, "this", "expression") else None


def _beginning(text: Any, length: Any, dialect: str) -> Applied | None:
    size = literal_value(length) if length is not None else NOT_A_LITERAL
    if type(size) is not int or size < 1:
        return None
    return [prefix16(size) if dialect in _JAVA_STRINGS else prefix(size)], text


def _units(node: Any, dialect: str) -> Applied | None:
    """A prefix by UTF-16 units, as `HudiExpression.to_sql` writes it."""
    del dialect
    if str(node.this).lower() != "prefix16" or len(node.expressions) != 2:
        return None
    size = literal_value(node.expressions[1])
    return ([prefix16(size)], node.expressions[0]) if type(size) is int and size > 0 else None


def _floor(node: Any, dialect: str) -> Applied | None:
    del dialect
    return ([Function("floor")], node.this) if _plain(node, "this") else None


def _ceil(node: Any, dialect: str) -> Applied | None:
    del dialect
    return ([Function("ceil")], node.this) if _plain(node, "this") else None


def _later(node: Any, dialect: str) -> Applied | None:
    """Spark's and Hive's date_add and date_sub, of dates and of the dates of times."""
    days = days_of(node.expression, node.args.get("unit"))
    if days is None or dialect in TRINO or not _plain(node, "this", "expression", "unit"):
        return None
    return [add_days(days), cast(pa.date32())], node.this


def _trino_later(node: Any, dialect: str) -> Applied | None:
    days = days_of(node.expression, node.args.get("unit"))
    if days is None or dialect not in TRINO or not _plain(node, "this", "expression", "unit"):
        return None
    return [add_days(days)], node.this


def _sum(node: Any, dialect: str) -> Applied | None:
    """A date plus an interval of days; for timestamps `bind` knows no such function."""
    del dialect
    if not isinstance(node.expression, exp.Interval):
        return None
    days = interval_days(node.expression)
    if days is None:
        return None
    return [add_days(-days if isinstance(node, exp.Sub) else days)], node.this


def interval_days(node: Any) -> int | None:
    """The days of an interval of whole days or weeks."""
    return days_of(node.this, node.args.get("unit"))


def days_of(count: Any, unit: Any) -> int | None:
    """A number of days or weeks, in days; None for anything else."""
    size = 1 if unit is None else _DAYS.get(str(unit.name).upper()) if type(unit) is exp.Var else None
    number = whole_number(count)
    return None if size is None or number is None else number * size


def whole_number(node: Any) -> int | None:
    """A literal integer, signed or in quotes; None for anything else."""
    if isinstance(node, exp.Mul):
        left, right = whole_number(node.left), whole_number(node.right)
        return None if left is None or right is None else left * right
    value = literal_value(node) if node is not None else None
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 12:
        try:
            return int(value)
        except ValueError:
            return None
    return value if type(value) is int else None


_READERS: dict[type[Any], Any] = {
    exp.Year: _year,
    exp.Extract: _extract,
    exp.TsOrDsToDate: _to_date,
    exp.Date: _to_date,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.TimestampTrunc: _time_trunc,
    exp.DateTrunc: _date_trunc,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Anonymous: _units,
    exp.Floor: _floor,
    exp.Ceil: _ceil,
    exp.TsOrDsAdd: _later,
    exp.DateAdd: _trino_later,
    exp.Add: _sum,
    exp.Sub: _sum,
}
