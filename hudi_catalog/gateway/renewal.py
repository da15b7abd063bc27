"""Entries of Hudi tables follow their tables in the background, before cleaning deletes the files that they list.

A query through the gateway finds its entries at the newest snapshot. Whoever reads an entry past it, straight from
Trino or by a view in another catalog, finds what the entry listed last. The renewal looks at each table's timeline,
which is one listing, and moves the entry when there is a new commit.

A move writes the list of all files. So that a large table with many commits does not write more lists than data, the
next one waits by the list's size and the time it took, unless cleaning gets near: it is pending, or half of the
commits whose files the last one retained have been completed since the entry's own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from catalog.concurrency.workers import each
from hudi_catalog.gateway.options import RenewalOptions
from hudi_catalog.metastore import entries
from hudi_catalog.metastore.trino_tables import SNAPSHOTS, SyncedTable, TrinoTables
from table_format.actions.table_services import CleanMetadata
from table_format.errors import HudiError
from table_format.instant import Action, Instant, State
from table_format.timeline.timeline import Timeline

_LOG = logging.getLogger(__name__)
_Key = tuple[str, str]
Event = Callable[[str, str, str], None]
"""Called with what happened, the entry and details."""

# A table's entry is moved for at most a tenth of the time, and writes so many bytes of lists a second.
_PAUSE_FOR_WORK: Final = 9.0
_BYTES_A_SECOND: Final = 20_000
_BYTES_A_PATH: Final = 150
# Commits that Apache Hudi's cleaning retains unless told otherwise.
_RETAINED: Final = 10
_DISCOVER_SECONDS: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 3600.0
_MOST_LOOK_UPS: Final = 1_000
# Look-ups of one discovery end after this time, since entries are not renewed meanwhile.
_LOOK_UP_SECONDS: Final = 10.0
# When a name is looked up again that the metastore could not read.
_UNREAD_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 2.0
_MOVED: Final = "moved"
_UNCHANGED: Final = "unchanged"
_WAITS: Final = "waits"


@dataclass
class _State:
    """What is known of an entry.

    Attributes:
        instants: of the timeline when the entry was moved last.
        location: of the entry since then, unless another process changes it.
        not_before: when it may be moved again, in seconds of `time.monotonic`.
        retry_at: when it is looked at again after an error.
        clean: the last completed clean looked at, and how many commits it retained.
        problem: the last error, which is reported once.
    """

    instants: tuple[Instant, ...] | None = None
    location: str = ""
    not_before: float = 0.0
    retry_at: float = 0.0
    clean: tuple[Instant | None, int] = (None, _RETAINED)
    problem: str = ""


@dataclass
class RenewalCounts:
    """What was done since the start; read by the metrics.

    Attributes:
        entries: known entries.
        moved: how often an entry was moved.
        failed: how often that failed, or the metastore did not say what entries there are.
        behind: entries that listed an older snapshot at the last look, and were to wait.
    """

    entries: int = 0
    moved: int = 0
    failed: int = 0
    behind: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, *, moved: int = 0, failed: int = 0) -> None:
        """Count; threads may call it."""
        with self._lock:
            self.moved += moved
            self.failed += failed


class EntryRenewal:
    """Moves entries to their tables' newest snapshots.

    Args:
        tables: the synced tables.
        options: how often, and by how many threads.
        event: receives errors; None for the log of the process only.

    Attributes:
        counts: what was done.
    """

    def __init__(self, tables: TrinoTables, options: RenewalOptions | None = None, event: Event | None = None) -> None:
        self.counts = RenewalCounts()
        self._tables = tables
        self._options = options or RenewalOptions()
        self._event = event
        self._states: dict[_Key, _State] = {}
        self._looked_up: dict[_Key, float] = {}
        self._unread: dict[str, str] = {}
        self._discovered = float("-inf")
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread of its own; without effect if the interval is 0."""
        if self._options.seconds > 0:
            self._thread = threading.Thread(target=self._run, name="entry renewal", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the entry in hand; waits for it a moment."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._options.seconds):
            try:
                self.round()
            except Exception:  # noqa: BLE001  # the next round may succeed
                _LOG.exception("entries were not renewed")

    def round(self) -> int:
        """Look at all entries once; returns how many were moved."""
        known = list(self._states)
        outcomes = self._renew(known)
        now = time.monotonic()
        if now - self._discovered >= _DISCOVER_SECONDS:
            self._discover(now)
            self._discovered = time.monotonic()
            before = set(known)
            outcomes += self._renew([key for key in self._states if key not in before])
        self.counts.entries = len(self._states)
        self.counts.behind = sum(outcome == _WAITS for outcome in outcomes)
        moved = sum(outcome == _MOVED for outcome in outcomes)
        self.counts.add(moved=moved)
        return moved

    def _renew(self, keys: Sequence[_Key]) -> list[str | Exception]:
        """Move the entries that are due; what became of each."""
        outcomes = list(each(keys, self._renewed, self._options.threads, "entry renewal"))
        for key, outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._failed(key, outcome)
        return outcomes

    def _discover(self, now: float) -> None:
        """Find entries that the metastore has got since, in bounded steps: each name costs a call once an hour."""
        names = self._names()
        present = set(names)
        for known in (self._states, self._looked_up):
            for key in [key for key in known if key not in present]:
                del known[key]
        old = now - _LOOK_AGAIN_SECONDS
        fresh = [key for key in names if key not in self._states and self._looked_up.get(key, old) <= old]
        fresh.sort(key=lambda key: self._looked_up.get(key, float("-inf")))  # stable: unread ones come last
        for key in fresh[:_MOST_LOOK_UPS]:
            if self._stopped.is_set() or time.monotonic() - now > _LOOK_UP_SECONDS:
                break
            name = ".".join(key)
            try:
                entry = self._tables.metastore.table(*key)
            except HudiError as error:
                self._looked_up[key] = old + _UNREAD_SECONDS
                self._not_read(name, error)
                continue
            self._unread.pop(name, None)
            self._looked_up[key] = now
            if entry is not None and entries.is_ours(entry):
                self._states[key] = _State()

    def _names(self) -> list[_Key]:
        """All names in the metastore; of a schema that it cannot list, those that are known."""
        metastore, names = self._tables.metastore, list[_Key]()
        known = {*self._states, *self._looked_up}
        try:
            schemas = metastore.schemas()
        except HudiError as error:
            self._not_read("", error)
            return list(known)
        self._unread.pop("", None)
        for schema in schemas:
            if schema.endswith(SNAPSHOTS):
                continue
            try:
                names += [(schema, name) for name in metastore.tables(schema)]
            except HudiError as error:
                self._not_read(schema, error)
                names += [key for key in known if key[0] == schema]
            else:
                self._unread.pop(schema, None)
        return names

    def _not_read(self, name: str, error: HudiError) -> None:
        """Report, once for each text, what the metastore could not read."""
        self.counts.add(failed=1)
        text = str(error)
        if self._unread.get(name) == text:
            return
        self._unread[name] = text
        if self._event is not None:
            self._event("not renewed", name, text)

    def _renewed(self, key: _Key) -> str:
        """Move an entry if that is due."""
        state = self._states[key]
        synced = None if time.monotonic() < state.retry_at else self._tables.find(*key)
        if synced is None:
            return _UNCHANGED
        with self._tables.watched(synced):
            timeline = synced.table.client.timeline()
        if timeline.instants == state.instants and synced.entry.location == state.location:
            return _UNCHANGED
        began = time.monotonic()
        if began < state.not_before and not self._is_cleaning_near(synced, timeline, state):
            return _WAITS
        snapshot = self._tables.newest(synced)
        before = synced.entry.location
        after = self._tables.point_at(synced, snapshot).location
        moved = after != before
        state.instants, state.location, state.problem = timeline.instants, after, ""
        if moved:
            ended = time.monotonic()
            pause = max(_PAUSE_FOR_WORK * (ended - began), len(snapshot) * _BYTES_A_PATH / _BYTES_A_SECOND)
            state.not_before = ended + pause
        return _MOVED if moved else _UNCHANGED

    def _is_cleaning_near(self, synced: SyncedTable, timeline: Timeline, state: _State) -> bool:
        if any(instant.action == Action.CLEAN for instant in timeline.pending):
            return True
        listed = synced.entry.parameters.get(entries.INSTANT, "")
        newer = sum(write.time > listed for write in timeline.writes)
        return 2 * newer >= self._retained(timeline, state)

    def _retained(self, timeline: Timeline, state: _State) -> int:
        """How many commits the table's cleaning retains, by what the last one did."""
        cleans = (one for one in timeline.instants if one.action == Action.CLEAN and one.state is State.COMPLETED)
        last = max(cleans, key=lambda instant: instant.time, default=None)
        if last is not None and last != state.clean[0]:
            earliest = CleanMetadata.from_avro(timeline.read(last), timeline.path(last)).earliest_commit_to_retain
            # a policy by versions names no commit, and may delete what the commit before has replaced
            kept = sum(earliest <= write.time < last.time for write in timeline.writes) if earliest else 1
            state.clean = (last, kept)
        return state.clean[1]

    def _failed(self, key: _Key, error: Exception) -> None:
        self.counts.add(failed=1)
        state, text = self._states[key], str(error)
        state.retry_at = time.monotonic() + _RETRY_SECONDS
        if state.problem == text:
            return
        state.problem = text
        if not isinstance(error, HudiError):
            _LOG.warning("entry %s.%s was not renewed", *key, exc_info=error)
        if self._event is not None:
            self._event("not renewed", ".".join(key), text)
