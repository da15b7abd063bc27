"""Error messages for texts that do not parse; those of sqlglot name its classes and change between releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

_QUOTES = {"'": "text", '"': "quotation", "`": "name"}
_DIALECT_NAMES = {"spark": "Spark", "hive": "Hive", "trino": "Trino", "presto": "Presto"}


def tokenizer_error(text: str, dialect: str) -> str:
    """Why a text could not be tokenised."""
    opened = _open_quote(text, backslash=dialect in {"spark", "hive"})
    if opened is None:
        name = _DIALECT_NAMES[dialect]
        return f"there is a literal that {name} does not know, or a comment that does not end: {text[:80]}"
    what, before = _QUOTES[text[opened]], text[max(0, opened - 30) : opened]
    return f"this {what} is not closed (column {opened + 1}): {before} >>> {text[opened : opened + 30]}"


def _open_quote(text: str, *, backslash: bool) -> int | None:
    """Where an unclosed quotation begins."""
    position, opened = 0, None
    while position < len(text):
        character = text[position]
        if opened is None:
            opened = position if character in _QUOTES else None
        elif backslash and character == "\\" and text[opened] != "`":
            position += 1
        elif character == text[opened]:
            opened = None
        position += 1
    return opened


def parse_error(details: Mapping[str, Any], tokens: Sequence[Token], text: str, dialect: str) -> tuple[int, str]:
    """Where and why a condition was not understood.

    Args:
        details: of sqlglot's error.
        tokens: of the condition.
        text: of the whole filter.
        dialect: its dialect.

    Returns:
        The position among the tokens, and the message.
    """
    described = str(details.get("description") or "")
    position = _position(details, tokens, text)
    if "Required keyword" in described:
        return len(tokens) - 1, "an operand is missing after this"
    if "TYPE" in described:
        return position, f"this is not a type of {_DIALECT_NAMES[dialect]}'s"
    if "Expecting" in described or "Expected" in described:
        return position, "this cannot stand here"
    token = tokens[position]
    if token.token_type is TokenType.STRING and position and tokens[position - 1].end + 1 == token.start:
        prefix = text[tokens[position - 1].start : token.start]
        return (
            position - 1,
            f"{_DIALECT_NAMES[dialect]} has no literals that begin with {prefix}{text[token.start]}: write a text",
        )
    return position, "this cannot follow a condition; AND or OR may be missing before it"


def query_error(error: SqlglotError, sql: str, dialect: str) -> str:
    """Why a whole query was not understood."""
    details: list[Any] = getattr(error, "errors", None) or []
    if not details:
        return tokenizer_error(sql, dialect)
    at = {key: str(details[0].get(key) or "") for key in ("line", "col", "start_context", "highlight", "end_context")}
    shown = f"{at['start_context'][-30:]} >>> {at['highlight']}{at['end_context'][:30]}"
    name = _DIALECT_NAMES[dialect]
    return f"this is no query of {name}'s SQL (it fails at line {at['line']}, column {at['col']}): {shown}"


def _position(details: Mapping[str, Any], tokens: Sequence[Token], text: str) -> int:
    """The token at which sqlglot stopped; the first one if it does not say."""
    before, at = str(details.get("start_context") or ""), str(details.get("highlight") or "")
    for position, token in enumerate(tokens):
        if at and text[token.start : token.end + 1] == at and text[: token.start].endswith(before):
            return position
    return 0
