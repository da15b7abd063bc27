"""Computations over the columns of a row: arithmetic, functions and comparisons of them, as trees of terms.

The parser of SQL makes them without types; `pushdown.binding.computations` gives each term its type in Spark, and
`pushdown.computed` computes them. They are as deep as the parser lets a condition be, so recursion is fine here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pushdown.functions import type_sql
from pushdown.text import column_sql, literal_sql

COLUMN, LITERAL = "column", "literal"
MOST_DEEP = 60
"""Terms within terms, beyond which a condition is not computed."""

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "div": "div",
    "mod": "%",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "=": "=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "<=>": "<=>",
}

_CONDITIONS = frozenset({"=", "<", "<=", ">", ">=", "<=>", "in", "is_null", "like", "not"})


@dataclass(frozen=True, eq=False)
class Term:
    """A column, a literal, or an operation on terms.

    Attributes:
        name: `COLUMN`, `LITERAL`, an operator of Spark's SQL by its name here (``add``, ``=``, ``is_null``), that of a
            function, ``case`` (condition, result, …, else), ``cast`` and ``try_cast``, or ``coerce`` for a cast that
            Spark adds itself.
        arguments: the operands.
        value: a column's name, a literal as the parser has it, the type of a cast, or the literals of a function that
            takes some, as a tuple.
        type: of the results; None before columns are resolved.
    """

    name: str
    arguments: tuple[Term, ...] = ()
    value: Any = None
    type: pa.DataType | None = None
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.arguments, repr(self.value))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Term) or self._hash != other._hash:
            return False
        alike = type(self.value) is type(other.value) and repr(self.value) == repr(other.value)
        return alike and (self.name, self.type, self.arguments) == (other.name, other.type, other.arguments)

    def negated(self) -> Term:
        """NOT of a condition."""
        return self.arguments[0] if self.name == "not" else Term("not", (self,), type=self.type)

    def columns(self) -> Iterator[str]:
        """The names of the columns, in the order of the text."""
        pending = [self]
        while pending:
            term = pending.pop()
            if term.name == COLUMN:
                yield str(term.value)
            pending.extend(reversed(term.arguments))

    def sql(self) -> str:
        """The text in Spark's dialect."""
        text = _sql(self)
        return text[1:-1] if self.name in _CONDITIONS else text


def _sql(term: Term) -> str:  # noqa: C901, PLR0911 - one line a form
    if term.name == COLUMN:
        return column_sql(term.value)
    if term.name == LITERAL:
        return literal_sql(term.value)
    texts = [_sql(argument) for argument in term.arguments]
    if term.name == "coerce":
        return texts[0]
    if term.name in _INFIX:
        return f"({texts[0]} {_INFIX[term.name]} {texts[1]})"
    if term.name == "not":
        return f"(NOT {texts[0]})"
    if term.name == "is_null":
        return f"({texts[0]} IS NULL)"
    if term.name == "negative":
        return f"(- {texts[0]})"
    if term.name in {"cast", "try_cast"}:
        return f"{term.name.upper()}({texts[0]} AS {type_sql(term.value)})"
    if term.name == "in":
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    if term.name == "case":
        pairs = zip(texts[:-1:2], texts[1:-1:2], strict=True)
        return f"CASE {' '.join(f'WHEN {test} THEN {result}' for test, result in pairs)} ELSE {texts[-1]} END"
    return f"{term.name}({', '.join([*texts, *map(literal_sql, term.value or ())])})"
