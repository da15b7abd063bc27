"""Splicing a Parquet file: unchanged column chunks are copied as bytes, changed ones are encoded again."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.footer_fields import (
    MAGIC,
    ChunkField,
    GroupField,
    MetadataField,
    chunks_of,
    parsed_by_pyarrow,
)
from table_format.codecs.thrift_compact import STRUCT, Struct
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage
from table_format.threads import compute_threads
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.encoding.meta_columns import constant
from table_writer.encoding.row_order import is_in_key_order
from table_writer.surgery.encode import EncodedColumns, RowsToEncode, WriterArguments, encode_columns, rows_to_encode
from table_writer.surgery.footer import (
    Footer,
    bloom_size,
    chunk_range,
    footer_bytes,
    moved_chunk,
    place,
    read_footer,
    row_group_of,
    sorting_columns,
    with_sorting_column,
)
from table_writer.surgery.page_index import moved_offset_indexes
from table_writer.surgery.policy import CannotSplice
from table_writer.surgery.source import MemorySource, Source, Target, open_source, open_target

_INDEX_AT_ONCE = 64 << 20
_BLOOM_HEADER = 64
# Row groups that are encoded at a time; a second one fills the pauses of the first, and the end of a write.
_ENCODERS = 2


@dataclass(frozen=True, slots=True)
class Dropped:
    """The row group is dropped with all its rows."""


@dataclass(frozen=True, slots=True)
class NewColumns:
    """Columns of a row group that are encoded again.

    Attributes:
        table: some top-level columns, with as many rows as the row group has, or all columns, with any number of rows
            above zero. Columns of `FileEdit.constants` are ignored and may be left out.
    """

    table: pa.Table


GroupEdit = Dropped | NewColumns


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The changes of a Parquet file.

    Attributes:
        groups: edits of row groups by ordinal; the others stay as they are.
        appended: rows after the last row group, each table a row group of its own, with all columns.
        constants: text columns that get one value in all rows of the file.
        texts: key-values of the footer to set; None removes a key.
    """

    groups: Mapping[int, GroupEdit] = field(default_factory=dict)
    appended: Sequence[pa.Table] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpliceResult:
    """A spliced file.

    Attributes:
        size: bytes of the file.
        row_count: its rows.
        metadata: its Parquet footer.
        bytes_copied: bytes of column chunks that were copied.
        bytes_encoded: bytes of column chunks that were encoded.
        chunks_encoded: chunks that were encoded: columns of edited and appended row groups, and one a row group for
            each constant.
        groups_touched: row groups that were dropped, edited or appended; constants do not count.
    """

    size: int
    row_count: int
    metadata: pq.FileMetaData
    bytes_copied: int
    bytes_encoded: int
    chunks_encoded: int
    groups_touched: int


def splice(
    storage: Storage,
    source: str,
    target: str,
    edit: FileEdit,
    options: BaseFileOptions,
    *,
    footer: Footer | None = None,
) -> SpliceResult:
    """Write a new version of a Parquet file, copying what does not change.

    Pages with their checksums, column indexes and bloom filters are copied unchanged; offset indexes and the footer
    get the new offsets. Encoded chunks have no Parquet bloom filter.

    Args:
        storage: the table's.
        source: path of the file.
        target: path of the new version; a file there is replaced, and deleted on failure.
        edit: the changes.
        options: how to encode.
        footer: the source's, if it was read already.

    Raises:
        CannotSplice: the file or the edit needs a whole rewrite; the target is deleted.
        MissingFileError: there is no source.
        StorageError: a file cannot be read or written.
    """
    if source == target:
        raise CannotSplice("the new version has the name of the old one")
    with open_source(storage, source) as opened:
        footer = footer or read_footer(opened)
        _check(footer, edit)
        background = compute_threads() > 1
        with open_target(storage, target, background=background) as out, _encoders() as pool:
            return _Splice(opened, footer, edit, options, out, pool=pool).run()


class _CallersThread(concurrent.futures.Executor):
    """Runs the work at once in the caller's thread: where all cores are busy, threads would only use more memory."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        done.set_result(function(*args, **kwargs))
        return done


def _encoders() -> concurrent.futures.Executor:
    return concurrent.futures.ThreadPoolExecutor(_ENCODERS) if compute_threads() > 1 else _CallersThread()


def _check(footer: Footer, edit: FileEdit) -> None:
    unknown = [ordinal for ordinal in edit.groups if not 0 <= ordinal < len(footer.groups)]
    if unknown:
        raise CannotSplice(f"there are no row groups {unknown}")
    columns = list(dict.fromkeys(leaf.column for leaf in footer.leaves))
    if not edit.constants.keys() <= set(columns):
        raise CannotSplice(f"the file lacks columns {sorted(edit.constants.keys() - set(columns))}")
    needed = set(columns) - edit.constants.keys()
    for ordinal, group in edit.groups.items():
        if isinstance(group, NewColumns):
            rows = footer.groups[ordinal][GroupField.ROWS][1]
            _check_table(group.table, set() if len(group.table) == rows else needed)
    for table in edit.appended:
        _check_table(table, needed)


def _check_table(table: pa.Table, needed: set[str]) -> None:
    if len(table) == 0:
        raise CannotSplice("a row group of no rows")
    if len(set(table.column_names)) != len(table.column_names):
        raise CannotSplice("two columns have one name")
    if not needed <= set(table.column_names):
        raise CannotSplice(f"rows lack columns {sorted(needed - set(table.column_names))}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A column chunk to write, copied or encoded."""

    source: Source
    chunk: Struct
    encoded: bool


