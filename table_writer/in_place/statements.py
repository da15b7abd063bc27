"""Spark SQL's statements that change one table, read into their parts; the parts stay as they are written.

sqlglot divides the text into words. It does not read the statement: it passes over some clauses that it knows of other
engines, and writes expressions in words of its own. So whatever is not expected at a place is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import TokenType, exp

from pushdown.errors import ExpressionError, FilterSyntaxError
from table_writer.in_place.clauses import Kind
from table_writer.in_place.expressions import is_named, parsed_trees, replaced
from table_writer.in_place.words import SPARK, Name, Words

_QUERIES: Final = ("SELECT", "FROM", "VALUES", "TABLE")
# No expression goes on with these, so that a clause which is not known is refused at its place.
_CLAUSES: Final = ("FROM", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "RETURNING")

#: Texts of values by column; None for all columns of the source.
Values = Mapping[str, str]


@dataclass(frozen=True)
class TableName:
    """A table as a statement names it.

    Attributes:
        parts: of the name.
        alias: what the statement calls it; None for its name.
    """

    parts: Name
    alias: str | None = None

    @property
    def called(self) -> Name:
        """What qualifies its columns."""
        return self.parts if self.alias is None else (self.alias,)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Query:
    """A query."""

    text: str


@dataclass(frozen=True)
class When:
    """A clause of a merge: `update`, `insert` or `delete` of rows of a kind."""

    kind: Kind
    action: str
    values: Values | None = None
    condition: str | None = None


@dataclass(frozen=True)
class MergeInto:
    """`MERGE INTO`: the source is a query of all its columns."""

    target: TableName
    source: str
    source_called: Name
    on: str
    whens: Sequence[When]
    evolves: bool = False


@dataclass(frozen=True)
class UpdateSet:
    """`UPDATE`, of all rows where there is no condition; qualifiers are left out."""

    target: TableName
    values: Values
    where: str | None


@dataclass(frozen=True)
class DeleteFrom:
    """`DELETE FROM`, of all rows where there is no condition; qualifiers are left out."""

    target: TableName
    where: str | None


@dataclass(frozen=True)
class InsertInto:
    """`INSERT INTO` or `INSERT OVERWRITE`.

    Attributes:
        target: the table.
        query: the rows.
        columns: those that the rows have, in order; None for the table's.
        by_name: the rows' columns are meant by their names.
        partition: texts of constants, for columns that the rows lack.
        overwrite: the rows replace others.
    """

    target: TableName
    query: str
    columns: Sequence[str] | None
    by_name: bool
    partition: Values
    overwrite: bool


Statement = Query | MergeInto | UpdateSet | DeleteFrom | InsertInto


def statement_of(text: str) -> Statement:
    """Read one statement.

    Raises:
        FilterSyntaxError: the text is empty, has several statements, or something that is not understood; the message
            shows where.
        ExpressionError: a subquery names the changed table's columns by its name.
    """
    return _Reader(text).statement()


def _unqualified(text: str, target: TableName) -> str:
    """A condition or value whose columns are those of the table, without what qualifies them."""
    changes: list[tuple[int, int, str]] = []
    trees = [tree for tree in parsed_trees(text, SPARK) if tree is not None]
    if len(trees) != 1:
        raise FilterSyntaxError(f"{text!r} is no SQL expression")
    for column in trees[0].find_all(exp.Column):
        parts = column.parts
        length = len(parts) - 1
        while length and not is_named([part.name for part in parts[:length]], target.called):
            length -= 1
        if not length:
            continue
        query = column.find_ancestor(exp.Query)
        if query is None:
            changes.append((parts[0].meta["start"], parts[length].meta["start"], ""))
        elif not any(target.called[-1:] == (table.alias_or_name,) for table in query.find_all(exp.Table)):
            name = ".".join(part.name for part in parts)
            raise ExpressionError(
                f"{text!r}: in a subquery the table's column {name} cannot be named by its table; MERGE INTO joins rows"
            )
    return replaced(text, changes)


class _Reader(Words):
    """Reads a statement word by word."""

    def statement(self) -> Statement:
        if not self.tokens:
            raise FilterSyntaxError("there is no statement in the text")
        for place, token in enumerate(self.tokens):
            if token.token_type is TokenType.SEMICOLON:
                self.at = place
                self.refuse("a second statement: give one at a time, not")
        first = self.word()
        if first in _QUERIES or self.tokens[0].token_type is TokenType.L_PAREN:
            return self._query()
        readers: dict[str, Callable[[str], Statement]] = {"MERGE": self._merge, "INSERT": self._insert}
        if first == "WITH":
            begin = self.at
            self.skip_to(*_QUERIES, *readers, "UPDATE", "DELETE")
            if self.word() in _QUERIES or self.at == len(self.tokens):
                self.at = begin
                return self._query()
            if self.word() not in readers:
                self.refuse("UPDATE and DELETE take no WITH before them; write the query into the condition:")
            return readers[self.word()](self.text[self.tokens[begin].start : self.tokens[self.at].start])
        readers |= {"UPDATE": self._update, "DELETE": self._delete}
        if first not in readers:
            self.refuse("MERGE, UPDATE, DELETE, INSERT and queries are carried out here; use spark.sql for")
        return readers[first]("")

    def _query(self) -> Query:
        text = self.slice()
        if self.at < len(self.tokens):
            self.refuse("a query ends before")
        if self.words_from(0, "FROM"):
            for place, token in enumerate(self.tokens):
                if token.token_type is TokenType.INSERT and self.words_from(place + 1, ("INTO", "OVERWRITE")):
                    self.at = place
                    self.refuse("write the query after the table, INSERT INTO … SELECT; not before")
        return Query(text)

    def _merge(self, common: str) -> MergeInto:
        self.expect("MERGE")
        evolves = self.takes("WITH", "SCHEMA", "EVOLUTION")
        self.expect("INTO")
        target = self._table(stops=("USING",))
        self.expect("USING")
        source, called = self._source(common)
        self.expect("ON")
        on = self.slice("WHEN", *_CLAUSES)
        whens = []
        while self.word():
            whens.append(self._when(target))
        if self.at < len(self.tokens) or not whens:
            self.refuse("a merge needs clauses WHEN … THEN …, not")
        return MergeInto(target, source, called, on, whens, evolves)

    def _source(self, common: str) -> tuple[str, Name]:
        """The source as a query, and what it is called."""
        begin = self.at
        name: Name = ()
        if self.takes("VALUES"):
            self.group()
            while self.token_is(TokenType.COMMA):
                self.at += 1
                self.group()
        elif self.token_is(TokenType.L_PAREN):
            self.group()
        else:
            name = self.name()
        self.takes("AS")
        if self.word() != "ON":
            name = (self.alias(),)
            if self.token_is(TokenType.L_PAREN):
                list(self._list_of_names())
        if self.word() != "ON":
            self.refuse("the source of a merge is a table or a query in parentheses, with an alias; ON follows, not")
        end = self.tokens[self.at - 1].end + 1
        return f"{common}SELECT * FROM {self.text[self.tokens[begin].start : end]}", name  # noqa: S608 - the user's own

    def _when(self, target: TableName) -> When:
        self.expect("WHEN")
        kind = Kind.MATCHED
        if self.takes("NOT", "MATCHED"):
            kind = Kind.NOT_MATCHED_BY_SOURCE if self.takes("BY", "SOURCE") else Kind.NOT_MATCHED
            if kind is Kind.NOT_MATCHED and self.word() == "BY":
                self.expect("BY", "TARGET")
        else:
            self.expect("MATCHED")
        condition = self.slice("THEN", *_CLAUSES) if self.takes("AND") else None
        self.expect("THEN")
        if kind is Kind.NOT_MATCHED:
            self.expect("INSERT")
            return When(kind, "insert", self._inserted(target), condition)
        if self.takes("DELETE"):
            return When(kind, "delete", None, condition)
        self.expect("UPDATE", "SET")
        if self.token_is(TokenType.STAR):
            if kind is not Kind.MATCHED:
                self.refuse("rows that no source matches have no values to SET from")
            self.at += 1
            return When(kind, "update", None, condition)
        return When(kind, "update", self._assignments(target, "WHEN"), condition)

    def _inserted(self, target: TableName) -> Values | None:
        if self.token_is(TokenType.STAR):
            self.at += 1
            return None
        columns = [self._column(target, name) for name in self._list_of_names()]
        self.expect("VALUES")
        at = self.at
        values = self._list()
        if len(columns) != len(values) or len(set(map(str.casefold, columns))) != len(columns):
            self.at = at
            self.refuse(f"{len(columns)} different columns want one value each; there are {len(values)} values from")
        return dict(zip(columns, values, strict=True))

    def _update(self, _: str) -> UpdateSet:
        self.expect("UPDATE")
        target = self._table(stops=("SET",))
        self.expect("SET")
        values = self._assignments(target, "WHERE")
        values = {name: _unqualified(text, target) for name, text in values.items()}
        return UpdateSet(target, values, self._where(target))

    def _delete(self, _: str) -> DeleteFrom:
        self.expect("DELETE", "FROM")
        target = self._table(stops=("WHERE",))
        return DeleteFrom(target, self._where(target))

    def _where(self, target: TableName) -> str | None:
        if self.at == len(self.tokens):
            return None
        self.expect("WHERE")
        where = _unqualified(self.slice(*_CLAUSES), target)
        if self.at < len(self.tokens):
            self.refuse("the statement ends before")
        return where

    def _insert(self, common: str) -> InsertInto:
        self.expect("INSERT")
        overwrite = self.takes("OVERWRITE")
        if not overwrite:
            self.expect("INTO")
        elif self.word() == "INTO":
            self.at += 1
        if self.word() == "TABLE":
            self.at += 1
        target = TableName(self.name())
        partition = self._partition(target) if self.takes("PARTITION") else {}
        by_name = self.takes("BY", "NAME")
        columns = None
        if self.token_is(TokenType.L_PAREN) and not self.words_from(self.at + 1, (*_QUERIES, "WITH"), deep=True):
            columns = [self._column(target, name) for name in self._list_of_names()]
        if by_name and columns is not None:
            self.refuse("BY NAME takes no list of columns; what follows is")
        if self.word() not in (*_QUERIES, "WITH") and not self.token_is(TokenType.L_PAREN):
            self.refuse("rows follow, as SELECT, VALUES, TABLE or WITH, not")
        return InsertInto(target, common + self.slice(), columns, by_name, partition, overwrite)

    def _partition(self, target: TableName) -> Values:
        self.expect_type(TokenType.L_PAREN, "(")
        values: dict[str, str] = {}
        while True:
            name = self._column(target, self.name())
            if not self.token_is(TokenType.EQ):
                self.refuse(f"PARTITION wants a value for {name}; list it as a column instead of")
            self.at += 1
            values[name] = self.slice(comma=True)
            if not self.token_is(TokenType.COMMA):
                break
            self.at += 1
        self.expect_type(TokenType.R_PAREN, ")")
        return values

    def _assignments(self, target: TableName, stop: str) -> Values:
        values: dict[str, str] = {}
        while True:
            begin = self.at
            column = self._column(target, self.name())
            if column.casefold() in map(str.casefold, values):
                self.at = begin
                self.refuse("a column is set twice:")
            self.expect_type(TokenType.EQ, "=")
            values[column] = self._value(stop)
            if not self.token_is(TokenType.COMMA):
                return values
            self.at += 1

    def _value(self, *stops: str) -> str:
        begin = self.at
        text = self.slice(*stops, *_CLAUSES, comma=True)
        if text.upper() == "DEFAULT":
            self.at = begin
            self.refuse("columns of Hudi tables have no defaults; write the value in place of")
        return text

    def _list(self) -> list[str]:
        """Texts in parentheses."""
        self.expect_type(TokenType.L_PAREN, "(")
        texts = [self._value()]
        while self.token_is(TokenType.COMMA):
            self.at += 1
            texts.append(self._value())
        self.expect_type(TokenType.R_PAREN, ")")
        return texts

    def _list_of_names(self) -> Iterator[Name]:
        self.expect_type(TokenType.L_PAREN, "(")
        yield self.name()
        while self.token_is(TokenType.COMMA):
            self.at += 1
            yield self.name()
        self.expect_type(TokenType.R_PAREN, ")")

    def _column(self, target: TableName, name: Name) -> str:
        """A column that is written, without the table's name."""
        for length in range(len(name) - 1, 0, -1):
            if is_named(name[:length], target.called):
                name = name[length:]
                break
        if len(name) > 1:
            self.at -= 1
            self.refuse(f"{'.'.join(name)} is no column of {target}; a struct's field is set with its struct:")
        return name[0]

    def _table(self, stops: Sequence[str]) -> TableName:
        parts = self.name()
        if self.takes("AS"):
            return TableName(parts, self.alias())
        is_end = self.at == len(self.tokens) or self.word() in stops
        if not is_end and self.word() in _CLAUSES:
            self.refuse(f"{' or '.join(stops)} follows the table and its alias, not")
        return TableName(parts, None if is_end else self.alias())
