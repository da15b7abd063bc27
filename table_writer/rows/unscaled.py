"""Decimals made again from the whole numbers behind them, as `decimals` sends them to the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from table_format.codecs.arrow_numpy import to_numpy


def restored(table: pa.Table, decimals: pa.Schema) -> pa.Table:
    """Put decimals in the place of longs.

    Args:
        table: rows.
        decimals: the columns that are unscaled longs, with their decimal types.
    """
    for name, kind in zip(decimals.names, decimals.types, strict=True):
        index = table.schema.get_field_index(name)
        chunks: Any = [_decimals(chunk, kind) for chunk in table.column(index).chunks]
        column: Any = pa.chunked_array(chunks)
        table = table.set_column(index, pa.field(name, kind), column)
    return table


def _decimals(numbers: Any, kind: pa.DataType) -> Any:
    values = np.empty((len(numbers), 2), np.int64)
    whole = numbers.fill_null(0) if numbers.null_count else numbers
    values[:, 0] = to_numpy(whole)
    # the upper half repeats the sign
    np.right_shift(values[:, 0], 63, out=values[:, 1])
    buffer: Any = values
    validity = None
    if numbers.null_count:
        mask = np.packbits(to_numpy(numbers.is_valid()), bitorder="little")
        validity = pa.py_buffer(mask.tobytes())
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(buffer)], numbers.null_count)
