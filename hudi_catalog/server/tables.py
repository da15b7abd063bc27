"""Tables that a service keeps open, their newest snapshots, and the past snapshots that running queries read."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.catalog import Catalog, TableEntry
from catalog.concurrency.caches import LruCache, SingleFlight
from catalog.slices.time_travel import instant_as_of
from catalog.snapshots.snapshot import Snapshot
from catalog.table import QUERY_TYPES, READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.server.options import ServiceOptions
from table_format.errors import HudiError, OptionError, ServiceError, SplitError, StorageError, TableNotFoundError
from table_format.instant import WRITE_ACTIONS
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline

# A write that completes late is mostly among the last ones. Older writes leave the timeline when they are archived, but
# not while a write before them is pending.
_WRITES_IN_PIN = 10
_PIN_MARK = "#"
# Fewer snapshots are cached of tables with very many files.
_MAX_FILES = 4_000_000


class LatestSnapshot(SingleFlight[Snapshot]):
    """The newest snapshot of an open table; concurrent callers share one refresh.

    Args:
        table: kept open.
        query_type: see `Table.snapshot`.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        super().__init__(self._refresh)
        self.table = table
        self.query_type = query_type

    def _refresh(self) -> Snapshot:
        table, last = self.table, self.last
        is_read_optimized = self.query_type == READ_OPTIMIZED and table.config.table_type != "COPY_ON_WRITE"
        if is_read_optimized and last is not None and table.client.timeline().instants == last.timeline.instants:
            return last
        return table.refresh().snapshot(None, self.query_type)


@dataclass(eq=False)
class CachedTable:
    """An open table, its newest snapshot by query type, and its past snapshots by query type and pin."""

    table: Table
    snapshots: LruCache[tuple[str, str], Snapshot]
    newest: dict[str, LatestSnapshot] = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.newest = {kind: LatestSnapshot(self.table, kind) for kind in QUERY_TYPES}


