"""Tables, filters and paths of scans for Trino, whichever connector asks."""

from __future__ import annotations

import posixpath
import sys

import pyarrow as pa

from catalog.snapshots.snapshot import Snapshot, whole_schema
from catalog.table import Table
from pushdown.binding.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Unknown
from pushdown.simplify import simplify
from pushdown.walk import fold, rebuilt


def newest_schema(table: Table) -> pa.Schema:
    """The columns of a table's newest snapshot, meta columns first, from its timeline."""
    return whole_schema(table.client, table.client.table_schema())


def table_comment(table: Table, when: str | None) -> str:
    """What Trino shows of a table: kind, version, as of when it is read, and location."""
    config = table.config
    kind = config.table_type.replace("_", " ").lower()
    past = "" if when is None else f", as of {when}"
    return f"Hudi table, {kind}, version {config.version}{past}: {table.client.storage.uri}"


def bound_filter(snapshot: Snapshot, expression: HudiExpression) -> HudiExpression | None:
    """A filter bound to a snapshot's columns; None when all rows pass, `Unknown` when it cannot be bound."""
    try:
        bound = simplify(bind(expression, snapshot.schema, case_sensitive=True))
    except ExpressionError as error:
        return Unknown(f"the constraint does not fit the table: {error}")
    return None if bound == Constant(value=True) else bound


def row_condition(expression: HudiExpression | None) -> HudiExpression | None:
    """The part of a bound filter that can be evaluated on rows, with unknown conditions taken as true.

    Returns:
        None when every row passes.
    """
    if expression is None:
        return None

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, Unknown):
            return Constant(value=True)
        return rebuilt(node, children) if children else node

    # The first pass pushes NOT down to the leaves, so that an unknown leaf may be replaced by true.
    known = simplify(fold(simplify(expression, budget=sys.maxsize), visit))
    return None if known == Constant(value=True) else known


def is_inside(path: str) -> bool:
    """Whether a path relative to a table is normalized and names a file inside the table."""
    return posixpath.normpath(path) == path and not path.startswith(("/", "..")) and "\0" not in path
