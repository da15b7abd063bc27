"""The exchange of rows by slot in one process: in memory up to a limit, beyond it in Arrow IPC files.

Each file holds the rows added since the previous one, an lz4 stream per slot. A slot is read back as its streams in all
files, so its rows keep the order of the batch. Files are memory-mapped, and are in a folder for temporary files, never
in the table.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import NoSpaceError
from table_format.storage import stream_errors
from table_writer.execution.slot_rows import InMemory, MemoryShare, Positions, SlotRows, TableSource
from table_writer.execution.spill_folder import SpillFolder
from table_writer.execution.text_dictionaries import encoders

_LONGEST_COLUMN: Final = (1 << 31) - 1
_ORDER_BITS: Final = 1 << 15
_BYTE: Final = 1 << 8
_COPIED_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """An Arrow stream within a file.

    Attributes:
        path: of the file.
        offset: of its first byte.
        length: in bytes.
        nbytes: bytes of its rows in memory.
    """

    path: str
    offset: int
    length: int
    nbytes: int


@dataclass(frozen=True)
class Segments:
    """Tables in files, one segment per table."""

    content: tuple[Segment, ...]

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The tables, read lazily."""
        for segment in self.content:
            # a mapped file would count to the memory of the process
            with stream_errors(segment.path), pa.OSFile(segment.path, "rb") as file:
                file.seek(segment.offset)
                data = file.read_buffer(segment.length)
            table = read_stream(data, columns)
            del data
            yield table
            del table  # before the next one is read


