"""Values that Trino's client gives, and Arrow's of the same type, in one form in which equal ones are equal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

types = pa.types


def rows_of_trino(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> list[str]:
    """The rows of a query, sorted, as texts."""
    kinds = [field.type for field in schema]
    return sorted(repr([plain(value, kind) for value, kind in zip(row, kinds, strict=True)]) for row in rows)


def rows_of_arrow(table: pa.Table) -> list[str]:
    """The rows of a table, sorted, as texts."""
    columns = [
        [plain(value, field.type) for value in _listed(table.column(at), field.type)]
        for at, field in enumerate(table.schema)
    ]
    return sorted(repr(list(row)) for row in zip(*columns, strict=True)) if columns else []


def _listed(column: Any, kind: Any) -> list[Any]:
    if types.is_timestamp(kind) and kind.unit == "ns":  # Python has no nanoseconds
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def plain(value: Any, kind: Any) -> Any:
    """A value of a type in the common form."""
    if value is None:
        return None
    if types.is_float32(kind):
        return repr(np.float32(value))
    if types.is_float64(kind):
        return repr(float(value))
    if types.is_timestamp(kind):
        return _moment(value, kind)
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        values = list(value.values()) if isinstance(value, dict) else list(value)
        return [plain(one, field.type) for one, field in zip(values, fields, strict=True)]
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return sorted((repr(plain(key, kind.key_type)), plain(one, kind.item_type)) for key, one in pairs)
    if types.is_list(kind):
        return [plain(one, kind.value_type) for one in value]
    return value


def _moment(value: Any, kind: Any) -> Any:
    if isinstance(value, int):
        return value
    if kind.unit == "ns":
        return int(np.datetime64(value.replace(tzinfo=None), "ns").astype(np.int64))
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() if value.tzinfo else value.isoformat()
