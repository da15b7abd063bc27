"""File slices of the metadata table: its timeline, valid instants, and base file and log blocks of a file group.

The metadata table commits an instant before the data table does. An instant's records are therefore valid only if
the data table completed it too, or if it belongs to the metadata table's own services.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from table_format.config.properties import parse_properties
from table_format.config.table_config import TableConfig, parse_table_config
from table_format.errors import CorruptFileError, MissingFileError
from table_format.instant import WRITE_ACTIONS, Action
from table_format.log.blocks import LogBlock, read_log_blocks, surviving_blocks
from table_format.metadata_table import layout
from table_format.metadata_table.layout import BaseFile, FileGroup, LogFile
from table_format.slices.log_slices import is_cut, seems_cut
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.history import completion_times
from table_format.timeline.timeline import Timeline, load_timeline

_BOOTSTRAP_PREFIX = layout.EMPTY_TABLE_INSTANT
_PROPERTIES = f"{layout.TIMELINE_FOLDER}/hoodie.properties"


def open_metadata_timeline(client: TableClient) -> Timeline:
    """The metadata table's own timeline, in the layout of the data table's.

    Raises:
        MissingFileError: there is no metadata table (layout 2).
    """
    config = client.config
    if config.layout_version == 1:
        return load_timeline(client.storage, layout.TIMELINE_FOLDER)
    own = parse_table_config(client.storage.read(_PROPERTIES), _PROPERTIES)
    folder = f"{layout.FOLDER}/{own.timeline_folder}"
    return load_timeline(client.storage, folder, own.layout_version, timezone=config.timeline_timezone)


class ValidInstants:
    """Instants whose records in the metadata table are valid.

    Args:
        data: the data table's timeline, loaded before the other one.
        metadata: the metadata table's own timeline.
    """

    def __init__(self, data: Timeline, metadata: Timeline) -> None:
        self._layout = metadata.layout
        self._metadata = metadata
        undoing = {one.instant.time for one in data.undoing}
        self._data_done = {instant.time for instant in data.completed} | undoing
        self._data_pending = {instant.time for instant in data.pending if _is_write(instant.action)} - undoing
        self._data_first = _first(data)
        self._data_last = max((instant.completion_time or instant.time for instant in data.completed), default="")
        self._done = {instant.time: instant.completion_time or instant.time for instant in metadata.completed}
        self._pending = {instant.time for instant in metadata.pending} - self._done.keys()
        self._first = _first(metadata)
        services = (Action.ROLLBACK, Action.RESTORE)
        self._services = {instant.time for instant in metadata.completed if instant.action in services}
        self._rolled_back = data.rolled_back if self._layout == 1 else frozenset()

    def committed_in_metadata(self, time: str) -> bool:
        """Whether the metadata table itself completed an instant, archived ones included."""
        return time in self._done or self._is_archived(time)

    def __contains__(self, time: str) -> bool:
        """Whether blocks of an instant are valid, by Hudi's rules."""
        if not self.committed_in_metadata(time) or time in self._data_pending:
            return False
        if time in self._data_done or time < self._data_first or time.startswith(_BOOTSTRAP_PREFIX):
            return True
        if self._layout == 1:
            return time in self._rolled_back or time in self._services or layout.has_service_suffix(time)
        # The metadata table's own instants look like others. One that completed there after all that the data table
        # had completed may be a commit that began after the data table's timeline was loaded.
        return self._done.get(time, time) <= self._data_last

    def lost_since(self, older: ValidInstants, partition: str, names: Collection[str]) -> bool:
        """Whether files that commits of the metadata table wrote since an earlier state may be missing.

        Args:
            older: the earlier state.
            partition: of the metadata table.
            names: of the files that the partition has now.
        """
        newest = max(older._done, default=None)
        if newest is None or newest not in self._done:
            return True  # commits since then may be archived
        later = [one for one in self._metadata.completed if one.time not in older._done and one.action in WRITE_ACTIONS]
        written = (
            stat.file_name
            for instant in later
            for stat in self._metadata.commit_metadata(instant).partition_to_write_stats.get(partition, ())
        )
        return not set(written) <= set(names)

    def is_cut(self, path: str, size: int) -> bool:
        """Whether a log file of the metadata table is shorter than a completed instant left it."""
        return is_cut(path.removeprefix(f"{layout.FOLDER}/"), size, self._metadata)

    def latest_base_file(self, group: FileGroup) -> BaseFile | None:
        """Newest base file by a completed compaction (or the partition's creation)."""
        done = [base for base in group.base_files if self.committed_in_metadata(base.instant)]
        return done[-1] if done else None

    def latest_log_files(self, group: FileGroup, base: BaseFile | None) -> list[LogFile]:
        """Log files that apply over a base file.

        In layout 1 logs may already name a later compaction that has not completed; they apply over the same base
        file. In layout 2 those apply whose deltacommit completed after the compaction of the base file began.
        """
        if self._layout == 1:
            return [log for log in group.log_files if base is None or log.base_instant >= base.instant]
        return [log for log in group.log_files if self._applies(log.base_instant, base)]

    def _applies(self, time: str, base: BaseFile | None) -> bool:
        if not self.committed_in_metadata(time):
            return False
        if base is None or time >= base.instant:  # an instant completes after it began
            return True
        completion = self._done.get(time) or self._archived.get(time, time)
        return completion >= base.instant

    def _is_archived(self, time: str) -> bool:
        return time < self._first and time not in self._pending

    @functools.cached_property
    def _archived(self) -> dict[str, str]:
        """Completion times of the metadata table's archived instants (layout 2)."""
        folder = self._metadata.folder
        return completion_times(self._metadata.storage, f"{folder}/history", end=self._first)


