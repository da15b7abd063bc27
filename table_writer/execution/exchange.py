"""Rows brought to their slots in one process: in memory up to a limit, beyond it in files of Arrow's IPC format.

A file holds what came in since the one before, a stream (lz4) for each slot; a slot is read back as its streams in all
files, so that its rows keep the order of the batch. Files are mapped, and stand in a folder for temporary files, never
in the table.
"""

from __future__ import annotations

import itertools
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import NoSpaceError
from table_format.storage import stream_errors
from table_writer.execution.slot_rows import InMemory, Positions, SlotRows, TableSource

_LONGEST_COLUMN: Final = (1 << 31) - 1
_ORDER_BITS: Final = 1 << 15


class SpillFolder:
    """A folder for temporary files, made when the first one is written, and removed with all of them.

    Args:
        parent: where to make it; None for the system's own folder for temporary files.
    """

    def __init__(self, parent: str | None) -> None:
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> str:
        """The folder."""
        if self._folder is None:
            with stream_errors(self._parent or tempfile.gettempdir()):
                self._folder = tempfile.TemporaryDirectory(prefix="hudi-catalog-", dir=self._parent)
        return self._folder.name

    def remove(self) -> None:
        """Remove it with its files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@dataclass(frozen=True, slots=True)
class Segment:
    """An Arrow stream within a file.

    Attributes:
        path: of the file.
        offset: of its first byte.
        length: in bytes.
        nbytes: of its rows in memory.
    """

    path: str
    offset: int
    length: int
    nbytes: int


@dataclass(frozen=True)
class Segments:
    """Tables that stand in files, a segment each."""

    content: tuple[Segment, ...]

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The tables; each is read when it is asked for."""
        for segment in self.content:
            with pa.memory_map(segment.path) as file:
                file.seek(segment.offset)
                data = file.read_buffer(segment.length)
            # Arrow's own threads would take the cores of other tasks
            options = pa.ipc.IpcReadOptions(use_threads=False)
            if columns is not None:
                schema = pa.ipc.open_stream(data).schema
                chosen = sorted(schema.get_field_index(name) for name in columns)
                options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=chosen)
            table = pa.ipc.open_stream(data, options=options).read_all()
            yield table if columns is None else table.select(list(columns))


