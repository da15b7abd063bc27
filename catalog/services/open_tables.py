"""The tables that a service holds open, by name, and the snapshots that its running queries read."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from catalog.catalog import Catalog, TableEntry
from catalog.services.options import ServiceOptions
from catalog.snapshot import Snapshot
from catalog.table import Table
from catalog.time_travel import instant_as_of
from table_format.errors import OptionError, SplitError, StorageError, TableNotFoundError
from table_format.timeline import Timeline

DEFAULT_SCHEMA = "default"
_TIME_TRAVEL = "@"
# A write that completed late stands among the last ones; older ones leave the timeline as they are archived.
_WRITES_IN_PIN = 10
_LEAST_LISTING_SECONDS = 0.5


class TableName(NamedTuple):
    """A table's name as engines see it: in lower case, which is the only one that they know.

    Attributes:
        schema: `default` for a table without a database.
        table: may end with `@` and a time, for the table's state of then.
    """

    schema: str
    table: str

    @classmethod
    def of(cls, name: str) -> TableName:
        """From `schema.table`; what stands before the last dot is the schema."""
        state = name.find(_TIME_TRAVEL)
        dot = name.rfind(".", 0, len(name) if state < 0 else state)
        return cls(name[:dot].lower() if dot >= 0 else DEFAULT_SCHEMA, name[dot + 1 :].lower())

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def parts(self) -> tuple[TableName, str | None]:
        """The name without a time, and the time."""
        table, at, when = self.table.rpartition(_TIME_TRAVEL)
        return (TableName(self.schema, table), when.upper()) if at and table else (self, None)


@dataclass(eq=False)
class _Held:
    """A table that is open."""

    table: Table
    lock: threading.Lock = field(default_factory=threading.Lock)
    refresh_began: float = -1.0
    newest: Snapshot | None = None
    snapshots: OrderedDict[str, Snapshot] = field(default_factory=OrderedDict)


class OpenTables:
    """Tables of a warehouse, opened once and held.

    Threads may share it. What is held is bounded: tables and snapshots that were not asked for longest are let go.

    Args:
        warehouse: where the tables are.
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
        self._held: OrderedDict[TableName, _Held] = OrderedDict()
        self._listing_lock = threading.Lock()
        self._listed: dict[TableName, list[TableEntry]] = {}
        self._listed_at = -1.0

    def __len__(self) -> int:
        return len(self._held)

    def names(self) -> list[TableName]:
        """Names of the tables whose properties can be read; the list may be some seconds old.

        Raises:
            HudiError: the warehouse cannot be listed.
        """
        listed = self._listing(self._options.listing_seconds)
        return sorted(name for name, entries in listed.items() if any(entry.config for entry in entries))

    def newest(self, name: str | TableName) -> tuple[Table, Snapshot]:
        """A table, and its state now: with every commit that was complete when this was called.

        A name with a time gives the state of that time.

        Raises:
            TableNotFoundError: there is no such table, or more than one.
            HudiError: the table cannot be read.
        """
        base, when = _name(name).parts()
        if when is not None and not self._is_table(_name(name)):
            held = self._hold(base)
            return held.table, self._past(held, base, when)
        return self._newest(_name(name))

    def at(self, name: str | TableName, pin: str) -> Snapshot:
        """The state that a running query sees.

        Args:
            name: of the table.
            pin: what `pin` gave for the state, or an instant.

        Raises:
            SplitError: that state is gone.
            HudiError: the table cannot be read.
        """
        base, when = _name(name).parts()
        held = self._hold(_name(name) if when is None or self._is_table(_name(name)) else base)
        with held.lock:
            known = self._known(held, pin)
        if known is not None:
            return known
        instant, exactly, _ = pin.partition("-")
        snapshot = self._past(held, base, instant)
        if exactly and self.pin(snapshot) != pin:
            raise SplitError(f"{base}: its state of {instant} has changed since the query began; run the query again")
        return snapshot

    @staticmethod
    def pin(snapshot: Snapshot) -> str:
        """A text by which `at` finds the very same state again.

        An instant alone does not tell it: a write that began before it may complete after it.
        """
        return _pin(snapshot.timeline, snapshot.instant or "")

    def _newest(self, name: TableName) -> tuple[Table, Snapshot]:
        arrived = time.monotonic()
        held = self._hold(name)
        with held.lock:
            fresh_since = arrived - self._options.refresh_interval / 1000
            if held.newest is None or held.refresh_began < fresh_since:
                began = time.monotonic()
                try:
                    held.newest = held.table.refresh().snapshot()
                except (TableNotFoundError, StorageError):
                    self._let_go(name, held)
                    raise
                held.refresh_began = began
                self._remember(held, held.newest)
            return held.table, held.newest

    def _past(self, held: _Held, name: TableName, when: str) -> Snapshot:
        """The state of a time."""
        with held.lock:
            try:
                newest = held.table.refresh().snapshot()
                instant = instant_as_of(when, newest.timeline, newest.config.timeline_timezone)
                last = newest.timeline.last_completed_write(instant)
                known = self._known(held, _pin(newest.timeline, last.time if last else ""))
                return known or self._remember(held, held.table.snapshot(as_of=when))
            except OptionError as error:
                raise SplitError(f"{name}: {error}") from error

    def _known(self, held: _Held, pin: str) -> Snapshot | None:
        snapshot = held.snapshots.get(pin)
        if snapshot is not None:
            held.snapshots.move_to_end(pin)
        return snapshot

    def _remember(self, held: _Held, snapshot: Snapshot) -> Snapshot:
        pin = self.pin(snapshot)
        held.snapshots[pin] = snapshot
        held.snapshots.move_to_end(pin)
        while len(held.snapshots) > self._options.snapshots:
            held.snapshots.popitem(last=False)
        return snapshot

    def _hold(self, name: TableName) -> _Held:
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

    def _let_go(self, name: TableName, held: _Held) -> None:
        with self._lock:
            if self._held.get(name) is held:
                del self._held[name]
        self._listed_at = -1.0

    def _is_table(self, name: TableName) -> bool:
        with self._lock:
            if name in self._held:
                return True
        return name in self._listing(self._options.listing_seconds)

    def _entry(self, name: TableName) -> TableEntry:
        entries = self._listing(self._options.listing_seconds).get(name)
        if not entries:
            entries = self._listing(_LEAST_LISTING_SECONDS).get(name, [])
        if not entries:
            raise TableNotFoundError(f"{self.warehouse.storage.uri}: there is no table {name}")
        if len(entries) > 1:
            paths = ", ".join(entry.path for entry in entries)
            raise TableNotFoundError(f"{self.warehouse.storage.uri}: {paths} are all called {name}")
        return entries[0]

    def _listing(self, seconds: float) -> dict[TableName, list[TableEntry]]:
        """The tables by name, as they were not longer ago than some seconds."""
        with self._listing_lock:
            if self._listed_at < 0 or time.monotonic() - self._listed_at > seconds:
                began = time.monotonic()
                listed: dict[TableName, list[TableEntry]] = {}
                for entry in self.warehouse.tables():
                    listed.setdefault(TableName.of(entry.name), []).append(entry)
                self._listed, self._listed_at = listed, began
            return self._listed


def _name(name: str | TableName) -> TableName:
    return name if isinstance(name, TableName) else TableName.of(name)


def _pin(timeline: Timeline, instant: str) -> str:
    writes = [(write.time, write.action) for write in timeline.writes if write.time <= instant]
    digest = hashlib.sha256(repr(writes[-_WRITES_IN_PIN:]).encode()).hexdigest()
    return f"{instant}-{digest[:16]}"