class TableCache(abc.ABC):
    """Open tables by name; subclasses define what names mean. Thread-safe.

    The number of open tables and of cached snapshots is bounded; the least recently used are evicted. For `query_type`
    see `Table.snapshot`.

    Args:
        warehouse: catalog of the tables.
        options: sizes and lifetimes of the caches.
        table_options: options for `Table.open`, by key.

    Attributes:
        warehouse: see Args.
        late: tables whose storage does not respond.
    """

    def __init__(
        self,
        warehouse: Catalog,
        options: ServiceOptions | None = None,
        *,
        table_options: Mapping[str, str] | None = None,
    ) -> None:
        self.warehouse = warehouse
        self.late = warehouse.late
        self._options = options or ServiceOptions()
        self._table_options = dict(table_options or {})
        self._cached: LruCache[str, CachedTable] = LruCache(self._options.open_tables)
        self._listing = SingleFlight(self._list)

    def __len__(self) -> int:
        """Number of open tables."""
        return len(self._cached)

    def _open(self, name: str) -> Table:
        """Open a table that is not cached.

        Raises:
            HudiError: there is no such table, or it cannot be read.
        """
        storage = Storage(self._location(name), self.warehouse.storage.options, self.warehouse.within)
        return Table.open(storage, options=self._table_options)

    @contextlib.contextmanager
    def watched(self, name: str) -> Iterator[None]:
        """Mark this thread as working on a table for a `with` block: its request is abandoned if the storage hangs.

        Errors of the block name the table.

        Raises:
            LateTableError: the table's storage is known not to respond; when the block is entered.
            HudiError: there is no such table.
        """
        shown = name or self.warehouse.storage.uri
        try:
            cached = self._cached.get(name)
            folder = self._folder(name) if cached is None else cached.table.client.storage.base
            with self.late.working(shown, folder, lambda: self.newest(name)):
                yield
        except HudiError as error:
            named = error.about(shown)
            if named is error:
                raise
            raise named from error

    def check_late(self) -> None:
        """Check that some known table responds.

        Raises:
            ServiceError: none does.
        """
        folders, late = self._folders(), {one.folder: one for one in self.late.late()}
        if folders and folders <= late.keys():
            texts = "; ".join(f"{one.name}: {one}" for one in list(late.values())[:3])
            raise ServiceError(f"none of {len(folders)} tables answers: {texts}")

    def _folders(self) -> set[str]:
        """Folders of the known tables."""
        return {cached.table.client.storage.base for _, cached in self._cached.items()}

    def _list(self) -> dict[str, list[TableEntry]]:
        """Tables by name, for a subclass whose names are those of the warehouse's catalog."""
        return {}

    def held(self) -> dict[str, Snapshot]:
        """The newest snapshots that queries have loaded, by table; nothing is read."""
        snapshots = {name: cached.newest[SNAPSHOT].last for name, cached in self._cached.items()}
        return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}

    @abc.abstractmethod
    def _folder(self, name: str) -> str:
        """The folder of a table as a path of its file system.

        Raises:
            HudiError: there is no such table.
        """

    @abc.abstractmethod
    def _location(self, name: str) -> str:
        """Path or URI of a table's folder.

        Raises:
            HudiError: there is no such table.
        """

    def table(self, name: str) -> Table:
        """A table, not refreshed.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            HudiError: it cannot be read.
        """
        return self._get(name).table

    def newest(self, name: str, query_type: str = SNAPSHOT) -> tuple[Table, Snapshot]:
        """A table and its newest snapshot, with every commit completed before this call.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            OptionError: there is no such query type.
            HudiError: it cannot be read.
        """
        cached = self._get(name)
        try:
            return cached.table, self._newest(cached, query_type)
        except (TableNotFoundError, StorageError):
            # The table may have moved, or a clean or an archival run interfered.
            self._evict(name, cached)
        cached = self._get(name)
        return cached.table, self._newest(cached, query_type)

    def at(self, name: str, when: str, query_type: str = SNAPSHOT) -> Snapshot:
        """A past snapshot.

        Args:
            name: of the table.
            when: a pin; or an instant or a time, as for `Table.snapshot`.
            query_type: see there.

        Raises:
            SplitError: the snapshot no longer exists, or has changed since it was pinned.
            HudiError: the table cannot be read.
        """
        cached = self._get(name)
        kind = _state_kind(cached.table, query_type)
        # Without the lock, because its holder may be waiting for the storage.
        known = cached.snapshots.get((kind, when))
        if known is not None:
            return known
        with cached.lock:
            newest = cached.newest[kind].get()
            if self.pin(newest) == when:
                return self._remember(cached, kind, newest)
            instant, pinned, _ = when.partition(_PIN_MARK)
            changed = f"{name}: its state of {instant or 'before its first commit'} has changed since the query began"
            if pinned and not instant:
                raise SplitError(f"{changed}; run the query again")
            try:
                snapshot = self._past(cached, instant, kind, newest)
            except OptionError as error:
                raise SplitError(f"{name}: {error}") from error
            if pinned and self.pin(snapshot) != when:
                raise SplitError(f"{changed}; run the query again")
            return snapshot

    @staticmethod
    def pin(snapshot: Snapshot) -> str:
        """A text for which `at` returns the same snapshot again, or fails.

        An instant alone does not identify a snapshot: a write that began before it may complete after it.
        """
        return _pin(snapshot.timeline, snapshot.instant or "")

    def _newest(self, cached: CachedTable, query_type: str) -> Snapshot:
        kind = _state_kind(cached.table, query_type)
        return self._remember(cached, kind, cached.newest[kind].get(self._options.refresh_interval / 1000))

    def _past(self, cached: CachedTable, when: str, kind: str, newest: Snapshot) -> Snapshot:
        instant = instant_as_of(when, newest.timeline, newest.config.timeline_timezone)
        last = newest.timeline.last_completed_write(instant)
        known = cached.snapshots.get((kind, _pin(newest.timeline, last.time if last else "")))
        return self._remember(cached, kind, known or cached.table.snapshot(when, kind))

    def _remember(self, cached: CachedTable, kind: str, snapshot: Snapshot) -> Snapshot:
        cached.snapshots.put((kind, self.pin(snapshot)), snapshot)
        cached.snapshots.shrink(max(2, _MAX_FILES // max(1, len(snapshot))))
        return snapshot

    def _get(self, name: str) -> CachedTable:
        cached = self._cached.get(name)
        if cached is None:
            opened = CachedTable(self._open(name), LruCache(self._options.snapshots))
            cached = self._cached.setdefault(name, opened)
        return cached

    def _evict(self, name: str, cached: CachedTable) -> None:
        self._cached.pop(name, cached)


def _state_kind(table: Table, query_type: str) -> str:
    """The query type under which a snapshot is cached: `snapshot` where the types read the same files.

    Raises:
        OptionError: there is no such query type.
    """
    if query_type not in QUERY_TYPES:
        raise OptionError(f"query type {query_type!r}: there are {' and '.join(QUERY_TYPES)}")
    return READ_OPTIMIZED if query_type == READ_OPTIMIZED and table.config.table_type != "COPY_ON_WRITE" else SNAPSHOT


def _pin(timeline: Timeline, instant: str) -> str:
    writes = [(write.time, write.action) for write in timeline.writes if write.time <= instant][-_WRITES_IN_PIN:]
    if len(writes) == _WRITES_IN_PIN:
        pending = [one for one in timeline.pending if one.comparable_action in WRITE_ACTIONS]
        writes += [(one.time, one.comparable_action) for one in pending if one.time < writes[0][0]]
    digest = hashlib.sha256(repr(writes).encode()).hexdigest()
    return f"{instant}{_PIN_MARK}{digest[:16]}"


class WarehouseTables(TableCache):
    """Open tables of a warehouse, by their names in its catalog."""

    @property
    def uri(self) -> str:
        """URI of the warehouse."""
        return self.warehouse.storage.uri

    def names(self, *, fresh: bool = False, unread: bool = False) -> list[str]:
        """Names of the tables whose properties can be read; the list may be some seconds old.

        Args:
            fresh: include every table that exists when this is called.
            unread: the tables whose properties cannot be read instead; opening one gives the reason.

        Raises:
            HudiError: the warehouse cannot be listed.
        """
        listed = self._listing.get(0 if fresh else self._options.listing_seconds)
        return sorted(name for name, entries in listed.items() if any(entry.config for entry in entries) != unread)

    def _location(self, name: str) -> str:
        return self._entry(name).uri

    def _folder(self, name: str) -> str:
        return self.warehouse.storage.full_path(self._entry(name).path)

    def _folders(self) -> set[str]:
        listed = self._listing.last or {}
        full_path = self.warehouse.storage.full_path
        return {full_path(entry.path) for entries in listed.values() for entry in entries}

    def _evict(self, name: str, cached: CachedTable) -> None:
        super()._evict(name, cached)
        self._listing.invalidate()

    def _entry(self, name: str) -> TableEntry:
        entries = self._listing.get(self._options.listing_seconds).get(name)
        if not entries:
            entries = self._listing.get().get(name, [])
        if len(entries) != 1:
            paths = " and ".join(entry.path for entry in entries)
            raise TableNotFoundError(f"{self.uri}: {f'{paths} are both' if paths else 'there is no table'} {name}")
        return entries[0]

    def _list(self) -> dict[str, list[TableEntry]]:
        listed: dict[str, list[TableEntry]] = {}
        try:
            entries = self.warehouse.tables()
        except TableNotFoundError as error:  # which engines would take for a table that they need not look for
            raise ServiceError(f"the service's warehouse is gone: {error}; mount it again, or restore it") from error
        for entry in entries:
            listed.setdefault(entry.name, []).append(entry)
        return listed


def check_base_files(snapshot: Snapshot, rows: NDArray[np.int64]) -> None:
    """Refuse base files that engines must not open themselves: behind links out of the warehouse, or no regular files.

    Those that are gone are left to the engine, which reports them.

    Args:
        snapshot: of the table.
        rows: positions of slices.

    Raises:
        StorageError: such a file is among them.
    """
    storage = snapshot.client.storage
    for path in snapshot.take_files(rows).column("path").to_pylist() if storage.is_local else ():
        if path is not None:
            storage.check_within(path)
            with contextlib.suppress(FileNotFoundError):
                storage.check_regular(path)
