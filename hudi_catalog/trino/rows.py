"""Rows of a split in pages: only the columns asked for, only rows that the query may want, a piece at a time."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.rows.slice_rows import needed_columns, slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.server.recent import Recent
from hudi_catalog.trino.domains import bound_filter, expression_of, row_condition
from hudi_catalog.trino.index_keys import KeySet, key_filter
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.pages import Buffers, Cells, PageBuilder, cells_of
from hudi_catalog.trino.split_id import TrinoSplit, is_inside
from hudi_catalog.trino.types import ServedColumn, columns_of
from hudi_catalog.trino.values import served_values
from hudi_catalog.trino.wire import domain_of
from pushdown.evaluation.rows import matches
from pushdown.expression import HudiExpression, all_of
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import Mask, from_numpy, one_chunk, to_numpy
from table_format.errors import MissingFileError, ServiceError, SplitError

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_FILTERS = 64
_CURSOR_BYTES = 4 << 20  # beside the rows: pages of the file that are not decoded yet
_SLICE = 1 << 40  # rows that a slice has less of: the position of a row is its slice's number and its own in that
_MOST_SECONDS = 10.0

"""A page in which nothing matches is sent before Trino gives up waiting for it."""


class Snapshots(Protocol):
    """Where pinned snapshots come from: `hudi_catalog.server.tables.WarehouseTables`."""

    def at(self, name: str, when: str) -> Snapshot:
        """The state of a table at an instant."""


@dataclass(frozen=True, eq=False)
class _Filter:
    """What the rows of a scan's splits must meet.

    Attributes:
        columns: the table's, by name in Trino.
        expression: of the constraint and the keys, for row groups.
        condition: the part that can be told of rows; None for all.
        keys: of an index look-up.
    """

    columns: dict[str, ServedColumn]
    expression: HudiExpression | None
    condition: HudiExpression | None
    keys: KeySet | None

    def served(self, names: Sequence[str]) -> list[ServedColumn]:
        """The columns of some names.

        Raises:
            ServiceError: there is none of a name, or it cannot be served.
        """
        found = []
        for name in names:
            column = self.columns.get(name)
            if column is None:
                raise ServiceError(f"there is no column {name} in the table as the query sees it")
            if column.problem is not None:
                raise ServiceError(column.problem)
            found.append(column)
        return found


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows as they are sent.

    Attributes:
        columns: their cells.
        places: position of each row in the slice; None where they follow the first one without a gap.
        first: position of the first row.
        rows: how many there are.
        end: position behind the rows of the slice that were looked at.
        memory: bytes of what they were read into.
        start: position of the slice in the split.
    """

    columns: list[Cells]
    places: NDArray[np.int64] | None
    first: int
    rows: int
    end: int
    memory: int = 0
    start: int = 0

    def place(self, row: int) -> int:
        """The position in the split of a row; of that behind the last one, where to go on."""
        if row >= self.rows:
            return self.start + self.end
        return self.start + (self.first + row if self.places is None else int(self.places[row]))


class _Reading:
    """A split that is read in part: the batches to come, and what is left of the one at hand."""

    def __init__(self, batches: Generator[_Batch]) -> None:
        self._batches = batches
        self.batch: _Batch | None = None
        self.at = 0

    def next_batch(self) -> _Batch | None:
        """The batch of which rows are left, or the one behind it; None when there is none."""
        if self.batch is None or self.at >= self.batch.rows:
            self.batch, self.at = next(self._batches, None), 0
        return self.batch

    @property
    def memory(self) -> int:
        """Bytes held."""
        batch = self.batch
        return _CURSOR_BYTES + (batch.memory + sum(cells.memory for cells in batch.columns) if batch else 0)

    def close(self) -> None:
        """Close the file."""
        self._batches.close()


@dataclass(frozen=True)
class Page:
    """Encoded rows.

    Attributes:
        parts: of the struct, to be sent one behind the other.
        rows: how many rows they hold.
        is_last: whether the split has no more.
    """

    parts: Buffers
    rows: int
    is_last: bool


class RowServer:
    """Serves the rows of splits. Threads may share it.

    A page is found again by its position alone; a reading that was kept only saves to read and skip.

    Args:
        tables: where snapshots come from.
        options: of the service.
    """

    def __init__(self, tables: Snapshots, options: TrinoOptions | None = None) -> None:
        self._tables = tables
        self._options = options or TrinoOptions()
        self._filters: Recent[_Filter] = Recent(_FILTERS)
        self._readings: Cursors[_Reading] = Cursors(self._options.cursor_memory, self._options.cursor_idle)

    def page(
        self, split: TrinoSplit, columns: Sequence[str], max_bytes: int, position: int, seal: Callable[[int], bytes]
    ) -> Page:
        """The next rows of a split, as an encoded ``TrinoThriftPageResult``.

        Args:
            split: what to read.
            columns: names in Trino, in the order of the blocks wanted; none when rows are only counted.
            max_bytes: of the page; a row that is larger goes alone.
            position: 0, or what `seal` was given for this page.
            seal: makes the token of the next page out of its position.

        Raises:
            SplitError: a file of the split is gone.
            ServiceError: a column is not there, or cannot be served.
            HudiError: the table or a file cannot be read.
        """
        snapshot = self._tables.at(split.table, split.pin)
        wanted = self._filter(split, snapshot).served(columns)
        builder = PageBuilder([column.block for column in wanted], min(max_bytes, self._options.page_size))
        reading = self._readings.take((split, tuple(columns), position))
        if reading is None:
            reading = _Reading(self._batches(split, snapshot, wanted, position))
        with contextlib.ExitStack() as unless_kept:
            unless_kept.callback(reading.close)
            try:
                after = _fill(builder, reading)
            except MissingFileError as error:
                why = "it was cleaned away while the query ran; run it again"
                raise SplitError(f"{split.table}: {error}: {why}") from error
            if after is None:
                return Page(builder.parts(None), builder.rows, is_last=True)
            page = Page(builder.parts(seal(after)), builder.rows, is_last=False)
            unless_kept.pop_all()
        self._readings.put((split, tuple(columns), after), reading)
        return page

    def close(self) -> None:
        """Close all files that are read in part."""
        self._readings.clear()

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
            row_groups=piece.row_groups,
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
    """Refuse files outside the table: the signature of a split is no reason to open any file.

    Raises:
        SplitError: there is one.
    """
    for path in (piece.base, *(path for path, _ in piece.logs)):
        if path is not None and not is_inside(path):
            raise SplitError(f"{table}: {path!r} is not inside the table")


