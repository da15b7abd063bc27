"""Archiving: the oldest finished instants move from the active timeline to the archive.

The archive has them before their files are deleted, and the files of completed states go last, the oldest first: at
any moment what is left is a timeline without its beginning. A run that was interrupted is finished by the next one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from table_format.config.table_config import parse_table_config
from table_format.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant_file_name
from table_format.metadata_table import layout
from table_format.storage import FileEntry, Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import FOLDER, Timeline
from table_writer.archive.entries import encode_entry
from table_writer.archive.files import join_small_files, newest_states, write_archive_file
from table_writer.archive.limits import data_instants, metadata_instants
from table_writer.services.clean_plan import note_cleaned
from table_writer.services.undo import refuse_foreign_undo
from table_writer.timeline.instants import table_lock
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import ArchiveOptions, ProtocolOptions

_Files: TypeAlias = Sequence[tuple[Instant, FileEntry]]
_PROPERTIES: Final = f"{layout.TIMELINE_FOLDER}/hoodie.properties"


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What an archiving run moved, or would move.

    Attributes:
        instants: times of the table's instants, oldest first.
        metadata_instants: number of instants of the metadata table's own timeline.
        files: timeline files that went from both.
    """

    instants: tuple[str, ...] = ()
    metadata_instants: int = 0
    files: int = 0


def archive(client: TableClient, options: Mapping[str, str] | None = None, *, dry_run: bool = False) -> ArchiveReport:
    """Archive the oldest finished instants of a table and of its metadata table.

    Nothing happens up to `hoodie.keep.max.commits` completed writes; beyond, `hoodie.keep.min.commits` of them stay,
    and whatever pending instants, savepoints, cleaning or the metadata table still need.

    Args:
        client: the table.
        options: of the protocol; those of archiving, cleaning and the lock count.
        dry_run: report what would be archived, and change nothing.

    Raises:
        OptionError: an invalid option.
        LockError: the table lock could not be taken, or another writer broke it before anything was deleted.
        TransactionError: a restore of another tool is under way.
    """
    protocol = ProtocolOptions.parse(options or {})
    with table_lock(client, protocol) as lock:
        return archive_locked(client, client.timeline(), protocol, lock, dry_run=dry_run, finish=not dry_run)


def archive_locked(
    client: TableClient,
    timeline: Timeline,
    options: ProtocolOptions,
    lock: FileSystemLock | None,
    *,
    dry_run: bool = False,
    finish: bool = False,
) -> ArchiveReport:
    """`archive` for a caller that holds the table's lock.

    Args:
        client: the table.
        timeline: of the table, as it is under the lock.
        options: see `ProtocolOptions`.
        lock: the table's; None for a dry run without it.
        dry_run: report what would be archived, and change nothing.
        finish: finish an interrupted run even where no more instants are due.
    """

    def check() -> None:
        if lock is not None:
            lock.check()

    if not dry_run:
        refuse_foreign_undo(timeline)
    chosen = data_instants(client, timeline, options)
    if not chosen and not finish:
        return ArchiveReport()
    storage, zone = client.storage, client.config.timeline_timezone
    times = tuple(instant.time for instant in chosen)
    if chosen and not dry_run:
        check()
        first = next(write.time for write in timeline.writes if write.time > times[-1])
        note_cleaned(client, timeline, options.clean, first)
    data = _ArchivedTimeline(storage, FOLDER, client.config.history_folder, zone)
    files = data.archive(chosen, options.archive, check, dry_run=dry_run)
    if not client.config.metadata_partitions:
        return ArchiveReport(times, 0, files)
    if dry_run:
        rest = tuple(instant for instant in timeline.instants if instant not in set(chosen))
        then = dataclasses.replace(timeline, instants=rest)
    else:
        then = client.timeline(timeline)
    theirs = metadata_instants(client, then, options.archive)
    metadata = _ArchivedTimeline(storage, layout.TIMELINE_FOLDER, _metadata_history(storage), zone)
    files += metadata.archive(theirs, options.archive, check, dry_run=dry_run)
    return ArchiveReport(times, len(theirs), files)


