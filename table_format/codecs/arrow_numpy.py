"""Numbers between numpy and Arrow by their buffers.

pyarrow's own `pa.array(ndarray)` and `Array.to_numpy()` import pandas first when it is installed, which takes longer
than to plan a scan.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    """Flags as Arrow keeps them: eight to a byte, the first in the lowest bit."""
    bits: Any = np.packbits(flags, bitorder="little")
    return pa.py_buffer(bits)


def from_numpy(values: NDArray[Any], valid: Mask | None = None) -> Any:
    """The Arrow array of numbers or flags, without a copy of the numbers.

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
    """The numbers or flags of an Arrow array; dates and times as the integers behind them; nulls as they lie there."""
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little") if data else np.empty(0, np.uint8)
        return bits[array.offset : array.offset + len(array)].astype(np.bool_)
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    width = array.type.bit_width // 8
    if data is None or not len(array):  # Arrow leaves buffers of any size behind empty arrays
        return np.zeros(len(array), dtype=f"{kind}{width}")
    return np.frombuffer(data, f"{kind}{width}", len(array), array.offset * width)


def valid_mask(array: Any) -> Mask:
    """Where an Arrow array is not null."""
    return to_numpy(array.is_valid()).astype(np.bool_)


def one_chunk(column: Any) -> Any:
    """A column as a single array; without a copy where it is one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    merged: Any = column.combine_chunks()
    if isinstance(merged, pa.ChunkedArray):
        return merged.chunk(0) if merged.num_chunks else pa.array([], merged.type)
    return merged
