"""Ordering values of many records as ranks: numbers that compare as the values do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.codecs.byte_spans import Positions
from table_format.errors import UnsupportedTableError

pc: Any = compute  # the stubs lag behind the functions
types = pa.types


def ranks(columns: Sequence[Any], count: int) -> Positions:
    """One rank a row, by the first column, then by the next ones.

    Values compare as Java's do: a null number counts as 0 (any other null comes first), NaN is the greatest, and -0.0
    is less than 0.0. Text compares by its UTF-8 bytes.

    Args:
        columns: arrays of one length.
        count: the length.

    Raises:
        UnsupportedTableError: a column whose type has no order.
    """
    result = np.zeros(count, dtype=np.int64)
    for column in columns:
        single = _dense(column)
        result = result * (int(single.max(initial=0)) + 1) + single
        result = np.unique(result, return_inverse=True)[1].astype(np.int64)
    return result


def _dense(column: Any) -> Positions:
    array = one_chunk(column)
    kind = array.type
    if types.is_floating(kind) or types.is_integer(kind):
        return _numbers(array)
    if types.is_nested(kind) or types.is_null(kind):
        raise UnsupportedTableError(f"records cannot be ordered by a column of type {kind}")
    ranked: Any = pc.rank(array, sort_keys="ascending", tiebreaker="dense")  # from 1 on, nulls last
    numbers: Positions = np.where(valid_mask(array), to_numpy(ranked).astype(np.int64), 0)
    return numbers


def _numbers(array: Any) -> Positions:
    values: NDArray[Any] = np.where(valid_mask(array), to_numpy(array), 0)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        wide[np.isnan(wide)] = np.nan  # one NaN, above infinity
        bits = wide.view(np.int64)
        values = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    ranked: Positions = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return ranked
