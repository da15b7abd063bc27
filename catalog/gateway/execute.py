"""`EXECUTE name USING …`: which prepared statement runs, with which parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A piece of Trino's SQL that has to stay whole, so that a comma or a word inside of it is not taken for one outside.
_PIECE = re.compile(
    r"""
    (?P<space>\s+|--[^\r\n]*(?:\r?\n|\r|$)|/\*.*?\*/)
    | (?P<text>(?:[uU]&|[xX])?'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<word>[A-Za-z_][A-Za-z0-9_@:]*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Execute:
    """An EXECUTE statement.

    Attributes:
        name: of the prepared statement, as Trino compares it.
        parameters: the SQL text of each value of USING.
    """

    name: str
    parameters: tuple[str, ...]


def execute_of(sql: str) -> Execute | None:
    """Read an EXECUTE statement.

    Returns:
        None for any other statement, EXECUTE IMMEDIATE among them, and for one whose end is in doubt.
    """
    if len(sql) > 10_000_000 or not re.match(r"(?:\s|--|/\*)*execute\b", sql[:10_000], re.IGNORECASE):
        return None
    pieces = [(str(found.lastgroup), found.group(), found.start()) for found in _PIECE.finditer(sql)]
    solid = [piece for piece in pieces if piece[0] != "space"]
    if len(solid) < 2 or solid[0][1].upper() != "EXECUTE":
        return None
    kind, name, _ = solid[1]
    if kind == "quoted":
        name = name[1:-1].replace('""', '"')
    elif kind != "word":
        return None
    if len(solid) == 2:
        return Execute(name, ())
    if solid[2][1].upper() != "USING" or solid[2][0] != "word":
        return None
    parameters = _parameters(sql, solid[3:])
    return None if parameters is None else Execute(name, parameters)


def _parameters(sql: str, pieces: list[tuple[str, str, int]]) -> tuple[str, ...] | None:
    found: list[str] = []
    depth = 0
    start: int | None = None
    for kind, text, offset in pieces:
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "other" and text in "'\"`;?":
            return None  # a quote that nobody closes, or what has no place in a value
        if depth < 0:
            return None
        if kind == "other" and text == "," and depth == 0:
            if start is None:
                return None
            found.append(sql[start:offset].strip())
            start = None
        elif start is None:
            start = offset
    if depth or start is None:
        return None
    return (*found, sql[start:].strip())
