"""The newest state of something that is held open for many at once, looked for as often as it must be."""

from __future__ import annotations

import abc
import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from catalog.catalog import Catalog, TableEntry
from catalog.slices.time_travel import instant_as_of
from catalog.snapshots.snapshot import Snapshot
from catalog.table import QUERY_TYPES, READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.server.options import ServiceOptions
from hudi_catalog.server.recent import Recent
from table_format.errors import OptionError, ServiceError, SplitError, StorageError, TableNotFoundError
from table_format.instant import WRITE_ACTIONS
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline

T = TypeVar("T")


class SharedLook(Generic[T]):
    """What a look finds, no older than whoever asks for it: those who wait at once share one look.

    Args:
        look: finds the value.

    Attributes:
        last: what was found last; None before.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self.last: T | None = None
        self._look = look
        self._lock = threading.Lock()
        self._began = float("-inf")

    def get(self, tolerance: float = 0.0) -> T:
        """The value as it was when this was called, or later.

        Args:
            tolerance: seconds before the call from which on a look counts too.

        Raises:
            Exception: what the look raises; who asks next looks again.
        """
        arrived = time.monotonic()
        with self._lock:
            # a look that began after this call did serves it as well as one of its own
            if self.last is None or self._began < arrived - tolerance:
                began = time.monotonic()
                self.last = self._look()
                self._began = began
            return self.last

    def forget(self) -> None:
        """Let the next call look again, whatever its tolerance."""
        self._began = float("-inf")


class LatestSnapshot:
    """The newest snapshot of a table.

    Args:
        table: to be held open.
        query_type: see `Table.snapshot`.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        self.table = table
        self.query_type = query_type
        self._shared = SharedLook(lambda: self._look())  # noqa: PLW0108  # looked up when called, for tests

    @property
    def last(self) -> Snapshot | None:
        """The snapshot that was the newest when last looked at; None before."""
        return self._shared.last

    def get(self, tolerance: float = 0.0) -> Snapshot:
        """The newest state, no older than this call, or than so many seconds before it.

        Raises:
            HudiError: the table cannot be read.
        """
        return self._shared.get(tolerance)

    def _look(self) -> Snapshot:
        table = self.table
        if self.query_type != READ_OPTIMIZED or table.config.table_type == "COPY_ON_WRITE":
            return table.refresh().snapshot(None, self.query_type)
        last = self.last
        if last is not None and table.client.timeline().instants == last.timeline.instants:
            return last
        return table.refresh().snapshot(None, self.query_type)


# A write that completed late mostly stands among the last ones; older ones leave the timeline as they are archived, but
# not while a write before them is pending.
_WRITES_IN_PIN = 10
_PIN_MARK = "#"

# Of tables with very many files, fewer snapshots are held.
_MOST_FILES = 4_000_000


@dataclass(eq=False)
class CachedTable:
    """A table that is open, with its past snapshots by query type and pin."""

    table: Table
    snapshots: Recent[Snapshot]
    newest: dict[str, LatestSnapshot] = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.newest = {kind: LatestSnapshot(self.table, kind) for kind in QUERY_TYPES}


