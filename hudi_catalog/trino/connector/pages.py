"""Rows as the connector reads them: a page of columns, little endian, whose values become Trino's blocks as they are.

A page is the number of rows (i32) and, where there are any, its columns. A column is a flag (u8), where it is 1 a byte
a row that is 1 for null, and by its type:

- boolean and tinyint a byte, smallint two, integer, date (days) and real four, all others of fixed size eight bytes a
  row; times and timestamps count units of the type's precision; decimals of more than 18 digits have 16 bytes a row,
  the high half first;
- varchar and varbinary one offset more than rows (i32), the first 0, and the bytes;
- array likewise offsets, and a column of elements; map offsets, and columns of keys and of values;
- row a column for each field, null where the row is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hudi_catalog.trino.connector.types import plain_type
from table_format.codecs.arrow_numpy import one_chunk

types = pa.types

_COUNT = struct.Struct("<i")
_SHORT_DIGITS = 18


def encoded_page(table: pa.Table) -> bytes:
    """The rows of a table as a page.

    Args:
        table: with types that `types.trino_type` knows.
    """
    if not table.num_rows:
        return _COUNT.pack(0)
    columns = (part for column in table.columns for part in _column(one_chunk(column)))
    return b"".join([_COUNT.pack(table.num_rows), *columns])


def _column(array: Any) -> Iterator[bytes]:
    kind = plain_type(array.type)
    if kind != array.type:
        array = array.cast(kind)
    if array.null_count:
        array = array.take(pa.array(np.arange(len(array))))  # no values under nulls
        yield b"\1"
        yield array.is_null().cast(pa.uint8()).to_numpy(zero_copy_only=False).tobytes()
    else:
        yield b"\0"
    if types.is_string(kind) or types.is_binary(kind):
        offsets = _offsets(array)
        yield _relative(offsets)
        content = array.buffers()[2]
        yield b"" if content is None else memoryview(content)[offsets[0] : offsets[-1]].tobytes()
    elif types.is_map(kind):
        offsets = _offsets(array)
        yield _relative(offsets)
        yield from _column(_between(array.keys, offsets))
        yield from _column(_between(array.items, offsets))
    elif types.is_list(kind):
        offsets = _offsets(array)
        yield _relative(offsets)
        yield from _column(_between(array.values, offsets))
    elif types.is_struct(kind):
        for field in array.flatten():
            yield from _column(field)
    else:
        yield _fixed(array, kind)


def _offsets(array: Any) -> NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _relative(offsets: NDArray[np.int32]) -> bytes:
    return np.asarray(offsets - offsets[0], "<i4").tobytes()


def _between(values: Any, offsets: NDArray[np.int32]) -> Any:
    return values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _fixed(array: Any, kind: Any) -> bytes:
    if types.is_decimal128(kind):
        return _decimals(array, kind)
    if types.is_boolean(kind):
        array, width = array.cast(pa.uint8()), 1
    else:
        width = kind.bit_width // 8
        # times of seconds and milliseconds have 32 bits in Arrow
        if types.is_time32(kind):
            array, width = array.cast(pa.int32()).cast(pa.int64()), 8
    content = array.buffers()[1]
    if content is None:
        return bytes(width * len(array))
    return memoryview(content)[width * array.offset : width * (array.offset + len(array))].tobytes()


def _decimals(array: Any, kind: Any) -> bytes:
    if not len(array):
        return b""
    halves = np.frombuffer(array.buffers()[1], "<i8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    if kind.precision <= _SHORT_DIGITS:
        return np.ascontiguousarray(halves[:, 0]).tobytes()
    return np.ascontiguousarray(halves[:, ::-1]).tobytes()


def parts_within(table: pa.Table, limit: int) -> Iterator[pa.Table]:
    """A table in parts of about a number of bytes, of at least one row each."""
    size = max(1, table.nbytes)
    rows = max(1, min(table.num_rows, table.num_rows * limit // size))
    for at in range(0, table.num_rows, rows):
        yield table.slice(at, rows)


def row_filtered(table: pa.Table, passing: Any) -> pa.Table:
    """The rows whose condition is true, rather than false or null."""
    return table.filter(pc.fill_null(passing, fill_value=False))