def open_complete_timeline(client: TableClient, timeline: Timeline) -> Timeline | str:
    """The metadata table's timeline, or the reason why the metadata table may not be used: missing or incomplete."""
    try:
        metadata_timeline = open_metadata_timeline(client)
        missing = missing_instants(timeline, metadata_timeline)
    except MissingFileError as error:
        return str(error)
    if missing is None:
        return metadata_timeline
    try:
        return other_layout(client) or missing
    except MissingFileError:
        return missing


def other_layout(client: TableClient) -> str | None:
    """What tells that the metadata table's timeline has another layout than the table's; None if it does not.

    Apache 1.2.0's CREATE INDEX upgrades the metadata table of a table of version 6 alone, unless the session says
    `hoodie.write.table.version=6`.

    Raises:
        MissingFileError: there is no metadata table.
    """
    own = TableConfig(parse_properties(client.storage.read(_PROPERTIES), _PROPERTIES)).layout_version
    if own == client.config.layout_version:
        return None
    return f"its timeline has layout {own}, and the table's has {client.config.layout_version}"


def missing_instants(timeline: Timeline, metadata_timeline: Timeline) -> str | None:
    """Reason why a metadata table is not complete; None if it is.

    A writer completes an instant in the metadata table before it does in the data table. A commit of the data table
    that is missing in the metadata table was made by a writer that did not maintain it.
    """
    done = {instant.time for instant in metadata_timeline.completed}
    if not done:
        return "it has no completed instant"
    if timeline.layout != metadata_timeline.layout:
        return "its timeline has another layout than the table's; an upgrade was interrupted"
    first = min(instant.time for instant in metadata_timeline.instants)
    # The table's files are listed once, by the first build; later ones build other partitions. In layout 2 it has only
    # its completion time, not the state of the table that it was built from.
    built = (one.completion_time or "" for one in metadata_timeline.completed if layout.builds_partition(one.time))
    built_until = min(built, default="")
    for undoing in timeline.undoing:
        if undoing.instant.time not in done:
            return f"it does not have what the {undoing.instant} takes back"
    for instant in timeline.completed:
        if instant.action not in WRITE_ACTIONS or instant.time in done:
            continue
        if instant.time <= first:
            continue
        if timeline.layout > 1 and (timeline.completion_time(instant.time) or "~") < built_until:
            continue
        return f"the completed {instant.action} {instant.time} is not in it"
    return None


