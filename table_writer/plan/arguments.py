"""Numbers that callers give as arguments."""

from __future__ import annotations

from numbers import Integral
from typing import Final

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
