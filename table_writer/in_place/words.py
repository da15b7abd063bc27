"""A text of Spark SQL word by word, as sqlglot divides it, and the tables that it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from pushdown.errors import FilterSyntaxError
from table_writer.in_place.expressions import parsed_trees, replaced

SPARK: Final = "spark"
Name = tuple[str, ...]

_WORD: Final = re.compile(r"[^\W\d]\w*")
_OF_THE_PAST: Final = re.compile(r"\s*(?:FOR\s+)?(?:SYSTEM_)?(?:TIMESTAMP|TIME|VERSION)\s+AS\s+OF\b", re.IGNORECASE)
_OPEN: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def _words_of(text: str) -> list[Token]:
    """The words of a text of Spark SQL.

    Raises:
        FilterSyntaxError: a literal or a comment does not end.
    """
    try:
        return list(Dialect.get_or_raise(SPARK).tokenize(text))
    except SqlglotError as error:
        raise FilterSyntaxError(f"this is no SQL: {str(error).splitlines()[0]}") from error


class Words:
    """A place in a text, which goes on over the words that are understood.

    Args:
        text: SQL.

    Raises:
        FilterSyntaxError: a literal or a comment does not end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _words_of(text)
        while self.tokens and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.tokens.pop()
        self.at = 0

    def alias(self) -> str:
        """A name of one part."""
        name = self.name()
        if len(name) > 1:
            self.at -= 1
            self.refuse("an alias is one name, which ends before")
        return name[0]

    def name(self) -> Name:
        """A name of one part or several, with dots between."""
        parts = [self.part()]
        while self.token_is(TokenType.DOT):
            self.at += 1
            parts.append(self.part())
        return tuple(parts)

    def part(self) -> str:
        """A name of one part, plain or in backticks."""
        if self.at < len(self.tokens):
            raw = self.raw(self.at)
            if raw.startswith("`"):
                self.at += 1
                return raw[1:-1].replace("``", "`")
            if _WORD.fullmatch(raw):
                self.at += 1
                return raw
        return self.refuse("a name is expected, not")

    def slice(self, *stops: str, comma: bool = False) -> str:
        """What stands up to a word, a comma, or the end of the parentheses or of the text."""
        begin = self.at
        self.skip_to(*stops, comma=comma)
        if self.at == begin:
            self.refuse("an expression is expected, not")
        return self.text[self.tokens[begin].start : self.tokens[self.at - 1].end + 1]

    def group(self) -> None:
        """Pass parentheses and what stands in them."""
        self.expect_type(TokenType.L_PAREN, "(")
        self.skip_to()
        self.expect_type(TokenType.R_PAREN, ")")

    def skip_to(self, *stops: str, comma: bool = False) -> None:
        """Go on to the first such word, or comma, that stands in no parentheses and in no CASE."""
        depth = cases = 0
        while self.at < len(self.tokens):
            kind = self.tokens[self.at].token_type
            before = self.raw(self.at - 1).upper() if self.at else ""
            word = "" if before in (".", "DISTINCT") else self.word()  # a column's name; IS DISTINCT FROM
            ends = word in stops or (comma and kind is TokenType.COMMA)
            if not depth and (kind in _CLOSE or (ends and not cases)):
                return
            depth += (kind in _OPEN) - (kind in _CLOSE)
            cases += (word == "CASE") - (word == "END" and cases > 0)
            self.at += 1

    def expect(self, *words: str) -> None:
        """Pass these words."""
        for word in words:
            if not self.takes(word):
                self.refuse(f"{word} is expected, not")

    def expect_type(self, kind: TokenType, sign: str) -> None:
        """Pass a sign."""
        if not self.token_is(kind):
            self.refuse(f"{sign} is expected, not")
        self.at += 1

    def takes(self, *words: str) -> bool:
        """Whether these words follow, which then are passed."""
        matches = all(self.words_from(self.at + place, word) for place, word in enumerate(words))
        self.at += len(words) if matches else 0
        return matches

    def words_from(self, place: int, words: str | Sequence[str], *, deep: bool = False) -> bool:
        """Whether one of these words stands at a place, or, in `deep`, after parentheses that open there."""
        while deep and place < len(self.tokens) and self.tokens[place].token_type is TokenType.L_PAREN:
            place += 1
        choices = (words,) if isinstance(words, str) else words
        return place < len(self.tokens) and self.raw(place).upper() in choices

    def word(self) -> str:
        """The next word in capitals; empty for a sign, a literal, a quoted name and the end."""
        raw = self.raw(self.at) if self.at < len(self.tokens) else ""
        return raw.upper() if _WORD.fullmatch(raw) else ""

    def token_is(self, kind: TokenType) -> bool:
        """Whether the next word or sign is of a kind."""
        return self.at < len(self.tokens) and self.tokens[self.at].token_type is kind

    def raw(self, place: int) -> str:
        """A word as it is written."""
        token = self.tokens[place]
        return self.text[token.start : token.end + 1]

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error that shows the place."""
        if self.at >= len(self.tokens):
            raise FilterSyntaxError(f"{reason} the end of the text")
        start = self.tokens[self.at].start
        line, column = self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)
        raise FilterSyntaxError(f"{reason} {self.raw(self.at)[:40]!r} (line {line}, column {column})")


def mentioned_tables(text: str) -> Iterator[Name]:
    """Names of the tables that a query may read, as far as sqlglot reads it; those of its WITH are among them."""
    try:
        trees = parsed_trees(text, SPARK)
    except FilterSyntaxError:
        return
    for tree in trees:
        for table in () if tree is None else tree.find_all(exp.Table):
            yield tuple(part.name for part in table.parts)


def with_replaced_paths(text: str, database: str, made: Callable[[str], str]) -> str:
    """A text with other words for tables that are paths: of database.`path`, where the path has a slash.

    Args:
        text: SQL.
        database: whose tables are meant.
        made: the words for a path.

    Raises:
        FilterSyntaxError: a state of the past is asked for, which these words cannot stand for.
    """
    changes = []
    tokens = _words_of(text)
    for place, token in enumerate(tokens[2:], 2):
        name, dot = tokens[place - 2 : place]
        if token.token_type is TokenType.IDENTIFIER and "/" in token.text and dot.token_type is TokenType.DOT:
            before = tokens[place - 3].token_type if place > 2 else None
            if name.text.casefold() == database and before is not TokenType.DOT:
                if _OF_THE_PAST.match(text, token.end + 1):
                    raise FilterSyntaxError(
                        f"{token.text}: a statement reads tables at their newest state; for one of the past register a "
                        "view: table.to_df(as_of=...).createOrReplaceTempView(name)"
                    )
                changes.append((name.start, token.end + 1, made(token.text)))
    return replaced(text, changes)
