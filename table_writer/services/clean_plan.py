"""The plan of a clean: which file versions no state of the table needs that the policy keeps readable."""

from __future__ import annotations

import datetime as dt
import functools
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.commit import NO_COMMIT
from table_format.actions.table_services import CleanerPlan, CleanMetadata
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.errors import HudiError, MissingFileError
from table_format.instant import WRITE_ACTIONS, Action, Instant, State, format_instant_time
from table_format.metadata_table.reader import MetadataTable, data_files
from table_format.slices.file_names import group_keys, parse_base_file_names
from table_format.slices.file_slices import replaced_file_groups
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.timeline.options import CleaningPolicy, CleanOptions

#: See `change_times`.
ChangeTimes = Callable[[], Mapping[str, int]]

#: A thousand years; more are beyond the calendar.
_MOST_HOURS: Final = 24 * 366 * 1000

_NOTE: Final = ".cleaned_until"

"""File in the folder of the archive, see `note_cleaned`; Apache's tools pass it over."""


@dataclass(frozen=True, slots=True)
class PlannedClean:
    """A plan, and what it frees.

    Attributes:
        plan: its paths are relative to the table's base folder.
        sizes: bytes of its files by name; of those that are still listed.
    """

    plan: CleanerPlan
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far back states of the table stay readable.

    Attributes:
        earliest: the oldest write whose state stays readable; None under the policy of file versions.
        protected: the newest write that every pending write saw completed when it began, and whose state it may still
            read; None when nothing is pending, `""` when there is no such write.
    """

    earliest: Instant | None
    protected: str | None


def find_horizon(
    timeline: Timeline,
    options: CleanOptions,
    timezone: str,
    now: dt.datetime,
    changed: ChangeTimes,
) -> Horizon | None:
    """The oldest state to keep; None when nothing is old enough to delete.

    Args:
        timeline: the data table's.
        options: see `CleanOptions`.
        timezone: of the timeline.
        now: with a time zone.
        changed: see `change_times`.
    """
    pending = [instant for instant in timeline.pending if instant.comparable_action in WRITE_ACTIONS]
    protected = seen_by_all(timeline, pending, changed)
    writes = timeline.writes
    if options.policy is CleaningPolicy.VERSIONS:
        return Horizon(None, protected) if writes else None
    if options.policy is CleaningPolicy.COMMITS:
        if len(writes) <= options.commits:
            return None
        earliest = writes[-options.commits]
    else:
        if not writes:
            return None
        begin = now - dt.timedelta(hours=min(options.hours, _MOST_HOURS))
        cut = format_instant_time(begin.astimezone(dt.UTC if timezone == "UTC" else None))
        earliest = next((write for write in writes if write.time >= cut), writes[-1])
    if protected is not None and earliest.time > protected:
        bound = next((write for write in writes if write.time == protected), None)
        if bound is None:
            return None
        earliest = bound
    return Horizon(_first_after(writes, earliest, changed), protected)


def change_times(client: TableClient, timeline: Timeline) -> ChangeTimes:
    """Modification times of the timeline's files by name, epoch milliseconds, listed when they are needed first.

    Instants tell when writes began; these times, made under the table's lock, tell in which order they completed.
    """
    return functools.cache(lambda: {entry.name: entry.mtime_ms for entry in client.storage.list(timeline.folder)})


def seen_by_all(timeline: Timeline, pending: Sequence[Instant], changed: ChangeTimes) -> str | None:
    """The newest write that all of these pending instants saw completed when they began.

    With concurrent writers a write may complete after another one of a later time has begun, which goes on reading the
    state before it.

    Args:
        timeline: the data table's.
        pending: instants of it.
        changed: see `change_times`; without any, a write is taken to have seen all writes of earlier times.

    Returns:
        Its time; None when nothing is pending, `""` when there is no such write.
    """
    if not pending:
        return None
    oldest, times = min(instant.time for instant in pending), changed()
    begun = min(times.get(instant.at(State.REQUESTED).file_name, 0) for instant in pending)
    if times:
        late = [write.time for write in timeline.writes if times.get(write.file_name, begun) >= begun]
        oldest = min([oldest, *late])
    return max((write.time for write in timeline.writes if write.time < oldest), default="")


def _first_after(writes: Sequence[Instant], earliest: Instant, changed: ChangeTimes) -> Instant:
    """The first write by time that did not complete before `earliest`: what it replaced is of a later state, too."""
    older = [write for write in writes if write.time < earliest.time]
    if not older:
        return earliest
    times = changed()
    completed = times.get(earliest.file_name, 0)
    return next((write for write in older if 0 < completed < times.get(write.file_name, 0)), earliest)


def plan_clean(
    timeline: Timeline,
    files: pa.Table,
    replaced: pa.Table,
    *,
    horizon: Horizon,
    options: CleanOptions,
    savepointed: Iterable[str] = (),
) -> CleanerPlan | None:
    """Choose the files to delete.

    Each file group keeps the versions from the earliest write to keep on and the newest one before it (by commits or
    hours), or its newest versions (by versions). Replaced file groups are deleted with all versions once the replacing
    write is older than the earliest one to keep. Files that a pending write may be reading or a savepoint lists are
    kept. Files of instants that did not complete are left to rollbacks.

    Args:
        timeline: the data table's.
        files: data files of the partitions to clean; columns partition, file_name.
        replaced: `replaced_file_groups(timeline)`.
        horizon: see `find_horizon`.
        options: see `CleanOptions`.
        savepointed: names of data files to keep.

    Returns:
        None when there is nothing to delete.
    """
    versions = _versions(files, timeline)
    if versions.num_rows == 0:
        return None
    gone = _replaced_before(replaced, horizon)
    is_replaced = _in_groups(versions, replaced)
    old = _superseded(versions, horizon, options) & ~is_replaced
    doomed = versions.filter(from_numpy(old | _in_groups(versions, gone)))
    doomed = doomed.filter(pc.invert(pc.is_in(doomed["file_name"], pa.array(list(savepointed), pa.string()))))
    if doomed.num_rows == 0:
        return None
    paths: dict[str, list[str]] = {}
    for row in doomed.select(["partition", "file_name"]).to_pylist():
        paths.setdefault(row["partition"], []).append(posixpath.join(row["partition"], row["file_name"]))
    last = timeline.last_completed_write()
    return CleanerPlan(options.policy.value, paths, horizon.earliest, last.time if last else "")


def _versions(files: pa.Table, timeline: Timeline) -> pa.Table:
    """Committed base files by partition, file group and instant."""
    files = files.combine_chunks()
    parts = parse_base_file_names(files["file_name"])
    table = pa.table(
        {
            "partition": files["partition"],
            "file_id": parts["file_id"],
            "instant": parts["instant"],
            "file_name": files["file_name"],
        }
    )
    table = table.filter(pc.is_valid(parts["instant"]))
    committed = [time for time in pc.unique(table["instant"]).to_pylist() if timeline.is_committed(time)]
    table = table.filter(pc.is_in(table["instant"], pa.array(committed, pa.string())))
    return table.sort_by([("partition", "ascending"), ("file_id", "ascending"), ("instant", "ascending")])


def _superseded(versions: pa.Table, horizon: Horizon, options: CleanOptions) -> Any:
    """Which rows of sorted versions have enough newer ones in their file group.

    Files of one file group and instant (of retried tasks) count as one version.
    """
    group, version = _runs(versions)
    starts = np.flatnonzero(np.diff(version, prepend=-1))
    count = options.versions if options.policy is CleaningPolicy.VERSIONS else 1
    later = version + count
    exists = later < len(starts)
    later_row = starts[np.where(exists, later, 0)]
    exists &= group[later_row] == group
    next_version = np.minimum(version + 1, len(starts) - 1)
    instants = one_chunk(versions["instant"])
    following = instants.take(from_numpy(starts[next_version].astype(np.int64)))
    if horizon.earliest is not None:
        # the newest version before the earliest write is kept: the version after it must be older, too
        exists &= to_numpy(pc.less(following, horizon.earliest.time))
    if horizon.protected is not None:
        exists &= to_numpy(pc.less_equal(following, horizon.protected))
    return exists


def _runs(versions: pa.Table) -> tuple[Any, Any]:
    """Ordinals of the file group and of the version of each row of sorted versions."""
    partition, file_id, instant = (one_chunk(versions[name]) for name in ("partition", "file_id", "instant"))
    rows = versions.num_rows

    def changes(column: Any) -> Any:
        return to_numpy(pc.not_equal(column.slice(1), column.slice(0, rows - 1)))

    new_group = changes(partition) | changes(file_id)
    new_version = new_group | changes(instant)
    group, version = (np.concatenate([[0], np.cumsum(flags)]).astype(np.int64) for flags in (new_group, new_version))
    return group, version


def _replaced_before(replaced: pa.Table, horizon: Horizon) -> pa.Table:
    if horizon.earliest is not None:
        replaced = replaced.filter(pc.less(replaced["replaced_at"], horizon.earliest.time))
    if horizon.protected is not None:
        replaced = replaced.filter(pc.less_equal(replaced["replaced_at"], horizon.protected))
    return replaced


def _in_groups(versions: pa.Table, groups: pa.Table) -> Any:
    of_version, known = (group_keys(table["partition"], table["file_id"]) for table in (versions, groups))
    return to_numpy(pc.is_in(of_version, known))


def plan_table(
    client: TableClient,
    timeline: Timeline,
    options: CleanOptions,
    now: dt.datetime | None = None,
    *,
    metadata: MetadataTable | None = None,
    changed: ChangeTimes | None = None,
) -> PlannedClean | None:
    """Plan a clean of a table; None when there is nothing to delete.

    Args:
        client: the table.
        timeline: the table's.
        options: see `CleanOptions`.
        now: the end of the hours that are kept; the present by default.
        metadata: the metadata table of an earlier moment; what was read of it is not read again.
        changed: see `change_times`, which is called without it.
    """
    now, changed = now or dt.datetime.now(dt.UTC), changed or change_times(client, timeline)
    horizon = find_horizon(timeline, options, client.config.timeline_timezone, now, changed)
    if horizon is None:
        return None
    partitions = _changed_partitions(timeline, horizon) if options.incremental else None
    if partitions is not None and not partitions:
        return None
    files = list_files(client, timeline, partitions, metadata)
    plan = plan_clean(
        timeline,
        files,
        replaced_file_groups(timeline),
        horizon=horizon,
        options=options,
        savepointed=savepointed_files(timeline),
    )
    if plan is None:
        return None
    plan.savepoints = _savepoints(timeline)
    return PlannedClean(plan, sizes_of(plan, files))


def sizes_of(plan: CleanerPlan, files: pa.Table) -> dict[str, int]:
    """Bytes of the files of a plan by name, as far as they are listed.

    Args:
        plan: of a clean.
        files: columns file_name and size.
    """
    names = [posixpath.basename(path) for paths in plan.files.values() for path in paths]
    planned = files.filter(pc.is_in(files["file_name"], pa.array(names, pa.string())))
    return {row["file_name"]: row["size"] for row in planned.to_pylist()}


def _changed_partitions(timeline: Timeline, horizon: Horizon) -> list[str] | None:
    """Partitions in which a version may have become too old since the last clean; None for all partitions.

    A version becomes too old when the write that superseded it does. Writes before the last clean's earliest one were
    handled by that clean. In a table without a clean they are all on the timeline, unless some were archived.
    """
    if horizon.earliest is None or not timeline.writes:
        return None
    last, first = _last_clean(timeline), timeline.writes[0].time
    since = _first_write(timeline) if last is None else _cleaned_until(last)
    left = _left_over(timeline, last)
    if left or since is None or since < first:
        since = _noted(timeline)
        if since is None or since < max(first, left):
            return None
    changed: set[str] = set()
    for write in timeline.writes:
        if since <= write.time < horizon.earliest.time:
            commit = timeline.commit_metadata(write)
            changed |= {stat.partition_path for stat in commit.stats() if stat.prev_commit != NO_COMMIT}
            changed |= (commit.partition_to_replace_file_ids or {}).keys()
    return sorted(changed)


def _left_over(timeline: Timeline, last: CleanMetadata | None) -> str:
    """From when on the last clean may have left files in partitions that no write has changed since; "" if it has not.

    Restores since then made older versions the newest ones again, and savepoints that were deleted since then kept
    files. A note of a later time says that there are none, see `note_cleaned`.
    """
    cleaned = "" if last is None else last.start_time
    restores = [i.time for i in timeline.instants if i.action == Action.RESTORE and i.time > cleaned]
    deleted = last is not None and set(last.savepoints) - set(_savepoints(timeline))
    return max([*restores, cleaned] if deleted else restores, default="")


def note_cleaned(client: TableClient, timeline: Timeline, options: CleanOptions, first: str) -> None:
    """Note how far the table is clean, before writes are archived that no clean on the timeline came to.

    Else cleaning of a table whose writes supersede nothing would look at all of its files after every write.

    Args:
        client: the table, whose lock the caller holds.
        timeline: of the table.
        options: see `CleanOptions`.
        first: time of the oldest write that stays active.
    """
    last = _last_clean(timeline)
    if _savepoints(timeline) or (last is not None and (_cleaned_until(last) or "") >= first):
        return
    now, changed = dt.datetime.now(dt.UTC), change_times(client, timeline)
    horizon = find_horizon(timeline, options, client.config.timeline_timezone, now, changed)
    if horizon is None or horizon.earliest is None:
        return
    if plan_table(client, timeline, options, now, changed=changed) is not None:
        return
    client.storage.overwrite(f"{timeline.history_folder}/{_NOTE}", horizon.earliest.time.encode())


def _first_write(timeline: Timeline) -> str | None:
    """Time of the table's first write; None if it may have been archived."""
    archived = timeline.history_folder and timeline.storage.list(timeline.history_folder)
    return None if archived else timeline.writes[0].time


