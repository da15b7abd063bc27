"""Filters from Python: ``col("a") >= 3``, ``col("b").is_in([1, 2]) & ~col("c").is_null()``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pushdown.errors import ExpressionError
from pushdown.expression import HudiExpression, Op, Predicate, all_of
from pushdown.like import canonical_pattern
from pushdown.spark_types import SPARK


class Column:
    """A column to compare, as Spark SQL would compare it; made by `col`.

    Comparisons with None are SQL's: they are null. Use ``is_null()`` or ``eq_null_safe(None)`` for rows of nulls.
    Values may be Python's, or scalars of numpy and Arrow.

    >>> col("fare").between(1, 5) | col("city").is_null()
    (fare >= 1 AND fare <= 5) OR city IS NULL
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, value: object) -> HudiExpression:  # type: ignore[override]
        return self._predicate(Op.EQ, value)

    def __ne__(self, value: object) -> HudiExpression:  # type: ignore[override]
        return self._predicate(Op.NE, value)

    def __lt__(self, value: object) -> HudiExpression:
        return self._predicate(Op.LT, value)

    def __le__(self, value: object) -> HudiExpression:
        return self._predicate(Op.LE, value)

    def __gt__(self, value: object) -> HudiExpression:
        return self._predicate(Op.GT, value)

    def __ge__(self, value: object) -> HudiExpression:
        return self._predicate(Op.GE, value)

    def eq_null_safe(self, value: object) -> HudiExpression:
        """Equal, where null equals null: never null itself (``<=>``)."""
        return self._predicate(Op.NULL_SAFE_EQ, value)

    def is_in(self, values: Iterable[object]) -> HudiExpression:
        """Equal to one of the values; null where none is equal and one of them is None."""
        return self._set(Op.IN, values)

    def not_in(self, values: Iterable[object]) -> HudiExpression:
        """Equal to none of the values; never true where one of them is None."""
        return self._set(Op.NOT_IN, values)

    def between(self, low: object, high: object) -> HudiExpression:
        """``low <= column AND column <= high``."""
        return all_of(self >= low, self <= high)

    def is_null(self) -> HudiExpression:
        """The column is null."""
        return Predicate(Op.IS_NULL, self.name)

    def is_not_null(self) -> HudiExpression:
        """The column is not null."""
        return Predicate(Op.NOT_NULL, self.name)

    def starts_with(self, prefix: str) -> HudiExpression:
        """The text starts with the prefix, in which no character is a wildcard."""
        return self._predicate(Op.STARTS_WITH, prefix)

    def like(self, pattern: str, escape: str | None = "\\") -> HudiExpression:
        """SQL's LIKE.

        Args:
            pattern: ``%`` matches any text, ``_`` for one character.
            escape: the character before a literal ``%``, ``_`` or itself; None for none.

        Raises:
            ExpressionError: the escape character precedes another character, or is not one character.
        """
        try:
            return self._predicate(Op.LIKE, canonical_pattern(pattern, escape))
        except ValueError as error:
            raise ExpressionError(str(error)) from None

    def _predicate(self, op: Op, value: object) -> HudiExpression:
        if isinstance(value, Column):
            raise ExpressionError(f"{self.name} is compared with column {value.name}: compare it with literals")
        return Predicate(op, self.name, (_plain(value),), rules=SPARK)

    def _set(self, op: Op, values: Iterable[object]) -> HudiExpression:
        if isinstance(values, str | bytes):
            raise ExpressionError(f"{op.value} on {self.name} takes a list of values, not one text")
        return Predicate(op, self.name, tuple(_plain(value) for value in values), rules=SPARK)


def col(name: str) -> Column:
    """A column by name; a field of a struct by its dotted path."""
    return Column(name)


def _plain(value: Any) -> Any:
    # numpy and Arrow scalars come as the Python value they hold.
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return value.item()
    if hasattr(value, "as_py"):
        return value.as_py()
    return value
