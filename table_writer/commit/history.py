"""The timeline of a table as rows with a DDL schema."""

from __future__ import annotations

from typing import Any

from table_format.instant import WRITE_ACTIONS, Instant, State
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

_DDL = (
    "instant string, action string, state string, operation string, files bigint, rows_inserted bigint, "
    "rows_updated bigint, rows_deleted bigint, bytes bigint"
)


def history_rows(client: TableClient) -> tuple[list[tuple[Any, ...]], str]:
    """One row an instant, newest first, and their DDL schema; counts are null for instants without write stats."""
    timeline = client.timeline()
    return [_row(timeline, instant) for instant in reversed(timeline.instants)], _DDL


def _row(timeline: Timeline, instant: Instant) -> tuple[Any, ...]:
    head = (instant.time, instant.action, instant.state.name)
    if instant.state is not State.COMPLETED or instant.action not in WRITE_ACTIONS:
        return (*head, None, None, None, None, None, None)
    metadata = timeline.commit_metadata(instant)
    stats = list(metadata.stats())
    return (
        *head,
        metadata.operation_type,
        len(stats),
        sum(stat.num_inserts for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.num_deletes for stat in stats),
        sum(stat.file_size_in_bytes for stat in stats),
    )
