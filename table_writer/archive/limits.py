"""Which instants may be archived, and what holds others back.

What is archived is always the oldest part of the timeline: writes up to some write, with the cleans and rollbacks
before it. Readers take files of instants before the timeline's first write for committed, and all rules here follow
from that, or from what cleaning and the metadata table still have to read. They are those of Apache Hudi's
`HoodieTimelineArchiver`; where that one leaves cleans and rollbacks or takes replacecommits by other numbers, this one
takes less.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from table_format.actions.table_services import CleanMetadata
from table_format.instant import WRITE_ACTIONS, Action, Instant
from table_format.log.blocks import read_log_blocks
from table_format.metadata_table import layout
from table_format.metadata_table.reader import data_files
from table_format.metadata_table.slices import ValidInstants
from table_format.slices.file_names import parse_base_file_names
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata import instants
from table_writer.metadata.recovery import metadata_partitions
from table_writer.services.clean_plan import ChangeTimes, change_times, find_horizon, seen_by_all
from table_writer.timeline.instants import pending_work
from table_writer.timeline.options import ArchiveOptions, CleaningPolicy, ProtocolOptions

#: Apache's archives hold no others of a copy-on-write table; restores, savepoints and indexings stay active.
_ARCHIVED: Final = frozenset({*WRITE_ACTIONS, Action.CLEAN, Action.ROLLBACK})

#: Completed writes that stay beside those which cleaning retains: the one before them, whose files they may need.
_BEFORE_RETAINED: Final = 2


@dataclass(frozen=True, slots=True)
class _Counts:
    least: int
    most: int


def data_instants(client: TableClient, timeline: Timeline, options: ProtocolOptions) -> list[Instant]:
    """Completed instants of the data table that may and should be archived, oldest first.

    Args:
        client: the table, whose lock the caller holds.
        timeline: of the table.
        options: `archive`, and `clean` for the states of the table that stay readable.
    """
    changed = change_times(client, timeline)
    counts = _counts(client, timeline, options, changed)
    if counts is None or len(timeline.writes) <= counts.most:
        return []
    seen = seen_by_all(timeline, pending_work(client, timeline), changed)
    limits = [seen, _first_savepoint(timeline), _metadata_limit(client, timeline)]
    if options.archive.after_cleans:
        limits.append(_last_clean(timeline))
    writes = _oldest(timeline, counts.least, limits)
    kept = _uncleaned(client, timeline, writes)
    return _up_to(timeline, [write for write in writes if kept is None or write.time < kept])


def metadata_instants(client: TableClient, data: Timeline, options: ArchiveOptions) -> list[Instant]:
    """Completed instants of the metadata table's own timeline that may and should be archived, oldest first.

    Deltacommits of instants that are active in the data table stay, because they tell that the metadata table has them
    and since a rollback may come to them; so do those that no compaction has merged.

    Args:
        client: the data table.
        data: its timeline.
        options: the numbers are those of the data table.
    """
    own = instants.load_metadata_timeline(client.storage)
    if len(own.writes) <= options.most:
        return []
    begun = [instant.time for instant in data.instants if instant.comparable_action in WRITE_ACTIONS]
    pending = [instant.time for instant in (*pending_work(client, data), *own.pending)]
    limits = [min([*begun, *pending], default=""), _unmerged(client, data, own)]
    return _up_to(own, _oldest(own, options.least, limits))


def _counts(client: TableClient, timeline: Timeline, options: ProtocolOptions, changed: ChangeTimes) -> _Counts | None:
    """How many writes stay, which is more than the options say where cleaning retains more; None: all of them."""
    archive, clean = options.archive, options.clean
    if clean.policy is CleaningPolicy.VERSIONS:
        return _Counts(archive.least, archive.most)
    if len(timeline.writes) <= archive.most:
        return None
    horizon = find_horizon(timeline, clean, client.config.timeline_timezone, dt.datetime.now(dt.UTC), changed)
    if horizon is None or horizon.earliest is None:
        return None
    earliest = horizon.earliest.time
    retained = _BEFORE_RETAINED + sum(1 for write in timeline.writes if write.time > earliest)
    least = max(archive.least, retained)
    return _Counts(least, least + archive.most - archive.least)


def _oldest(timeline: Timeline, least: int, limits: Iterable[str | None]) -> list[Instant]:
    """The oldest writes before all limits, without the newest ones that stay in any case."""
    limit = min((time for time in limits if time is not None), default=None)
    surplus = timeline.writes[: max(0, len(timeline.writes) - least)]
    return [write for write in surplus if limit is None or write.time < limit]


def _up_to(timeline: Timeline, writes: list[Instant]) -> list[Instant]:
    """These writes, with all cleans and rollbacks before the last of them."""
    if not writes:
        return []
    last = writes[-1].time
    return [instant for instant in timeline.completed if instant.action in _ARCHIVED and instant.time <= last]


def _first_savepoint(timeline: Timeline) -> str | None:
    return next((instant.time for instant in timeline.completed if instant.action == Action.SAVEPOINT), None)


def _last_clean(timeline: Timeline) -> str | None:
    """The earliest write that the last clean kept the state of."""
    last = next((instant for instant in reversed(timeline.completed) if instant.action == Action.CLEAN), None)
    if last is None:
        return None
    return CleanMetadata.from_avro(timeline.read(last), timeline.path(last)).earliest_commit_to_retain or None


def _metadata_limit(client: TableClient, timeline: Timeline) -> str | None:
    """Oldest instant whose blocks in the metadata table's logs are read as long as its instant is active.

    Apache's readers skip blocks of instants that the data table's timeline no longer has.
    """
    if not client.config.metadata_partitions:
        return None
    return _unmerged(client, timeline, instants.load_metadata_timeline(client.storage))


def _unmerged(client: TableClient, data: Timeline, own: Timeline) -> str:
    """Time of the metadata table's last compaction, or of an older block that it left in a log; "" without one."""
    last = instants.last_compaction(own)
    if not last:
        return ""
    storage, valid, oldest = client.storage, ValidInstants(data, own), last
    for partition in metadata_partitions(storage):
        for group in layout.list_file_groups(storage, partition):
            base = valid.latest_base_file(group)
            if base is None:
                continue  # compaction found no entries in its logs
            for log in valid.latest_log_files(group, base):
                if log.base_instant >= last:
                    continue
                blocks = read_log_blocks(storage.read(log.path), log.path)
                times = [block.instant for block in blocks if block.instant is not None]
                # the empty block by which a file group begins
                oldest = min([oldest, *(time for time in times if not layout.builds_partition(time))])
    return oldest


def _uncleaned(client: TableClient, timeline: Timeline, writes: list[Instant]) -> str | None:
    """The oldest of these writes that replaced file groups of which files are left; None without one.

    Once it is archived, nobody who does not read the archive knows that these files are replaced.
    """
    groups: dict[tuple[str, str], str] = {}
    for write in writes:
        if write.action == Action.REPLACECOMMIT:
            replaced = timeline.commit_metadata(write).partition_to_replace_file_ids or {}
            for partition, ids in replaced.items():
                groups |= {(partition, file_id): write.time for file_id in ids if (partition, file_id) not in groups}
    if not groups:
        return None
    left = _file_groups(client, timeline, sorted({partition for partition, _ in groups}))
    return min((time for group, time in groups.items() if group in left), default=None)


def _file_groups(client: TableClient, timeline: Timeline, partitions: list[str]) -> set[tuple[str, str]]:
    """Partition and file id of all file groups that have files."""
    files = data_files(client, timeline, partitions)
    ids = parse_base_file_names(files["file_name"])["file_id"]
    known = pc.is_valid(ids)
    pairs = zip(files["partition"].filter(known).to_pylist(), ids.filter(known).to_pylist(), strict=True)
    return {(str(partition), str(file_id)) for partition, file_id in pairs}