class SpillFile:
    """A file of segments that is being written.

    Raises:
        NoSpaceError: the file system is full.
    """

    def __init__(self, folder: str) -> None:
        self._path = str(Path(folder) / f"{uuid.uuid4().hex}.arrow")
        with stream_errors(self._path):
            self._file = pa.OSFile(self._path, "wb")

    def write(self, rows: pa.Table) -> Segment:
        """Append some rows."""
        start = self._file.tell()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        try:
            with (
                stream_errors(self._path),
                pa.ipc.new_stream(self._file, rows.schema, options=options) as writer,
            ):
                writer.write_table(rows)
        except NoSpaceError as error:
            error.add_note(
                "rows beyond hoodie.catalog.executor.memory wait in temporary files: name a folder with more space by "
                "hoodie.catalog.executor.folder, or raise the limit"
            )
            raise
        return Segment(self._path, start, self._file.tell() - start, rows.nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@dataclass(frozen=True)
class FileDivider:
    """Deals rows out to parts in files; see `Divider`.

    Attributes:
        folder: for the files.
        flush_bytes: rows that are collected before they are written.
    """

    folder: str
    flush_bytes: int

    def __call__(self, tables: Iterator[tuple[pa.Table, Positions]], parts: int) -> list[TableSource]:
        """Deal them out."""
        store = SlotStore(parts, 0, self.folder)
        pending: list[tuple[pa.Table, Positions]] = []
        size = 0
        for table, numbers in tables:
            pending.append((table, numbers))
            size += table.nbytes
            if size >= self.flush_bytes:
                store.spill(pending)
                pending, size = [], 0
        if pending:
            store.spill(pending)
        return store.segments()


class SlotStore:
    """Rows by slot.

    Args:
        slots: how many there are.
        limit: bytes of rows that are held in memory.
        folder: for files of what is more.
    """

    def __init__(self, slots: int, limit: int, folder: SpillFolder | str) -> None:
        self._slots = slots
        self._limit = limit
        self._folder = folder
        self._pending: list[tuple[pa.Table, Positions]] = []
        self._size = 0
        self._segments: list[list[Segment]] = [[] for _ in range(slots)]
        self._spilled = False

    def add(self, rows: pa.Table, slots: Positions) -> None:
        """Take rows with the slot of each."""
        if not rows.num_rows:
            return
        self._pending.append((rows, slots))
        self._size += rows.nbytes
        if self._size > self._limit:
            self._flush()

    def finished(self, share: int | None) -> list[SlotRows]:
        """The rows of each slot that has some, in the order of the slots.

        Args:
            share: see `SlotRows`.
        """
        if not self._spilled and _fits_one_array(self._pending):
            return self._in_memory()
        self._flush()
        divider = None if share is None else FileDivider(self._path(), share)
        return [
            SlotRows(Segments(tuple(segments)), sum(part.nbytes for part in segments), None, share, divider)
            for segments in self._segments
            if segments
        ]

    def segments(self) -> list[TableSource]:
        """What is in files, by slot."""
        return [Segments(tuple(segments)) for segments in self._segments]

    def spill(self, rows: Sequence[tuple[pa.Table, Positions]]) -> None:
        """Write rows to a new file, slot by slot."""
        self._spilled = True
        whole, slots = _together(rows)
        with SpillFile(self._path()) as file:
            for slot, positions in _by_slot(slots, self._slots):
                self._segments[slot].append(file.write(whole.take(from_numpy(positions))))

    def _flush(self) -> None:
        pending, self._pending, self._size = self._pending, [], 0
        if pending:
            self.spill(pending)

    def _path(self) -> str:
        return self._folder if isinstance(self._folder, str) else self._folder.path

    def _in_memory(self) -> list[SlotRows]:
        pending, self._pending = self._pending, []
        if not pending:
            return []
        whole, slots = _together(pending)
        pending.clear()
        width = whole.nbytes / whole.num_rows
        source = InMemory((whole,))
        return [
            SlotRows(source, int(width * len(positions)), positions) for _, positions in _by_slot(slots, self._slots)
        ]


def _together(rows: Sequence[tuple[pa.Table, Positions]]) -> tuple[pa.Table, Positions]:
    tables = [table for table, _ in rows]
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
    columns = [_in_one_piece(column) for column in whole.columns]
    return pa.table(columns, schema=whole.schema), np.concatenate([slots for _, slots in rows])


def _in_one_piece(column: Any) -> Any:
    """A column as one array. Slices that follow each other in an array are joined without a copy."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks or pa.types.is_nested(column.type) or isinstance(column.type, pa.DictionaryType):
        return column.combine_chunks()
    places = [[None if buffer is None else buffer.address for buffer in chunk.buffers()] for chunk in chunks]
    offsets = list(itertools.accumulate((len(chunk) for chunk in chunks), initial=chunks[0].offset))
    if any(place != places[0] for place in places) or [chunk.offset for chunk in chunks] != offsets[:-1]:
        return column.combine_chunks()
    return pa.Array.from_buffers(column.type, len(column), chunks[0].buffers(), offset=chunks[0].offset)


def _fits_one_array(rows: Sequence[tuple[pa.Table, Positions]]) -> bool:
    """Whether each column can be one Arrow array, whose texts have offsets of 32 bits."""
    if not rows:
        return True
    columns = range(rows[0][0].num_columns)
    return all(sum(table.column(index).nbytes for table, _ in rows) < _LONGEST_COLUMN for index in columns)


def _by_slot(slots: Positions, count: int) -> Iterator[tuple[int, npt.NDArray[np.int32]]]:
    """The positions of each slot's rows, rising."""
    # numpy sorts 16-bit numbers by radix
    narrow = slots.astype(np.int16) if count < _ORDER_BITS else slots
    order: Any = np.argsort(narrow, kind="stable").astype(np.int32)
    counts = np.bincount(slots, minlength=count)
    ends = np.cumsum(counts)
    for slot in np.flatnonzero(counts).tolist():
        yield slot, order[ends[slot] - counts[slot] : ends[slot]]
