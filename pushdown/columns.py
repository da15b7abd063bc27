"""Resolution of the column that a filter names: top-level, or a field of a struct by its dotted path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.errors import UnknownColumnError
from table_format.errors import did_you_mean

_SHOWN = 20


@dataclass(frozen=True)
class ResolvedColumn:
    """A column of a schema.

    Attributes:
        path: the names from the top-level column down.
        type: the Arrow type of the last one.
    """

    path: tuple[str, ...]
    type: pa.DataType

    @property
    def name(self) -> str:
        """The dotted name, as in statistics."""
        return ".".join(self.path)


def resolve_column(name: str, schema: pa.Schema, *, case_sensitive: bool = False) -> ResolvedColumn:
    """Find a column.

    A name may contain dots itself, so every way to cut the path is tried; only structs have fields.

    Args:
        name: as in the filter.
        schema: the table's columns.
        case_sensitive: whether ``A`` and ``a`` are different names; in Spark, Hive and Trino they are not.

    Raises:
        UnknownColumnError: no column has that name, or more than one.
    """
    columns = list(_matches(name, list(schema), (), case_sensitive=case_sensitive))
    if len(columns) == 1:
        return columns[0]
    if columns:
        names = ", ".join(column.name for column in columns)
        raise UnknownColumnError(f"column {name} is ambiguous: it may be any of {names}")
    raise unknown_column(name, schema)


def unknown_column(name: str, schema: pa.Schema) -> UnknownColumnError:
    """The error for a column that a schema does not have."""
    shown = ", ".join(schema.names[:_SHOWN]) + (", …" if len(schema.names) > _SHOWN else "")
    hint = did_you_mean(name, [*schema.names, *_dotted(list(schema), "")])
    return UnknownColumnError(f"there is no column {name}{hint}; the columns are {shown}")


def _dotted(fields: list[Any], above: str) -> Iterator[str]:
    """The dotted names of all fields of structs."""
    for field in fields:
        if above:
            yield above + field.name
        if pa.types.is_struct(field.type):
            yield from _dotted(list(field.type), f"{above}{field.name}.")


def _matches(name: str, fields: list[Any], above: tuple[str, ...], *, case_sensitive: bool) -> Iterator[ResolvedColumn]:
    wanted = name if case_sensitive else name.lower()
    for field in fields:
        own = field.name if case_sensitive else field.name.lower()
        path = (*above, field.name)
        if wanted == own:
            yield ResolvedColumn(path, field.type)
        elif wanted.startswith(own + ".") and pa.types.is_struct(field.type):
            # Cut by the length of the field's own spelling as lowered: lower() can change a text's length.
            rest = wanted[len(own) + 1 :]
            inner = [field.type.field(i) for i in range(field.type.num_fields)]
            yield from _matches(rest, inner, path, case_sensitive=case_sensitive)
