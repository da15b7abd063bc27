"""SQL expressions of changes in place, in DuckDB's dialect: parsed, and their columns resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from pushdown.errors import ExpressionError, FilterSyntaxError, UnknownColumnError
from table_format.errors import did_you_mean

TARGET, SOURCE = "target", "source"
DIALECT = "duckdb"

_REFUSED: Mapping[type[Any], str] = {
    exp.Query: "a query",
    exp.AggFunc: "an aggregate",
    exp.Window: "a window function",
    exp.Star: "*",
}


@dataclass
class Expressions:
    """The columns that expressions can name, and the values that were given as Python objects.

    Attributes:
        columns: names of the columns of each side, by the name by which queries know the side.
        aliases: further names of a side.
        parameters: values by the names of their places in the texts.
        used: the columns that were named so far, as side and name.
    """

    columns: Mapping[str, Sequence[str]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)

    def value(self, value: object, *, sides: Sequence[str]) -> str:
        """The text of a value: of a text, which is an expression, or of another object, which is itself the value."""
        if isinstance(value, str):
            return self.text(value, sides=sides)
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"

    def text(self, text: str, *, sides: Sequence[str]) -> str:
        """An expression with its columns resolved.

        Args:
            text: SQL.
            sides: those whose columns may be named; a column without a side is that of the one side which has it.

        Raises:
            FilterSyntaxError: the text does not parse.
            UnknownColumnError: no side has a column of the name.
            ExpressionError: the text is more than an expression of one row, or a column may be of either side.
        """
        return self.parsed(text, sides=sides).sql(dialect=DIALECT)

    def parsed(self, text: str, *, sides: Sequence[str]) -> exp.Expression:
        """As `text`, as a tree."""
        try:
            tree = sqlglot.parse_one(text, dialect=DIALECT)
        except sqlglot.errors.SqlglotError as error:
            raise FilterSyntaxError(f"{text!r} is no SQL expression: {str(error).splitlines()[0]}") from error
        for kind, what in _REFUSED.items():
            if tree.find(kind) is not None:
                raise ExpressionError(f"{text!r}: {what} cannot stand in an expression of one row")
        if not isinstance(tree, exp.Condition):
            raise ExpressionError(f"{text!r} is a statement, and not an expression of one row")
        return tree.transform(lambda node: self._resolved(node, text, sides) if _is_column(node) else node)

    def _resolved(self, node: exp.Expression, text: str, sides: Sequence[str]) -> exp.Expression:
        parts = [part.name for part in node.parts]  # type: ignore[attr-defined]
        side = self._side(parts[0]) if len(parts) > 1 else None
        if side is not None and side not in sides:
            raise ExpressionError(f"{text!r}: there is no row of the {side} here")
        name, *members = parts if side is None else parts[1:]
        places = list(self._places(name, sides if side is None else (side,)))
        if not places:
            known = [column for one in sides for column in self.columns[one]]
            raise UnknownColumnError(f"{text!r}: there is no column {name!r}{did_you_mean(name, known)}")
        if len(places) > 1:
            choices = " or ".join(f"{one}.{column}" for one, column in places)
            raise ExpressionError(f"{text!r}: column {name!r} is in both; write {choices}")
        where, column = places[0]
        self.used.add(places[0])
        resolved: exp.Expression = exp.column(column, table=where, quoted=True)
        for member in members:
            resolved = exp.Dot(this=resolved, expression=exp.to_identifier(member, quoted=True))
        return resolved

    def _side(self, name: str) -> str | None:
        folded = {alias.casefold(): side for alias, side in self.aliases.items()}
        folded |= {side: side for side in self.columns}
        return folded.get(name.casefold())

    def _places(self, name: str, sides: Sequence[str]) -> Iterator[tuple[str, str]]:
        for side in sides:
            column = self.column(side, name)
            if column is not None:
                yield side, column

    def column(self, side: str, name: str) -> str | None:
        """The column that a name means, whose case does not matter where no other column has it; None for none."""
        if name in self.columns[side]:
            return name
        alike = [column for column in self.columns[side] if column.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None


def _is_column(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column)


def quoted(name: str) -> str:
    """A name as SQL."""
    return exp.to_identifier(name, quoted=True).sql(dialect=DIALECT)


def named(side: str, name: str) -> str:
    """A column of a side as SQL."""
    return f"{side}.{quoted(name)}"