class TableCache(abc.ABC):
    """Tables, opened once and held.

    Threads may share it. What is held is bounded: tables and snapshots that were not asked for longest are let go.
    Whatever takes a `query_type` means that of `Table.snapshot`.

    Args:
        warehouse: where the tables are.
        options: how much is held, and for how long.
        table_options: as for `Table.open`.

    Attributes:
        warehouse: what was given.
        late: tables whose storage does not answer.
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
        self._held: Recent[CachedTable] = Recent(self._options.open_tables)

    def __len__(self) -> int:
        """How many tables are open."""
        return len(self._held)

    def _open(self, name: str) -> Table:
        """Open a table that is not held.

        Raises:
            HudiError: there is no such table, or it cannot be read.
        """
        storage = Storage(self._place(name), self.warehouse.storage.options, self.warehouse.within)
        return Table.open(storage, options=self._table_options)

    def watched(self, name: str) -> AbstractContextManager[None]:
        """For the time of a `with` block this thread works on a table, and is not waited for if its storage hangs.

        Raises:
            LateTableError: the table is known not to answer; when the block is entered.
            HudiError: there is no such table.
        """
        held = self._held.get(name)
        folder = self._folder(name) if held is None else held.table.client.storage.base
        return self.late.working(name or self.warehouse.storage.uri, folder, lambda: self.newest(name))

    def check_late(self) -> None:
        """Ask whether any of the tables that are known answers.

        Raises:
            ServiceError: none does.
        """
        folders, late = self._folders(), {one.folder: one for one in self.late.late()}
        if folders and folders <= late.keys():
            texts = "; ".join(f"{one.name}: {one}" for one in list(late.values())[:3])
            raise ServiceError(f"none of {len(folders)} tables answers: {texts}")

    def _folders(self) -> set[str]:
        """Folders of the tables that are known."""
        return {held.table.client.storage.base for held in self._held.values()}

    @abc.abstractmethod
    def _folder(self, name: str) -> str:
        """The folder of a table, as its file system names it.

        Raises:
            HudiError: there is no such table.
        """

    @abc.abstractmethod
    def _place(self, name: str) -> str:
        """Path or URI of a table's folder.

        Raises:
            HudiError: there is no such table.
        """

    def table(self, name: str) -> Table:
        """A table, at whatever state it was last used in.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            HudiError: it cannot be read.
        """
        return self._hold(name).table

    def newest(self, name: str, query_type: str = SNAPSHOT) -> tuple[Table, Snapshot]:
        """A table, and its state now: with every commit that was complete when this was called.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            OptionError: there is no such query type.
            HudiError: it cannot be read.
        """
        held = self._hold(name)
        try:
            return held.table, self._newest(held, query_type)
        except (TableNotFoundError, StorageError):
            # It may lie elsewhere by now, or a clean or an archiving came between.
            self._let_go(name, held)
        held = self._hold(name)
        return held.table, self._newest(held, query_type)

    def at(self, name: str, when: str, query_type: str = SNAPSHOT) -> Snapshot:
        """An earlier state.

        Args:
            name: of the table.
            when: what `pin` gave for it; or an instant or a time, as for `Table.snapshot`.
            query_type: see there.

        Raises:
            SplitError: that state is gone, or it was pinned and has changed since.
            HudiError: the table cannot be read.
        """
        held = self._hold(name)
        kind = _kind(held.table, query_type)
        # Without the lock, because others may be waiting for the storage with it.
        known = held.snapshots.get((kind, when))
        if known is not None:
            return known
        with held.lock:
            newest = held.newest[kind].get()
            if self.pin(newest) == when:
                return self._remember(held, kind, newest)
            instant, pinned, _ = when.partition(_PIN_MARK)
            changed = f"{name}: its state of {instant or 'before its first commit'} has changed since the query began"
            if pinned and not instant:
                raise SplitError(f"{changed}; run the query again")
            try:
                snapshot = self._past(held, instant, kind, newest)
            except OptionError as error:
                raise SplitError(f"{name}: {error}") from error
            if pinned and self.pin(snapshot) != when:
                raise SplitError(f"{changed}; run the query again")
            return snapshot

    @staticmethod
    def pin(snapshot: Snapshot) -> str:
        """A text by which `at` finds the very same state again, or fails.

        An instant alone does not tell it: a write that began before it may complete after it.
        """
        return _pin(snapshot.timeline, snapshot.instant or "")

    def _newest(self, held: CachedTable, query_type: str) -> Snapshot:
        kind = _kind(held.table, query_type)
        return self._remember(held, kind, held.newest[kind].get(self._options.refresh_interval / 1000))

    def _past(self, held: CachedTable, when: str, kind: str, newest: Snapshot) -> Snapshot:
        instant = instant_as_of(when, newest.timeline, newest.config.timeline_timezone)
        last = newest.timeline.last_completed_write(instant)
        known = held.snapshots.get((kind, _pin(newest.timeline, last.time if last else "")))
        return self._remember(held, kind, known or held.table.snapshot(when, kind))

    def _remember(self, held: CachedTable, kind: str, snapshot: Snapshot) -> Snapshot:
        most = min(self._options.snapshots, max(2, _MOST_FILES // max(1, len(snapshot))))
        held.snapshots.put((kind, self.pin(snapshot)), snapshot, most)
        return snapshot

    def _hold(self, name: str) -> CachedTable:
        held = self._held.get(name)
        if held is None:
            held = self._held.put_first(name, CachedTable(self._open(name), Recent(self._options.snapshots)))
        return held

    def _let_go(self, name: str, held: CachedTable) -> None:
        self._held.drop(name, held)


def _kind(table: Table, query_type: str) -> str:
    """The query type, by one name for what is the same state of a table.

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
    """Tables of a warehouse by name, opened once and held.

    Args:
        warehouse: where the tables are; names are those that it gives them.
        options: how much is held, and for how long.
        table_options: as for `Table.open`.
    """

    def __init__(
        self,
        warehouse: Catalog,
        options: ServiceOptions | None = None,
        *,
        table_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(warehouse, options, table_options=table_options)
        self._listing = SharedLook(self._listed)

    @property
    def uri(self) -> str:
        """Of the warehouse."""
        return self.warehouse.storage.uri

    def names(self, *, fresh: bool = False, unread: bool = False) -> list[str]:
        """Names of the tables whose properties can be read; the list may be some seconds old.

        Args:
            fresh: with every table that was there when this was called.
            unread: those whose properties cannot be read instead; to open one gives the reason.

        Raises:
            HudiError: the warehouse cannot be listed.
        """
        listed = self._listing.get(0 if fresh else self._options.listing_seconds)
        return sorted(name for name, entries in listed.items() if any(entry.config for entry in entries) != unread)

    def _place(self, name: str) -> str:
        return self._entry(name).uri

    def _folder(self, name: str) -> str:
        return self.warehouse.storage.full_path(self._entry(name).path)

    def _folders(self) -> set[str]:
        listed = self._listing.last or {}
        full_path = self.warehouse.storage.full_path
        return {full_path(entry.path) for entries in listed.values() for entry in entries}

    def _let_go(self, name: str, held: CachedTable) -> None:
        super()._let_go(name, held)
        self._listing.forget()

    def _entry(self, name: str) -> TableEntry:
        entries = self._listing.get(self._options.listing_seconds).get(name)
        if not entries:
            entries = self._listing.get().get(name, [])
        if len(entries) != 1:
            paths = " and ".join(entry.path for entry in entries)
            raise TableNotFoundError(f"{self.uri}: {f'{paths} are both' if paths else 'there is no table'} {name}")
        return entries[0]

    def _listed(self) -> dict[str, list[TableEntry]]:
        listed: dict[str, list[TableEntry]] = {}
        for entry in self.warehouse.tables():
            listed.setdefault(entry.name, []).append(entry)
        return listed