def _is_write(action: str) -> bool:
    return action not in (Action.SAVEPOINT, Action.INDEXING)


def _first(timeline: Timeline) -> str:
    """Time of the timeline's first write; instants before it are archived, though some of other actions may stay."""
    return timeline.start or ""


_READERS = 8

# Bytes read from a local disk in the time that threads take to start.
_SMALL = 1 << 20
LogBlocks = dict[LogFile, list[LogBlock]]
"""Blocks of the log files that were read; a log file that grew has another key, with its size and time."""


@dataclass(frozen=True, slots=True)
class MetadataSlice:
    """Content of a file group: the base file, if any, and the blocks that apply over it, in order."""

    file_id: str
    base: BaseFile | None
    blocks: tuple[LogBlock, ...]
    log_blocks: LogBlocks


def read_slices(
    storage: Storage,
    groups: Iterable[FileGroup],
    valid: ValidInstants,
    before: str | None = None,
    known: Mapping[LogFile, list[LogBlock]] | None = None,
    *,
    complete: bool = False,
) -> list[MetadataSlice]:
    """Read the log files of the newest slice of each file group, several files at a time.

    Args:
        storage: of the data table.
        groups: file groups of one partition.
        valid: instants whose blocks are valid.
        before: skip slices of this instant and later ones.
        known: log files that were read already.
        complete: whether missing content is absent rather than unknown.

    Raises:
        CorruptFileError: a log file is malformed, or a completed instant's block is lost.
        MissingFileError: the metadata table was compacted and cleaned, or rebuilt, since the timelines were loaded.
    """
    chosen = []
    for group in groups:
        base = valid.latest_base_file(group)
        logs = [log for log in valid.latest_log_files(group, base) if before is None or log.base_instant < before]
        if base is None and complete:
            _require_reach(group, valid)
        chosen.append((group, base, logs))
    blocks = _read_logs(storage, [log for _, _, logs in chosen for log in logs], known or {})
    for log, log_blocks in blocks.items():
        if seems_cut(log_blocks) and valid.is_cut(log.path, log.size):
            raise CorruptFileError(log.path, log.size, "the log file is cut off; drop and rebuild the metadata table")

    def of_logs(logs: Iterable[LogFile]) -> Iterator[LogBlock]:
        return (block for log in logs for block in blocks[log])

    return [
        MetadataSlice(
            group.file_id,
            base,
            tuple(surviving_blocks(of_logs(logs), valid.__contains__, in_metadata=True)),
            {log: blocks[log] for log in logs},
        )
        for group, base, logs in chosen
    ]


def _require_reach(group: FileGroup, valid: ValidInstants) -> None:
    """Refuse a file group of which only later content is left: it would seem empty."""
    if not group.base_files or any(valid.committed_in_metadata(log.base_instant) for log in group.log_files):
        return
    raise MissingFileError(
        f"{group.base_files[-1].path}: the metadata table was compacted or rebuilt since this state of the table "
        "was read, and its files are gone: read the table again"
    )


def _read_logs(storage: Storage, logs: Sequence[LogFile], known: Mapping[LogFile, list[LogBlock]]) -> LogBlocks:
    new = [log for log in logs if log not in known]
    if len(new) <= 1 or (storage.is_local and sum(log.size for log in new) < _SMALL):
        read = [_read_log(storage, log) for log in new]
    else:
        with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
            read = list(pool.map(lambda log: _read_log(storage, log), new))
    new_blocks = dict(zip(new, read, strict=True))
    return {log: new_blocks[log] if log in new_blocks else known[log] for log in logs}


def _read_log(storage: Storage, log: LogFile) -> list[LogBlock]:
    return read_log_blocks(storage.read(log.path), log.path)
