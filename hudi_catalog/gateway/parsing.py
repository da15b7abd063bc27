"""The query of a statement as a syntax tree whose names know where they stand in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from hudi_catalog.gateway.lexing import Kind, Lexeme, cut_alike, lexemes_of
from hudi_catalog.gateway.statement import LeftAloneError, Reason, Statement
from pushdown.sql.lists import take_lists_out

DIALECT = "trino"
# sqlglot recurses into parentheses.
_MAX_NESTING = 100
# Each bracket doubles the time that it takes.
_MAX_BRACKETS = 8
_MOST_LEXEMES = 50_000
# Each is looked for an end of to the end of the text.
_MOST_OPEN = 20


@dataclass(frozen=True, eq=False)
class StatementText:
    """A statement that was cut into lexemes.

    Attributes:
        text: with a number and spaces in place of each long list of literals.
        lists: the literals by that number.
        lexemes: of the text.
    """

    text: str
    lists: Mapping[str, tuple[Any, ...]]
    lexemes: Sequence[Lexeme]

    @classmethod
    def of(cls, sql: str) -> StatementText:
        """Cut a statement.

        Raises:
            LeftAloneError: it is none of Trino's, or too long to be looked at.
        """
        if sql.count("/*", sql.rfind("*/") + 1) > _MOST_OPEN:
            raise LeftAloneError(Reason.NOT_PARSED, "comments are not closed")
        text, lists = take_lists_out(sql, backslash=False, padded=True)
        lexemes = lexemes_of(text)
        if lexemes is None:
            raise LeftAloneError(Reason.NOT_PARSED, "no text of Trino's SQL")
        if len(lexemes) > _MOST_LEXEMES:
            raise LeftAloneError(Reason.TOO_LONG, f"{len(lexemes):,} words and signs")
        return cls(text, lists, lexemes)


@dataclass(frozen=True, eq=False)
class Query:
    """The query of a statement.

    Attributes:
        tree: as sqlglot parsed it. The positions in its names' `meta` are those of the whole text.
        lexemes: of the query.
        lists: literals by the number that stands for them in the tree.
    """

    tree: Any
    lexemes: Sequence[Lexeme]
    lists: Mapping[str, tuple[Any, ...]]


def parse_query(cut: StatementText, statement: Statement, parameters: Sequence[str] | None) -> Query:
    """Parse the query of a statement.

    Args:
        cut: the whole statement.
        statement: where the query is.
        parameters: SQL literals for its question marks; None where they are not known.

    Raises:
        LeftAloneError: the text is cut or nested in a way that is not sure to be understood as Trino does.
    """
    inside = [lexeme for lexeme in cut.lexemes if statement.start <= lexeme.start < statement.end]
    _check_nesting(inside)
    reader = Dialect.get_or_raise(DIALECT)
    blanked = " " * statement.start + cut.text[statement.start : statement.end]
    try:
        tokens = reader.tokenize(blanked)
        if not cut_alike(inside, tokens):
            raise LeftAloneError(Reason.NOT_PARSED, "the text is cut differently")
        trees = reader.parser().parse(_with_parameters(tokens, parameters), blanked)
    except SqlglotError as error:
        # a TokenError quotes the statement
        detail = str(error).splitlines()[0] if isinstance(error, ParseError) else "the text cannot be cut"
        raise LeftAloneError(Reason.NOT_PARSED, detail) from None
    except RecursionError:
        raise LeftAloneError(Reason.NOT_PARSED, "nested too deeply") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise LeftAloneError(Reason.NOT_PARSED, "no query")
    return Query(trees[0], inside, cut.lists)


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
            raise LeftAloneError(Reason.NOT_PARSED, "nested too deeply")


def _with_parameters(tokens: list[Token], parameters: Sequence[str] | None) -> list[Token]:
    """Put the values of parameters, in parentheses, in place of the question marks."""
    marks = sum(token.token_type is TokenType.PLACEHOLDER for token in tokens)
    if parameters is None or not marks:
        return tokens
    if marks != len(parameters):
        raise LeftAloneError(Reason.NOT_PARSED, f"{len(parameters)} values for {marks} parameters")
    values = iter(parameters)
    out: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.PLACEHOLDER:
            out.append(token)
            continue
        out += _value_tokens(next(values), token)
    return out


def _value_tokens(text: str, mark: Token) -> list[Token]:
    """A parameter's tokens, all at the place of its question mark; the mark itself where they are not sure."""
    lexemes = lexemes_of(text)
    tokens = [] if lexemes is None else Dialect.get_or_raise(DIALECT).tokenize(text)
    if lexemes is None or any(lexeme.word in {"[", "("} for lexeme in lexemes) or not cut_alike(lexemes, tokens):
        return [mark]
    moved = [Token(token.token_type, token.text, mark.line, mark.col, mark.start, mark.end) for token in tokens]
    if len(moved) == 1:
        return moved
    opening = Token(TokenType.L_PAREN, "(", mark.line, mark.col, mark.start, mark.end)
    return [opening, *moved, Token(TokenType.R_PAREN, ")", mark.line, mark.col, mark.start, mark.end)]
