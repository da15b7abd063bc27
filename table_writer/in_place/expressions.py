"""SQL expressions of changes in place, in a dialect: parsed, and their columns resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from pushdown.errors import ExpressionError, FilterSyntaxError, UnknownColumnError
from pushdown.sql.nesting import parses_too_often
from table_format.errors import did_you_mean

TARGET, SOURCE = "target", "source"
DIALECT = "duckdb"

_WRITTEN = "written"

_REFUSED: Mapping[type[Any], str] = {
    exp.Query: "a query",
    exp.AggFunc: "an aggregate",
    exp.Window: "a window function",
    exp.Star: "*",
    exp.UDTF: "a function of several rows",
    exp.Explode: "a function of several rows",
}
_EXPRESSIONS: Final = (exp.Condition, exp.AtTimeZone, exp.FromTimeZone, exp.Interval)
#: Of DuckDB, besides `unnest`; those of Spark's that are none of the classes are refused by Spark.
_SEVERAL_ROWS: Final = frozenset({"unlist", "generate_subscripts", "regexp_split_to_table"})


@dataclass
class Expressions:
    """The columns that expressions can name, and the values that were given as Python objects.

    Attributes:
        columns: names of the columns of each side, by the name by which queries know the side.
        parameters: values by the names of their places in the texts.
        used: the columns that were named so far, as side and name.
        dialect: sqlglot's name of the texts' dialect.
        conditions: classes of objects, beside texts, that can be conditions.
        names: what texts call each side, such as `("shop", "orders")`, whose end does, too; None for their own names.
    """

    columns: Mapping[str, Sequence[str]]
    parameters: dict[str, Any] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)
    dialect: str = DIALECT
    conditions: tuple[type, ...] = ()
    names: Mapping[str, Sequence[str]] | None = None

    def sql(self, tree: exp.Expression) -> str:
        """A tree as text: a parsed one in the words in which it was written."""
        return str(tree.meta.get(_WRITTEN) or tree.sql(dialect=self.dialect))

    def named(self, side: str, name: str) -> str:
        """A column of a side as text."""
        return f"{side}.{self.sql(exp.to_identifier(name, quoted=True))}"

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
        return self.sql(self.parsed(text, sides=sides))

    def parsed(self, text: str, *, sides: Sequence[str]) -> exp.Expression:
        """As `text`, as a tree."""
        try:
            return self._parsed(text, sides)
        except RecursionError:
            raise _too_deep(text) from None

    def _parsed(self, text: str, sides: Sequence[str]) -> exp.Expression:
        trees = parsed_trees(text, self.dialect)
        tree = trees[0] if len(trees) == 1 else None
        for kind, what in _REFUSED.items():
            if tree is not None and tree.find(kind) is not None:
                raise _no_expression(text, what)
        if tree is not None and any(call.name.lower() in _SEVERAL_ROWS for call in tree.find_all(exp.Anonymous)):
            raise _no_expression(text, _REFUSED[exp.Explode])
        if not isinstance(tree, _EXPRESSIONS):
            raise ExpressionError(f"{text!r} is a statement, and not an expression of one row")
        changes: list[tuple[int, int, str]] = []
        resolved = tree.transform(lambda node: self._resolved(node, text, sides, changes) if _is_column(node) else node)
        # engines read their own words better than sqlglot, whose log2(x) is log(2, x), and Spark's 'it''s' its
        written = replaced(text, changes)
        resolved.meta[_WRITTEN] = f"{written}\n" if "--" in written else written  # a comment ends with its line
        return resolved

    def _resolved(
        self, node: exp.Expression, text: str, sides: Sequence[str], changes: list[tuple[int, int, str]]
    ) -> exp.Expression:
        identifiers = list(node.parts)  # type: ignore[attr-defined]
        parts = [part.name for part in identifiers]
        side, length = self._side(parts, text)
        if side is not None and side not in sides:
            raise ExpressionError(f"{text!r}: there is no row of the {side} here")
        name, *members = parts[length:]
        places = list(self._places(name, sides if side is None else (side,)))
        if not places:
            known = [column for one in sides for column in self.columns[one]]
            raise UnknownColumnError(f"{text!r}: there is no column {name!r}{did_you_mean(name, known)}")
        if len(places) > 1:
            called = self.names or {}
            choices = " or ".join(f"{'.'.join(called.get(one) or (one,))}.{column}" for one, column in places)
            raise ExpressionError(f"{text!r}: column {name!r} is in both; write {choices}")
        where, column = places[0]
        self.used.add(places[0])
        span = (identifiers[0].meta["start"], identifiers[length].meta["end"] + 1)
        changes.append((*span, self.named(where, column)))
        resolved: exp.Expression = exp.column(column, table=where, quoted=True)
        for member in members:
            resolved = exp.Dot(this=resolved, expression=exp.to_identifier(member, quoted=True))
        return resolved

    def _side(self, parts: Sequence[str], text: str) -> tuple[str | None, int]:
        """The side that the first parts of a column's name mean, if any, and how many they are."""
        names = self.names or {side: (side,) for side in self.columns}
        for length in range(len(parts) - 1, 0, -1):
            sides = [side for side, name in names.items() if is_named(parts[:length], name)]
            if len(sides) > 1:
                raise ExpressionError(f"{text!r}: {'.'.join(parts[:length])} may be either side; give them aliases")
            if sides:
                return sides[0], length
        return None, 0

    def _places(self, name: str, sides: Sequence[str]) -> Iterator[tuple[str, str]]:
        for side in sides:
            column = self.column(side, name)
            if column is not None:
                yield side, column

    def column(self, side: str, name: str) -> str | None:
        """The column of a side that a name means; see `meant`."""
        return meant(name, self.columns[side])


