"""Functions of a column that a filter may compare: ``year(ts) = 2024``, ``substring(name, 1, 3) < 'm'``.

`pushdown.binding.bind` turns a comparison of such a function into one of the column itself where that is exact. Else it
stays a comparison of the function, which statistics narrow by the function's image (`pushdown.images`), or, of a
function that is only known to be strict, by nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

_OPERATORS = {"add": "+", "multiply": "*", "mod": "%", "div": "div", "divide": "/", "±": "±"}
# From coarse to fine.
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")

HIVES_GREATEST_DIVISOR = 2**30
"""Of an integer's ``pmod`` in Hive, which is ``((a % b) + b) % b``: by greater ones it may overflow and be negative."""


@dataclass(frozen=True, eq=False)
class Function:
    """A function of one column. Two are equal only if their arguments are of one type: 2 and 2.0 are different.

    Attributes:
        name: ``year``; ``trunc`` to a unit of `UNITS`; ``cast`` to an Arrow type, and ``try_cast``, which gives null
            where that fails; ``rounded`` to a decimal type; ``floor`` and ``ceil`` to whole numbers; ``add_days``;
            ``prefix``, the first n characters of a text; ``prefix16``, the first n UTF-16 units of it (Hive's substr).
            Parts of dates and times are those of `pushdown.images.times`. Further ones, with a literal where they take
            one: ``add``, ``multiply``, ``mod``, ``pmod``, ``div``, ``negative``, ``abs``, ``lower``, ``upper``,
            ``trim``, ``ltrim``, ``rtrim``, ``length``, ``substring`` from a character on. ``±`` is some time at most so
            many of its type's units away, for rounding that may or may not happen; it has an image only. Of any other
            function only this is known: it is strict, null in gives null out.
        arguments: the unit, the type, the number of days, characters or units, or literals.
        inner: the function of the column that this one is applied to; None for the column itself.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    inner: Function | None = None

    def _key(self) -> tuple[Any, ...]:
        return self.name, tuple((type(argument), repr(argument)) for argument in self.arguments), self.inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

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


def near(units: int) -> Function:
    """A time at most so many of its type's units away: statistics count with all of them."""
    return Function("±", (units,))


def prefix(characters: int) -> Function:
    """The first characters of a text."""
    return Function("prefix", (characters,))


def prefix16(units: int) -> Function:
    """The beginning of a text as Java's ``substring`` cuts it, by UTF-16 units."""
    return Function("prefix16", (units,))


def function_sql(function: Function, column: str, literal_sql: Callable[[Any], str]) -> str:
    """The call as SQL text in Spark's dialect, around the column's text.

    Args:
        function: of the column.
        column: the column's text.
        literal_sql: the text of a literal among its arguments.
    """
    text = column
    for step in reversed(list(function.chain())):
        text = _call_sql(step, text, literal_sql)
    return text


def _call_sql(step: Function, text: str, literal_sql: Callable[[Any], str]) -> str:  # noqa: PLR0911 - one line a form
    if step.name in _OPERATORS and step.arguments:
        return f"({text} {_OPERATORS[step.name]} {literal_sql(step.arguments[0])})"
    if step.name == "negative":
        return f"(- {text})"
    if not step.arguments:
        return f"{step.name}({text})"
    if step.name == "trunc":
        return f"date_trunc('{step.arguments[0]}', {text})"
    if step.name in {"cast", "try_cast", "rounded"}:
        word = "TRY_CAST" if step.name == "try_cast" else "CAST"
        return f"{word}({text} AS {type_sql(step.arguments[0])})"
    if step.name == "prefix":
        return f"substring({text}, 1, {step.arguments[0]})"
    if step.name == "add_days":
        return f"{text} + INTERVAL '{step.arguments[0]}' DAY"
    return f"{step.name}({', '.join([text, *map(literal_sql, step.arguments)])})"


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
    if isinstance(type_, pa.DataType) and pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _TYPE_NAMES.get(type_, str(type_))
