"""How often sqlglot parses the same tokens again: nested in brackets, or in calls named like types, for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlglot import Token, TokenType

# Tokens parsed again, of about 10 microseconds each.
_MOST_AGAIN: Final = 100_000
_MOST_LEVELS: Final = 20
_OPENS: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSES: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})


def parses_too_often(tokens: Iterable[Token], parser: Any) -> bool:
    """Whether parsing takes many times what the length of the text suggests.

    sqlglot takes ``date(…`` and ``[…`` for types first and then reads them once more, which doubles with each level.

    Args:
        tokens: of the text.
        parser: of sqlglot, for its dialect.
    """
    doubling: list[bool] = []
    levels = again = 0
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENS:
            doubles = kind is TokenType.L_BRACKET or before in parser.TYPE_TOKENS
            doubling.append(doubles)
            levels += doubles
        elif kind in _CLOSES and doubling:
            levels -= doubling.pop()
        before = kind
        if levels > 1:  # one level is a list of dates, however long
            again += 2 ** min(levels, _MOST_LEVELS)
            if again > _MOST_AGAIN:
                return True
    return False
