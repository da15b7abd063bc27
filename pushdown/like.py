r"""LIKE patterns. The canonical form has the backslash as escape character, before ``%``, ``_`` or itself only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pushdown.errors import InexactFilterError

_SHOWN = 60


def canonical_pattern(pattern: str, escape: str | None) -> str:
    r"""Rewrite a pattern to the canonical escape.

    Args:
        pattern: as written in the filter.
        escape: its escape character; None when it has none.

    Raises:
        ValueError: an escape that is not one character, or precedes another character than ``%``, ``_`` or itself
            or at the end; engines refuse such a pattern or differ on it.
    """
    if escape is not None and len(escape) != 1:
        raise ValueError(f"the escape of LIKE must be one character, got {escape!r}")
    out: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or (following not in "%_" and following != escape):
                raise ValueError(f"LIKE {pattern!r}: the escape {escape!r} must be followed by %, _ or itself")
            out.append("\\" + following if following in "%_\\" else following)
        else:
            out.append("\\\\" if character == "\\" else character)
    return "".join(out)


def quoted(text: str) -> str:
    """The canonical pattern that matches a text alone."""
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


@dataclass(frozen=True)
class Shape:
    """A parsed canonical pattern.

    Attributes:
        prefix: the literal text before the first wildcard.
        rest: the tail from the first wildcard on; empty when there is none.
    """

    prefix: str
    rest: str

    @property
    def is_literal(self) -> bool:
        """Whether there is no wildcard: LIKE is equality."""
        return not self.rest

    @property
    def is_prefix(self) -> bool:
        """Whether any text may follow the prefix: LIKE is STARTS WITH."""
        return bool(self.rest) and not self.rest.strip("%")


def shape_of(pattern: str) -> Shape:
    """Split a canonical pattern at its first wildcard."""
    prefix: list[str] = []
    position = 0
    while position < len(pattern) and pattern[position] not in "%_":
        if pattern[position] == "\\":
            position += 1
        prefix.append(pattern[position])
        position += 1
    return Shape("".join(prefix), pattern[position:])


def regex_of(pattern: str) -> str:
    """The canonical pattern as a regular expression for the whole text (RE2, which Arrow uses)."""
    out = ["(?s)\\A"]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "%":
            out.append(".*")
        elif character == "_":
            out.append(".")
        else:
            if character == "\\":
                position += 1
                character = pattern[position]
            out.append(_quoted(character))
        position += 1
    out.append("\\z")
    return "".join(out)


def like(texts: Any, pattern: str) -> Any:
    """Whether each text of an array matches a canonical pattern; null for null.

    Raises:
        InexactFilterError: the pattern is longer than RE2 holds.
    """
    try:
        return pc.match_substring_regex(texts, pattern=regex_of(pattern))
    except pa.ArrowInvalid as error:
        raise InexactFilterError(
            f"LIKE {pattern[:_SHOWN]!r}…, a pattern of {len(pattern):,} characters, is too long for rows: {error}"
        ) from None


def is_too_long(pattern: str) -> bool:
    """Whether a canonical pattern is longer than RE2 holds."""
    try:
        like(pa.array([""]), pattern)
    except InexactFilterError:
        return True
    return False


def _quoted(character: str) -> str:
    if character.isalnum() or character == "_" or ord(character) > 127:
        return character
    return f"\\x{{{ord(character):x}}}"