@dataclass(slots=True)
class _Placed:
    """A column chunk of the new file; with its indexes where it was encoded, whose source is dropped."""

    chunk: Struct
    distance: int
    encoded: bool
    indexes: tuple[bytes | None, bytes | None] = (None, None)


class _Splice:
    """One run of `splice`."""

    def __init__(
        self,
        source: Source,
        footer: Footer,
        edit: FileEdit,
        options: BaseFileOptions,
        out: Target,
        *,
        pool: concurrent.futures.Executor,
    ) -> None:
        self.source = source
        self.footer = footer
        self.edit = edit
        self.options = options
        self.out = out
        self.pool = pool
        self.indexed = any(ChunkField.OFFSET_INDEX in chunk for group in footer.groups for chunk in chunks_of(group))
        self.groups: list[Struct] = []
        self.placed: list[_Placed] = []
        self.constants: dict[int, EncodedColumns] = {}
        self.writer_arguments: WriterArguments = {}
        edits = (edit.groups.get(ordinal) for ordinal in range(len(footer.groups)))
        self.tables = iter([*(group.table for group in edits if isinstance(group, NewColumns)), *edit.appended])
        self.ahead: deque[concurrent.futures.Future[EncodedColumns]] = deque()
        self.bytes_copied = self.bytes_encoded = 0

    def run(self) -> SpliceResult:
        """Write the file."""
        self.out.expect(self.source.size)
        self.out.write(MAGIC)
        for _ in range(1 if isinstance(self.pool, _CallersThread) else _ENCODERS):
            self._encode_next()
        for ordinal, group in enumerate(self.footer.groups):
            edit = self.edit.groups.get(ordinal)
            if not isinstance(edit, Dropped):
                self._write_group(group, None if edit is None else edit.table)
        for table in self.edit.appended:
            self._write_group(None, table)
        self._write_blooms()
        self._write_indexes()
        data = footer_bytes(self.footer, self.groups, self.edit.texts)
        self.out.write(data + len(data).to_bytes(4, "little") + MAGIC)
        metadata = parsed_by_pyarrow(data)
        return SpliceResult(
            size=self.out.position,
            row_count=metadata.num_rows,
            metadata=metadata,
            bytes_copied=self.bytes_copied,
            bytes_encoded=self.bytes_encoded,
            chunks_encoded=sum(placed.encoded for placed in self.placed),
            groups_touched=len(self.edit.groups) + len(self.edit.appended),
        )

    def _write_group(self, old: Struct | None, table: pa.Table | None) -> None:
        """Write one row group: of the file with some columns encoded, or of new rows."""
        rows = len(table) if table is not None else old[GroupField.ROWS][1] if old is not None else 0
        parts = {} if old is None else {i: _Part(self.source, chunk, False) for i, chunk in enumerate(chunks_of(old))}
        replaced: set[int] = set()
        for encoded in self._encoded(table, rows):
            parts |= {leaf: _Part(encoded.source, chunk, True) for leaf, chunk in encoded.chunks.items()}
            replaced |= encoded.chunks.keys()
        chunks = []
        ordered = [parts[leaf] for leaf in range(len(self.footer.leaves))]
        for part, run in zip(ordered, _runs(ordered), strict=True):
            if not part.encoded:
                self.out.align(part.source, chunk_range(part.chunk)[0], run)
            chunks.append(self._write_chunk(part))
        start = chunk_range(chunks[0])[0]
        model = dict(old if old is not None else self._model())
        if old is None or not replaced.isdisjoint(sorting_columns(old)):
            model.pop(GroupField.SORTING, None)
        if table is not None and is_in_key_order(table):
            model = with_sorting_column(model, self.footer.leaf_of(RECORD_KEY))
        self.groups.append(row_group_of(model, chunks, rows, start, len(self.groups)))

    def _encode_next(self) -> None:
        """Encode the next rows while bytes before them are copied; both release the GIL."""
        table = next(self.tables, None)
        if table is not None:
            names = [name for name in table.column_names if name not in self.edit.constants]
            rows = self._prepared(table.select(names)) if names else None
            self.ahead.append(self.pool.submit(self._encode, rows, len(table)))

    def _prepared(self, table: pa.Table) -> RowsToEncode:
        return rows_to_encode(table, self.footer, self.options, self.writer_arguments)

    def _encode(self, rows: RowsToEncode | None, count: int) -> EncodedColumns:
        if rows is None:
            return EncodedColumns(MemorySource(pa.py_buffer(b"")), {}, count)
        return encode_columns(rows, self.footer, indexed=self.indexed)

    def _encoded(self, table: pa.Table | None, rows: int) -> Iterator[EncodedColumns]:
        """The encoded columns of a row group; constants last, since they replace others."""
        if table is not None and self.ahead:
            self.out.flush()
            encoded = self.ahead.popleft().result()
            self._encode_next()
            yield encoded
        if self.edit.constants:
            if rows not in self.constants:
                same = pa.table({name: constant(text, rows) for name, text in self.edit.constants.items()})
                self.constants[rows] = self._encode(self._prepared(same), rows)
            yield self.constants[rows]

    def _model(self) -> Struct:
        """Template for a new row group's footer fields."""
        return self.footer.groups[-1] if self.footer.groups else {}

    def _write_chunk(self, part: _Part) -> Struct:
        start, size = chunk_range(part.chunk)
        distance = self.out.position - start
        self.out.copy(part.source, start, size)
        placed = _Placed(moved_chunk(part.chunk, distance), distance, part.encoded)
        if part.encoded:
            self.bytes_encoded += size
            placed.indexes = _indexes(part.source, part.chunk)
        else:
            self.bytes_copied += size
        self.placed.append(placed)
        return placed.chunk

    def _write_blooms(self) -> None:
        for placed in self.placed:
            metadata = placed.chunk[ChunkField.METADATA][1]
            if MetadataField.BLOOM not in metadata:
                continue
            offset = metadata[MetadataField.BLOOM][1]
            if MetadataField.BLOOM_SIZE in metadata:
                size = metadata[MetadataField.BLOOM_SIZE][1]
            else:
                size = bloom_size(self.source.read(offset, min(_BLOOM_HEADER, self.footer.start - offset)))
            if offset < len(MAGIC) or size < 0 or offset + size > self.footer.start:
                raise CannotSplice("a bloom filter lies outside of the file")
            place(metadata, self.out.position, size, MetadataField.BLOOM, MetadataField.BLOOM_SIZE)
            placed.chunk[ChunkField.METADATA] = (STRUCT, dict(sorted(metadata.items())))
            self.out.copy(self.source, offset, size)

    def _write_indexes(self) -> None:
        """All column indexes, then all offset indexes, as other writers order them."""
        read = _IndexReader(self.source, self.footer)
        for placed in self.placed:
            if not placed.encoded:
                placed.indexes = _indexes(read, placed.chunk)
        columns = [placed for placed in self.placed if placed.indexes[0] is not None]
        offsets = [placed for placed in self.placed if placed.indexes[1] is not None]
        self._put_indexes(
            columns,
            [placed.indexes[0] or b"" for placed in columns],
            (ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_SIZE),
        )
        moved = moved_offset_indexes(
            [placed.indexes[1] or b"" for placed in offsets], [placed.distance for placed in offsets]
        )
        self._put_indexes(offsets, moved, (ChunkField.OFFSET_INDEX, ChunkField.OFFSET_INDEX_SIZE))

    def _put_indexes(self, chunks: list[_Placed], indexes: list[bytes], fields: tuple[int, int]) -> None:
        position = self.out.position
        for placed, index in zip(chunks, indexes, strict=True):
            place(placed.chunk, position, len(index), *fields)
            position += len(index)
        self.out.write(b"".join(indexes))


