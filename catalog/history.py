"""The commits, cleans and rollbacks of a table, instant by instant."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from table_format.actions.rollback import RollbackMetadata
from table_format.actions.table_services import CleanMetadata
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.table.bucket_counts import OPERATION as BUCKET_RESCALE
from table_format.table.bucket_counts import RESCALE_KEY
from table_format.timeline.timeline import Timeline


@dataclass(frozen=True)
class HistoryEntry:
    """One instant of the timeline, active or archived.

    Attributes:
        instant: its time.
        action: `commit`, `replacecommit`, `clean`, `rollback`, …
        state: `COMPLETED`, `INFLIGHT` or `REQUESTED`.
        operation: of a write, as its commit names it, such as `UPSERT`; else the action's name.
        rows_inserted: new rows; None for an action that is not a write, as in the next fields.
        rows_updated: rows that got new values.
        rows_deleted: rows deleted by key.
        files_written: data files written.
        files_removed: data files deleted from storage, or file groups replaced.
        bytes_written: bytes of the data files written.
        partitions: number of partitions written to or cleaned.
        completed: when it completed, in the form of instant times; None up to table version 6.
    """

    instant: str
    action: str
    state: str
    operation: str
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_written: int | None = None
    files_removed: int | None = None
    bytes_written: int | None = None
    partitions: int | None = None
    completed: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return dataclasses.asdict(self)


def history_of(timeline: Timeline) -> list[HistoryEntry]:
    """All instants of a timeline, oldest first."""
    return [_entry(timeline, instant) for instant in timeline.instants]


def _entry(timeline: Timeline, instant: Instant) -> HistoryEntry:
    plain = HistoryEntry(
        instant.time,
        instant.comparable_action,
        instant.state.name,
        instant.action.upper(),
        completed=instant.completion_time,
    )
    if instant.state is not State.COMPLETED:
        return plain
    if instant.action in WRITE_ACTIONS:
        return _write(timeline, instant, plain)
    if instant.action == Action.CLEAN:
        metadata = CleanMetadata.from_avro(timeline.read(instant), timeline.path(instant))
        removed = metadata.total_files_deleted
        return dataclasses.replace(plain, files_removed=removed, partitions=len(metadata.partitions))
    if instant.action == Action.ROLLBACK:
        rollback = RollbackMetadata.from_avro(timeline.read(instant), timeline.path(instant))
        return dataclasses.replace(plain, operation=f"ROLLBACK of {', '.join(rollback.commits)}")
    return plain


def _write(timeline: Timeline, instant: Instant, plain: HistoryEntry) -> HistoryEntry:
    metadata = timeline.commit_metadata(instant)
    stats = list(metadata.stats())
    replaced = metadata.partition_to_replace_file_ids or {}
    return dataclasses.replace(
        plain,
        operation=BUCKET_RESCALE if RESCALE_KEY in metadata.extra_metadata else metadata.operation_type,
        rows_inserted=sum(stat.num_inserts for stat in stats),
        rows_updated=sum(stat.num_update_writes for stat in stats),
        rows_deleted=sum(stat.num_deletes for stat in stats),
        files_written=len(stats),
        files_removed=sum(len(ids) for ids in replaced.values()),
        bytes_written=sum(stat.file_size_in_bytes or stat.total_write_bytes for stat in stats),
        partitions=len({*metadata.partition_to_write_stats, *replaced}),
    )
