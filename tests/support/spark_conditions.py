"""Conditions on the rows of any table, as SQL text and as Columns of Spark, with literals near the table's values."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from tests.support.table_values import python_values

_OPERATORS: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "<=>": lambda one, other: one.eqNullSafe(other),
}
#: How often an operator is drawn: most rows are dropped by the equal ones.
_DRAWN: Final = ["=", "=", "=", "<", "<=", ">", ">=", "<>", "<=>"]
_ZONE: Final = dt.UTC


@dataclass(frozen=True)
class Condition:
    """A condition twice: what Spark's parser makes of the text is what the Column is."""

    text: str
    column: Callable[[], Column]

    def joined(self, other: Condition, *, both: bool) -> Condition:
        """This one AND, or OR, the other."""
        word = "AND" if both else "OR"
        return Condition(
            f"({self.text}) {word} ({other.text})",
            lambda: (self.column() & other.column()) if both else (self.column() | other.column()),
        )

    def negated(self) -> Condition:
        """NOT this one."""
        return Condition(f"NOT ({self.text})", lambda: ~self.column())


class Conditions:
    """Conditions for one table, each made by its number alone.

    Args:
        rows: of the table.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._leaves = [(path, kind, python_values(values)) for path, kind, values in _leaves(rows)]

    def make(self, number: int) -> Condition:
        """The condition of that number."""
        chance = random.Random(number)
        made = self._test(chance)
        for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
            made = made.joined(self._test(chance), both=chance.random() < 0.5)
        return made.negated() if chance.random() < 0.1 else made

    def _test(self, chance: random.Random) -> Condition:
        path, kind, values = chance.choice(self._leaves)
        shape = chance.random()
        if not values or shape < 0.08:
            if chance.random() < 0.5:
                return Condition(f"{path} IS NULL", lambda: F.col(path).isNull())
            return Condition(f"{path} IS NOT NULL", lambda: F.col(path).isNotNull())
        if shape < 0.25:
            return self._members(chance, path, kind, values)
        if shape < 0.5:
            made = _function(chance, path, kind, chance.choice(values))
            if made is not None:
                return made
        word, value = chance.choice(_DRAWN), _near(chance, chance.choice(values))
        literal, operator = _literal(value, kind), _OPERATORS[word]
        return Condition(f"{path} {word} {literal}", lambda: operator(F.col(path), _lit(value, kind)))

    def _members(self, chance: random.Random, path: str, kind: pa.DataType, values: list[Any]) -> Condition:
        some = [_near(chance, chance.choice(values)) for _ in range(chance.choice([1, 2, 3, 12]))]
        if chance.random() < 0.5:
            listed = ", ".join(_literal(value, kind) for value in some)
            return Condition(f"{path} IN ({listed})", lambda: F.col(path).isin(*(_lit(value, kind) for value in some)))
        low, high = some[0], some[-1]
        text = f"{path} BETWEEN {_literal(low, kind)} AND {_literal(high, kind)}"
        return Condition(text, lambda: F.col(path).between(_lit(low, kind), _lit(high, kind)))


def _function(chance: random.Random, path: str, kind: pa.DataType, value: Any) -> Condition | None:
    """A comparison of a function of a column; None where there is none for the type."""
    calls = []
    if isinstance(value, str):
        part = value[: chance.choice([1, 2, 4])]
        calls = [f"startswith({path}, {_text(part)})", f"endswith({path}, {_text(value[-2:])})"]
        calls += [f"contains({path}, {_text(value[1:3])})", f"lower({path}) = {_text(value.lower())}"]
        calls += [f"upper({path}) >= {_text(value.upper())}", f"length({path}) > {len(value)}"]
        calls += [f"substring({path}, 1, {max(1, len(part))}) = {_text(part)}"]
        if not set(value) & set("%_\\"):
            calls += [f"{path} LIKE {_text(part + '%')}", f"{path} NOT LIKE {_text('%' + value[-1:])}"]
    elif isinstance(value, dt.datetime):
        calls = [f"year({path}) = {value.year}", f"to_date({path}) = DATE '{value.date().isoformat()}'"]
        calls += [f"hour({path}) = {value.hour}", f"date_trunc('MONTH', {path}) <= {_literal(value, kind)}"]
    elif isinstance(value, dt.date):
        calls = [f"month({path}) = {value.month}", f"year({path}) >= {value.year}"]
        calls += [f"trunc({path}, 'MONTH') = DATE '{value.replace(day=1).isoformat()}'"]
    elif pa.types.is_integer(kind):
        calls = [f"{path} % 4 = {value % 4 if value >= 0 else -(-value % 4)}", f"CAST({path} AS STRING) = '{value}'"]
    if not calls:
        return None
    text = chance.choice(calls)
    return Condition(text, lambda: F.expr(text))


def _near(chance: random.Random, value: Any) -> Any:
    """Mostly the value, at times one beside it."""
    if chance.random() < 0.6:
        return value
    if isinstance(value, bool | bytes | Decimal | float):
        return value
    if isinstance(value, int):
        return min(max(value + chance.choice([-1, 1]), -(2**31)), 2**31 - 1)
    if isinstance(value, str):
        return chance.choice([value[:-1], value + "a", value.upper()])
    if dt.date(2, 1, 1) < dt.date(value.year, value.month, value.day) < dt.date(9998, 1, 1):
        return value + dt.timedelta(days=chance.choice([-1, 1]))
    return value


def _literal(value: Any, kind: pa.DataType) -> str:
    """A literal of the column's type in Spark SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(_ZONE)
        return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        name = "FLOAT" if pa.types.is_float32(kind) else "DOUBLE"
        return f"CAST('{value!r}' AS {name})"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
    return f"{value}L" if value < -(2**63) + 1 or pa.types.is_int64(kind) else str(value)


def _lit(value: Any, kind: pa.DataType) -> Column:
    if isinstance(value, bytes | dt.date | float | Decimal):
        return F.expr(_literal(value, kind))
    return F.lit(value)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _leaves(rows: pa.Table) -> list[tuple[str, pa.DataType, Any]]:
    """Columns that are compared, and such fields of structs, by their quoted paths."""
    leaves: list[tuple[str, pa.DataType, Any]] = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        pending = [(f"`{name}`", column.combine_chunks())]
        while pending:
            path, values = pending.pop()
            if pa.types.is_struct(values.type):
                fields = [values.type.field(position) for position in range(values.type.num_fields)]
                pending += [(f"{path}.`{one.name}`", values.field(n)) for n, one in enumerate(fields)]
            elif not pa.types.is_nested(values.type):
                leaves.append((path, values.type, values))
    return leaves
