"""Column statistics that a restore by another tool left out: built again from the files, before the next write.

Apache 0.15.0 deletes the column statistics of a table that it restores, and other releases those that were built after
the restore's target, because its procedures do not ask for them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa

from table_format.errors import SchemaError
from table_format.instant import Action, Instant
from table_format.meta_columns import META_FIELDS
from table_format.metadata_table import layout
from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from table_format.table.schema_history import internal_schemas
from table_format.timeline.timeline import Timeline
from table_writer.metadata import instants
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.metadata.creation import add_column_stats
from table_writer.metadata.file_contents import statistics_of_files
from table_writer.metadata.indexed_leaves import leaf_type
from table_writer.metadata.writer import remove_indexes
from table_writer.timeline.instants import unlisted_writes

_log = logging.getLogger(__name__)


def repair_statistics(client: TableClient, timeline: Timeline, options: Mapping[str, str], shards: int) -> bool:
    """Build column statistics again if another tool has restored the table since the last write.

    Nothing happens where writes are pending, which building an index would miss, and in tables with renamed columns.

    Args:
        client: the table, whose lock the caller holds.
        timeline: of the table, loaded under the lock.
        options: of the table's writers; see `indexable_columns`.
        shards: number of file groups of the statistics.

    Returns:
        Whether they were built.
    """
    restore = _foreign_restore(client, timeline)
    if restore is None or not _had_statistics(client, timeline) or internal_schemas(timeline) is not None:
        return False
    if unlisted_writes(client, timeline):
        _log.warning("%s: column statistics are left out of use, since writes are pending", client.storage.uri)
        return False
    try:
        schema = pa.schema([*META_FIELDS, *client.table_schema(timeline)])
    except SchemaError:
        return False
    table = MetadataTable.open(client, timeline)
    columns = indexable_columns(schema, {**options, **client.config.raw})
    if table is None or not columns or not _lacking(table, columns[0], schema):
        return False
    files = table.files().select(["partition", "file_name"])
    _log.warning(
        "%s: the %s of another tool left column statistics out: they are built again from %d files",
        client.storage.uri,
        restore,
        files.num_rows,
    )
    statistics = statistics_of_files(client.storage, files, schema, columns)
    if layout.COLUMN_STATS in table.partitions:
        remove_indexes(client, [layout.COLUMN_STATS])
    add_column_stats(client, statistics, shards=shards)
    return True


def are_left_out(client: TableClient, timeline: Timeline, options: Mapping[str, str]) -> bool:
    """Whether a restore by another tool, since which nobody wrote, left files without column statistics.

    Args:
        client: the table, which has statistics.
        timeline: of the table.
        options: of the table's writers; see `indexable_columns`.
    """
    if _foreign_restore(client, timeline) is None or internal_schemas(timeline) is not None:
        return False
    schema = pa.schema([*META_FIELDS, *client.table_schema(timeline)])
    table, columns = MetadataTable.open(client, timeline), indexable_columns(schema, {**options, **client.config.raw})
    return table is not None and bool(columns) and _lacking(table, columns[0], schema)


def _lacking(table: MetadataTable, column: str, schema: pa.Schema) -> bool:
    """Whether some of a table's files have no statistics of a column."""
    if layout.COLUMN_STATS not in table.partitions:
        return True
    kind = leaf_type(schema, column)
    known = [] if kind is None else table.column_stats(column, kind)["file_name"].to_pylist()
    return not set(table.files()["file_name"].to_pylist()) <= set(known)


def _foreign_restore(client: TableClient, timeline: Timeline) -> Instant | None:
    """The newest restore, if it is another tool's and no write followed it."""
    restore = next((one for one in reversed(timeline.completed) if one.action == Action.RESTORE), None)
    if restore is None or not timeline.writes or timeline.writes[-1].time > restore.time:
        return None
    if layout.FILES not in client.config.metadata_partitions:
        return None
    own = instants.load_metadata_timeline(client.storage)
    return None if own.find(restore.time, Action.DELTACOMMIT) is not None else restore


def _had_statistics(client: TableClient, timeline: Timeline) -> bool:
    """Whether the table has column statistics, or its newest write maintained some."""
    if layout.COLUMN_STATS in client.config.metadata_partitions:
        return True
    own = instants.load_metadata_timeline(client.storage)
    commit = next((one for one in own.writes if one.time == timeline.writes[-1].time), None)
    return commit is not None and layout.COLUMN_STATS in own.commit_metadata(commit).partition_to_write_stats
