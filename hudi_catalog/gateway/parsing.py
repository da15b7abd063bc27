"""The query of a statement as a syntax tree whose names know their positions in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from hudi_catalog.gateway.lexing import Kind, Lexeme, lexemes_of, same_boundaries
from hudi_catalog.gateway.statement import NotRewrittenError, Reason, Statement
from pushdown.sql.lists import extract_lists
from pushdown.sql.nesting import parses_too_often

DIALECT = "trino"
# sqlglot recurses into parentheses.
_MAX_NESTING = 100
# Parsing time doubles with each bracket.
_MAX_BRACKETS = 8
_MOST_LEXEMES = 50_000
# For each, the rest of the text is searched for its end.
_MOST_OPEN = 20


@dataclass(frozen=True, eq=False)
class StatementText:
    """A statement split into lexemes.

    Attributes:
        text: the statement, each long list of literals replaced by a number and spaces.
        lists: the literals by that number.
        lexemes: of the text.
    """

    text: str
    lists: Mapping[str, tuple[Any, ...]]
    lexemes: Sequence[Lexeme]

    @classmethod
    def of(cls, sql: str) -> StatementText:
        """Split a statement into lexemes.

        Raises:
            NotRewrittenError: the text is not Trino's SQL.
        """
        many_open = sql.count("/*", sql.rfind("*/") + 1) > _MOST_OPEN
        text, lists = (sql, {}) if many_open else extract_lists(sql, backslash=False, padded=True)
        lexemes = lexemes_of(text)
        if lexemes is None:
            raise NotRewrittenError(Reason.NOT_PARSED, "not in the lexical grammar of Trino's SQL")
        return cls(text, lists, lexemes)


@dataclass(frozen=True, eq=False)
class Query:
    """The query of a statement.

    Attributes:
        tree: sqlglot's syntax tree; positions in `meta` of names refer to the whole text.
        lexemes: of the query.
        lists: literals by the number that replaces them in the tree.
    """

    tree: Any
    lexemes: Sequence[Lexeme]
    lists: Mapping[str, tuple[Any, ...]]


def parse_query(text: StatementText, statement: Statement, parameters: Sequence[str] | None) -> Query:
    """Parse the query of a statement.

    Args:
        text: the whole statement.
        statement: where the query is.
        parameters: SQL literals for its question marks; None if unknown.

    Raises:
        NotRewrittenError: the text may not be parsed as Trino parses it, or is too long.
    """
    if len(text.lexemes) > _MOST_LEXEMES:
        raise NotRewrittenError(Reason.TOO_LONG, f"{len(text.lexemes):,} words and symbols")
    inside = [lexeme for lexeme in text.lexemes if statement.start <= lexeme.start < statement.end]
    _check_nesting(inside)
    reader = Dialect.get_or_raise(DIALECT)
    blanked = " " * statement.start + text.text[statement.start : statement.end]
    try:
        tokens = reader.tokenize(blanked)
        if not same_boundaries(inside, tokens):
            raise NotRewrittenError(Reason.NOT_PARSED, "sqlglot splits the text into other tokens than Trino")
        parser = reader.parser()
        if parses_too_often(tokens, parser):
            raise NotRewrittenError(Reason.NOT_PARSED, "calls named like types are nested too deeply")
        trees = parser.parse(_with_parameters(tokens, parameters), blanked)
    except SqlglotError as error:
        # the message of a TokenError quotes the statement
        detail = (
            str(error).splitlines()[0] if isinstance(error, ParseError) else "sqlglot cannot split the text into tokens"
        )
        raise NotRewrittenError(Reason.NOT_PARSED, detail) from None
    except RecursionError:
        raise NotRewrittenError(Reason.NOT_PARSED, "nested too deeply") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotRewrittenError(Reason.NOT_PARSED, "no query")
    return Query(trees[0], inside, text.lists)


def _check_nesting(lexemes: Sequence[Lexeme]) -> None:
    depth = {"(": 0, "[": 0}
    opened_by = {")": "(", "]": "["}
    for lexeme in lexemes:
        if lexeme.kind is not Kind.SYMBOL:
            continue
        if lexeme.text in depth:
            depth[lexeme.text] += 1
        elif lexeme.text in opened_by:
            depth[opened_by[lexeme.text]] -= 1
        if depth["("] > _MAX_NESTING or depth["["] > _MAX_BRACKETS:
            raise NotRewrittenError(Reason.NOT_PARSED, "nested too deeply")


def _with_parameters(tokens: list[Token], parameters: Sequence[str] | None) -> list[Token]:
    """Replace question marks by the parameters' values, in parentheses."""
    marks = sum(token.token_type is TokenType.PLACEHOLDER for token in tokens)
    if parameters is None or not marks:
        return tokens
    if marks != len(parameters):
        raise NotRewrittenError(Reason.NOT_PARSED, f"{len(parameters)} values for {marks} parameters")
    values = iter(parameters)
    out: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.PLACEHOLDER:
            out.append(token)
            continue
        out += _value_tokens(next(values), token)
    return out


def _value_tokens(text: str, mark: Token) -> list[Token]:
    """A parameter's tokens at the position of its question mark; the question mark itself if they are ambiguous."""
    lexemes = lexemes_of(text)
    tokens = [] if lexemes is None else Dialect.get_or_raise(DIALECT).tokenize(text)
    if lexemes is None or any(lexeme.word in {"[", "("} for lexeme in lexemes) or not same_boundaries(lexemes, tokens):
        return [mark]
    moved = [Token(token.token_type, token.text, mark.line, mark.col, mark.start, mark.end) for token in tokens]
    if len(moved) == 1:
        return moved
    opening = Token(TokenType.L_PAREN, "(", mark.line, mark.col, mark.start, mark.end)
    return [opening, *moved, Token(TokenType.R_PAREN, ")", mark.line, mark.col, mark.start, mark.end)]
