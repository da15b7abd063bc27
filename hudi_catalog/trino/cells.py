"""Values of one column as the bytes that the Thrift connector carries, by whole columns out of Arrow buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.splits.json_rows import list_items
from hudi_catalog.trino.types import Wire
from table_format.codecs.arrow_numpy import to_numpy, valid_mask

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
types = pa.types

Bytes = memoryview
WIDTHS = {
    Wire.INTEGER: 4,
    Wire.BIGINT: 8,
    Wire.DOUBLE: 8,
    Wire.BOOLEAN: 1,
    Wire.DATE: 4,
    Wire.TIMESTAMP: 8,
}
"""Bytes of a value, for the kinds whose values all take the same."""
_SIZE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of some rows of a column.

    Attributes:
        wire: the kind of block that they go into.
        count: how many there are.
        nulls: a byte for each, 1 for null; None when none is null.
        values: the values, numbers with their highest byte first; of texts the UTF-8 bytes, one behind the other,
            and those of other rows before and behind them.
        ends: where in them, or among the items, each value begins, and where the last one ends; None for values of one
            width. Nulls are empty.
        items: of lists; None for other kinds.
    """

    wire: Wire
    count: int
    nulls: NDArray[np.uint8] | None
    values: Bytes
    ends: NDArray[Any] | None = None
    items: Cells | None = None

    def part(self, start: int, stop: int) -> Cells:
        """The rows from `start` up to before `stop`; no value is copied."""
        if start == 0 and stop == self.count:
            return self
        nulls = None if self.nulls is None else self.nulls[start:stop]
        if nulls is not None and not nulls.any():
            nulls = None
        if self.ends is None:
            width = WIDTHS[self.wire]
            return Cells(self.wire, stop - start, nulls, self.values[start * width : stop * width])
        return Cells(self.wire, stop - start, nulls, self.values, self.ends[start : stop + 1], self.items)

    @property
    def contents(self) -> Bytes:
        """The values of just these rows."""
        return self.values if self.ends is None else self.values[int(self.ends[0]) : int(self.ends[-1])]

    @property
    def inner(self) -> Cells | None:
        """The items of just these rows."""
        if self.items is None or self.ends is None:
            return None
        return self.items.part(int(self.ends[0]), int(self.ends[-1]))

    @property
    def row_bytes(self) -> int:
        """Bytes that each row takes at least, nulls left aside."""
        return WIDTHS[self.wire] if self.ends is None else _SIZE_BYTES

    @property
    def item_bytes(self) -> int:
        """Bytes of each item, nulls left aside: of a text 1, of a list's members 8."""
        return 1 if self.items is None else WIDTHS[self.items.wire]

    @property
    def memory(self) -> int:
        """Bytes that they hold in memory, nearly."""
        items = self.items.memory if self.items else 0
        return len(self.contents) + items + sum(held.nbytes for held in (self.nulls, self.ends) if held is not None)

    @property
    def byte_count(self) -> int:
        """Bytes of all rows, nulls left aside."""
        extra = 0 if self.ends is None else int(self.ends[-1] - self.ends[0]) * self.item_bytes
        return self.count * self.row_bytes + extra


def cells_of(array: Any, wire: Wire) -> Cells:
    """The cells of an Arrow array.

    Args:
        array: of the type that the kind of block carries: int32, int64, float64, boolean, date32, text of any layout,
            int64 for times in milliseconds, a list of int64; dictionaries of these too.
        wire: the kind of block.
    """
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    count = len(array)
    nulls = (~valid_mask(array)).view(np.uint8) if array.null_count else None
    if wire is Wire.BIGINT_ARRAY:
        return _lists(array, count, nulls)
    if wire in {Wire.VARCHAR, Wire.JSON}:
        return _texts(array, wire, count, nulls)
    numbers = to_numpy(array)
    if wire is Wire.BOOLEAN:
        return Cells(wire, count, nulls, bytes_of(numbers.view(np.uint8)))
    return Cells(wire, count, nulls, bytes_of(numbers.byteswap()))


def _texts(array: Any, wire: Wire, count: int, nulls: NDArray[np.uint8] | None) -> Cells:
    if types.is_string_view(array.type) or types.is_null(array.type):
        array = array.cast(pa.large_string())
    if nulls is not None:
        array = _without_hidden(array)
    ends = _ends(array, count)
    data = array.buffers()[2]
    return Cells(wire, count, nulls, memoryview(b"" if data is None else data), ends)


def _lists(array: Any, count: int, nulls: NDArray[np.uint8] | None) -> Cells:
    items, lengths = list_items(array)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(to_numpy(lengths), out=ends[1:])
    return Cells(Wire.BIGINT_ARRAY, count, nulls, memoryview(b""), ends, cells_of(items, Wire.BIGINT))


def _without_hidden(array: Any) -> Any:
    """The array with nothing behind its nulls, where Arrow may have left bytes."""
    ends = _ends(array, len(array))
    behind = np.diff(ends)[~valid_mask(array)]
    return pc.fill_null(array, "") if behind.any() else array


def _ends(array: Any, count: int) -> NDArray[Any]:
    data = array.buffers()[1]
    if data is None or not count:
        return np.zeros(count + 1, np.int32)
    wide = np.int64 if types.is_large_string(array.type) or types.is_large_binary(array.type) else np.int32
    return np.frombuffer(data, wide, count + 1, array.offset * np.dtype(wide).itemsize)


def bytes_of(values: NDArray[Any]) -> Bytes:
    """The bytes of numbers, without a copy."""
    data: Any = np.ascontiguousarray(values)
    return memoryview(data).cast("B") if len(values) else memoryview(b"")
