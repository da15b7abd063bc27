"""Refresh of a snapshot from the commits since it was loaded.

A commit names the files it wrote and the file groups it replaced. Only those groups are looked up again; everything
else is shared with the earlier snapshot. If the timeline shows more than commits, as after a restore or where the table
was deleted and created anew, the table is loaded afresh.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from catalog.slices.slice_set import Rows, SliceSet
from catalog.snapshots.snapshot import Snapshot
from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.codecs.arrow_numpy import one_chunk
from table_format.instant import WRITE_ACTIONS, Action, Instant
from table_format.slices.file_slices import FILES_SCHEMA, REPLACED_SCHEMA, latest_file_slices
from table_format.table.client import TableClient
from table_format.table.schema_history import KEY as SCHEMA_HISTORY_KEY
from table_format.timeline.timeline import Timeline

_HARMLESS = frozenset({Action.CLEAN, Action.SAVEPOINT})
_MOST_WRITES = 100
_Writes: TypeAlias = list[tuple[str, CommitMetadata]]


def refreshed(snapshot: Snapshot, client: TableClient) -> Snapshot:
    """The table's newest state.

    Args:
        snapshot: an earlier newest state.
        client: of the table, with its properties as they are now.

    Returns:
        The snapshot itself when nothing was written since.
    """
    timeline = client.timeline().with_cache_of(snapshot.timeline)
    writes = _later_writes(snapshot, client, timeline)
    slices = None if writes is None else _with_writes(snapshot, timeline, writes)
    if slices is None:
        return Snapshot(client, timeline, statistics_limit=snapshot.column_index.memory)
    if not writes and timeline.instants == snapshot.timeline.instants:
        return snapshot
    before = snapshot.metadata_table
    table = None if before is None else before.refreshed(client, timeline)
    if (table is None) != (before is None):
        return Snapshot(client, timeline, statistics_limit=snapshot.column_index.memory)
    return snapshot.succeeded_by(client, timeline, table, slices[0], slices[1])


def _later_writes(snapshot: Snapshot, client: TableClient, timeline: Timeline) -> _Writes | None:
    """Metadata of the commits that completed since; None if more than commits happened."""
    known = snapshot.timeline
    plain = snapshot.is_latest and not snapshot.read_optimized and snapshot.schema_history is None
    if not plain or client.config.raw != snapshot.config.raw or timeline.layout != known.layout:
        return None
    then, now = {_key(i): i for i in known.completed}, {_key(i): i for i in timeline.completed}
    added = [instant for key, instant in now.items() if key not in then]
    gone = [instant for key, instant in then.items() if key not in now]
    if not any(_key(write) in now and not timeline.is_saved(write) for write in known.writes):
        # a new table may be at this path, or writes that were added may be archived already: archiving leaves the
        # newest ones, and those that a savepoint keeps
        return None
    if _left_unseen(known, timeline) or _were_filled(known, timeline):
        return None
    writes = [instant for instant in added if instant.action in WRITE_ACTIONS]
    if len(writes) > _MOST_WRITES or not _only_wrote(client, known, timeline, added, gone):
        return None
    metadata = [(instant.time, timeline.commit_metadata(instant)) for instant in writes]
    if any(write in timeline.empty_writes for write in writes):
        return None  # such a file does not say what was written, as between another tool's creation and closing of it
    # Once a column was renamed, a column's name no longer identifies its statistics.
    return None if any(SCHEMA_HISTORY_KEY in write.extra_metadata for _, write in metadata) else metadata


def _left_unseen(known: Timeline, timeline: Timeline) -> bool:
    """Whether a pending write may have completed and been archived, while a newer one is still active."""
    there = {(instant.time, instant.comparable_action) for instant in timeline.instants}
    pending = (one for one in known.pending if one.comparable_action in WRITE_ACTIONS)
    return any((one.time, one.comparable_action) not in there and not timeline.is_undone(one.time) for one in pending)


def _were_filled(known: Timeline, timeline: Timeline) -> bool:
    """Whether files of completed writes that were empty, and so may have hidden a schema, have content now."""
    empty = known.empty_writes.intersection(timeline.completed)
    for write in empty:
        timeline.extra_metadata(write)
    return not empty <= timeline.empty_writes


def _only_wrote(
    client: TableClient, known: Timeline, timeline: Timeline, added: list[Instant], gone: list[Instant]
) -> bool:
    """Whether the metadata of the added commits describe all changes of the table."""
    merged = client.config.table_type != "COPY_ON_WRITE"
    if not all(_is_harmless(instant, merged=merged) for instant in added) or not _were_archived(gone, timeline):
        return False
    return not (any(instant.action == Action.ROLLBACK for instant in added) and _undone(known, timeline))


def _key(instant: Instant) -> tuple[str, str]:
    return instant.time, instant.action


def _were_archived(gone: Iterable[Instant], timeline: Timeline) -> bool:
    """Whether the missing instants left the timeline because they were the oldest."""
    first = min((instant.time for instant in timeline.writes), default=None)
    return all(first is not None and instant.time < first for instant in gone)


def _is_harmless(instant: Instant, *, merged: bool) -> bool:
    """Whether an action changes nothing beyond what its commit metadata say."""
    if instant.action in WRITE_ACTIONS or instant.action in _HARMLESS:
        return True
    # Rolling back what never completed changes nothing but log files.
    return instant.action == Action.ROLLBACK and not merged


def _undone(known: Timeline, timeline: Timeline) -> bool:
    return any(write.time in timeline.rolled_back for write in known.writes)


@dataclass(frozen=True, eq=False)
class _Touched:
    """File groups that writes changed or replaced, and the files that they wrote."""

    groups: dict[tuple[str, str], None]
    replaced: pa.Table
    files: pa.Table


def _with_writes(snapshot: Snapshot, timeline: Timeline, writes: _Writes) -> tuple[SliceSet, pa.Table] | None:
    """The slices after some commits, and all replaced file groups; None to load the table afresh."""
    slices = snapshot.slices
    touched = _touched(writes)
    if touched is None or len(touched.groups) > max(1_000, len(slices) // 10):
        return None
    replaced = pa.concat_tables([snapshot.replaced, touched.replaced])
    if not touched.groups:
        return slices, replaced
    partitions, file_ids = (list(column) for column in zip(*touched.groups, strict=True))
    at = slices.positions(partitions, file_ids)
    older = slices.take(at[at >= 0])
    newest = latest_file_slices(_listing(older, touched.files), timeline, replaced=replaced)
    position_of = dict(zip(touched.groups, at.tolist(), strict=True))
    columns: Any = (newest.column(name).to_pylist() for name in ("partition", "file_id"))
    groups = list(zip(*columns, strict=True))
    if not position_of.keys() >= set(groups):
        return None  # a file that is not of the group that the write names
    before: Rows = np.array([position_of[group] for group in groups], np.int64)
    names: Any = one_chunk(touched.files.column("file_name"))
    after = slices.with_changes(newest, before, at[at >= 0], names)
    return None if after.is_stale else (after, replaced)


def _touched(writes: _Writes) -> _Touched | None:
    groups: dict[tuple[str, str], None] = {}
    replaced: list[tuple[str, str, str]] = []
    files: list[tuple[str, str, int]] = []
    for time, write in writes:
        for partition, stats in write.partition_to_write_stats.items():
            for stat in stats:
                if not _is_plain(stat, partition):
                    return None
                groups[partition, stat.file_id] = None
                files.append((partition, stat.file_name, stat.file_size_in_bytes))
        for partition, file_ids in (write.partition_to_replace_file_ids or {}).items():
            groups |= dict.fromkeys((partition, file_id) for file_id in file_ids)
            replaced += [(partition, file_id, time) for file_id in file_ids]
    return _Touched(groups, _table(replaced, REPLACED_SCHEMA), _table(files, FILES_SCHEMA))


def _is_plain(stat: WriteStat, partition: str) -> bool:
    return bool(stat.path and stat.file_id) and posixpath.dirname(stat.path or "") == partition


def _listing(slices: pa.Table, files: pa.Table) -> pa.Table:
    """The files of slices and the new ones as a listing; a log file that has grown has its new size."""
    rows = {(f["partition"], f["file_name"]): int(f["size"]) for f in files.to_pylist()}
    for one in slices.to_pylist():
        for name, size in [(one["file_name"], one["size"]), *((log["file_name"], log["size"]) for log in one["logs"])]:
            if name is not None:
                rows.setdefault((one["partition"], name), int(size or 0))
    return _table([(*key, size) for key, size in rows.items()], FILES_SCHEMA)


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