def parsed_trees(text: str, dialect: str) -> list[Any]:
    """The trees of an expression or a query, as sqlglot reads it: one, unless semicolons divide it.

    Raises:
        FilterSyntaxError: the text does not parse, or is nested too deeply.
    """
    reader = Dialect.get_or_raise(dialect)
    try:
        tokens, parser = reader.tokenize(text), reader.parser()
        if parses_too_often(tokens, parser):
            raise _too_deep(text)
        return list(parser.parse(tokens, text))
    except SqlglotError as error:
        raise FilterSyntaxError(f"{text!r} is no SQL expression: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise _too_deep(text) from None


def _too_deep(text: str) -> FilterSyntaxError:
    return FilterSyntaxError(f"an expression of {len(text):,} characters is nested too deeply")


def _no_expression(text: str, what: str) -> ExpressionError:
    return ExpressionError(f"{text!r}: {what} cannot stand in an expression of one row")


def _is_column(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column)


def meant(name: str, columns: Sequence[str]) -> str | None:
    """The column that a name means, whose case does not matter where no other column has it; None for none."""
    if name in columns:
        return name
    alike = [column for column in columns if column.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def is_named(parts: Sequence[str], name: Sequence[str]) -> bool:
    """Whether the parts of a qualifier are a table's name, or its end; their case does not matter."""
    ends = [part.casefold() for part in name[-len(parts) :]]
    return len(parts) <= len(name) and [part.casefold() for part in parts] == ends


def replaced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """A text with other words in some places, given by begin and end."""
    for begin, end, words in sorted(changes, reverse=True):
        text = text[:begin] + words + text[end:]
    return text


def quoted(name: str) -> str:
    """A name as SQL."""
    return exp.to_identifier(name, quoted=True).sql(dialect=DIALECT)


def text(words: str) -> str:
    """A text as SQL."""
    return exp.Literal.string(words).sql(dialect=DIALECT)


def named(side: str, name: str) -> str:
    """A column of a side as SQL."""
    return f"{side}.{quoted(name)}"
