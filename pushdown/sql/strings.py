"""Strings of Spark's and Hive's SQL, decoded from the text itself: releases of sqlglot differ on escapes."""

from __future__ import annotations

import re

from sqlglot import Token, TokenType

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_SINGLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def unescaped(inner: str) -> str:
    r"""Decode what stands between the quotes, as Spark does.

    ``\%`` and ``\_`` stay, for LIKE; before any other character without a meaning the backslash goes.
    """
    if "\\" not in inner:
        return inner
    decoded = _ESCAPE.sub(_character, inner)
    # Characters beyond 16 bits may be written as two, as in Java.
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), decoded)


def _character(match: re.Match[str]) -> str:
    short, wide, octal, single = match.groups()
    if single is not None:
        return _SINGLE.get(single, single)
    code = int(octal, 8) if octal else int(short or wide, 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def with_own_strings(tokens: list[Token], text: str) -> list[Token]:
    """Decode the strings among the tokens, and join those that touch: a doubled quote is a quote, as in Spark 4."""
    out: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.STRING or text[token.start] not in "'\"":
            out.append(token)
            continue
        value = unescaped(text[token.start + 1 : token.end])
        last = out[-1] if out else None
        touches = (
            last is not None
            and last.token_type is TokenType.STRING
            and token.start == last.end + 1
            and text[token.start] == text[last.end]
        )
        if last is not None and touches:
            value = last.text + text[token.start] + value
            out[-1] = Token(TokenType.STRING, value, last.line, last.col, last.start, token.end)
        else:
            out.append(Token(TokenType.STRING, value, token.line, token.col, token.start, token.end))
    return out
