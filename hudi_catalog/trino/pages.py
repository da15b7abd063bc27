"""Pages and blocks of Trino's Thrift connector, encoded column-wise from Arrow buffers, with a limit in bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.rows.json_rows import list_items
from hudi_catalog.trino.types import BlockKind
from table_format.codecs.arrow_numpy import to_numpy, valid_mask

types = pa.types

Bytes = memoryview
WIDTHS = {
    BlockKind.INTEGER: 4,
    BlockKind.BIGINT: 8,
    BlockKind.DOUBLE: 8,
    BlockKind.BOOLEAN: 1,
    BlockKind.DATE: 4,
    BlockKind.TIMESTAMP: 8,
}
"""Bytes per value of fixed-width blocks."""

_SIZE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of some rows of a column, encoded for a block.

    Attributes:
        block: kind of block.
        count: number of rows.
        nulls: a byte per row, 1 for null; None when no row is null.
        values: numbers in big-endian order; of strings the concatenated UTF-8 bytes, which may include those of other
            rows before and after these.
        ends: `count` + 1 offsets of strings in `values`, or of lists among `items`; None for fixed-width values. Nulls
            are empty.
        items: of lists; None for other kinds.
    """

    block: BlockKind
    count: int
    nulls: NDArray[np.uint8] | None
    values: Bytes
    ends: NDArray[Any] | None = None
    items: Cells | None = None

    def part(self, start: int, stop: int) -> Cells:
        """The rows from `start` to `stop` (exclusive); values are not copied."""
        if start == 0 and stop == self.count:
            return self
        nulls = None if self.nulls is None else self.nulls[start:stop]
        if nulls is not None and not nulls.any():
            nulls = None
        if self.ends is None:
            width = WIDTHS[self.block]
            return Cells(self.block, stop - start, nulls, self.values[start * width : stop * width])
        return Cells(self.block, stop - start, nulls, self.values, self.ends[start : stop + 1], self.items)

    @property
    def contents(self) -> Bytes:
        """The values of these rows only."""
        return self.values if self.ends is None else self.values[int(self.ends[0]) : int(self.ends[-1])]

    @property
    def inner(self) -> Cells | None:
        """The items of these rows only."""
        if self.items is None or self.ends is None:
            return None
        return self.items.part(int(self.ends[0]), int(self.ends[-1]))

    @property
    def row_bytes(self) -> int:
        """Fixed bytes per row, without nulls."""
        return WIDTHS[self.block] if self.ends is None else _SIZE_BYTES

    @property
    def item_bytes(self) -> int:
        """Bytes per item, without nulls: 1 for the bytes of strings, 8 for the items of lists."""
        return 1 if self.items is None else WIDTHS[self.items.block]

    @property
    def memory(self) -> int:
        """Approximate bytes in memory."""
        items = self.items.memory if self.items else 0
        return len(self.contents) + items + sum(held.nbytes for held in (self.nulls, self.ends) if held is not None)

    @property
    def byte_count(self) -> int:
        """Bytes of all rows, without nulls."""
        extra = 0 if self.ends is None else int(self.ends[-1] - self.ends[0]) * self.item_bytes
        return self.count * self.row_bytes + extra


def cells_of(array: Any, kind: BlockKind) -> Cells:
    """The cells of an Arrow array.

    Args:
        array: of the block's type: int32, int64, float64, boolean, date32, a string of any layout, int64 for
            timestamps in milliseconds, a list of int64; or a dictionary of one of these.
        kind: the kind of block.
    """
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    count = len(array)
    nulls = (~valid_mask(array)).view(np.uint8) if array.null_count else None
    if kind is BlockKind.BIGINT_ARRAY:
        return _lists(array, count, nulls)
    if kind in {BlockKind.VARCHAR, BlockKind.JSON}:
        return _texts(array, kind, count, nulls)
    numbers = to_numpy(array)
    if kind is BlockKind.BOOLEAN:
        return Cells(kind, count, nulls, bytes_of(numbers.view(np.uint8)))
    return Cells(kind, count, nulls, bytes_of(numbers.byteswap()))


def _texts(array: Any, kind: BlockKind, count: int, nulls: NDArray[np.uint8] | None) -> Cells:
    if types.is_string_view(array.type) or types.is_null(array.type):
        array = array.cast(pa.large_string())
    if nulls is not None:
        array = _without_hidden(array)
    ends = _ends(array, count)
    data = array.buffers()[2]
    return Cells(kind, count, nulls, memoryview(b"" if data is None else data), ends)


