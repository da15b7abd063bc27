"""Which columns have to be read, so that a filter can be applied to rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from pushdown.expression import HudiExpression
from pushdown.walk import columns_of


def needed_columns(schema: pa.Schema, wanted: Iterable[str], expression: HudiExpression | None) -> list[str]:
    """Columns to read: those wanted, and those that the filter looks at (a struct for its field); at least one.

    Args:
        schema: the table's.
        wanted: names in it.
        expression: a bound filter; None for all rows.
    """
    names = set(wanted)
    for column in columns_of(expression) if expression is not None else ():
        names.add(column if column in schema.names else _top_level(column, schema))
    return [name for name in schema.names if name in names] or schema.names[:1]


def _top_level(column: str, schema: pa.Schema) -> str:
    fitting = [name for name in schema.names if column.startswith(f"{name}.")]
    return max(fitting, key=len)
