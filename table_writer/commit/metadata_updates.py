"""What each action of the data table tells the metadata table. Callers hold the table's lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_format.slices.file_slices import FILES_SCHEMA
from table_format.slices.table_client import TableClient
from table_writer.metadata.recovery import rollback_in_metadata_table
from table_writer.metadata.writer import update_metadata_table
from table_writer.record_index.commit import UNCHANGED, IndexChanges

DELETED_SCHEMA = pa.schema([("partition", pa.string()), ("file_name", pa.string())])


def record_commit(
    client: TableClient,
    instant: str,
    stats: Sequence[WriteStat],
    column_stats: pa.Table | None,
    *,
    index_changes: IndexChanges | None,
    options: Mapping[str, str],
) -> None:
    """Add the files of a commit. File groups that it replaced stay until cleaning deletes them.

    A record index is taken out of use unless the commit says what it does to it. A compaction of the metadata table
    that is due happens at this occasion (`hoodie.metadata.compact.*` in options).
    """
    rows = [(stat.partition_path, stat.file_name, stat.file_size_in_bytes) for stat in stats if stat.path]
    update_metadata_table(
        client,
        instant,
        files_added=_table(rows, FILES_SCHEMA),
        files_deleted=DELETED_SCHEMA.empty_table(),
        column_stats=column_stats,
        new_partitions=sorted({stat.partition_path for stat in stats}),
        index_changes=index_changes,
        options=options,
    )


def record_clean(client: TableClient, instant: str, deleted: Mapping[str, Iterable[str]]) -> None:
    """Take out the files that a clean deleted; file names by partition."""
    update_metadata_table(
        client,
        instant,
        files_added=FILES_SCHEMA.empty_table(),
        files_deleted=_table([(p, name) for p, names in deleted.items() for name in names], DELETED_SCHEMA),
        column_stats=None,
        new_partitions=[],
        index_changes=UNCHANGED,
    )


def record_rollback(client: TableClient, rollback: str, failed: str) -> None:
    """Take back what a failed instant had told the metadata table, and note the rollback there."""
    update_metadata_table(
        client,
        rollback,
        files_added=FILES_SCHEMA.empty_table(),
        files_deleted=DELETED_SCHEMA.empty_table(),
        column_stats=None,
        new_partitions=[],
        index_changes=UNCHANGED,
    )
    rollback_in_metadata_table(client.storage, failed, rollback)


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)