def _lists(array: Any, count: int, nulls: NDArray[np.uint8] | None) -> Cells:
    items, lengths = list_items(array)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(to_numpy(lengths), out=ends[1:])
    return Cells(BlockKind.BIGINT_ARRAY, count, nulls, memoryview(b""), ends, cells_of(items, BlockKind.BIGINT))


def _without_hidden(array: Any) -> Any:
    """The array with empty values under its nulls, where Arrow may have left bytes."""
    ends = _ends(array, len(array))
    hidden = np.diff(ends)[~valid_mask(array)]
    return pc.fill_null(array, "") if hidden.any() else array


def _ends(array: Any, count: int) -> NDArray[Any]:
    data = array.buffers()[1]
    if data is None or not count:
        return np.zeros(count + 1, np.int32)
    wide = np.int64 if types.is_large_string(array.type) or types.is_large_binary(array.type) else np.int32
    return np.frombuffer(data, wide, count + 1, array.offset * np.dtype(wide).itemsize)


def bytes_of(values: NDArray[Any]) -> Bytes:
    """The bytes of numbers, not copied."""
    data: Any = np.ascontiguousarray(values)
    return memoryview(data).cast("B") if len(values) else memoryview(b"")


Buffers = list["bytes | memoryview"]

# Types of the binary protocol.
BOOL, DOUBLE, I32, I64, STRING, STRUCT, LIST = 2, 4, 8, 10, 11, 12, 15
STOP = b"\0"
_FIELD = struct.Struct(">bh")
_LIST = struct.Struct(">bi")
_COUNT = struct.Struct(">i")
_ELEMENTS = {
    BlockKind.INTEGER: I32,
    BlockKind.BIGINT: I64,
    BlockKind.DOUBLE: DOUBLE,
    BlockKind.BOOLEAN: BOOL,
    BlockKind.DATE: I32,
    BlockKind.TIMESTAMP: I64,
}

_NULLS, _VALUES, _TEXTS = 1, 2, 3


def field_head(kind: int, number: int) -> bytes:
    """The encoded head of a field: type and number."""
    return _FIELD.pack(kind, number)


def list_head(kind: int, count: int) -> bytes:
    """The encoded head of a list: element type and count."""
    return _LIST.pack(kind, count)


def count_bytes(number: int) -> bytes:
    """An encoded i32."""
    return _COUNT.pack(number)


LIST_HEAD_BYTES = _FIELD.size + _LIST.size
BLOCK_HEAD_BYTES = _FIELD.size + LIST_HEAD_BYTES + 2 * len(STOP)
"""Bytes of a block of fixed-width values without values and nulls."""

TEXT_HEAD_BYTES = BLOCK_HEAD_BYTES + _FIELD.size + _COUNT.size
ARRAY_HEAD_BYTES = BLOCK_HEAD_BYTES + _FIELD.size + 2 * LIST_HEAD_BYTES + len(STOP)


def head_bytes(kind: BlockKind) -> int:
    """Bytes of a block without its values and its list of nulls."""
    if kind is BlockKind.BIGINT_ARRAY:
        return ARRAY_HEAD_BYTES
    return TEXT_HEAD_BYTES if kind in {BlockKind.VARCHAR, BlockKind.JSON} else BLOCK_HEAD_BYTES


def encode_cells(pieces: Sequence[Cells], kind: BlockKind) -> Buffers:
    """The block of concatenated cells; values are not copied."""
    return [field_head(STRUCT, kind.value), *_data(pieces, kind), STOP]


def _data(pieces: Sequence[Cells], kind: BlockKind) -> Iterator[bytes | memoryview]:
    """The struct with the data of a block, including its end."""
    count = sum(piece.count for piece in pieces)
    yield from _nulls(pieces, count)
    if kind in _ELEMENTS:
        yield field_head(LIST, _VALUES) + list_head(_ELEMENTS[kind], count)
        yield from (piece.contents for piece in pieces)
    else:
        yield field_head(LIST, _VALUES) + list_head(I32, count)
        for piece in pieces:
            yield _sizes(piece)
        if kind is BlockKind.BIGINT_ARRAY:
            yield field_head(STRUCT, _TEXTS)
            yield from _data([items for piece in pieces if (items := piece.inner) is not None], BlockKind.BIGINT)
        else:
            contents = [piece.contents for piece in pieces]
            yield field_head(STRING, _TEXTS) + count_bytes(sum(map(len, contents)))
            yield from contents
    yield STOP


