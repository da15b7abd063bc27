"""The names visible in a SELECT: its tables, sub-queries and their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

TableFinder: TypeAlias = Callable[[tuple[str, ...]], tuple[str, pa.Schema] | None]
"""From the parts of a name in a query to the table's key and schema; None for tables that are passed over."""

FULL_NAME: Final = "full name"
"""Key in the `meta` of a table's node: its name with schema and catalog, which may precede its columns too."""

_TABLE_PARTS = frozenset(["this", "db", "catalog", "alias", "joins", "version", "when"])


@dataclass(eq=False)
class Source:
    """One item of a FROM.

    Attributes:
        key: what its filter is called by.
        qualifiers: the dotted names in lower case, in parts, that may precede its columns.
        columns: its columns in lower case; None when they are not known.
        types: of its columns, as far as they are known.
        is_table: whether it is a table whose schema is known, not a sub-query.
        filterable: whether filters on its columns hold for its scan.
        merged: columns of USING that are not its own if unqualified.
        node: in the syntax tree.
    """

    key: str
    qualifiers: list[tuple[str, ...]]
    columns: frozenset[str] | None
    is_table: bool = False
    filterable: bool = True
    merged: set[str] = field(default_factory=set)
    node: Any = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


class Sources:
    """Finds the source of a column."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources

    def resolve(self, parts: Sequence[str]) -> tuple[Source, int] | None:
        """The source of a column, and how many parts of its name qualify it; None if that is not certain."""
        names = tuple(part.lower() for part in parts)
        bare = [s for s in self.sources if s.columns is not None and names[0] in s.columns - s.merged]
        qualified = [
            (source, len(qualifier))
            for source in self.sources
            for qualifier in source.qualifiers
            if len(names) > len(qualifier) and names[: len(qualifier)] == qualifier
        ]
        if qualified:
            source, count = qualified[0]
            is_column = (
                len(qualified) == 1 and not bare and source.columns is not None and names[count] in source.columns
            )
            return (source, count) if is_column else None
        unsure = len(bare) != 1 or any(source.columns is None for source in self.sources)
        return None if unsure else (bare[0], 0)


def argument(node: Any, name: str) -> Any:
    """An argument of a node, under its name in any release of sqlglot."""
    value = node.args.get(name)
    return value if value is not None else node.args.get(name + "_")


def finder_of(tables: Mapping[str, pa.Schema]) -> TableFinder:
    """A function that finds tables by name, or by the end of a name if only one table has it."""

    def find(parts: tuple[str, ...]) -> tuple[str, pa.Schema] | None:
        wanted = ".".join(parts).lower()
        same = [key for key in tables if key.lower() == wanted]
        longer = [key for key in tables if key.lower().endswith("." + wanted)]
        matching = same or longer
        return (matching[0], tables[matching[0]]) if len(matching) == 1 else None

    return find


def table_parts(node: Any) -> tuple[str, ...] | None:
    """The parts of a table's name; None for functions and names of CTEs."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return None
    parts = tuple(part.name for part in node.parts if isinstance(part, exp.Identifier))
    return None if len(parts) == 1 and parts[0].lower() in _visible_ctes(node) else parts


def read_source(node: Any, find: TableFinder) -> Source:
    """Read an item of a FROM; anything but a table of a known schema is a source without filters."""
    alias = node.args.get("alias")
    name = alias.name if isinstance(alias, exp.TableAlias) else ""
    renamed = [column.name.lower() for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        parts = tuple(part.name for part in node.parts if isinstance(part, exp.Identifier))
        named = table_parts(node)
        table = None if named is None else find(named)
        known = all(value in (None, [], False) or part in _TABLE_PARTS for part, value in node.args.items())
        lowered = node.meta.get(FULL_NAME) or tuple(part.lower() for part in parts)
        qualifiers: list[tuple[str, ...]] = [(name.lower(),)] if name else [lowered[i:] for i in range(len(lowered))]
        if table is None or renamed:
            return Source(name or parts[-1], qualifiers, frozenset(renamed) if renamed and table is None else None)
        key, schema = table
        types = {column.name.lower(): column.type for column in schema}
        columns = frozenset(types) if known else None
        return Source(name or key, qualifiers, columns, is_table=True, filterable=known, node=node, types=types)
    if not renamed and isinstance(node, exp.Subquery):
        renamed = _outputs(node.this)
    return Source(name, [(name.lower(),)] if name else [], frozenset(renamed) if renamed else None)


def _visible_ctes(node: Any) -> Iterator[str]:
    """The names of all CTEs that a node sees: those written before it in the enclosing queries."""
    inside: Any = node
    while node is not None:
        clause = argument(node, "with") if isinstance(node, exp.Expression) else None
        for cte in clause.expressions if clause is not None else []:
            if cte is inside and clause is not None and not clause.args.get("recursive"):
                break
            yield cte.alias.lower()
        if isinstance(node, exp.CTE):
            inside = node
        node = node.parent


def _outputs(query: Any) -> list[str]:
    """The names of a sub-query's columns; none if not all are written out."""
    if not isinstance(query, exp.Query) or query.is_star:
        return []
    names = [str(name).lower() for name in query.named_selects]
    return names if all(names) else []