def _last_clean(timeline: Timeline) -> CleanMetadata | None:
    """The newest completed clean; one that is damaged counts as one that kept all."""
    last = next((i for i in reversed(timeline.completed) if i.action == Action.CLEAN), None)
    if last is None:
        return None
    try:
        return CleanMetadata.from_avro(timeline.read(last), timeline.path(last))
    except HudiError:
        return CleanMetadata(last.time, 0)


def _cleaned_until(last: CleanMetadata) -> str | None:
    """The earliest write that a clean kept the state of; None if it kept more than the policy says."""
    parts = last.partitions.values()
    differs = any(part.failed or part.policy == CleaningPolicy.VERSIONS.value for part in parts)
    return None if differs else last.earliest_commit_to_retain or None


def _noted(timeline: Timeline) -> str | None:
    """The earliest write from which on versions may be superseded and still there, as it was noted at archiving."""
    try:
        text = timeline.storage.read(f"{timeline.history_folder}/{_NOTE}").decode(errors="replace")
    except MissingFileError:
        return None
    return text if text.isascii() and text.isdigit() else None


def list_files(
    client: TableClient, timeline: Timeline, partitions: Sequence[str] | None, before: MetadataTable | None = None
) -> pa.Table:
    """Data files of some partitions or all (None), by the metadata table if there is one, as `FILES_SCHEMA`.

    Of `before`, the metadata table of an earlier moment, nothing is read again.
    """
    refreshed = None if before is None else before.refreshed(client, timeline)
    return data_files(client, timeline, partitions) if refreshed is None else refreshed.files(partitions)


def savepointed_files(timeline: Timeline) -> set[str]:
    """Names of data files that savepoints keep."""
    file_names: set[str] = set()
    for instant in timeline.completed:
        if instant.action == Action.SAVEPOINT:
            saved = timeline.savepoint_metadata(instant)
            file_names.update(name for names in saved.files.values() for name in names)
    return file_names


def _savepoints(timeline: Timeline) -> list[str]:
    return [instant.time for instant in timeline.completed if instant.action == Action.SAVEPOINT]
