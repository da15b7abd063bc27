"""Names for copies of file slices: two slices have one name only if a query sees the same rows of both."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from catalog.concurrency.late_tables import LateTables
from catalog.concurrency.workers import Workers
from catalog.rows.slice_rows import slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.materialized_files import FOLDER, MadeFile, MadeFiles
from hudi_catalog.server.recent import Recent
from table_format.base_file.writer import BaseFileOptions
from table_format.errors import HudiError, LateTableError, ServiceError, StorageError
from table_format.log.blocks import read_log_blocks
from table_format.storage import Storage

_FORM: Final = 1

"""Goes up when copies of the same slices come to be written otherwise."""

# What a table's properties say that no row depends on, and that changes while the table is used.
_IRRELEVANT: Final = ("hoodie.table.metadata.", "hoodie.table.checksum", "hoodie.table.index.")

_MOST_LOGS: Final = 100_000

_DIGITS: Final = 20


def folder_name(snapshot: Snapshot) -> str:
    """A name for what all slices of a snapshot have in common: their columns, and how they are merged."""
    columns = [(field.name, str(field.type), field.nullable) for field in snapshot.schema]
    properties = sorted(item for item in snapshot.config.raw.items() if not item[0].startswith(_IRRELEVANT))
    history = snapshot.schema_history
    return _digest(_FORM, columns, properties, None if history is None else history.current)


class SliceNames:
    """Names slices. Threads may share it."""

    def __init__(self) -> None:
        self._instants: Recent[tuple[str, ...]] = Recent(_MOST_LOGS)

    def name(self, snapshot: Snapshot, files: FileSlice) -> str:
        """A name for the rows of one slice, to be used together with the folder's.

        Raises:
            CorruptFileError: a log file breaks the format.
            MissingFileError: a log file is not there.
        """
        counted: Sequence[str] = ()
        if files.logs and snapshot.timeline.layout == 1:
            # there, blocks of several writes lie in one file, and which of them count can be different later
            found = {instant for log in files.logs for instant in self._block_instants(snapshot.client.storage, *log)}
            as_of, timeline = snapshot.as_of, snapshot.timeline
            counted = sorted(one for one in found if timeline.is_committed(one) and (as_of is None or one <= as_of))
        return _digest(files.partition, files.base, files.instant, files.logs, counted)

    def _block_instants(self, storage: Storage, path: str, size: int | None) -> tuple[str, ...]:
        key = (storage.uri, path, size)
        known = self._instants.get(key)
        if known is None:
            blocks = read_log_blocks(storage.read(path), path)
            known = tuple({block.instant for block in blocks if block.instant is not None})
            if size is not None:  # else nothing would tell that the file has grown
                self._instants.put(key, known)
        return known


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_DIGITS]


parquet: Any = pq  # the stubs lag behind the functions

_OPTIONS: Final = BaseFileOptions(block_size=32 << 20)

# Without it Hive takes dates before 1582-10-15 for days of the Julian calendar.
_TEXTS: Final = {"writer.date.proleptic": "true"}


def write_slice(snapshot: Snapshot, files: FileSlice, path: str) -> int:
    """Write the rows of a slice, with the columns and types that the table has.

    No more than a row group is held at a time, unless the slice has log files: then all of it.

    Args:
        snapshot: of the table.
        files: of the slice.
        path: of the new file, in the table's folder.

    Returns:
        Bytes of the file.

    Raises:
        CorruptFileError: a file of the slice cannot be read.
        UnsupportedTableError: log files of a kind that is not read, or partition columns that nothing tells.
        StorageError: the file cannot be written.
    """
    schema = pa.schema([field.remove_metadata() for field in snapshot.schema])
    groups = _groups(snapshot, files, schema)
    first = next(groups, schema.empty_table())
    with _named(path), snapshot.client.storage.open_output(path) as stream:
        arguments = _OPTIONS.writer_arguments(first)
        with parquet.ParquetWriter(stream, schema, store_schema=False, **arguments) as writer:
            for group in itertools.chain([first], groups):
                if group.num_rows:
                    writer.write_table(group, row_group_size=group.num_rows)
            writer.add_key_value_metadata(_TEXTS)
        size: int = stream.tell()
    return size


def _groups(snapshot: Snapshot, files: FileSlice, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in pieces of a row group's size."""
    held: list[pa.Table] = []
    for _, piece in slice_batches(snapshot, files, schema.names):
        held.append(piece.cast(schema))
        if sum(one.nbytes for one in held) >= _OPTIONS.block_size:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    try:
        yield
    except HudiError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error}") from error


_LOGGER = logging.getLogger(__name__)

_MOST_TABLES: Final = 1000

_TRUST_SECONDS: Final = 60.0

_CLEAN_SECONDS: Final = 3600.0

_TELL_SECONDS: Final = 10.0

_STOPPING: Final = "the service is being stopped; run the query again"


