"""Rows of a split in pages: the requested columns of the rows that may match the query, a page per call."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.rows.slice_rows import needed_columns, slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.base.cursors import Cursors
from hudi_catalog.trino.base.scans import bound_filter, is_inside, row_condition
from hudi_catalog.trino.domains import expression_of
from hudi_catalog.trino.index_keys import KeySet, key_filter
from hudi_catalog.trino.options import FRAME_SIZE, TrinoOptions
from hudi_catalog.trino.pages import Buffers, Cells, PageBuilder, cells_of
from hudi_catalog.trino.split_id import TrinoSplit
from hudi_catalog.trino.types import ServedColumn, columns_of
from hudi_catalog.trino.values import served_values
from hudi_catalog.trino.wire import domain_of
from pushdown.evaluation.rows import matches
from pushdown.expression import HudiExpression, all_of
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import Mask, from_numpy, one_chunk, to_numpy
from table_format.errors import MissingFileError, ServiceError, SplitError

_FILTERS = 64
_CURSOR_BYTES = 4 << 20  # estimate for undecoded pages of the file, beside the rows
_REPLY_BYTES = 256  # around a page: the frame's length, the call's name and number
_SLICE = 1 << 40  # position of a row in its split: slice ordinal times this, plus the row's offset in the slice
_PAGE_SECONDS = 10.0
"""A page without matching rows is sent after this time, before Trino times out."""


class Snapshots(Protocol):
    """Source of pinned snapshots, such as `hudi_catalog.server.tables.WarehouseTables`."""

    def at(self, name: str, when: str) -> Snapshot:
        """The snapshot of a pin."""


@dataclass(frozen=True, eq=False)
class _Filter:
    """Filter of a scan's rows.

    Attributes:
        columns: the table's columns, by name in Trino.
        expression: of constraint and keys, to prune row groups.
        condition: the part of it that is evaluated on rows; None when all rows pass.
        keys: of an index look-up; None for a scan.
    """

    columns: dict[str, ServedColumn]
    expression: HudiExpression | None
    condition: HudiExpression | None
    keys: KeySet | None

    def served(self, names: Sequence[str]) -> list[ServedColumn]:
        """The columns of these names.

        Raises:
            ServiceError: a column does not exist or cannot be read.
        """
        columns = []
        for name in names:
            column = self.columns.get(name)
            if column is None:
                raise ServiceError(f"there is no column {name} in the table as the query sees it")
            if column.problem is not None:
                raise ServiceError(column.problem)
            columns.append(column)
        return columns


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows of a slice that are ready to be sent.

    Attributes:
        columns: their cells by column.
        offsets: offset of each row in the slice; None for consecutive rows.
        first: offset of the first row.
        rows: number of rows.
        end: offset after the last row of the slice that was read, sent or not.
        memory: bytes of the Arrow table that was read.
        start: position of the slice in the split.
    """

    columns: list[Cells]
    offsets: NDArray[np.int64] | None
    first: int
    rows: int
    end: int
    memory: int = 0
    start: int = 0

    def position(self, row: int) -> int:
        """The position in the split of a row of the batch; after its last row, where to continue."""
        if row >= self.rows:
            return self.start + self.end
        return self.start + (self.first + row if self.offsets is None else int(self.offsets[row]))


class _Cursor:
    """A partly read split: the current batch and the ones to come."""

    def __init__(self, batches: Generator[_Batch]) -> None:
        self._batches = batches
        self.batch: _Batch | None = None
        self.at = 0

    def next_batch(self) -> _Batch | None:
        """The current batch if it has rows left, else the next one; None at the end."""
        if self.batch is None or self.at >= self.batch.rows:
            self.batch, self.at = next(self._batches, None), 0
        return self.batch

    @property
    def memory(self) -> int:
        """Bytes in memory."""
        batch = self.batch
        return _CURSOR_BYTES + (batch.memory + sum(cells.memory for cells in batch.columns) if batch else 0)

    def close(self) -> None:
        """Close the file."""
        self._batches.close()


