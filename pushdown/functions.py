"""Functions of a column that a filter may compare: ``year(ts) = 2024``, ``substring(name, 1, 3) < 'm'``.

Only unbound filters have them: `pushdown.binding.bind` turns a comparison of such a function into one of the column
itself where that is exact, else into `Unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

# From coarse to fine.
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


@dataclass(frozen=True)
class Function:
    """A function of one column.

    Attributes:
        name: ``year``; ``trunc`` to a unit of `UNITS`; ``cast`` to an Arrow type, and ``try_cast``, which gives null
            where that fails; ``rounded`` to a decimal type; ``floor`` and ``ceil`` to whole numbers; ``add_days``;
            ``prefix``, the first n characters of a text; ``prefix16``, the first n UTF-16 units of it (Hive's substr).
            Any other name is unknown to `bind`, as are these on columns of other types.
        arguments: the unit, the type, the number of days, characters or units.
        inner: the function of the column that this one is applied to; None for the column itself.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    inner: Function | None = None

    def of(self, inner: Function | None) -> Function:
        """This function applied to the result of another."""
        return self if inner is None else replace(self, inner=self.inner.of(inner) if self.inner else inner)

    def chain(self) -> Iterator[Function]:
        """This function, then the functions of its argument, inward."""
        step: Function | None = self
        while step is not None:
            yield step
            step = step.inner


def year() -> Function:
    """The calendar year of a date or time."""
    return Function("year")


def trunc(unit: str) -> Function:
    """The start of the unit of `UNITS` in which a date or time lies; weeks start on Monday."""
    return Function("trunc", (unit,))


def cast(type_: pa.DataType) -> Function:
    """The value in another type."""
    return Function("cast", (type_,))


def add_days(days: int) -> Function:
    """A date plus a number of days."""
    return Function("add_days", (days,))


def prefix(characters: int) -> Function:
    """The first characters of a text."""
    return Function("prefix", (characters,))


def prefix16(units: int) -> Function:
    """The beginning of a text as Java's ``substring`` cuts it, by UTF-16 units."""
    return Function("prefix16", (units,))


def function_sql(function: Function, column: str) -> str:
    """The call as SQL text in Spark's dialect, around the column's text."""
    text = column
    for step in reversed(list(function.chain())):
        text = _call_sql(step, text)
    return text


def _call_sql(step: Function, text: str) -> str:
    if step.name == "trunc":
        return f"date_trunc('{step.arguments[0]}', {text})"
    if step.name in {"cast", "try_cast", "rounded"}:
        word = "TRY_CAST" if step.name == "try_cast" else "CAST"
        return f"{word}({text} AS {type_sql(step.arguments[0])})"
    if step.name == "prefix":
        return f"substring({text}, 1, {step.arguments[0]})"
    if step.name == "add_days":
        return f"{text} + INTERVAL '{step.arguments[0]}' DAY"
    return f"{step.name}({', '.join([text, *map(str, step.arguments)])})"


_TYPE_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
}


def type_sql(type_: Any) -> str:
    """The name of an Arrow type in Spark's SQL."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _TYPE_NAMES.get(type_, str(type_))