def _runs(parts: list[_Part]) -> list[int]:
    """Bytes that are copied at once from each chunk on; 0 for encoded chunks."""
    runs: list[int] = []
    run = 0
    for part in reversed(parts):
        run = 0 if part.encoded else run + chunk_range(part.chunk)[1]
        runs.append(run)
    return runs[::-1]


def _indexes(source: Source, chunk: Struct) -> tuple[bytes | None, bytes | None]:
    """Bytes of the column index and the offset index of a chunk; None for one that it does not have."""
    indexes: list[bytes | None] = []
    for offset, size in (
        (ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_SIZE),
        (ChunkField.OFFSET_INDEX, ChunkField.OFFSET_INDEX_SIZE),
    ):
        if (offset in chunk) != (size in chunk):
            raise CannotSplice("an index has no place or no size")
        indexes.append(source.read(chunk[offset][1], chunk[size][1]) if offset in chunk else None)
    return indexes[0], indexes[1]


class _IndexReader:
    """Reads all page indexes of a file at once, since they are thousands of small ranges."""

    def __init__(self, source: Source, footer: Footer) -> None:
        self.source = source
        self.size = source.size
        ranges = [
            (chunk[offset][1], chunk[offset][1] + chunk[size][1])
            for group in footer.groups
            for chunk in chunks_of(group)
            for offset, size in (
                (ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_SIZE),
                (ChunkField.OFFSET_INDEX, ChunkField.OFFSET_INDEX_SIZE),
            )
            if offset in chunk and size in chunk
        ]
        if any(start < len(MAGIC) or not start <= end <= footer.start for start, end in ranges):
            raise CannotSplice("an index lies outside of the file's data")
        self.start, end = min((r[0] for r in ranges), default=0), max((r[1] for r in ranges), default=0)
        self.data = source.read(self.start, end - self.start) if end - self.start <= _INDEX_AT_ONCE else None

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes from `offset` on."""
        if self.data is None:
            return self.source.read(offset, size)
        return self.data[offset - self.start : offset - self.start + size]