@dataclass(frozen=True)
class Page:
    """A page of encoded rows.

    Attributes:
        parts: buffers of the encoded struct, to be sent in order.
        rows: number of rows.
        is_last: whether the split has no more rows.
    """

    parts: Buffers
    rows: int
    is_last: bool


class RowServer:
    """Serves the rows of splits. Thread-safe.

    A page can be computed from its position alone; a cached cursor saves reading and skipping the rows before it.

    Args:
        tables: source of snapshots.
        options: of the service.
    """

    def __init__(self, tables: Snapshots, options: TrinoOptions | None = None) -> None:
        self._tables = tables
        self._options = options or TrinoOptions()
        self._filters: LruCache[str, _Filter] = LruCache(_FILTERS)
        self._cursors: Cursors[_Cursor] = Cursors(self._options.cursor_memory, self._options.cursor_idle)

    def page(
        self, split: TrinoSplit, columns: Sequence[str], max_bytes: int, position: int, seal: Callable[[int], bytes]
    ) -> Page:
        """The next rows of a split, as an encoded ``TrinoThriftPageResult``.

        Args:
            split: to be read.
            columns: names in Trino, in the order of the blocks; empty when rows are only counted.
            max_bytes: limit of the page; a larger row is sent alone.
            position: 0, or the argument of `seal` for this page.
            seal: makes the token of the next page from its position.

        Raises:
            SplitError: a file of the split no longer exists.
            ServiceError: a column does not exist or cannot be read, or a row is larger than a frame.
            HudiError: the table or a file cannot be read.
        """
        snapshot = self._tables.at(split.table, split.pin)
        wanted = self._filter(split, snapshot).served(columns)
        builder = PageBuilder([column.block for column in wanted], min(max_bytes, self._options.page_size))
        cursor = self._cursors.take((split, tuple(columns), position))
        if cursor is None:
            cursor = _Cursor(self._batches(split, snapshot, wanted, position))
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(cursor.close)
            try:
                after = _fill(builder, cursor)
            except MissingFileError as error:
                reason = "it was cleaned away while the query ran; run it again"
                raise SplitError(f"{split.table}: {error}: {reason}") from error
            page = Page(builder.parts(None if after is None else seal(after)), builder.rows, is_last=after is None)
            self._check_frame(split, page)
            if after is None:
                return page
            cleanup.pop_all()
        self._cursors.keep((split, tuple(columns), after), cursor)
        return page

    def close(self) -> None:
        """Close all cursors."""
        self._cursors.clear()

    def _check_frame(self, split: TrinoSplit, page: Page) -> None:
        """Refuse a row for which Trino would end the connection without a reason."""
        size, limit = sum(len(part) for part in page.parts) + _REPLY_BYTES, self._options.frame_size
        if size > limit:
            raise ServiceError(
                f"{split.table}: a row of {size} bytes is larger than a frame of the Thrift connector, {limit} bytes: "
                f"read fewer columns, or raise {FRAME_SIZE} here and the connector's max-frame-size alike"
            )

    def _filter(self, split: TrinoSplit, snapshot: Snapshot) -> _Filter:
        digest = hashlib.sha256(repr((split.table, split.pin)).encode())
        for content in (split.constraint, split.keys):
            digest.update(len(content).to_bytes(8, "big") + content)
        name = digest.hexdigest()
        known = self._filters.get(name)
        if known is None:
            known = _filter_of(split, snapshot, self._options)
            self._filters.put(name, known)
        return known

    def _batches(
        self, split: TrinoSplit, snapshot: Snapshot, wanted: Sequence[ServedColumn], position: int
    ) -> Generator[_Batch]:
        first, start = divmod(position, _SLICE)
        for number in range(first, len(split.slices)):
            of_slice = self._slice_batches(split, split.slices[number], snapshot, wanted, start)
            yield from (replace(batch, start=number * _SLICE) for batch in of_slice)
            start = 0

    def _slice_batches(
        self, split: TrinoSplit, piece: FileSlice, snapshot: Snapshot, wanted: Sequence[ServedColumn], start: int
    ) -> Iterator[_Batch]:
        _check_paths(split.table, piece)
        chosen = self._filter(split, snapshot)
        keyed = chosen.served(chosen.keys.names) if chosen.keys else []
        if not wanted and not keyed and chosen.condition is None and piece.base is not None and not piece.logs:
            yield _counted(snapshot, piece, start)
            return
        sources = [column.source for column in (*wanted, *keyed)]
        pieces = slice_batches(
            snapshot,
            piece,
            needed_columns(snapshot.schema, sources, chosen.condition),
            expression=chosen.expression,
            start=start,
            batch_rows=self._options.batch_rows,
        )
        for first, table in pieces:
            yield _batch(first, table, wanted, keyed, chosen)


