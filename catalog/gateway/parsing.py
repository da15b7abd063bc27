"""The query of a statement as a syntax tree whose names know where they stand in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from catalog.gateway.lexing import Kind, Lexeme, cut_alike, lexemes_of
from catalog.gateway.reasons import LeftAloneError, Reason
from catalog.gateway.statement import Statement

DIALECT = "trino"
# sqlglot recurses into parentheses.
_MAX_NESTING = 100


def parse_query(sql: str, inside: Sequence[Lexeme], statement: Statement, parameters: Sequence[str] | None) -> Any:
    """Parse the query of a statement.

    Args:
        sql: the whole text.
        inside: the lexemes of the query.
        statement: where the query is.
        parameters: SQL literals for its question marks; None where they are not known.

    Returns:
        sqlglot's tree. The positions in its names' `meta` are those of the whole text.

    Raises:
        LeftAloneError: the text is cut or nested in a way that is not sure to be understood as Trino does.
    """
    _check_nesting(inside)
    reader = Dialect.get_or_raise(DIALECT)
    blanked = " " * statement.start + sql[statement.start : statement.end]
    try:
        tokens = reader.tokenize(blanked)
        if not cut_alike(inside, tokens):
            raise LeftAloneError(Reason.NOT_PARSED, "the text is cut differently")
        trees = reader.parser().parse(_with_parameters(tokens, parameters), blanked)
    except SqlglotError as error:
        raise LeftAloneError(Reason.NOT_PARSED, str(error).splitlines()[0]) from None
    except RecursionError:
        raise LeftAloneError(Reason.NOT_PARSED, "nested too deeply") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise LeftAloneError(Reason.NOT_PARSED, "no query")
    return trees[0]


def _check_nesting(lexemes: Sequence[Lexeme]) -> None:
    depth = 0
    for lexeme in lexemes:
        if lexeme.kind is Kind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(lexeme.text, 0)
            if depth > _MAX_NESTING:
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
    if lexemes is None or not cut_alike(lexemes, tokens):
        return [mark]
    moved = [Token(token.token_type, token.text, mark.line, mark.col, mark.start, mark.end) for token in tokens]
    if len(moved) == 1:
        return moved
    opening = Token(TokenType.L_PAREN, "(", mark.line, mark.col, mark.start, mark.end)
    return [opening, *moved, Token(TokenType.R_PAREN, ")", mark.line, mark.col, mark.start, mark.end)]