def _nulls(pieces: Sequence[Cells], count: int) -> Iterator[bytes | memoryview]:
    if all(piece.nulls is None for piece in pieces):
        return
    yield field_head(LIST, _NULLS) + list_head(BOOL, count)
    for piece in pieces:
        yield bytes(piece.count) if piece.nulls is None else bytes_of(piece.nulls)


def _sizes(piece: Cells) -> bytes | memoryview:
    if piece.ends is None or not piece.count:
        return b""
    return bytes_of(np.diff(piece.ends).astype(np.int32, copy=False).byteswap(inplace=True))


_BLOCKS, _ROWS, _TOKEN, _ID = 1, 2, 3, 1
_MOST_ROWS = 2**31 - 1
TOKEN_BYTES = 256
"""Reserved for the token of the next page."""

_TOKEN_HEAD_BYTES = len(field_head(STRUCT, _TOKEN)) + len(field_head(STRING, _ID)) + len(count_bytes(0)) + len(STOP)
_COUNT_BYTES = len(field_head(I32, _ROWS)) + len(count_bytes(0))
_PAGE_BYTES = LIST_HEAD_BYTES + _COUNT_BYTES + _TOKEN_HEAD_BYTES + TOKEN_BYTES + len(STOP)


class PageBuilder:
    """Builds one page, an encoded ``TrinoThriftPageResult``.

    Args:
        kinds: the kind of block of each column.
        max_bytes: limit of the page; a page of one row may be larger.
    """

    def __init__(self, kinds: Sequence[BlockKind], max_bytes: int) -> None:
        self._kinds = tuple(kinds)
        self._room = max_bytes - _PAGE_BYTES - sum(head_bytes(kind) for kind in kinds)
        self._pieces: list[list[Cells]] = [[] for _ in kinds]
        self._value_bytes = 0
        self._nullable = [False] * len(self._kinds)
        self._items = [0] * len(self._kinds)
        self._item_nulls = [False] * len(self._kinds)
        self.rows = 0

    def fitting(self, columns: Sequence[Cells], start: int, stop: int) -> int:
        """Number of rows of a batch, from `start` to `stop` (exclusive), that fit; at least one into an empty page."""
        stop = min(stop, start + _MOST_ROWS - self.rows)
        if not columns:
            return stop - start
        if self._size_after(columns, start, np.array([stop]))[0] <= self._room:
            return stop - start
        ends = np.arange(start + 1, stop + 1)
        count = int(np.searchsorted(self._size_after(columns, start, ends), self._room, side="right"))
        return count if count or self.rows else min(1, stop - start)

    def add(self, columns: Sequence[Cells], start: int, stop: int) -> None:
        """Add rows of a batch, not copied."""
        for position, cells in enumerate(columns):
            part = cells.part(start, stop)
            self._pieces[position].append(part)
            self._value_bytes += part.byte_count
            self._nullable[position] |= part.nulls is not None
            items = part.inner
            if items is not None:
                self._items[position] += items.count
                self._item_nulls[position] |= items.nulls is not None
        self.rows += stop - start

    def parts(self, token: bytes | None) -> Buffers:
        """The page as buffers to be sent in order.

        Args:
            token: of the next page, at most `TOKEN_BYTES` long; None for the last page.
        """
        result: Buffers = [field_head(LIST, _BLOCKS) + list_head(STRUCT, len(self._kinds))]
        for kind, pieces in zip(self._kinds, self._pieces, strict=True):
            result += encode_cells(pieces, kind)
        result.append(field_head(I32, _ROWS) + count_bytes(self.rows))
        if token is not None:
            head = field_head(STRUCT, _TOKEN) + field_head(STRING, _ID) + count_bytes(len(token))
            result.append(head + token + STOP)
        result.append(STOP)
        return result

    def _size_after(self, columns: Sequence[Cells], start: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Upper bounds of the bytes of values and nulls with further rows up to each end."""
        more = ends - start
        size = np.full(len(ends), self._value_bytes, np.int64)
        for position, cells in enumerate(columns):
            size += more * cells.row_bytes
            if self._nullable[position] or cells.nulls is not None:
                size += LIST_HEAD_BYTES + self.rows + more
            if cells.ends is None:
                continue
            inside = (cells.ends[ends] - cells.ends[start]).astype(np.int64)
            size += inside * cells.item_bytes
            if cells.items is not None and (self._item_nulls[position] or cells.items.nulls is not None):
                size += LIST_HEAD_BYTES + self._items[position] + inside
        return size