def _filter_of(split: TrinoSplit, snapshot: Snapshot, options: TrinoOptions) -> _Filter:
    columns = {column.name: column for column in columns_of(snapshot.schema, options.types)}
    constraint = keys = None
    if split.constraint:
        constraint = expression_of(domain_of(split.constraint), tuple(columns.values()), snapshot.schema)
    condition, wanted = row_condition(constraint), constraint
    if split.key_columns:
        table = pa.ipc.open_stream(split.keys).read_all()
        keys = KeySet(table)
        keyed = bound_filter(snapshot, key_filter(table, [columns[name] for name in split.key_columns]))
        wanted = all_of(*(part for part in (constraint, keyed) if part is not None))
    return _Filter(columns, wanted, condition, keys)


def _check_paths(table: str, piece: FileSlice) -> None:
    """Refuse files outside the table, even in a signed split.

    Raises:
        SplitError: a path leads outside the table.
    """
    for path in (piece.base, *(path for path, _ in piece.logs)):
        if path is not None and not is_inside(path):
            raise SplitError(f"{table}: {path!r} is not inside the table")


def _counted(snapshot: Snapshot, piece: FileSlice, position: int) -> _Batch:
    """Rows without columns, counted from statistics or the file's footer."""
    rows = piece.record_count
    if rows is None:
        metadata = footer(snapshot.client.storage, str(piece.base)).metadata
        groups = range(metadata.num_row_groups) if piece.row_groups is None else piece.row_groups
        rows = sum(metadata.row_group(group).num_rows for group in groups)
    return _Batch([], None, position, max(0, rows - position), rows)


def _batch(
    first: int, table: pa.Table, wanted: Sequence[ServedColumn], keyed: Sequence[ServedColumn], chosen: _Filter
) -> _Batch:
    memory, end = table.get_total_buffer_size(), first + table.num_rows
    offsets: NDArray[np.int64] | None = None
    if chosen.condition is not None:
        passing = matches(chosen.condition, table, case_sensitive=True)
        table, offsets = _filtered(table, offsets, to_numpy(pc.fill_null(passing, fill_value=False)).astype(np.bool_))
    if chosen.keys is not None:
        served = {column.name: served_values(one_chunk(table.column(column.source)), column) for column in keyed}
        table, offsets = _filtered(table, offsets, chosen.keys.rows(served))
    columns = [cells_of(served_values(one_chunk(table.column(one.source)), one), one.block) for one in wanted]
    rows = table.num_rows
    return _Batch(columns, None if offsets is None or not rows else offsets + first, first, rows, end, memory)


def _filtered(
    table: pa.Table, offsets: NDArray[np.int64] | None, keep: Mask
) -> tuple[pa.Table, NDArray[np.int64] | None]:
    """The rows that pass, and their offsets."""
    if keep.all():
        return table, offsets
    at = np.flatnonzero(keep)
    return table.filter(from_numpy(keep)), at if offsets is None else offsets[at]


def _fill(builder: PageBuilder, cursor: _Cursor) -> int | None:
    """Add rows to the page until it is full; returns the position of the next page, None after the last one."""
    deadline = time.monotonic() + _PAGE_SECONDS
    while (batch := cursor.next_batch()) is not None:
        count = builder.fitting(batch.columns, cursor.at, batch.rows)
        builder.add(batch.columns, cursor.at, cursor.at + count)
        cursor.at += count
        if cursor.at < batch.rows or time.monotonic() > deadline:
            return batch.position(cursor.at)
    return None
