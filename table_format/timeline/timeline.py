"""The active timeline of a table: its instants and the content of completed ones."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from table_format.actions.commit import CommitMetadata, read_extra_metadata
from table_format.actions.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from table_format.actions.rollback import RollbackMetadata
from table_format.errors import CorruptFileError, MissingFileError, UnsupportedTableError
from table_format.instant import (
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    format_instant_time,
    parse_instant_file_name,
)
from table_format.storage import Storage
from table_format.timeline.archive import Archive

FOLDER = ".hoodie"


@dataclass(frozen=True, slots=True)
class Undoing:
    """A pending restore or rollback of this project's that takes completed writes back; see `timeline.undoing`.

    Attributes:
        instant: the restore's or rollback's.
        times: of the writes.
    """

    instant: Instant
    times: frozenset[str]


@dataclass(frozen=True, eq=False)
class InstantContents:
    """What was read of completed instants, which do not change, except for empty files, which may be filled later.

    Attributes:
        extra_metadata: of writes.
        replaced: file groups, as partition and file id, that replacecommits replaced.
        rolled_back: times and actions of what rollbacks have undone.
        empty: writes whose files had no content.
    """

    extra_metadata: dict[Instant, dict[str, str]] = field(default_factory=dict)
    replaced: dict[Instant, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    rolled_back: dict[Instant, list[tuple[str, str]]] = field(default_factory=dict)
    empty: set[Instant] = field(default_factory=set)

    def update(self, older: InstantContents, instants: Collection[Instant]) -> None:
        """Take over what was read of some instants."""
        there = frozenset(instants)
        self.extra_metadata.update({i: extra for i, extra in older.extra_metadata.items() if i in there})
        self.replaced.update({i: groups for i, groups in older.replaced.items() if i in there})
        self.rolled_back.update({i: undone for i, undone in older.rolled_back.items() if i in there})
        self.empty.update(older.empty & there)


@dataclass(frozen=True, eq=False)
class Timeline:
    """A table's timeline as of loading.

    Attributes:
        storage: rooted at the table's base folder.
        instants: the highest state of each instant, by time, action and state.
        folder: folder of the timeline's files.
        layout: 1 up to table version 7; 2, with completion times, from version 8 on.
        file_changes: in layout 2, modification times of completed instants whose name has no completion time.
        history_folder: folder of archived instants.
        undoing: restores and rollbacks under way, whose writes are not among the instants.
    """

    storage: Storage
    instants: tuple[Instant, ...]
    folder: str = FOLDER
    layout: int = 1
    file_changes: Mapping[str, str] = field(default_factory=dict)
    history_folder: str = ""
    undoing: tuple[Undoing, ...] = ()
    _seen_in_archive: set[str] = field(default_factory=set, repr=False)
    _read: InstantContents = field(default_factory=InstantContents, repr=False)

    @functools.cached_property
    def completed(self) -> tuple[Instant, ...]:
        """Instants that completed, oldest first."""
        return tuple(i for i in self.instants if i.state is State.COMPLETED)

    @functools.cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Requested and inflight instants, oldest first."""
        return tuple(i for i in self.instants if i.state is not State.COMPLETED)

    @functools.cached_property
    def writes(self) -> tuple[Instant, ...]:
        """Completed commits, deltacommits and replacecommits, oldest first."""
        return tuple(i for i in self.completed if i.action in WRITE_ACTIONS)

    @functools.cached_property
    def pending_compactions(self) -> tuple[Instant, ...]:
        """Requested and inflight compactions, oldest first."""
        return tuple(i for i in self.pending if i.action == Action.COMPACTION)

    @functools.cached_property
    def _completion_times(self) -> dict[str, str]:
        times = {i.time: i.completion_time or self.file_changes.get(i.time) for i in self.writes}
        return {time: completion for time, completion in times.items() if completion}

    def completion_time(self, time: str) -> str | None:
        """Completion time of a write (layout 2); None for pending, archived and unknown ones."""
        return self._completion_times.get(time)

    def with_cache_of(self, older: Timeline) -> Timeline:
        """This timeline with what another one of the table has read of completed instants, which do not change."""
        self._read.update(older._read, self.completed)
        return self

    @property
    def empty_writes(self) -> frozenset[Instant]:
        """Completed writes whose files were read and had no content; another tool may have been about to fill them."""
        return frozenset(self._read.empty)

    def with_instant(self, instant: Instant) -> Timeline:
        """This timeline after an instant has reached a state, if nothing else has happened."""
        return replace(self, instants=highest_states((*self.instants, instant)))

    @property
    def first_instant(self) -> Instant | None:
        """The oldest instant of the active timeline, pending or completed."""
        return self.instants[0] if self.instants else None

    @property
    def last_instant_time(self) -> str | None:
        """The greatest instant time, pending ones included."""
        return self.instants[-1].time if self.instants else None

    def last_completed_write(self, as_of: str | None = None) -> Instant | None:
        """The newest completed write, at or before `as_of` if given."""
        return next((i for i in reversed(self.writes) if as_of is None or i.time <= as_of), None)

    @functools.cached_property
    def _write_times(self) -> frozenset[str]:
        return frozenset(i.time for i in self.writes)

    @functools.cached_property
    def start(self) -> str | None:
        """Oldest write of the timeline that is not kept by a savepoint; instants before it are known to be archived.

        Savepoints keep their writes from being archived, while later writes may be archived: those are not a start.
        """
        times = [i.time for i in self.instants if i.comparable_action in WRITE_ACTIONS]
        return next((time for time in times if time not in self._saved), times[0] if times else None)

    @functools.cached_property
    def _saved(self) -> frozenset[str]:
        return frozenset(i.time for i in self.completed if i.action == Action.SAVEPOINT)

    def is_saved(self, instant: Instant) -> bool:
        """Whether a savepoint keeps a write from being archived."""
        return instant.time in self._saved

    def is_committed(self, time: str) -> bool:
        """Whether files of this instant are valid: it completed, or it is older than the active timeline.

        Instants older than the timeline's first write were archived, as only completed ones are; those named by a
        rollback are the exception. If a savepoint kept older instants from being archived and was deleted
        later, archived instants lie between active ones.

        Raises:
            CorruptFileError: the archive is needed and damaged.
        """
        if time in self._write_times:
            return True
        if self.start is None or self.is_undone(time):
            return False
        if time < self.start:
            return True
        between = time not in self._pending_times and bool(self.writes) and time < self.writes[-1].time
        return between and self._is_archived(time)

    @functools.cached_property
    def _pending_times(self) -> frozenset[str]:
        return frozenset(i.time for i in self.pending)

    def _is_archived(self, time: str) -> bool:
        archived = time in self.archive.writes
        if archived:
            self._seen_in_archive.add(time)
        return archived

    @functools.cached_property
    def archive(self) -> Archive:
        """The archived timeline; read on first use."""
        return Archive(self.storage, self.history_folder, self.layout)

    @property
    def has_gaps(self) -> bool:
        """Whether instants newer than active ones may have been archived.

        They may (`hoodie.archive.beyond.savepoint`) if there are savepoints; if a savepoint was deleted since,
        `is_committed` notices by a file of such an instant.
        """
        return bool(self._saved or self._seen_in_archive)

    @property
    def first_unbroken(self) -> str | None:
        """Oldest completed write after which no write was archived; None if there is none.

        Raises:
            CorruptFileError: the archive is needed and damaged.
        """
        if self._seen_in_archive:
            newest = max(self.archive.writes)
            return next((write.time for write in self.writes if write.time > newest), None)
        return next((write.time for write in self.writes if write.time not in self._saved), None)

    @functools.cached_property
    def replaced(self) -> tuple[tuple[str, str, str], ...]:
        """File groups replaced by active replacecommits: partition, file id and instant."""
        groups_gone: list[tuple[str, str, str]] = []
        for instant in self.writes:
            if instant.action == Action.REPLACECOMMIT:
                groups = self._read.replaced.get(instant)
                if groups is None:
                    by_partition = self.commit_metadata(instant).partition_to_replace_file_ids or {}
                    groups = tuple((partition, file_id) for partition, ids in by_partition.items() for file_id in ids)
                    self._read.replaced[instant] = groups
                groups_gone += [(*group, instant.time) for group in groups]
        return tuple(groups_gone)

    @functools.cached_property
    def rolled_back(self) -> frozenset[str]:
        """Times of instants undone by rollbacks and restores; their files may still exist.

        Raises:
            CorruptFileError: a rollback's or restore's file is damaged.
        """
        return self._restored_times.union(time for time, _ in self._rollbacks)

    def rolled_back_by(self, instant: Instant) -> list[tuple[str, str]]:
        """Times and actions of what a completed rollback has undone.

        Raises:
            CorruptFileError: its file is damaged.
        """
        undone = self._read.rolled_back.get(instant)
        if undone is None:
            data = self.read(instant)
            if not data:
                return []  # as Hudi reads an empty file
            undone = self._read.rolled_back[instant] = RollbackMetadata.from_avro(data, self.path(instant)).instants
        return undone

    @functools.cached_property
    def _rollbacks(self) -> frozenset[tuple[str, str]]:
        """Times and actions of what rollbacks have undone."""
        return frozenset(
            undone for one in self.completed if one.action == Action.ROLLBACK for undone in self.rolled_back_by(one)
        )

    @functools.cached_property
    def _restored_times(self) -> frozenset[str]:
        """Times of what restores have undone, and what is being undone."""
        times = {time for undoing in self.undoing for time in undoing.times}
        return frozenset(times.union(*(self.undone_by(one) for one in self.completed if one.action == Action.RESTORE)))

    def undone_by(self, instant: Instant) -> list[str]:
        """Times of what a completed instant has undone: nothing, unless it is a rollback or a restore.

        Raises:
            CorruptFileError: its file is damaged.
        """
        if instant.action == Action.ROLLBACK:
            return [time for time, _ in self.rolled_back_by(instant)]
        data = self.read(instant) if instant.action == Action.RESTORE else b""
        return RestoreMetadata.from_avro(data, self.path(instant)).commits if data else []

    @functools.cached_property
    def archived_replaced(self) -> tuple[tuple[str, str, str], ...]:
        """File groups replaced by archived replacecommits, as `replaced`.

        Raises:
            CorruptFileError: the archive is damaged.
        """
        return tuple(
            (partition, file_id, time)
            for time, replaced in self.archive.replaced.items()
            for partition, file_id in replaced
            if time not in self._write_times and not self.is_undone(time)
        )

    def is_undone(self, time: str) -> bool:
        """Whether a rollback or a restore has undone a write.

        What compacts or clusters keeps its plan when a run of it is rolled back, and another run completes it at the
        same time. Such a write may be archived before the rollback is.

        Raises:
            CorruptFileError: a rollback's or restore's file, or the archive that is needed, is damaged.
        """
        if time in self._restored_times or any(begin < time < end for begin, end in self._restored):
            return True
        actions = {action for undone, action in self._rollbacks if undone == time}
        if not actions:
            return False
        may_be_done = time not in self._pending_times and actions != {Action.DELTACOMMIT}
        return not (time in self._write_times or (may_be_done and time in self.archive.writes))

    @functools.cached_property
    def _restored(self) -> tuple[tuple[str, str], ...]:
        """Savepoint and time of each completed restore; all writes between them are undone, archived ones included.

        Raises:
            CorruptFileError: a restore's plan is damaged.
        """
        pairs = []
        for instant in self.completed:
            if instant.action == Action.RESTORE:
                requested = instant.at(State.REQUESTED)
                with contextlib.suppress(MissingFileError):  # old releases wrote none
                    data = self.read(requested)
                    savepoint = RestorePlan.from_avro(data, self.path(requested)).savepoint if data else None
                    pairs += [(savepoint, instant.time)] if savepoint else []
        return tuple(pairs)

    def savepoint_metadata(self, instant: Instant) -> SavepointMetadata:
        """Files of a completed savepoint; table services may not delete them.

        Raises:
            CorruptFileError: the file is damaged.
        """
        return SavepointMetadata.from_avro(self.read(instant), self.path(instant))

    def find(self, time: str, action: str | None = None) -> Instant | None:
        """The instant of that time (and action)."""
        return next((i for i in self.instants if i.time == time and action in (None, i.comparable_action)), None)

    def path(self, instant: Instant) -> str:
        """The instant's file, relative to the base folder."""
        return f"{self.folder}/{instant.file_name}"

    def read(self, instant: Instant) -> bytes:
        """The content of the instant's file, or what the archive keeps of it if it was archived meanwhile.

        Raises:
            MissingFileError: the instant was rolled back meanwhile.
        """
        path = self.path(instant)
        try:
            return self.storage.read(path)
        except MissingFileError:
            archive = Archive(self.storage, self.history_folder, self.layout)  # as it is now
            with contextlib.suppress(CorruptFileError):  # what is missing is said all the same
                content = archive.content(instant)
                if content is not None:
                    return content
            raise

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Commit metadata of a completed commit, deltacommit or replacecommit.

        Raises:
            CorruptFileError: the file is not commit metadata.
        """
        data = self.read(instant)
        if instant.action == Action.REPLACECOMMIT and not data:
            # of any other write, the files are found by listing
            raise CorruptFileError(self.path(instant), 0, "an empty replacecommit file; restore it")
        metadata = CommitMetadata.parse(data, self.path(instant))
        self._remember(instant, data, metadata.extra_metadata)
        return metadata

    def extra_metadata(self, instant: Instant) -> dict[str, str]:
        """Extra metadata of a completed write, such as the table's `schema`; faster than `commit_metadata`.

        Read once, as completed instants do not change, except for an empty file, which may be filled later.

        Raises:
            CorruptFileError: the file is not commit metadata.
        """
        extra = self._read.extra_metadata.get(instant)
        if extra is None:
            data = self.read(instant)
            extra = read_extra_metadata(data, self.path(instant))
            self._remember(instant, data, extra)
        return extra

    def _remember(self, instant: Instant, data: bytes, extra: dict[str, str]) -> None:
        if data:
            self._read.extra_metadata.setdefault(instant, extra)
            self._read.empty.discard(instant)
        else:
            self._read.empty.add(instant)


def load_timeline(
    storage: Storage, folder: str = FOLDER, layout: int = 1, timezone: str = "LOCAL", history_folder: str | None = None
) -> Timeline:
    """Load a table's active timeline; other files in its folder are ignored.

    Args:
        storage: rooted at the table's base folder.
        folder: of the active timeline: `.hoodie` in layout 1, usually `.hoodie/timeline` in layout 2.
        layout: of the timeline.
        timezone: of instant times, `UTC` or `LOCAL`.
        history_folder: folder of archived instants; None for the usual place.

    Raises:
        UnsupportedTableError: names with completion times in a timeline of layout 1.
    """
    history = history_folder or f"{folder}/{'archived' if layout == 1 else 'history'}"
    entries = {entry.name: entry for entry in storage.list(folder) if not entry.is_dir}
    instants = {name: parse_instant_file_name(name) for name in entries}
    for name, instant in instants.items():
        if layout == 1 and instant and instant.completion_time:
            raise UnsupportedTableError(
                f"{folder}/{name}: an instant with a completion time, but hoodie.timeline.layout.version is 1; "
                "restore hoodie.properties"
            )
    # An upgrade leaves completed instants of layout 1; their completion time is the file's modification time.
    changed = {
        instant.time: format_instant_time(_moment(entries[name].mtime_ms, timezone))
        for name, instant in instants.items()
        if layout > 1 and instant and instant.state is State.COMPLETED and not instant.completion_time
    }
    upgraded = _upgraded_before(instants.values(), max(changed)) if changed else None
    if upgraded is not None:
        # files that were copied may have the time of copying: then instants count, as they did in layout 1
        changed = {time: change if change < upgraded else time for time, change in changed.items()}
    return Timeline(storage, highest_states(instants.values()), folder, layout, changed, history)


def _upgraded_before(instants: Iterable[Instant | None], newest: str) -> str | None:
    """A time at which a table had layout 2, by instants that completed in it; None if there are none.

    Args:
        instants: of the timeline.
        newest: the newest instant that completed in layout 1; what began later began after the upgrade.
    """
    times = (i.time if i.time > newest else i.completion_time for i in instants if i and i.completion_time)
    return min((time for time in times if time), default=None)


def _moment(epoch_ms: int, timezone: str) -> dt.datetime:
    return dt.datetime.fromtimestamp(epoch_ms / 1000, dt.UTC).astimezone(dt.UTC if timezone == "UTC" else None)


def highest_states(instants: Iterable[Instant | None]) -> tuple[Instant, ...]:
    """One instant for each time and action, in the highest state seen, sorted."""
    best: dict[tuple[str, str], Instant] = {}
    for instant in instants:
        if instant is None:
            continue
        key = (instant.time, instant.comparable_action)
        if key not in best or best[key].state < instant.state:
            best[key] = instant
    return tuple(sorted(best.values()))
