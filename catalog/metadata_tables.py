"""The files, partitions and history of a table as Arrow tables, from its metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from catalog.history import HistoryEntry
from catalog.snapshots.snapshot import Snapshot
from catalog.table_stats import slice_sizes
from table_format.codecs.arrow_numpy import from_numpy, schema_of
from table_format.instant import instant_epoch_ms, is_calendar_time

#: A row for each file group: its newest slice.
FILES_SCHEMA: Final = schema_of(
    partition=pa.string(),
    file_id=pa.string(),
    instant=pa.string(),
    path=pa.string(),
    log_files=pa.int64(),
    bytes=pa.int64(),
)

#: A row for each partition.
PARTITIONS_SCHEMA: Final = schema_of(
    partition=pa.string(),
    file_groups=pa.int64(),
    log_files=pa.int64(),
    bytes=pa.int64(),
    last_instant=pa.string(),
)

#: A row for each instant; see `catalog.history.HistoryEntry` for the columns after the time.
HISTORY_SCHEMA: Final = schema_of(
    instant=pa.string(),
    time=pa.timestamp("ms", "UTC"),
    action=pa.string(),
    state=pa.string(),
    operation=pa.string(),
    rows_inserted=pa.int64(),
    rows_updated=pa.int64(),
    rows_deleted=pa.int64(),
    files_written=pa.int64(),
    files_removed=pa.int64(),
    bytes_written=pa.int64(),
    partitions=pa.int64(),
    completed=pa.string(),
)


def files_table(snapshot: Snapshot) -> pa.Table:
    """The file groups of a snapshot.

    Returns:
        A table of `FILES_SCHEMA` by partition and file id. `instant` is that of the newest slice, `path` that of
        its base file below the table's folder, null for log files alone. `bytes` has the log files' sizes in it.
    """
    slices = snapshot.take_files(snapshot.live_rows).combine_chunks()
    sizes, logs = slice_sizes(slices)
    columns = [slices[name] for name in ("partition", "file_id", "instant", "path")]
    table = pa.table([*columns, from_numpy(logs), from_numpy(sizes)], names=FILES_SCHEMA.names)
    return table.cast(FILES_SCHEMA).sort_by([("partition", "ascending"), ("file_id", "ascending")])


def partitions_table(snapshot: Snapshot) -> pa.Table:
    """The partitions of a snapshot that have files.

    Returns:
        A table of `PARTITIONS_SCHEMA` by partition; `last_instant` is that of the newest slice.
    """
    groups: Any = files_table(snapshot).group_by("partition", use_threads=False)
    counted = groups.aggregate([("file_id", "count"), ("log_files", "sum"), ("bytes", "sum"), ("instant", "max")])
    names = ("partition", "file_id_count", "log_files_sum", "bytes_sum", "instant_max")
    table: pa.Table = counted.select(names).rename_columns(PARTITIONS_SCHEMA.names).cast(PARTITIONS_SCHEMA)
    return table.sort_by("partition")


def history_table(entries: Sequence[HistoryEntry], timezone: str) -> pa.Table:
    """The history of a table.

    Args:
        entries: the instants, in the order of the rows.
        timezone: of the timeline, `UTC` or `LOCAL`.

    Returns:
        A table of `HISTORY_SCHEMA`. `time` is null where the instant is no calendar time.
    """
    rows = [
        {
            **dataclasses.asdict(entry),
            "time": instant_epoch_ms(entry.instant, timezone) if is_calendar_time(entry.instant) else None,
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, HISTORY_SCHEMA)
