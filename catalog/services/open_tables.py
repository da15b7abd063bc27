"""The tables that a service holds open, by name, and the snapshots that its running queries read."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.catalog import Catalog, TableEntry
from catalog.services.options import ServiceOptions
from catalog.snapshot import Snapshot
from catalog.table import Table
from catalog.time_travel import instant_as_of
from table_format.errors import OptionError, SplitError, StorageError, TableNotFoundError
from table_format.timeline import Timeline

# A write that completed late stands among the last ones; older ones leave the timeline as they are archived.
_WRITES_IN_PIN = 10
_PIN_MARK = "#"
# Of tables with very many files, fewer snapshots are held.
_MOST_FILES = 4_000_000


@dataclass(eq=False)
class _Held:
    """A table that is open."""

    table: Table
    lock: threading.Lock = field(default_factory=threading.Lock)
    refresh_began: float = 0.0
    newest: Snapshot | None = None
    snapshots: OrderedDict[str, Snapshot] = field(default_factory=OrderedDict)


class OpenTables:
    """Tables of a warehouse, opened once and held.

    Threads may share it. What is held is bounded: tables and snapshots that were not asked for longest are let go.

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
        self.warehouse = warehouse
        self._options = options or ServiceOptions()
        self._table_options = dict(table_options or {})
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._listing_lock = threading.Lock()
        self._listed: dict[str, list[TableEntry]] = {}
        self._listed_at: float | None = None

    def __len__(self) -> int:
        """How many tables are open."""
        return len(self._held)

    @property
    def uri(self) -> str:
        """Of the warehouse."""
        return self.warehouse.storage.uri

    def names(self, *, fresh: bool = False) -> list[str]:
        """Names of the tables whose properties can be read; the list may be some seconds old.

        Args:
            fresh: with every table that was there when this was called.

        Raises:
            HudiError: the warehouse cannot be listed.
        """
        listed = self._listing(0 if fresh else self._options.listing_seconds)
        return sorted(name for name, entries in listed.items() if any(entry.config for entry in entries))

    def table(self, name: str) -> Table:
        """A table, at whatever state it was last used in.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            HudiError: it cannot be read.
        """
        return self._hold(name).table

    def newest(self, name: str) -> tuple[Table, Snapshot]:
        """A table, and its state now: with every commit that was complete when this was called.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            HudiError: it cannot be read.
        """
        arrived = time.monotonic()
        held = self._hold(name)
        try:
            return held.table, self._newest(held, arrived)
        except (TableNotFoundError, StorageError):
            # It may lie elsewhere by now, or a clean or an archiving came between.
            self._let_go(name, held)
        held = self._hold(name)
        return held.table, self._newest(held, arrived)

    def at(self, name: str, when: str) -> Snapshot:
        """An earlier state.

        Args:
            name: of the table.
            when: what `pin` gave for it; or an instant or a time, as for `Table.snapshot`.

        Raises:
            SplitError: that state is gone, or it was pinned and has changed since.
            HudiError: the table cannot be read.
        """
        held = self._hold(name)
        known = held.snapshots.get(when)
        if known is not None:
            # Without the lock, because others may be waiting for the storage with it.
            with contextlib.suppress(KeyError):
                held.snapshots.move_to_end(when)
            return known
        with held.lock:
            instant, pinned, _ = when.partition(_PIN_MARK)
            try:
                snapshot = self._past(held, instant)
            except OptionError as error:
                raise SplitError(f"{name}: {error}") from error
            if pinned and self.pin(snapshot) != when:
                raise SplitError(
                    f"{name}: its state of {instant} has changed since the query began; run the query again"
                )
            return snapshot

    @staticmethod
    def pin(snapshot: Snapshot) -> str:
        """A text by which `at` finds the very same state again, or fails.

        An instant alone does not tell it: a write that began before it may complete after it.
        """
        return _pin(snapshot.timeline, snapshot.instant or "")

    def _newest(self, held: _Held, arrived: float) -> Snapshot:
        with held.lock:
            # A refresh that began after the call did serves it as well as one of its own.
            if held.newest is None or held.refresh_began < arrived - self._options.refresh_interval / 1000:
                held.refresh_began = time.monotonic()
                held.newest = None
                held.newest = self._remember(held, held.table.refresh().snapshot())
            return held.newest

    def _let_go(self, name: str, held: _Held) -> None:
        with self._lock:
            if self._held.get(name) is held:
                del self._held[name]
        self._listed_at = None

    def _past(self, held: _Held, when: str) -> Snapshot:
        newest = held.table.refresh().snapshot()
        instant = instant_as_of(when, newest.timeline, newest.config.timeline_timezone)
        last = newest.timeline.last_completed_write(instant)
        known = held.snapshots.get(_pin(newest.timeline, last.time if last else ""))
        return self._remember(held, known or held.table.snapshot(as_of=when))

    def _remember(self, held: _Held, snapshot: Snapshot) -> Snapshot:
        pin = self.pin(snapshot)
        held.snapshots[pin] = snapshot
        held.snapshots.move_to_end(pin)
        most = min(self._options.snapshots, max(2, _MOST_FILES // max(1, len(snapshot))))
        while len(held.snapshots) > most:
            held.snapshots.popitem(last=False)
        return snapshot

    def _hold(self, name: str) -> _Held:
        with self._lock:
            held = self._held.get(name)
            if held is not None:
                self._held.move_to_end(name)
                return held
        table = Table.open(self._entry(name).uri, self.warehouse.storage.options, options=self._table_options)
        with self._lock:
            held = self._held.setdefault(name, _Held(table))
            while len(self._held) > self._options.open_tables:
                self._held.popitem(last=False)
            return held

    def _entry(self, name: str) -> TableEntry:
        entries = self._listing(self._options.listing_seconds).get(name)
        if not entries:
            entries = self._listing(0).get(name, [])
        if len(entries) != 1:
            paths = " and ".join(entry.path for entry in entries)
            raise TableNotFoundError(f"{self.uri}: {f'{paths} are both' if paths else 'there is no table'} {name}")
        return entries[0]

    def _listing(self, seconds: float) -> dict[str, list[TableEntry]]:
        """The tables by name, as they were not longer than some seconds before the call."""
        arrived = time.monotonic()
        with self._listing_lock:
            if self._listed_at is None or self._listed_at < arrived - seconds:
                began = time.monotonic()
                listed: dict[str, list[TableEntry]] = {}
                for entry in self.warehouse.tables():
                    listed.setdefault(entry.name, []).append(entry)
                self._listed, self._listed_at = listed, began
            return self._listed


def _pin(timeline: Timeline, instant: str) -> str:
    writes = [(write.time, write.action) for write in timeline.writes if write.time <= instant]
    digest = hashlib.sha256(repr(writes[-_WRITES_IN_PIN:]).encode()).hexdigest()
    return f"{instant}{_PIN_MARK}{digest[:16]}"
