"""The one table of operators: what each yields for a value below, at or above its literal, for NaN and for null.

Every comparison is reduced to where a file's values may lie relative to the literal. Texts that start with a prefix
lie "at" it, as do the members of an IN list; all else is below or above.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pushdown.expression import Op


class Truth(enum.Flag):
    """A set of truth values."""

    T = 1
    F = 2
    N = 4


T, F, N = Truth.T, Truth.F, Truth.N


@dataclass(frozen=True)
class Row:
    """One operator's truth values.

    Attributes:
        below: for values below the literal.
        at: for values equal to it, or in it.
        above: for values above it.
        nan: for NaN against a literal that is not NaN. Spark sorts NaN above all numbers, Trino and Hive's vectorised
            operators compare as IEEE 754 does; a set of both is right for each of them.
        null: for null.
    """

    below: Truth
    at: Truth
    above: Truth
    nan: Truth
    null: Truth


TABLE = {
    Op.EQ: Row(F, T, F, F, N),
    Op.LT: Row(T, F, F, T | F, N),
    Op.LE: Row(T, T, F, T | F, N),
    Op.GT: Row(F, F, T, T | F, N),
    Op.GE: Row(F, T, T, T | F, N),
    Op.IN: Row(F, T, F, F, N),
    Op.STARTS_WITH: Row(F, T, F, F, N),
    # "At" is the pattern's literal prefix, and the rest of the text decides.
    Op.LIKE: Row(F, T | F, F, F, N),
    Op.NULL_SAFE_EQ: Row(F, T, F, F, F),
}


def negated(truth: Truth) -> Truth:
    """NOT of every member: null stays null."""
    swapped = Truth(0)
    if T in truth:
        swapped |= F
    if F in truth:
        swapped |= T
    return swapped | (truth & N)
