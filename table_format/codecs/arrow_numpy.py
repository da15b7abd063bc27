"""Arrow arrays over numpy buffers: numbers, masks, and binary columns as spans of one byte buffer.

pyarrow's own `pa.array(ndarray)` and `Array.to_numpy()` import pandas first when it is installed, which takes longer
than to plan a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.threads import in_threads

Column: TypeAlias = Any
"""An Arrow array; the stubs' array types are generic, and functions rarely return their parameter."""

Mask = NDArray[np.bool_]

_ARROW = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def packed(flags: NDArray[Any]) -> pa.Buffer:
    """Flags as an Arrow bitmap: eight to a byte, the first in the lowest bit."""
    bits: Any = np.packbits(flags, bitorder="little")
    return pa.py_buffer(bits)


def from_numpy(values: NDArray[Any], valid: Mask | None = None) -> Any:
    """Convert numbers or flags to an Arrow array, without copying numbers.

    Args:
        values: of one of numpy's plain types.
        valid: where false, the value is null.
    """
    validity = None if valid is None else packed(valid)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, packed(values)])
    data: Any = np.ascontiguousarray(values)
    buffers: Any = [validity, pa.py_buffer(data)]
    return pa.Array.from_buffers(_ARROW[values.dtype.name], len(values), buffers)


def to_numpy(array: Any) -> NDArray[Any]:
    """Convert an Arrow array to numbers or flags; dates and times as integers; null slots have any value."""
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little") if data else np.empty(0, np.uint8)
        return bits[array.offset : array.offset + len(array)].astype(np.bool_)
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    width = array.type.bit_width // 8
    if data is None or not len(array):  # Arrow leaves buffers of any size with empty arrays
        return np.zeros(len(array), dtype=f"{kind}{width}")
    return np.frombuffer(data, f"{kind}{width}", len(array), array.offset * width)


def valid_mask(array: Any) -> Mask:
    """Where an Arrow array is not null."""
    return to_numpy(array.is_valid()).astype(np.bool_)