def _counted(snapshot: Snapshot, piece: FileSlice, position: int) -> _Batch:
    rows = piece.record_count
    if rows is None:
        found = footer(snapshot.client.storage, str(piece.base)).metadata
        groups = range(found.num_row_groups) if piece.row_groups is None else piece.row_groups
        rows = sum(found.row_group(group).num_rows for group in groups)
    return _Batch([], None, position, max(0, rows - position), rows)


def _batch(
    first: int, table: pa.Table, wanted: Sequence[ServedColumn], keyed: Sequence[ServedColumn], chosen: _Filter
) -> _Batch:
    memory, end = table.get_total_buffer_size(), first + table.num_rows
    places: NDArray[np.int64] | None = None
    if chosen.condition is not None:
        found = matches(chosen.condition, table, case_sensitive=True)
        table, places = _kept(table, places, to_numpy(pc.fill_null(found, fill_value=False)).astype(np.bool_))
    if chosen.keys is not None:
        served = {column.name: served_values(one_chunk(table.column(column.source)), column) for column in keyed}
        table, places = _kept(table, places, chosen.keys.rows(served))
    columns = [cells_of(served_values(one_chunk(table.column(one.source)), one), one.block) for one in wanted]
    rows = table.num_rows
    return _Batch(columns, None if places is None or not rows else places + first, first, rows, end, memory)


def _kept(table: pa.Table, places: NDArray[np.int64] | None, keep: Mask) -> tuple[pa.Table, NDArray[np.int64] | None]:
    """The rows that are kept, and where they were."""
    if keep.all():
        return table, places
    at = np.flatnonzero(keep)
    return table.filter(from_numpy(keep)), at if places is None else places[at]


def _fill(builder: PageBuilder, reading: _Reading) -> int | None:
    """Take rows until the page is full; the position of the next page, None after the last one."""
    deadline = time.monotonic() + _MOST_SECONDS
    while (batch := reading.next_batch()) is not None:
        count = builder.fitting(batch.columns, reading.at, batch.rows)
        builder.add(batch.columns, reading.at, reading.at + count)
        reading.at += count
        if reading.at < batch.rows or time.monotonic() > deadline:
            return batch.place(reading.at)
    return None


class Cursor(Protocol):
    """Something that was read in part."""

    @property
    def memory(self) -> int:
        """Bytes that it holds."""

    def close(self) -> None:
        """Let go of files and memory."""


C = TypeVar("C", bound=Cursor)


class Cursors(Generic[C]):
    """Cursors by key; those that were put away longest are closed first. Threads may share it.

    A cursor is with whoever took it until it is put back, so that no two threads use one.

    Args:
        memory: bytes that they hold together at most, a single larger one excepted: of merged log files all rows are
            held, and to merge them anew for each page would take the square of the time; 0 to keep none.
        idle: seconds after which one is closed.
        clock: seconds of any beginning.
    """

    def __init__(self, memory: int, idle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = memory
        self._idle = idle
        self._clock = clock
        self._held: OrderedDict[Hashable, tuple[C, int, float]] = OrderedDict()
        self._memory = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def memory(self) -> int:
        """Bytes that they hold together."""
        return self._memory

    def take(self, key: Hashable) -> C | None:
        """The cursor of a key, if it is still there."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is not None:
                self._memory -= found[1]
        self.expire()
        return None if found is None else found[0]

    def put(self, key: Hashable, cursor: C) -> None:
        """Keep a cursor; another one under the key is closed."""
        size = cursor.memory
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = (cursor, size, self._clock())
            self._memory += size - (before[1] if before else 0)
            gone = [before[0]] if before else []
            while self._memory > self._limit and len(self._held) > (1 if self._limit else 0):
                gone.append(self._drop_oldest())
        _close(gone)

    def expire(self) -> None:
        """Close what nobody came back for."""
        gone = []
        with self._lock:
            while self._held and self._clock() - next(iter(self._held.values()))[2] > self._idle:
                gone.append(self._drop_oldest())
        _close(gone)

    def clear(self) -> None:
        """Close all."""
        with self._lock:
            gone = [self._drop_oldest() for _ in range(len(self._held))]
        _close(gone)

    def _drop_oldest(self) -> C:
        _, (cursor, size, _) = self._held.popitem(last=False)
        self._memory -= size
        return cursor


def _close(cursors: list[C]) -> None:
    for cursor in cursors:
        cursor.close()
