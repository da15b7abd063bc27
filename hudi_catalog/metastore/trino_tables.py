"""The tables synced to Trino, for the gateway.

Trino's Hive connector reads a synced table as a symlink table: its entry points at a list of exactly the base files of
one snapshot. `point_at` moves the entry to a newer snapshot; `pin` registers a snapshot, or some of its files, as an
entry of its own that never changes, for a query that must read exactly that.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from catalog.concurrency.caches import LruCache, memoize
from catalog.concurrency.late_tables import LateTables
from catalog.concurrency.workers import Workers
from catalog.slices.slice_set import Rows
from catalog.snapshots.snapshot import Snapshot
from catalog.table import Table
from hudi_catalog.metastore import entries
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.manifests import ManifestFolder, Pins, list_name, manifest_folder, manifest_of, paths_of
from hudi_catalog.metastore.metastore import HiveTable, Metastore, TrinoView
from hudi_catalog.metastore.stored_columns import StoredTypes
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.server.tables import LatestSnapshot
from table_format.errors import HudiError, MetastoreError, UnsupportedTableError
from table_format.storage import Storage


class NewestSnapshot(LatestSnapshot):
    """The newest snapshot of an open table, with the known column types of its files.

    Args:
        table: to hold open.
        query_type: see `Table.snapshot`.

    Attributes:
        types: known column types of the table's files.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        super().__init__(table, query_type)
        self.types = StoredTypes()


SNAPSHOTS: Final = "__snapshots"
"""Suffix of the schemas of pinned snapshots."""

_NAME_LENGTH: Final = 80
_TRIES: Final = 10
_CLEAN_SECONDS: Final = 10.0
_MOST_VIEWS: Final = 1_000


@dataclass(frozen=True, eq=False)
class SyncedTable:
    """A table synced to Trino.

    Attributes:
        entry: in the metastore, as last read.
        newest: its table's newest snapshot.
        root: the table's folder as Trino writes it.
        folder: of the file lists.
    """

    entry: HiveTable
    newest: NewestSnapshot
    root: str
    folder: ManifestFolder

    @property
    def table(self) -> Table:
        """The Hudi table."""
        return self.newest.table

    def pin_name(self, manifest: str) -> tuple[str, str]:
        """Schema and table under which a file list is pinned."""
        return self.entry.schema + SNAPSHOTS, f"{self.entry.name[:_NAME_LENGTH]}__{manifest}"


