"""Which columns of updated rows hold other values than before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask

pc: Any = compute  # the stubs lag behind the functions
types = pa.types


def changed_columns(old: pa.Table, new: pa.Table, names: Iterable[str]) -> list[str]:
    """The columns in which some row differs; any doubt counts as a difference.

    Values are the same when they are so bit by bit: 0.0 is not -0.0, and NaN is the same NaN only.

    Args:
        old: rows as they are.
        new: the rows that take their places, one by one.
        names: columns of both to compare.
    """
    return [name for name in names if not _same(_values(old, name), _values(new, name))]


def _values(table: pa.Table, name: str) -> Any:
    column = one_chunk(table.column(name))
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _same(old: Any, new: Any) -> bool:
    if old.type != new.type or len(old) != len(new):
        return False
    if types.is_floating(old.type):
        return _same_bits(old, new)
    if _holds_floating(old.type):
        return False  # Arrow takes 0.0 for -0.0 there
    return bool(old.equals(new))


def _same_bits(old: Any, new: Any) -> bool:
    valid = valid_mask(old)
    if not np.array_equal(valid, valid_mask(new)):
        return False
    width = f"u{old.type.bit_width // 8}"
    return np.array_equal(to_numpy(old).view(width)[valid], to_numpy(new).view(width)[valid])


def _holds_floating(kind: Any) -> bool:
    if types.is_floating(kind):
        return True
    return any(_holds_floating(kind.field(index).type) for index in range(kind.num_fields))
