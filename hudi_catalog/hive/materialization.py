"""The files that Hive reads: base files as they are, and materialized copies of slices that it would misread.

Hive neither merges log files nor converts columns that had another name or type when a file was written.
A copy is one Parquet file with the rows that a query sees of the slice. Copies are named by content, made by a few
threads, shared by all queries and deleted when unused.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.concurrency.late_tables import LateTables
from catalog.concurrency.workers import Workers
from catalog.rows.slice_rows import slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.columns import MisreadColumns
from hudi_catalog.hive.materialized_files import FOLDER, MaterializedFile, MaterializedFiles
from hudi_catalog.hive.options import MATERIALIZE, QUERY_TYPE, HiveOptions
from table_format.base_file.footer import parquet
from table_format.codecs.arrow_numpy import one_chunk, valid_mask
from table_format.errors import HudiError, LateTableError, ServiceError, StorageError, UnsupportedTableError
from table_format.log.blocks import read_log_blocks
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions

_FORM: Final = 1
"""Version of the files written; raised when the same slices are written differently."""

# Table properties that change over time and do not affect rows.
_IRRELEVANT: Final = ("hoodie.table.metadata.", "hoodie.table.checksum", "hoodie.table.index.")
_MOST_LOGS: Final = 100_000
_DIGITS: Final = 20


def folder_name(snapshot: Snapshot) -> str:
    """A name for everything the slices of a snapshot have in common: columns, and how they are merged."""
    columns = [(field.name, str(field.type), field.nullable) for field in snapshot.schema]
    properties = sorted(item for item in snapshot.config.raw.items() if not item[0].startswith(_IRRELEVANT))
    history = snapshot.schema_history
    return _digest(_FORM, columns, properties, None if history is None else history.current)


class SliceNames:
    """Names slices by content: two slices have one name only if a query sees the same rows; thread-safe."""

    def __init__(self) -> None:
        self._instants: LruCache[tuple[str, str, int | None], tuple[str, ...]] = LruCache(_MOST_LOGS)

    def name(self, snapshot: Snapshot, files: FileSlice) -> str:
        """A name for the rows of a slice, unique within the folder.

        Raises:
            CorruptFileError: a log file is corrupt.
            MissingFileError: a log file is missing.
        """
        counted: Sequence[str] = ()
        if files.logs and snapshot.timeline.layout == 1:
            # one file may hold blocks of several writes, and which of them are committed may change
            instants = {
                instant for log in files.logs for instant in self._block_instants(snapshot.client.storage, *log)
            }
            as_of, timeline = snapshot.as_of, snapshot.timeline
            counted = sorted(one for one in instants if timeline.is_committed(one) and (as_of is None or one <= as_of))
        return _digest(files.partition, files.base, files.instant, files.logs, counted)

    def _block_instants(self, storage: Storage, path: str, size: int | None) -> tuple[str, ...]:
        key = (storage.uri, path, size)
        known = self._instants.get(key)
        if known is None:
            blocks = read_log_blocks(storage.read(path), path)
            known = tuple({block.instant for block in blocks if block.instant is not None})
            if size is not None:  # otherwise growth of the file would go unnoticed
                self._instants.put(key, known)
        return known


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_DIGITS]


_OPTIONS: Final = BaseFileOptions(block_size=32 << 20)

# Without it Hive reads dates before 1582-10-15 in the Julian calendar.
_FOOTER_METADATA: Final = {"writer.date.proleptic": "true"}


def write_slice(snapshot: Snapshot, files: FileSlice, path: str) -> int:
    """Write the rows of a slice, with the table's current columns and types.

    Holds one row group in memory, or the whole slice if it has log files.

    Args:
        snapshot: of the table.
        files: of the slice.
        path: of the new file, relative to the table's folder.

    Returns:
        Size of the file in bytes.

    Raises:
        CorruptFileError: a file of the slice cannot be read.
        UnsupportedTableError: unsupported log files, or partition values that cannot be derived.
        StorageError: the file cannot be written.
    """
    schema = pa.schema([(field.name, _nullable(field.type)) for field in snapshot.schema])
    groups = _groups(snapshot, files, schema)
    first = next(groups, schema.empty_table())
    with _storage_errors(path), snapshot.client.storage.open_output(path) as stream:
        arguments = _OPTIONS.writer_arguments(first)
        with parquet.ParquetWriter(stream, schema, store_schema=False, **arguments) as writer:
            for group in itertools.chain([first], groups):
                if group.num_rows:
                    writer.write_table(group, row_group_size=group.num_rows)
            writer.add_key_value_metadata(_FOOTER_METADATA)
        size: int = stream.tell()
    return size


def _nullable(kind: Any) -> pa.DataType:
    """A type without required fields, for which Parquet takes no null: a struct that is null has them, too."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return pa.list_(_nullable(kind.value_type)) if types.is_list(kind) else kind


def _groups(snapshot: Snapshot, files: FileSlice, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in tables of a row group's size."""
    held: list[pa.Table] = []
    for _, piece in slice_batches(snapshot, files, schema.names):
        held.append(piece.cast(schema))
        if sum(one.nbytes for one in held) >= _OPTIONS.block_size:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


@contextlib.contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except HudiError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error}") from error


