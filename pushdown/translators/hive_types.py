"""Hive's type names, and which casts of a column leave its values and their order as they are."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

_NAME = re.compile(r"([a-z][a-z ]*?)(?:\((\d{1,9})(?:,\s*(\d{1,9}))?\))?\Z")
# How many decimal digits the values of an integer type have at most, and how many bits.
_INTEGERS = {"tinyint": (3, 8), "smallint": (5, 16), "int": (10, 32), "bigint": (19, 64)}
_FLOAT_BITS = {"float": 24, "double": 53}
_FAMILIES = {
    **dict.fromkeys((*_INTEGERS, "float", "double", "decimal"), "number"),
    **dict.fromkeys(("string", "varchar", "char"), "text"),
    **dict.fromkeys(("date", "timestamp"), "time"),
    "boolean": "boolean",
    "binary": "binary",
}


@dataclass(frozen=True)
class HiveType:
    """A type as Hive spells it.

    Attributes:
        base: its name without parameters, e.g. ``decimal``.
        first: the precision of a decimal, the length of a varchar or char in characters; 0 when it has none.
        scale: the scale of a decimal.
        stripped: a char that was cast to a text type: its padding is gone, and that of literals counts.
        rounded: a 64-bit integer that was cast to double: only doubles can be compared with it.
    """

    base: str
    first: int = 0
    scale: int = 0
    stripped: bool = False
    rounded: bool = False

    @property
    def family(self) -> str | None:
        """Types of one family are compared with each other; None for what is not compared here."""
        return _FAMILIES.get(self.base)

    @property
    def limited(self) -> bool:
        """Whether Hive cuts stored texts to a length when it reads them."""
        return self.base in {"varchar", "char"}


def hive_type(name: object) -> HiveType | None:
    """Read a type name such as ``bigint``, ``decimal(11,1)`` or ``char(5)``; None for any other, nested ones too."""
    return _hive_type(name) if isinstance(name, str) and len(name) < 100 else None


@functools.lru_cache(maxsize=1024)
def _hive_type(name: str) -> HiveType | None:
    match = _NAME.match(name.strip().lower())
    if match is None:
        return None
    base = "int" if match[1] == "integer" else match[1]
    first, scale = int(match[2] or 0), int(match[3] or 0)
    if base not in _FAMILIES or (base in {"varchar", "char"} and first == 0):
        return None
    if base == "decimal" and first == 0:
        first = 10
    return HiveType(base, first, scale)


def cast_type(own: HiveType, to: HiveType) -> HiveType | None:  # noqa: PLR0911
    """What a column of one type is once it is cast to another.

    Returns:
        The type to compare by, if the cast keeps every value; None if it rounds, wraps or spells values anew.
    """
    if own == to:
        return own
    if own.rounded:
        return None
    if own.family == to.family == "text":
        return _cast_text(own, to)
    if own.base == "date" and to.base == "timestamp":
        # The midnight that starts it, which is how a date is compared with a time anyway.
        return own
    if own.base in _INTEGERS:
        return _cast_integer(own, to)
    if own.base == "decimal" and to.base == "decimal":
        fits = to.scale >= own.scale and to.first - to.scale >= own.first - own.scale
        return to if fits else None
    return to if (own.base, to.base) == ("float", "double") else None


def _cast_text(own: HiveType, to: HiveType) -> HiveType:
    length = min((kind.first for kind in (own, to) if kind.limited), default=0)
    if to.base == "char":
        return HiveType("char", length)
    if own.base == "char":
        return replace(own, first=length, stripped=True)
    return HiveType("varchar", length) if length else to


def _cast_integer(own: HiveType, to: HiveType) -> HiveType | None:
    digits, bits = _INTEGERS[own.base]
    if to.base in _INTEGERS:
        return to if _INTEGERS[to.base][1] >= bits else None
    if to.base == "decimal":
        return to if to.first - to.scale >= digits else None
    if to.base in _FLOAT_BITS and bits <= _FLOAT_BITS[to.base]:
        return to
    return HiveType("double", rounded=True) if to.base == "double" else None