def read_stream(data: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of an Arrow stream, with some of its columns or all."""
    # Arrow's own threads would take the cores of other tasks
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if columns is not None:
        schema = pa.ipc.open_stream(data).schema
        chosen = sorted(schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=chosen)
    table = pa.ipc.open_stream(data, options=options).read_all()
    return table if columns is None else table.select(list(columns))


class SpillFile:
    """A file of segments that is being written.

    Raises:
        NoSpaceError: the file system is full.
    """

    def __init__(self, folder: str) -> None:
        self._path = str(Path(folder) / f"{uuid.uuid4().hex}.arrow")
        with stream_errors(self._path):
            self._file = pa.OSFile(self._path, "wb")

    def write(self, rows: pa.Table, positions: Positions | None = None) -> Segment:
        """Append rows: those at the positions, or all."""
        size = rows.nbytes if positions is None else rows.nbytes * len(positions) // max(1, rows.num_rows)
        start = self._file.tell()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        try:
            with (
                stream_errors(self._path),
                pa.ipc.new_stream(self._file, rows.schema, options=options) as writer,
            ):
                for part in (rows,) if positions is None else _taken(rows, positions, size):
                    writer.write_table(part)
        except NoSpaceError as error:
            error.add_note(
                "rows beyond hoodie.catalog.executor.memory go to temporary files: name a folder with more space by "
                "hoodie.catalog.executor.folder, or raise the limit"
            )
            raise
        return Segment(self._path, start, self._file.tell() - start, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@dataclass(frozen=True)
class FileDivider:
    """Divides rows into parts in files; see `Divider`.

    Attributes:
        folder: for the files.
        flush_bytes: rows that are collected before they are written.
    """

    folder: str
    flush_bytes: int

    def __call__(self, tables: Iterator[tuple[pa.Table, Positions]], parts: int) -> list[TableSource]:
        """Divide the rows."""
        store = SlotStore(parts, 0, self.folder)
        pending: list[tuple[pa.Table, Positions]] = []
        size = 0
        for table, numbers in tables:
            pending.append((table, numbers))
            size += table.nbytes
            del table, numbers
            if size >= self.flush_bytes:
                store.spill(pending)
                size = 0
        if pending:
            store.spill(pending)
        return store.segments()


class SlotStore:
    """Collects rows by slot.

    Args:
        slots: how many there are.
        limit: bytes of rows that are held in memory.
        folder: for spill files.
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
        """Add rows, with the slot of each."""
        if not rows.num_rows:
            return
        self._pending.append((rows, slots))
        self._size += rows.nbytes
        if self._size > self._limit:
            self._flush()

    def finished(self, share: int | None, threads: int = 1) -> list[SlotRows]:
        """The rows of each slot that has some, in the order of the slots.

        Rows that are in memory have dictionaries in place of texts of few values.

        Args:
            share: bytes of rows that the task of a slot should hold; None for any number.
            threads: to use.
        """
        if not self._spilled and _fits_one_array(self._pending):
            return self._in_memory(threads)
        self._flush()
        memory = None if share is None else MemoryShare(share, FileDivider(self._path(), share))
        return [
            SlotRows(Segments(tuple(segments)), sum(part.nbytes for part in segments), None, memory)
            for segments in self._segments
            if segments
        ]

    def segments(self) -> list[TableSource]:
        """Spilled rows by slot."""
        return [Segments(tuple(segments)) for segments in self._segments]

    def spill(self, rows: list[tuple[pa.Table, Positions]]) -> None:
        """Write rows to a new file, slot by slot; empties the list, so that no row is in memory twice."""
        self._spilled = True
        whole, slots = _together(rows)
        with SpillFile(self._path()) as file:
            for slot, positions in _by_slot(slots, self._slots):
                self._segments[slot].append(file.write(whole, positions))

    def _flush(self) -> None:
        pending, self._pending, self._size = self._pending, [], 0
        if pending:
            self.spill(pending)

    def _path(self) -> str:
        return self._folder if isinstance(self._folder, str) else self._folder.path

    def _in_memory(self, threads: int) -> list[SlotRows]:
        pending, self._pending = self._pending, []
        if not pending:
            return []
        whole, slots = _together(pending)
        with ThreadPoolExecutor(threads) as pool:
            ordered = pool.submit(_by_slot, slots, self._slots)
            encoded = {name: pool.submit(encode) for name, encode in encoders(whole).items()}
        for name, column in encoded.items():
            place = whole.schema.get_field_index(name)
            whole = whole.set_column(place, whole.schema.field(place).with_type(column.result().type), column.result())
        width = whole.nbytes / whole.num_rows
        source = InMemory((whole,))
        return [SlotRows(source, int(width * len(positions)), positions) for _, positions in ordered.result()]


def _taken(rows: pa.Table, positions: Positions, size: int) -> Iterator[pa.Table]:
    """The rows at some positions, a bounded number of bytes at a time."""
    for part in np.array_split(positions, -(-size // _COPIED_AT_ONCE) or 1):
        yield rows.take(from_numpy(part))


def _together(rows: list[tuple[pa.Table, Positions]]) -> tuple[pa.Table, Positions]:
    """Tables as one, each column in one piece; empties the list, and frees a column once it is joined."""
    slots = np.concatenate([slots for _, slots in rows])
    tables = [table for table, _ in rows]
    rows.clear()
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
    del tables
    schema, columns = whole.schema, whole.columns
    del whole
    joined: list[Any] = []
    while columns:
        joined.append(_in_one_piece(columns.pop(0)))
    return pa.table(joined, schema=schema), slots


def _in_one_piece(column: Any) -> Any:
    """A column as one array. Consecutive slices of one array are joined without a copy."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks or pa.types.is_nested(column.type) or isinstance(column.type, pa.DictionaryType):
        return one_chunk(column)
    places = [[None if buffer is None else buffer.address for buffer in chunk.buffers()] for chunk in chunks]
    offsets = list(itertools.accumulate((len(chunk) for chunk in chunks), initial=chunks[0].offset))
    if any(place != places[0] for place in places) or [chunk.offset for chunk in chunks] != offsets[:-1]:
        return one_chunk(column)
    # slices that came by the C interface count their buffers up to their own end
    return pa.Array.from_buffers(column.type, len(column), chunks[-1].buffers(), offset=chunks[0].offset)


def _fits_one_array(rows: Sequence[tuple[pa.Table, Positions]]) -> bool:
    """Whether each column can be one Arrow array, whose texts have offsets of 32 bits."""
    if not rows:
        return True
    columns = range(rows[0][0].num_columns)
    return all(sum(table.column(index).nbytes for table, _ in rows) < _LONGEST_COLUMN for index in columns)


def _by_slot(slots: Positions, count: int) -> list[tuple[int, npt.NDArray[np.int32]]]:
    """The positions of each slot's rows, rising."""
    # numpy sorts numbers of 8 and of 16 bits by radix
    narrow = slots.astype(np.uint8 if count <= _BYTE else np.int16) if count < _ORDER_BITS else slots
    order: Any = np.argsort(narrow, kind="stable").astype(np.int32)
    counts = np.bincount(slots, minlength=count)
    ends = np.cumsum(counts)
    return [(slot, order[ends[slot] - counts[slot] : ends[slot]]) for slot in np.flatnonzero(counts).tolist()]
