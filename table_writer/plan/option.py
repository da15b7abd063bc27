"""An option of writes: its key, the kind of its text, its default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What values an option takes."""

    TEXT = "text"
    NUMBER = "whole number, 1 or more"
    COUNT = "whole number, 0 or more"
    FLAG = "true or false"
    LIST = "names, separated by commas"
    CHOICE = "one of its choices"


class Origin(Enum):
    """Who defined a key."""

    APACHE = "Apache Hudi"
    OURS = "hudi-catalog"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        key: its name.
        kind: what values it takes.
        default: used if the option is not set; None for none.
        meaning: one or two sentences for the reference.
        origin: who defined the key.
        aliases: other keys that mean the same, such as RFC-29's names and the names of `hoodie.properties`.
        choices: for `Kind.CHOICE`; not case-sensitive.
        most: the largest number that it takes.
    """

    key: str
    kind: Kind
    default: str | None
    meaning: str
    origin: Origin = Origin.APACHE
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    most: int = (1 << 63) - 1