@dataclass(eq=False)
class _Table:
    """What is known of the copies of one table: by folder and slice, where each is."""

    made: MadeFiles
    known: dict[str, dict[str, MadeFile]] = field(default_factory=dict)
    found_at: dict[str, float] = field(default_factory=dict)
    making: dict[tuple[str, str], Future[MadeFile]] = field(default_factory=dict)
    cleaned_at: float = float("-inf")


class Copies:
    """Copies of the file slices of tables. Threads may share it.

    Args:
        retention: seconds for which a copy outlives its last use.
        threads: copies that are made at once; slices with log files are held in memory for it.
        late: tables whose storage does not answer: they hold up no copies of others.
    """

    def __init__(self, retention: float, threads: int, late: LateTables | None = None) -> None:
        self._late = LateTables() if late is None else late
        self._retention = retention
        self._names = SliceNames()
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Table] = OrderedDict()
        self._makers = Workers(threads, "hudi-materialize")
        self._cleaner = Workers(1, "hudi-clean")

    def close(self) -> None:
        """Make no more copies; those that are begun are finished."""
        self._makers.close(wait=True)
        self._cleaner.close(wait=True, cancel=False)

    def of(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> list[MadeFile]:
        """The copies of some slices, in their order; returns when all are made.

        Args:
            snapshot: of the table.
            rows: positions of slices in it.

        Raises:
            StorageError: copies cannot be written.
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

    def _use(self, table: _Table, folder: str, known: dict[str, MadeFile]) -> None:
        """Say that copies are used; there are hours left for it."""
        with self._watched(table.made):
            used = {name: table.made.use(made) for name, made in known.items()}
        with self._lock:
            table.known.setdefault(folder, {}).update(used)

    def _table(self, snapshot: Snapshot) -> _Table:
        """The table's copies; from time to time, of all tables those are deleted that nobody uses."""
        storage = snapshot.client.storage
        now = time.monotonic()
        with self._lock:
            table = self._tables.setdefault(storage.uri, _Table(MadeFiles(storage, self._retention)))
            self._tables.move_to_end(storage.uri)
            while len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)
            for one in self._tables.values():
                if now - one.cleaned_at > min(_CLEAN_SECONDS, self._retention / 4):
                    one.cleaned_at = now
                    self._cleaner.submit(lambda made=one.made: self._clean(made))  # type: ignore[misc]
            return table

    def _known(self, table: _Table, folder: str) -> dict[str, MadeFile]:
        """The copies that may be used, as they were a short time ago at most."""
        now = time.monotonic()
        trusted = min(_TRUST_SECONDS, self._retention / 8)
        with self._lock:
            known = table.known.get(folder)
            if known is not None and now - table.found_at.get(folder, float("-inf")) < trusted:
                return {name: made for name, made in known.items() if table.made.may_be_used(made)}
        found = table.made.find(folder)
        with self._lock:
            table.known = {folder: found} if len(table.known) > _MOST_TABLES else {**table.known, folder: found}
            table.found_at[folder] = now
        return found

    def _make(
        self, table: _Table, folder: str, snapshot: Snapshot, slices: dict[str, FileSlice]
    ) -> dict[str, MadeFile]:
        began = time.monotonic()
        futures = {name: self._begin(table, folder, name, snapshot, one) for name, one in slices.items()}
        told, made = began, {}
        for name, future in futures.items():
            try:
                made[name] = future.result()
            except CancelledError as error:
                raise ServiceError(_STOPPING) from error
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                _LOGGER.info("%s: %d of %d copies for Hive are there", snapshot.config.name, len(made), len(futures))
        size = sum(one.size for one in made.values())
        seconds = time.monotonic() - began
        _LOGGER.info("%s: %d copies for Hive, %d bytes, %.1f s", snapshot.config.name, len(made), size, seconds)
        return made

    def _begin(self, table: _Table, folder: str, name: str, snapshot: Snapshot, files: FileSlice) -> Future[MadeFile]:
        """The copy of a slice to be; queries that want the same one wait for the same."""
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

    def _copy(self, table: _Table, key: tuple[str, str], snapshot: Snapshot, files: FileSlice) -> MadeFile:
        try:
            with self._watched(table.made):
                made = table.made.make(*key, lambda path: write_slice(snapshot, files, path))
            with self._lock:
                table.known.setdefault(key[0], {})[key[1]] = made
            return made
        finally:
            with self._lock:
                del table.making[key]

    def _watched(self, made: MadeFiles) -> AbstractContextManager[None]:
        return self._late.working(made.uri, made.table_folder)

    def _clean(self, made: MadeFiles) -> None:
        try:
            with self._watched(made):
                gone = made.clean()
        except (StorageError, LateTableError) as error:  # it is tried again
            _LOGGER.warning("%s: copies that nobody uses stay: %s", FOLDER, error)
            return
        if gone:
            _LOGGER.info("%s: %d copies that nobody used were deleted", made.uri, gone)