def one_chunk(column: Any) -> Any:
    """A column as a single array, without a copy if it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    merged: Any = column.combine_chunks()
    if isinstance(merged, pa.ChunkedArray):
        return merged.chunk(0) if merged.num_chunks else pa.array([], merged.type)
    return merged


def combined(table: pa.Table) -> pa.Table:
    """A table with each column in one chunk, several columns at a time."""
    columns = in_threads(one_chunk, table.columns)
    return pa.table(columns, schema=table.schema)


DISORDERED_BYTE = 0xEE
"""First byte in UTF-8 of characters from U+E000 on (or a greater one). Java, which compares strings by
UTF-16 units, sorts those beyond U+FFFF first, and UTF-8 last. Strings without such bytes sort the same in both."""

_INT32_MAX = 2**31 - 1
Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]


def binary_array(buffer: Bytes, starts: Positions, lengths: Positions, valid: Mask | None = None) -> pa.BinaryArray:
    """Copy the spans `buffer[start : start + length]` into an Arrow binary array.

    The array of all spans and of the gaps between them needs only offsets, no copy; Arrow then takes every
    other element of it, in C++.

    Args:
        buffer: the bytes.
        starts: where each span starts, in bytes.
        lengths: bytes of each span; not negative.
        valid: where false, the value is null.

    Raises:
        IndexError: a span lies outside the buffer.
    """
    count = len(starts)
    if count == 0:
        empty: pa.BinaryArray = pa.nulls(0, pa.binary())  # unlike pa.array, without importing pandas
        return empty
    if starts.min() < 0 or lengths.min() < 0 or (starts + lengths).max() > len(buffer):
        raise IndexError("a span leaves its buffer")
    size = int(lengths[0])
    if valid is None and 0 < size <= _INT32_MAX // count and bool((lengths == size).all()):
        return _equally_long(buffer, starts, size)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
        # An empty span after the previous end keeps the offsets below in order.
        starts = np.where(valid, starts, np.maximum.accumulate(np.where(valid, starts + lengths, 0)))
    offsets: NDArray[Any] = np.empty(2 * count, dtype=np.int64)
    offsets[0::2] = starts
    np.add(starts, lengths, out=offsets[1::2])
    if (offsets[1:] < offsets[:-1]).any():
        return _gathered(buffer, starts, lengths, valid)
    kind: Any = pa.binary() if len(buffer) <= _INT32_MAX else pa.large_binary()
    if kind == pa.binary():
        offsets = offsets.astype(np.int32)
    interleaved: Any = _from_buffers(kind, 2 * count - 1, offsets, buffer)
    chosen = np.arange(0, 2 * count, 2, dtype=np.int64)
    taken: pa.BinaryArray = interleaved.take(from_numpy(chosen, valid)).cast(pa.binary())
    return taken


def _equally_long(buffer: Bytes, starts: Positions, size: int) -> pa.BinaryArray:
    """As `binary_array` for spans of one length, as file names and hashes have: a copy of fixed size each."""
    windows: NDArray[Any] = np.ndarray((len(buffer) - size + 1,), f"V{size}", cast("Any", buffer), strides=(1,))
    offsets = np.arange(0, (len(starts) + 1) * size, size, dtype=np.int32)
    return _from_buffers(pa.binary(), len(starts), offsets, windows[starts].view(np.uint8))


def _from_buffers(kind: Any, count: int, offsets: Any, data: Any, validity: Any = None) -> pa.BinaryArray:
    buffers: Any = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    array: Any = pa.Array.from_buffers(kind, count, buffers)
    binary: pa.BinaryArray = array
    return binary


def _gathered(buffer: Bytes, starts: Positions, lengths: Positions, valid: Mask | None) -> pa.BinaryArray:
    """As `binary_array` for spans in any order, byte by byte."""
    ends = np.cumsum(lengths)
    flat = np.arange(ends[-1], dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    validity = None if valid is None else packed(valid)
    return _from_buffers(pa.binary(), len(starts), offsets, buffer[flat], validity)


def spans_of(array: Any) -> tuple[Bytes, Positions, Positions]:
    """Buffer, starts and lengths of a binary or string array; null slots may have any length."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offset_buffer, data_buffer = array.buffers()
    whole = np.frombuffer(memoryview(offset_buffer or b""), dtype=np.int64 if large else np.int32)
    offsets = whole[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, dtype=np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def fixed_rows(rows: NDArray[np.uint8]) -> pa.BinaryArray:
    """A matrix of bytes as a binary array, one value per row."""
    count, width = rows.shape
    offsets = (np.arange(count + 1, dtype=np.int64) * width).astype(np.int32)
    return _from_buffers(pa.binary(), count, offsets, np.ascontiguousarray(rows).reshape(-1))


def masked_rows(rows: NDArray[np.uint8], keep: Mask) -> pa.BinaryArray:
    """A matrix of bytes as a binary array, one value per row, of the bytes for which `keep` is true."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(keep.sum(axis=1), out=offsets[1:])
    return _from_buffers(pa.binary(), len(rows), offsets, rows[keep])


def join_bytes(*parts: pa.BinaryArray | bytes) -> pa.BinaryArray:
    """Concatenate binary arrays row by row; a `bytes` is the same in each row. A null part makes the row null."""
    columns: list[Any] = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    join: Any = pc.binary_join_element_wise
    joined: pa.BinaryArray = join(*columns, pa.scalar(b"", pa.binary()))
    return joined


def has_bytes_from(values: Any, least: int) -> bool:
    """Whether a string or binary array holds a byte of that value or above; null slots may count.

    Args:
        values: one piece, of 32- or 64-bit offsets.
        least: from 0 to 255.
    """
    if len(values) == 0:
        return False
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    offsets = np.frombuffer(values.buffers()[1], np.int64 if wide else np.int32)
    first, last = int(offsets[values.offset]), int(offsets[values.offset + len(values)])
    content = values.buffers()[2]
    return content is not None and bool((np.frombuffer(content, np.uint8)[first:last] >= least).any())


def last_rows(codes: NDArray[Any]) -> Positions:
    """Row of the last occurrence of each distinct number, ascending.

    >>> last_rows(np.array([7, 5, 7])).tolist()
    [1, 2]
    """
    _, from_behind = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - from_behind).astype(np.int64)


def nulls(count: int, kind: pa.DataType) -> Any:
    """An array of nulls; `pyarrow.nulls` with a type that its stubs accept."""
    make: Any = pa.nulls
    return make(count, kind)


def schema_of(**fields: Any) -> pa.Schema:
    """An Arrow schema of named types."""
    named: Any = list(fields.items())
    return pa.schema(named)


def binaries(values: Sequence[bytes]) -> Column:
    """A binary array; unlike `pa.array`, this does not import pandas."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    return binary_array(np.frombuffer(b"".join(values), dtype=np.uint8), np.cumsum(lengths) - lengths, lengths)


def strings(values: Sequence[str]) -> Column:
    """A string array; see `binaries`."""
    return binaries([value.encode() for value in values]).cast(pa.string())
