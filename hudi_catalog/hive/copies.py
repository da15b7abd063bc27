"""Copies of file slices for the queries of a service: found, made a few at a time, and cleaned up."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from catalog.late_tables import LateTables
from catalog.snapshot.snapshot import Snapshot
from catalog.splits.slice_rows import SliceFiles, files_of_slices
from catalog.workers import Workers
from hudi_catalog.hive.made_files import FOLDER, MadeFile, MadeFiles
from hudi_catalog.hive.slice_names import SliceNames, folder_name
from hudi_catalog.hive.slice_writer import write_slice
from table_format.errors import LateTableError, ServiceError, StorageError

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
        slices = files_of_slices(snapshot, rows)
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
        self, table: _Table, folder: str, snapshot: Snapshot, slices: dict[str, SliceFiles]
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

    def _begin(self, table: _Table, folder: str, name: str, snapshot: Snapshot, files: SliceFiles) -> Future[MadeFile]:
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

    def _copy(self, table: _Table, key: tuple[str, str], snapshot: Snapshot, files: SliceFiles) -> MadeFile:
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
