"""SQL text cut into Trino's lexemes, and whether sqlglot cut it at the same places.

What is put into a statement goes to places that sqlglot's tokens name. Where sqlglot and Trino would read comments,
strings or numbers differently, nobody may say what the statement means, and it is left alone.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType


class Kind(enum.Enum):
    """What a lexeme is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A word, name, literal or sign; the end is the position behind it."""

    kind: Kind
    start: int
    end: int
    text: str

    @property
    def word(self) -> str:
        """A word in upper case, or a sign; empty for anything else."""
        if self.kind is Kind.WORD:
            return self.text.upper()
        return self.text if self.kind is Kind.SYMBOL else ""

    @property
    def name(self) -> str | None:
        """The name that it spells, in lower case as Trino folds names, quoted or not; None if it spells none."""
        return self.spelled.lower() if self.kind in {Kind.WORD, Kind.QUOTED} else None

    @property
    def spelled(self) -> str:
        """The text without the quotes of a quoted name."""
        return self.text[1:-1].replace('""', '"') if self.kind is Kind.QUOTED else self.text


# Comments do not nest, a backslash escapes nothing, and words are of ASCII letters.
_LEXEME = re.compile(
    r"""
    (?P<space>[ \t\r\n]++)
  | (?P<comment>--[^\r\n]*+|/\*.*?\*/)
  | (?P<string>(?:[xX]|[uU]&)?'(?:[^']|'')*+')
  | (?P<quoted>"(?:[^"]|"")++")
  | (?P<number>(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9_]++)?[A-Za-z0-9_]*+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<symbol>[^\s'"`A-Za-z0-9_;\\@\#\x00-\x1f\x7f-\U0010ffff])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.value: kind for kind in Kind}


def lexemes_of(sql: str) -> list[Lexeme] | None:
    """All lexemes but spaces; None where the text has anything that is in none of Trino's queries."""
    found, end = first_lexemes(sql, len(sql))
    return found if end >= len(sql) else None


def first_lexemes(sql: str, most: int) -> tuple[list[Lexeme], int]:
    """The lexemes but spaces of a text's beginning, and the position behind them.

    Args:
        sql: the text.
        most: lexemes that begin behind so many characters are not read, nor what is in none of Trino's queries.
    """
    found: list[Lexeme] = []
    position = 0
    while position < min(most, len(sql)):
        match = _LEXEME.match(sql, position)
        if match is None or match.lastgroup is None or sql.startswith("/*", match.end() - 1):
            break  # the last is a comment that nobody closes
        if match.lastgroup != "space":
            found.append(Lexeme(_KINDS[match.lastgroup], position, match.end(), match[0]))
        position = match.end()
    return found, position


def cut_alike(lexemes: Sequence[Lexeme], tokens: Sequence[Token]) -> bool:
    """Whether sqlglot's tokens are Trino's lexemes, or runs of them; strings and quoted names one for one."""
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


def chains(lexemes: Sequence[Lexeme]) -> Iterator[list[Lexeme]]:
    """The dotted names of a text, each as the lexemes of its parts; a star at the end is one of them."""
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