def finish_archiving(client: TableClient) -> bool:
    """Finish a run that was interrupted before writes are taken back; the caller holds the table's lock.

    What is archived stays a write of the table: once it left the timeline by a rollback, its entry would count again.

    Returns:
        Whether instants left the timeline.
    """
    config = client.config
    return bool(_ArchivedTimeline(client.storage, FOLDER, config.history_folder, config.timeline_timezone).finish())


@dataclass(frozen=True, slots=True)
class _ArchivedTimeline:
    """A timeline of layout 1 and its archive.

    Attributes:
        storage: of the table.
        folder: of the active timeline.
        history: folder of the archive.
        timezone: of the timeline.
    """

    storage: Storage
    folder: str
    history: str
    timezone: str

    def archive(
        self, instants: Sequence[Instant], options: ArchiveOptions, check: Callable[[], None], *, dry_run: bool
    ) -> int:
        """Move completed instants to the archive, and finish what an interrupted run left of others.

        Args:
            instants: what is moved.
            options: see `ArchiveOptions`.
            check: raises if the table's lock was lost.
            dry_run: only count.

        Returns:
            How many timeline files go.
        """
        timeline_files = self._files()
        done = self._done(timeline_files)
        over = {*map(_key, instants), *_dispensable(done, timeline_files, options.least)}
        files = [file for file in timeline_files if _key(file[0]) in over]
        if dry_run:
            return len(files)
        entries = [self._entry(*file) for file in files if _key(file[0]) not in done]
        if entries:
            write_archive_file(self.storage, self.history, entries)
        if files:
            check()
        self._delete(files)
        join_small_files(self.storage, self.history, options)
        return len(files)

    def finish(self) -> int:
        """Finish an interrupted run: what it archived leaves the timeline, but for the newest write.

        Returns:
            How many timeline files go.
        """
        timeline_files = self._files()
        over = _dispensable(self._done(timeline_files), timeline_files, 1)
        files = [file for file in timeline_files if _key(file[0]) in over]
        self._delete(files)
        return len(files)

    def _done(self, files: _Files) -> set[tuple[str, str]]:
        """Time and action of what an interrupted run has archived, and not yet deleted from the timeline."""
        archived = newest_states(self.storage, self.history, {_key(instant) for instant, _ in files})
        return {(time, action) for time, action, state in archived if state == State.COMPLETED.name}

    def _files(self) -> _Files:
        """All states of the timeline's instants, in order."""
        parsed = [(parse_instant_file_name(entry.name), entry) for entry in self.storage.list(self.folder)]
        known = [(instant, entry) for instant, entry in parsed if instant is not None and not entry.is_dir]
        return sorted(known, key=lambda file: (file[0].time, file[0].state))

    def _entry(self, instant: Instant, entry: FileEntry) -> bytes:
        return encode_entry(instant, self.storage.read(entry.path), entry.mtime_ms, self.timezone, entry.path)

    def _delete(self, files: _Files) -> None:
        """Delete files of earlier states, then those of completed ones by time.

        A completed file that went first would leave its instant pending; one that went before an older one would leave
        a hole in the timeline.
        """
        self.storage.delete_all([entry.path for instant, entry in files if instant.state is not State.COMPLETED])
        for instant, entry in files:
            if instant.state is State.COMPLETED:
                self.storage.delete(entry.path)


def _dispensable(archived: set[tuple[str, str]], files: _Files, least: int) -> set[tuple[str, str]]:
    """What may leave the timeline of the instants that an interrupted run has archived.

    Since that run, a restore may have taken back all later writes, or a savepoint may keep one of these.

    Args:
        archived: time and action of these instants.
        files: of the timeline.
        least: number of writes that stay.
    """
    completed = [instant for instant, _ in files if instant.state is State.COMPLETED]
    writes = [instant.time for instant in completed if instant.comparable_action in WRITE_ACTIONS]
    saved = [instant.time for instant in completed if instant.action == Action.SAVEPOINT]
    first = min([writes[-least], *saved]) if len(writes) >= least else ""
    return {(time, action) for time, action in archived if time < first}


def _key(instant: Instant) -> tuple[str, str]:
    return instant.time, instant.comparable_action


def _metadata_history(storage: Storage) -> str:
    """Folder of the metadata table's archive."""
    config = parse_table_config(storage.read(_PROPERTIES), _PROPERTIES)
    return f"{layout.FOLDER}/{config.history_folder}"
