"""Ordering values: which of two versions of a record is the newer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.errors import SchemaError, did_you_mean
from table_format.keys.key_text import field_parts, raw_column

Mask = npt.NDArray[np.bool_]


def held_fields(schema: pa.Schema, fields: Sequence[str]) -> list[str]:
    """Those of some ordering fields, `a.b` for a member of a struct, whose columns a schema has."""
    return [field for field in fields if field_parts(schema, field)[0] in schema.names]


def ordering_columns(table: pa.Table, fields: Sequence[str]) -> list[Any]:
    """The ordering values of some rows, one array per field, in a form that Arrow sorts and compares totally.

    Java's order holds for floating point: -0.0 before 0.0, NaN after all numbers. Nulls stay null; they come first.
    The value of a member of a struct that is null is null.

    Raises:
        SchemaError: there is no such column, or its type has no order.
    """
    columns = []
    for field in fields:
        if not held_fields(table.schema, [field]):
            hint = did_you_mean(field, table.column_names)
            raise SchemaError(f"ordering column {field!r} is not in the data{hint}; columns are {table.column_names}")
        columns.append(_comparable(raw_column(table, field), field))
    return columns


def not_older(new: Sequence[Any], old: Sequence[Any], count: int) -> Mask:
    """Mask of new rows whose ordering values are at or after the old row's, field by field; nulls are least.

    Args:
        new: arrays of `ordering_columns`.
        old: the same for the old rows, in the same order.
        count: rows.
    """
    wins = np.ones(count, np.bool_)
    undecided = np.ones(count, np.bool_)
    for left, right in zip(new, old, strict=True):
        left_valid, right_valid = valid_mask(left), valid_mask(right)
        less = _flags(pc.less(left, right)) | (~left_valid & right_valid)
        greater = _flags(pc.greater(left, right)) | (left_valid & ~right_valid)
        wins[undecided & less] = False
        undecided &= ~(less | greater)
    return wins


def _flags(mask: Any) -> Mask:
    return to_numpy(mask.fill_null(fill_value=False)).astype(np.bool_)


def _comparable(column: Any, field: str) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _comparable(column.dictionary_decode(), field)
    if pa.types.is_nested(kind):
        raise SchemaError(f"ordering column {field!r} is {kind}, which has no order; choose another")
    if pa.types.is_boolean(kind):
        return pc.cast(column, pa.int8())
    if pa.types.is_floating(kind):
        return _total_order(pc.cast(column, pa.float64()))
    return column


def _total_order(numbers: Any) -> Any:
    """Doubles as integers of the same order (IEEE 754 total order, every NaN as Java's canonical one)."""
    values = to_numpy(numbers).copy()
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return from_numpy(ordered, valid_mask(numbers))
