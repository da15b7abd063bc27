"""Columns with statistics by name: top-level ones, and fields of structs by dotted paths (`customer.city`)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def root_of(schema: pa.Schema, name: str) -> str:
    """The top-level column that holds a field; the column itself if it is one."""
    return name if name in schema.names else name.partition(".")[0]


def leaf_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column or of a struct's field; None if a schema lacks it."""
    root = root_of(schema, name)
    if root not in schema.names:
        return None
    kind: Any = schema.field(root).type
    for part in _path(root, name):
        index = kind.get_field_index(part) if isinstance(kind, pa.StructType) else -1
        if index < 0:
            return None
        kind = kind.field(index).type
    result: pa.DataType = kind
    return result


def leaf_of(column: Any, root: str, name: str) -> Any:
    """The values of a field in its top-level column; null where a struct around it is."""
    for part in _path(root, name):
        column = pc.struct_field(column, part)
    return column


def leaf_column(table: pa.Table, name: str) -> Any:
    """The values of a column or of a struct's field, by `leaf_type`'s rules; None if a table lacks it."""
    if leaf_type(table.schema, name) is None:
        return None
    root = root_of(table.schema, name)
    return leaf_of(table.column(root), root, name)


def _path(root: str, name: str) -> list[str]:
    """Names of the struct's fields below a top-level column."""
    return [] if name == root else name.removeprefix(f"{root}.").split(".")