_LOGGER = logging.getLogger(__name__)
_MOST_TABLES: Final = 1000
_MOST_FOLDERS: Final = 1000
_TRUST_SECONDS: Final = 60.0
_CLEAN_SECONDS: Final = 3600.0
_PROGRESS_SECONDS: Final = 10.0
_STOPPING: Final = "the service is stopping; run the query again"


@dataclass(eq=False)
class _Listing:
    """Files of one folder by slice name, and when the folder was listed."""

    files: dict[str, MaterializedFile] = field(default_factory=dict)
    listed_at: float = float("-inf")


@dataclass(eq=False)
class _TableFiles:
    """Known copies of one table, by folder."""

    made: MaterializedFiles
    folders: LruCache[str, _Listing] = field(default_factory=lambda: LruCache(_MOST_FOLDERS))
    making: dict[tuple[str, str], Future[MaterializedFile]] = field(default_factory=dict)
    cleaned_at: float = float("-inf")


class Materializer:
    """Makes, finds and cleans up copies of tables' file slices; thread-safe.

    Args:
        retention: seconds that a copy is kept after its last use.
        threads: copies made concurrently; slices with log files are held in memory meanwhile.
        late: watches for storage that does not answer, so that it does not delay copies of other tables.
    """

    def __init__(self, retention: float, threads: int, late: LateTables | None = None) -> None:
        self._late = LateTables() if late is None else late
        self._retention = retention
        self._names = SliceNames()
        self._lock = threading.Lock()
        self._tables: LruCache[str, _TableFiles] = LruCache(_MOST_TABLES)
        self._makers = Workers(threads, "hudi-materialize")
        self._cleaner = Workers(1, "hudi-clean")

    def close(self, seconds: float | None = None) -> bool:
        """Make no more copies.

        Args:
            seconds: to wait at most for those in progress; None until they are finished.

        Returns:
            Whether they are. If not, threads are left to them.
        """
        end = None if seconds is None else time.monotonic() + seconds
        made = self._makers.close(wait=True, seconds=seconds)
        left = None if end is None else max(0.0, end - time.monotonic())
        return self._cleaner.close(wait=True, cancel=False, seconds=left) and made

    def of(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> list[MaterializedFile]:
        """The copies of some slices in their order; returns once all of them exist.

        Args:
            snapshot: of the table.
            rows: positions of slices in it.

        Raises:
            StorageError: a copy cannot be written.
            HudiError: a slice cannot be read.
        """
        table = self._table(snapshot)
        if not len(rows):
            return []
        folder = folder_name(snapshot)
        slices = snapshot.file_slices(rows)
        names = [self._names.name(snapshot, one) for one in slices]
        known = self._known(table, folder)
        missing = {name: one for name, one in zip(names, slices, strict=True) if name not in known}
        if missing:
            known = {**known, **self._make(table, folder, snapshot, missing)}
        old = {name: known[name] for name in names if not table.made.is_in_use(known[name])}
        if old:
            self._cleaner.submit(lambda: self._use(table, folder, old))
        return [known[name] for name in names]

    def _use(self, table: _TableFiles, folder: str, known: dict[str, MaterializedFile]) -> None:
        """Mark copies as used; not urgent, the retention is hours long."""
        with self._watched(table.made):
            used = {name: table.made.use(made) for name, made in known.items()}
        with self._lock:
            table.folders.setdefault(folder, _Listing()).files.update(used)

    def _table(self, snapshot: Snapshot) -> _TableFiles:
        """The copies of a table; from time to time, unused copies of all tables are deleted."""
        storage = snapshot.client.storage
        now = time.monotonic()
        with self._lock:
            table = self._tables.setdefault(storage.uri, _TableFiles(MaterializedFiles(storage, self._retention)))
            for one in dict(self._tables.items()).values():
                if now - one.cleaned_at > min(_CLEAN_SECONDS, self._retention / 4):
                    one.cleaned_at = now
                    self._cleaner.submit(lambda made=one.made: self._clean(made))  # type: ignore[misc]
            return table

    def _known(self, table: _TableFiles, folder: str) -> dict[str, MaterializedFile]:
        """The usable copies, as listed a short time ago at most."""
        now = time.monotonic()
        trusted = min(_TRUST_SECONDS, self._retention / 8)
        with self._lock:
            known = table.folders.get(folder)
            if known is not None and now - known.listed_at < trusted:
                return {name: made for name, made in known.files.items() if table.made.may_be_used(made)}
        files = table.made.find(folder)
        table.folders.put(folder, _Listing(dict(files), now))
        return files

    def _make(
        self, table: _TableFiles, folder: str, snapshot: Snapshot, slices: dict[str, FileSlice]
    ) -> dict[str, MaterializedFile]:
        began = time.monotonic()
        futures = {name: self._begin(table, folder, name, snapshot, one) for name, one in slices.items()}
        logged_at, made = began, {}
        for name, future in futures.items():
            try:
                made[name] = future.result()
            except CancelledError as error:
                raise ServiceError(_STOPPING) from error
            if time.monotonic() - logged_at > _PROGRESS_SECONDS:
                logged_at = time.monotonic()
                _LOGGER.info("%s: %d of %d slices materialized for Hive", snapshot.config.name, len(made), len(futures))
        size = sum(one.size for one in made.values())
        seconds = time.monotonic() - began
        _LOGGER.info(
            "%s: %d slices materialized for Hive, %d bytes, %.1f s", snapshot.config.name, len(made), size, seconds
        )
        return made

    def _begin(
        self, table: _TableFiles, folder: str, name: str, snapshot: Snapshot, files: FileSlice
    ) -> Future[MaterializedFile]:
        """The future of a slice's copy; queries for the same slice share one."""
        key = (folder, name)
        with self._lock:
            future = table.making.get(key)
            if future is None:
                try:
                    future = self._makers.submit(lambda: self._copy(table, key, snapshot, files))
                except RuntimeError as error:
                    raise ServiceError(_STOPPING) from error
                table.making[key] = future
            return future

    def _copy(self, table: _TableFiles, key: tuple[str, str], snapshot: Snapshot, files: FileSlice) -> MaterializedFile:
        try:
            with self._watched(table.made):
                made = table.made.make(*key, lambda path: write_slice(snapshot, files, path))
            with self._lock:
                table.folders.setdefault(key[0], _Listing()).files[key[1]] = made
            return made
        finally:
            with self._lock:
                del table.making[key]

    def _watched(self, made: MaterializedFiles) -> AbstractContextManager[None]:
        return self._late.working(made.uri, made.table_folder)

    def _clean(self, made: MaterializedFiles) -> None:
        try:
            with self._watched(made):
                deleted = made.clean()
        except (StorageError, LateTableError) as error:  # the next cleaning tries again
            _LOGGER.warning("%s: unused copies cannot be deleted now: %s", FOLDER, error)
            return
        if deleted:
            _LOGGER.info("%s: %d unused copies deleted", made.uri, deleted)


_LOGS = f"log files change its base files; {QUERY_TYPE}=read_optimized ignores them"


@dataclass(frozen=True, eq=False)
class HiveSlices:
    """The file slices that Hive reads, each of one Parquet file.

    Attributes:
        slices: with a materialized copy as base file where Hive would misread the slice.
        materialized: for each slice, whether its base file is such a copy, with the table's current columns and types.
    """

    slices: list[FileSlice]
    materialized: NDArray[np.bool_]


class HiveFiles:
    """Finds the files to read, and materializes slices where needed; thread-safe.

    Args:
        options: of the service.
        late: watches for storage that does not answer.
    """

    def __init__(self, options: HiveOptions, late: LateTables | None = None) -> None:
        self._misread = MisreadColumns()
        self._copies = Materializer(options.materialized_retention, options.materialized_threads, late)

    def close(self, seconds: float | None = None) -> bool:
        """Materialize nothing more; see `Materializer.close`."""
        return self._copies.close(seconds)

    def files(
        self,
        snapshot: Snapshot,
        rows: NDArray[np.int64],
        *,
        columns: Collection[str] | None,
        materialize: bool,
    ) -> HiveSlices:
        """The files of some slices in their order; returns once all of them exist.

        Args:
            snapshot: of the table.
            rows: positions of slices in the snapshot.
            columns: names of the columns to read, including the filter's; None for all.
            materialize: whether copies may be made.

        Raises:
            UnsupportedTableError: Hive would misread files, and no copies may be made.
            StorageError: a copy cannot be written.
            HudiError: a file to be copied cannot be read.
        """
        taken = snapshot.take_files(rows)
        has_base = valid_mask(one_chunk(taken.column("path")))
        copied = snapshot.has_logs[rows] | ~has_base
        why = _LOGS
        wrong = self._wrong(snapshot, rows[~copied], columns)
        if wrong:
            instants: list[Any] = taken.column("instant").to_pylist()
            copied |= np.array([instant in wrong for instant in instants], np.bool_) & has_base
            why = next(iter(wrong.values()))
        slices = snapshot.file_slices(rows)
        places = np.flatnonzero(copied)
        if len(places) and not materialize:
            raise UnsupportedTableError(
                f"{snapshot.config.name}: Hive would misread it: {why}; let the service materialize its files "
                f"({MATERIALIZE}=true), or rewrite them (compaction, clustering)"
            )
        for place, copy in zip(places, self._copies.of(snapshot, rows[places]), strict=True):
            slices[place] = replace(slices[place], base=copy.path, base_size=copy.size, length=copy.size, logs=())
        return HiveSlices(slices, copied)

    def _wrong(self, snapshot: Snapshot, rows: NDArray[np.int64], columns: Collection[str] | None) -> dict[str, str]:
        """For each instant whose base files have a column to read that Hive would misread, the reason."""
        if not len(rows):
            return {}
        read = None if columns is None else {name.lower() for name in columns}
        wrong = {}
        for instant, reasons in self._misread.of(snapshot, rows).items():
            for column, reason in reasons.items():
                if read is None or column in read:
                    wrong[instant] = f"its files of {instant} {reason} (column {column})"
        return wrong
