"""Pages of rows for Trino's Thrift connector, filled up to a number of bytes and not beyond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hudi_catalog.trino.blocks import (
    I32,
    LIST,
    LIST_HEAD_BYTES,
    STOP,
    STRING,
    STRUCT,
    Parts,
    count_bytes,
    encode_cells,
    field_head,
    head_bytes,
    list_head,
)
from hudi_catalog.trino.cells import Cells
from hudi_catalog.trino.types import Wire

_BLOCKS, _ROWS, _TOKEN, _ID = 1, 2, 3, 1
_MOST_ROWS = 2**31 - 1
TOKEN_BYTES = 256
"""Room that is left for the token of the next page."""
_TOKEN_HEAD_BYTES = len(field_head(STRUCT, _TOKEN)) + len(field_head(STRING, _ID)) + len(count_bytes(0)) + len(STOP)
_COUNT_BYTES = len(field_head(I32, _ROWS)) + len(count_bytes(0))
_PAGE_BYTES = LIST_HEAD_BYTES + _COUNT_BYTES + _TOKEN_HEAD_BYTES + TOKEN_BYTES + len(STOP)


class PageBuilder:
    """One page, as the parts of a ``TrinoThriftPageResult``.

    Args:
        wires: the kind of block of each column.
        max_bytes: of the page; a page of one row may be larger.
    """

    def __init__(self, wires: Sequence[Wire], max_bytes: int) -> None:
        self._wires = tuple(wires)
        self._room = max_bytes - _PAGE_BYTES - sum(head_bytes(wire) for wire in wires)
        self._pieces: list[list[Cells]] = [[] for _ in wires]
        self._value_bytes = 0
        self._nullable = [False] * len(self._wires)
        self._items = [0] * len(self._wires)
        self._item_nulls = [False] * len(self._wires)
        self.rows = 0

    def fitting(self, columns: Sequence[Cells], start: int, stop: int) -> int:
        """How many rows of a batch, from `start` up to before `stop`, the page still takes; at least one if empty."""
        stop = min(stop, start + _MOST_ROWS - self.rows)
        if not columns:
            return stop - start
        if self._size_after(columns, start, np.array([stop]))[0] <= self._room:
            return stop - start
        ends = np.arange(start + 1, stop + 1)
        count = int(np.searchsorted(self._size_after(columns, start, ends), self._room, side="right"))
        return count if count or self.rows else min(1, stop - start)

    def add(self, columns: Sequence[Cells], start: int, stop: int) -> None:
        """Take some rows of a batch; nothing is copied."""
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

    def parts(self, token: bytes | None) -> Parts:
        """The page, to be sent one part behind the other.

        Args:
            token: of the next page, of at most `TOKEN_BYTES`; None for the last one.
        """
        result: Parts = [field_head(LIST, _BLOCKS) + list_head(STRUCT, len(self._wires))]
        for wire, pieces in zip(self._wires, self._pieces, strict=True):
            result += encode_cells(pieces, wire)
        result.append(field_head(I32, _ROWS) + count_bytes(self.rows))
        if token is not None:
            head = field_head(STRUCT, _TOKEN) + field_head(STRING, _ID) + count_bytes(len(token))
            result.append(head + token + STOP)
        result.append(STOP)
        return result

    def _size_after(self, columns: Sequence[Cells], start: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of values and nulls with the rows up to each end; never less than they will be."""
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
