"""Numbers and names that callers give as arguments."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, Final

from table_format.errors import ArgumentError

#: File groups of an index; their names have four digits.
MOST_GROUPS: Final = 9_999


def check_count(name: str, count: object, most: int) -> None:
    """Refuse what is no whole number from 1 to `most`.

    Raises:
        ArgumentError: names the argument.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or not 1 <= int(count) <= most:
        raise ArgumentError(f"{name}={count!r}: give a number from 1 to {most:,}")


def names_of(what: str, names: object) -> list[str]:
    """One name, or several, as a list.

    Args:
        what: they are, in the plural.
        names: that a caller gave.

    Raises:
        ArgumentError: they are no texts.
    """
    several: list[Any] = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    for name in several:
        if not isinstance(name, str):
            raise ArgumentError(f"{what} are texts, which {name!r} is not")
    return several