class TrinoTables:
    """Synced tables by name. Thread-safe; several processes may work on one metastore.

    Args:
        metastore: used by Trino's Hive connector.
        options: see `SyncOptions`.
        storage_options: keyword arguments for the `pyarrow.fs` file systems of the tables.
        late: watches for storage that does not answer.
    """

    def __init__(
        self,
        metastore: Metastore,
        options: SyncOptions | None = None,
        storage_options: Mapping[str, Any] | None = None,
        late: LateTables | None = None,
    ) -> None:
        self.late = LateTables() if late is None else late
        self.metastore = metastore
        self.options = options or SyncOptions()
        self._storage_options = dict(storage_options or {})
        self._pins = Pins(metastore, self.options.retention)
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], tuple[float, SyncedTable | None]] = OrderedDict()
        self._views: LruCache[tuple[str, str], tuple[float, TrinoView | None]] = LruCache(_MOST_VIEWS)
        self._tables: LruCache[tuple[str, str], NewestSnapshot] = LruCache(self.options.open_tables)
        self._cleaner = Workers(1, "clean snapshots")
        self._cleaning: set[str] = set()

    def find(self, schema: str, name: str) -> SyncedTable | None:
        """A synced table; None for all other names.

        Raises:
            HudiError: the metastore does not answer, or the entry's table cannot be opened.
        """
        key = (schema.lower(), name.lower())
        with self._lock:
            known = self._entries.get(key)
        if known is not None and time.monotonic() - known[0] < self.options.entry_age:
            return known[1]
        return self._look_up(key)

    def view(self, schema: str, name: str) -> TrinoView | None:
        """A view of Trino's; None for all other names.

        Raises:
            MetastoreError: the metastore does not answer.
        """
        key = (schema.lower(), name.lower())
        known = self._views.get(key)
        if known is not None and time.monotonic() - known[0] < self.options.entry_age:
            return known[1]
        entry = self.metastore.table(*key)
        view = None if entry is None else entry.trino_view()
        self._views.put(key, (time.monotonic(), view))
        return view

    def entries_of(self, schema: str, name: str = "") -> list[str]:
        """Names of the entries of Hudi tables that a sync for Trino has made in a schema.

        Args:
            schema: of the entries.
            name: of one entry; empty for all.

        Raises:
            MetastoreError: the metastore does not answer.
        """
        names = [name.lower()] if name else self.metastore.tables(schema)
        tables = ((one, self.metastore.table(schema.lower(), one)) for one in names)
        return [one for one, entry in tables if entry is not None and entries.TARGET in entry.parameters]

    def newest(self, synced: SyncedTable) -> Snapshot:
        """The newest snapshot; for a merge-on-read table, of its base files.

        Raises:
            HudiError: the table cannot be read.
        """
        with self.watched(synced):
            return synced.newest.get()

    def watched(self, synced: SyncedTable) -> AbstractContextManager[None]:
        """Context in which this thread works on a table without blocking others if its storage hangs.

        Raises:
            LateTableError: on entry, if the table's storage is known not to answer.
        """
        name = f"{synced.entry.schema}.{synced.entry.name}"
        return self.late.working(name, synced.table.client.storage.base, synced.newest.get)

    def held(self) -> dict[str, Snapshot]:
        """The newest snapshots that queries have loaded, by the table's URI; nothing is read."""
        last = {uri: newest.last for (uri, _), newest in self._tables.items()}
        return {name: snapshot for name, snapshot in last.items() if snapshot is not None}

    def path_column(self, synced: SyncedTable, snapshot: Snapshot, rows: Rows | None = None) -> Any:
        """Paths of base files as in Trino's hidden column `$path`.

        Args:
            synced: the table.
            snapshot: of that table.
            rows: positions in the snapshot; None for all live files.

        Raises:
            UnsupportedTableError: the base files alone are not the table.
        """
        return paths_of(synced.root, snapshot, rows)

    def point_at(self, synced: SyncedTable, snapshot: Snapshot) -> HiveTable:
        """Ensure that the table's entry lists a snapshot's files, or a newer one's.

        If Trino would misread them, the entry is replaced by one that fails with the reason, since leaving an older
        snapshot would silently miss rows.

        Returns:
            The current entry.

        Raises:
            MetastoreError: the entry no longer exists, or the metastore does not answer.
            UnsupportedTableError: Trino would misread the files.
        """
        with self.watched(synced):
            return self._point_at(synced, snapshot)

    def _point_at(self, synced: SyncedTable, snapshot: Snapshot) -> HiveTable:
        current = self.find(synced.entry.schema, synced.entry.name)
        for _ in range(_TRIES):
            if current is None:
                break
            try:
                moved = self._moved(current, snapshot)
            except UnsupportedTableError as error:
                self._refuse(current, error)
                raise
            if moved is current.entry:
                return moved
            # the metastore may have a newer entry than the cached one
            now = self._look_up((moved.schema, moved.name))
            if now is not None and now.entry.location == current.entry.location:
                self._move(now, moved)
                return moved
            current = now
        raise MetastoreError(
            f"{synced.entry.schema}.{synced.entry.name}: its entry is being removed or changed continually"
        )

    def _moved(self, synced: SyncedTable, snapshot: Snapshot) -> HiveTable:
        """The entry for a snapshot or a newer one; its file list exists on return."""
        entry, folder = synced.entry, synced.folder
        if snapshot.instant and entry.parameters.get(entries.INSTANT, "") > snapshot.instant:
            # another process saw a later commit, or commits were rolled back
            snapshot = self.newest(synced)
        name = folder.name_for(self._name(synced, snapshot, None), entry.location)
        kept_name = self._pins.keep(folder, name, lambda: manifest_of(paths_of(synced.root, snapshot)), None)
        if kept_name == folder.name_at(entry.location):
            return entry
        self._check(synced, snapshot)
        return entries.symlink_entry(entry, snapshot, folder.location(kept_name))

    def _check(self, synced: SyncedTable, snapshot: Snapshot) -> None:
        # an error is not memoized
        memoize(snapshot, "servable by Trino", lambda: entries.check_servable(snapshot, synced.newest.types))

    def _refuse(self, synced: SyncedTable, error: UnsupportedTableError) -> None:
        """Make the table's entry fail its readers."""
        folder, reason = synced.folder, str(error)
        name = f"refused__{hashlib.blake2b(reason.encode(), digest_size=8).hexdigest()}"
        before = folder.name_at(synced.entry.location)
        if before is not None and before.startswith(name):
            return
        kept_name = self._pins.keep(folder, name, lambda: folder.failing(name, reason), None)
        self._move(synced, replace(synced.entry, location=folder.location(kept_name)))

    def _move(self, synced: SyncedTable, entry: HiveTable) -> None:
        """Replace a table's entry."""
        self.metastore.put_table(entry)
        self._remember((entry.schema, entry.name), replace(synced, entry=entry))
        before = synced.folder.name_at(synced.entry.location)
        if before is not None and synced.folder.exists(before):
            synced.folder.touch(before)  # for queries that Trino has started with it
        self._tidy(synced)

    def pin(self, synced: SyncedTable, snapshot: Snapshot, rows: Rows | None = None) -> tuple[str, str]:
        """Ensure that an entry exists that keeps listing a snapshot's files.

        Args:
            synced: the table.
            snapshot: of that table.
            rows: positions of the files to list; None for all.

        Returns:
            Schema and name of the entry.

        Raises:
            MetastoreError: the metastore does not answer.
            UnsupportedTableError: Trino would misread the files.
        """
        with self.watched(synced):
            return self._pin(synced, snapshot, rows)

    def _pin(self, synced: SyncedTable, snapshot: Snapshot, rows: Rows | None) -> tuple[str, str]:
        try:
            self._check(synced, snapshot)
        except UnsupportedTableError as error:
            now = self._look_up((synced.entry.schema, synced.entry.name))
            if now is not None and snapshot is synced.newest.last:
                self._refuse(now, error)
            raise
        name = self._name(synced, snapshot, rows)

        def content() -> bytes:
            return manifest_of(paths_of(synced.root, snapshot, rows))

        def entry(manifest: str) -> HiveTable:
            made = entries.symlink_entry(synced.entry, snapshot, synced.folder.location(manifest))
            schema, table = synced.pin_name(manifest)
            parameters = {entries.PINNED: "true", entries.INSTANT: snapshot.instant or "", "EXTERNAL": "TRUE"}
            return replace(made, schema=schema, name=table, parameters=parameters)

        kept_name = self._pins.keep(synced.folder, name, content, entry)
        self._tidy(synced)
        return synced.pin_name(kept_name)

    def clean(self, synced: SyncedTable) -> int:
        """Remove pinned snapshots unused for the retention time; gateways do so by themselves.

        Returns:
            Number of snapshots removed.
        """
        key = (synced.entry.schema, synced.entry.name)

        def pointed_at() -> str:
            entry = self.metastore.table(*key)
            return "" if entry is None else entry.location

        return self._pins.clean(synced.folder, pointed_at, synced.pin_name)

    def close(self, seconds: float = _CLEAN_SECONDS) -> None:
        """Close the metastore's connections.

        Args:
            seconds: that a running clean-up gets to finish.
        """
        self._cleaner.close(wait=True, seconds=seconds)
        self.metastore.close()

    def _look_up(self, key: tuple[str, str]) -> SyncedTable | None:
        entry = self.metastore.table(*key)
        self._views.put(key, (time.monotonic(), None if entry is None else entry.trino_view()))
        synced = None if entry is None or not entries.is_ours(entry) else self._synced(entry)
        self._remember(key, synced)
        return synced

    def _synced(self, entry: HiveTable) -> SyncedTable:
        parameters = entry.parameters
        base = parameters[entries.BASE_PATH]
        newest = self._open(base, parameters.get(entries.QUERY_TYPE, "snapshot"))
        locations = self.options.locations or Locations.parse(parameters.get(entries.LOCATIONS, ""))
        folder = manifest_folder(entry, newest.table.client.storage, locations, self._storage_options)
        return SyncedTable(entry, newest, locations.to_engine(base), folder)

    def _open(self, base: str, query_type: str) -> NewestSnapshot:
        key = (base, query_type)
        known = self._tables.get(key)
        if known is None:
            storage = Storage(base, self._storage_options)
            with self.late.working(base, storage.base, lambda: Table.open(storage)):
                opened = NewestSnapshot(Table.open(storage), query_type)
            known = self._tables.setdefault(key, opened)
        return known

    def _remember(self, key: tuple[str, str], synced: SyncedTable | None) -> None:
        now = time.monotonic()
        with self._lock:
            self._entries[key] = (now, synced)
            self._entries.move_to_end(key)
            # a cached entry holds its table open, so expired ones are removed at once
            while now - next(iter(self._entries.values()))[0] > self.options.entry_age:
                self._entries.popitem(last=False)

    def _name(self, synced: SyncedTable, snapshot: Snapshot, rows: Rows | None) -> str:
        """The name of the list of a snapshot's files, see `list_name`."""
        if rows is not None:
            return list_name(synced.root, snapshot, rows)
        return memoize(snapshot, ("name of the file list", synced.root), lambda: list_name(synced.root, snapshot))

    def _tidy(self, synced: SyncedTable) -> None:
        """Start a clean-up in the background if it is due."""
        folder = synced.folder.engine_uri
        with self._lock:
            if folder in self._cleaning or not self._pins.is_due(synced.folder):
                return
            self._cleaning.add(folder)
        try:
            self._cleaner.submit(lambda: self._clean_quietly(synced))
        except RuntimeError:  # closed, or no thread to be had
            self._cleaning.discard(folder)

    def _clean_quietly(self, synced: SyncedTable) -> None:
        try:
            with contextlib.suppress(HudiError), self.watched(synced):
                self.clean(synced)
        finally:
            self._cleaning.discard(synced.folder.engine_uri)
