"""What a condition of a query says of one of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from pushdown.expression import HudiExpression, Not, Unknown, all_of, any_of
from pushdown.sql.condition import translate_condition
from pushdown.sql.scopes import Source, Sources
from pushdown.walk import leaves


def conjuncts(condition: Any) -> list[Any]:
    """The conditions that a condition joins by AND."""
    out: list[Any] = []
    pending = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.right, node.left]
        else:
            out.append(node)
    return out


@dataclass(frozen=True)
class Reading:
    """How the conditions of a query are read.

    Attributes:
        dialect: of the text.
        lists: literals of IN lists that were taken out of the text, by what stands for them.
    """

    dialect: str
    lists: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def of_table(condition: Any, source: Source, sources: Sources, reading: Reading) -> HudiExpression | None:
    """A condition with all that is not about one table unknown; None when nothing is left of it."""
    found = _weakened(condition, source, sources, reading)
    return None if all(isinstance(leaf, Unknown) for leaf in leaves(found)) else found


def _weakened(node: Any, source: Source, sources: Sources, reading: Reading) -> HudiExpression:
    if isinstance(node, exp.Paren):
        return _weakened(node.this, source, sources, reading)
    if isinstance(node, exp.And | exp.Or):
        parts = [_weakened(part, source, sources, reading) for part in node.flatten()]
        return all_of(*parts) if isinstance(node, exp.And) else any_of(*parts)
    if isinstance(node, exp.Not):
        return Not(_weakened(node.this, source, sources, reading))
    text = node.sql(dialect=reading.dialect)
    if isinstance(node, exp.Query) or node.find(exp.Query) is not None:
        return Unknown(f"{text[:120]} has a sub-query")
    own = node.copy()
    for column in list(own.find_all(exp.Column)):
        found = sources.resolve([part.name for part in column.parts])
        if found is None or found[0] is not source:
            return Unknown(f"{text[:120]} is not only about {source.key}")
        replaced = _without_qualifier(column, found[1])
        if column is own:
            own = replaced
        else:
            column.replace(replaced)
    return translate_condition(own, text, reading.dialect, reading.lists)


def _without_qualifier(column: Any, count: int) -> Any:
    parts = [part.copy() for part in column.parts[count:]]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)))
