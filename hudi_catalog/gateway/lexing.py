"""SQL text split into Trino's tokens, and whether sqlglot splits it at the same places.

Replacements are inserted at positions of sqlglot's tokens. Where sqlglot and Trino would read comments, strings or
numbers differently, the statement's meaning is uncertain and it is not rewritten.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType


class Kind(enum.Enum):
    """Kinds of lexemes."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A word, name, literal or symbol; `end` is exclusive."""

    kind: Kind
    start: int
    end: int
    text: str

    @property
    def word(self) -> str:
        """A word in upper case, or a symbol; empty for other kinds."""
        if self.kind is Kind.WORD:
            return self.text.upper()
        return self.text if self.kind is Kind.SYMBOL else ""

    @property
    def name(self) -> str | None:
        """The identifier in lower case, as Trino folds identifiers, quoted or not; None if it is none."""
        return self.spelled.lower() if self.kind in {Kind.WORD, Kind.QUOTED} else None

    @property
    def spelled(self) -> str:
        """The text, without the quotes of a quoted identifier."""
        return self.text[1:-1].replace('""', '"') if self.kind is Kind.QUOTED else self.text


# Comments do not nest, backslashes are not escapes, and words are ASCII.
_LEXEME = re.compile(
    r"""
    (?P<space>[ \t\r\n]++)
  | (?P<comment>--[^\r\n]*+|/\*.*?\*/)
  | (?P<string>(?:[xX]|[uU]&)?'(?:[^']|'')*+'|\$\$.*?\$\$)
  | (?P<quoted>"(?:[^"]|"")++")
  | (?P<number>(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9_]++)?[A-Za-z0-9_]*+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<symbol>[^\s'"`A-Za-z0-9_;\\@\#\x00-\x1f\x7f-\U0010ffff])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.value: kind for kind in Kind}


def lexemes_of(sql: str) -> list[Lexeme] | None:
    """All lexemes of a text; None if it contains anything that is not in Trino's lexical grammar."""
    lexemes, end = first_lexemes(sql, len(sql))
    return lexemes if end >= len(sql) else None


def first_lexemes(sql: str, most: int) -> tuple[list[Lexeme], int]:
    """The lexemes at the start of a text, and the position after them.

    Args:
        sql: the text.
        most: position at which to stop; reading also stops at text outside Trino's lexical grammar.
    """
    lexemes: list[Lexeme] = []
    position = 0
    while position < min(most, len(sql)):
        match = _LEXEME.match(sql, position)
        if match is None or match.lastgroup is None:
            break
        if match.lastgroup == "symbol" and sql.startswith("/*", position):
            break  # an unterminated comment
        if match.lastgroup != "space":
            lexemes.append(Lexeme(_KINDS[match.lastgroup], position, match.end(), match[0]))
        position = match.end()
    return lexemes, position


def same_boundaries(lexemes: Sequence[Lexeme], tokens: Sequence[Token]) -> bool:
    """Whether each of sqlglot's tokens is one or several of Trino's lexemes; strings and quoted names exactly one."""
    real = [lexeme for lexeme in lexemes if lexeme.kind is not Kind.COMMENT]
    position = 0
    for token in tokens:
        first = position
        while position < len(real) and real[position].end <= token.end + 1:
            position += 1
        covered = real[first:position]
        if not covered or covered[0].start != token.start or covered[-1].end != token.end + 1:
            return False
        if not _fits(covered, token):
            return False
    return position == len(real)


def _fits(covered: Sequence[Lexeme], token: Token) -> bool:
    kinds = {lexeme.kind for lexeme in covered}
    if Kind.STRING in kinds:
        return len(covered) == 1 and token.token_type in _STRINGS
    if Kind.QUOTED in kinds:
        return len(covered) == 1 and token.token_type is TokenType.IDENTIFIER
    if Kind.NUMBER in kinds:
        return len(covered) == 1 and token.token_type is TokenType.NUMBER
    return token.token_type not in _STRINGS and token.token_type is not TokenType.NUMBER


_STRINGS = frozenset({TokenType.STRING, TokenType.HEX_STRING, TokenType.UNICODE_STRING})


def dotted_names(lexemes: Sequence[Lexeme]) -> Iterator[list[Lexeme]]:
    """The dotted names in a text, each as the lexemes of its parts; a trailing star is one of them."""
    chain: list[Lexeme] = []
    dotted = False
    for lexeme in lexemes:
        if lexeme.kind is Kind.COMMENT:
            continue
        if lexeme.name is not None and (dotted or not chain):
            chain.append(lexeme)
            dotted = False
            continue
        if lexeme.word == "." and chain and not dotted:
            dotted = True
            continue
        if chain:
            yield [*chain, lexeme] if dotted and lexeme.word == "*" else chain
        chain = [lexeme] if lexeme.name is not None else []
        dotted = False
    if chain:
        yield chain
