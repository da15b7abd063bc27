"""Creating the metadata table, or a further partition of it, for a table with or without data."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Container, Mapping, Sequence

import pyarrow as pa

from table_format.config.properties import ensure_partition_metadata
from table_format.config.table_config import create_table_config
from table_format.errors import TransactionError
from table_format.instant import Action
from table_format.metadata_table import layout
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index import is_private
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.slices.file_slices import FILES_SCHEMA, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.encoding.log_blocks import write_empty_block
from table_writer.encoding.metadata_records import (
    NO_FILES,
    Records,
    block_size_of,
    column_stats_records,
    files_records,
)
from table_writer.metadata import instants, recovery
from table_writer.metadata.index_files import BuiltFile, create_index_partition
from table_writer.metadata.writer import (
    add_partitions,
    drop_metadata_table,
    list_index,
    remove_indexes,
)
from table_writer.timeline.instants import unlisted_writes

DEFAULT_COLUMN_STATS_SHARDS = 2


def create_metadata_table(
    client: TableClient,
    *,
    files: pa.Table | None = None,
    all_partitions: Sequence[str] = (),
    column_stats: pa.Table | None = None,
    with_column_stats: bool = True,
    column_stats_shards: int = DEFAULT_COLUMN_STATS_SHARDS,
    bloom_shards: int | None = None,
    record_index: IndexLayout | None = None,
) -> None:
    """Create the metadata table and put it to use. Callers hold the table's lock; no instant may be pending.

    Args:
        client: the data table, which must have no metadata table in use.
        files: the files of completed instants (columns `partition`, `file_name`, `size`); none for a new table.
        all_partitions: partition paths without files.
        column_stats: column statistics of these files; of `STATISTICS_SCHEMA`.
        with_column_stats: whether to create the column statistics index.
        column_stats_shards: number of its file groups, which never changes.
        bloom_shards: number of file groups of the bloom filters, for tables without data; None for no such index.
        record_index: layout of an empty record index to create; only for tables without data.

    Raises:
        TransactionError: the table has a metadata table, or instants are pending.
    """
    if layout.FILES in client.reload().metadata_partitions:
        raise TransactionError(f"{client.storage.uri}: the table has a metadata table; drop it first")
    latest = latest_data_instant(client)
    storage = client.storage
    drop_metadata_table(client)  # left by a dead writer
    create_table_config(storage.sub(layout.FOLDER), metadata_table_properties(client.config.name))
    content = {
        layout.FILES: (
            files_records(files or NO_FILES, NO_FILES, all_partitions),
            1,
        )
    }
    if with_column_stats:
        content[layout.COLUMN_STATS] = _statistics(column_stats), column_stats_shards
    if bloom_shards is not None:
        content[layout.BLOOM_FILTERS] = Records.empty(), bloom_shards
    for number, (partition, (partition_records, shards)) in enumerate(content.items()):
        build_partition(storage, partition, partition_records, shards, layout.init_instant(latest, number))
    if record_index is not None:
        create_index_partition(storage, record_index, [], layout.init_instant(latest, len(content)))
    add_partitions(client, list(content))
    if record_index is not None:
        list_index(client, record_index, latest)


def add_column_stats(
    client: TableClient, column_stats: pa.Table | None, *, shards: int = DEFAULT_COLUMN_STATS_SHARDS
) -> None:
    """Add the column statistics index to a metadata table. Callers hold the table's lock; no write may be pending.

    Args:
        client: the data table.
        column_stats: column statistics of the table's files, e.g. from their footers; of `STATISTICS_SCHEMA`.
            Files without statistics are never pruned.
        shards: number of file groups of the index, which never changes.

    Raises:
        TransactionError: no metadata table, the index is there already, or writes are pending.
    """
    listed = client.reload().metadata_partitions
    if layout.FILES not in listed or layout.COLUMN_STATS in listed:
        raise TransactionError(f"{client.storage.uri}: column statistics go into a metadata table that has none")
    latest = latest_data_instant(client)
    storage = client.storage
    recovery.recover(storage, latest + "0")  # a time that no data instant has
    storage.delete_dir(f"{layout.FOLDER}/{layout.COLUMN_STATS}")
    taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
    time = free_init_instant(latest, taken)
    build_partition(storage, layout.COLUMN_STATS, _statistics(column_stats), shards, time)
    add_partitions(client, [layout.COLUMN_STATS])


def build_partition(storage: Storage, partition: str, partition_records: Records, shards: int, time: str) -> None:
    """Create one partition of the metadata table in one deltacommit.

    Each file group is created by a log file with an empty block, so that readers can count the groups; those with
    records get a base file.
    """
    _start_partition(storage, partition, shards, time)
    written = []
    for shard, (data, count) in partition_records.hfiles(shards, block_size=block_size_of(partition)).items():
        group = layout.file_id(partition, shard)
        path = layout.base_file_path(partition, group, time)
        storage.create(path, data)
        written.append(instants.base_file_stat(partition, path, len(data), count))
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content(written, "BULK_INSERT"))


def publish_file_index(
    client: TableClient,
    partition: str,
    files: Sequence[BuiltFile],
    late: Sequence[Records],
    *,
    shards: int,
    properties: Mapping[str, str | None],
) -> None:
    """Put column statistics or bloom filters that were built from the table's files to use.

    Callers hold the table's lock. Writes of this project may be pending, whose commits add their files to the indexes
    that are listed by then; other pending instants may not. An index that the table has is replaced.

    Args:
        client: the data table, with a metadata table.
        partition: `column_stats` or `bloom_filters`.
        files: base files of the index, by shard; they are moved away.
        late: records of further files, which apply after those.
        shards: number of file groups.
        properties: of the table, to be set as the index is listed.
    """
    storage = client.storage
    completed = [one.time for one in client.timeline().completed if one.action != Action.SAVEPOINT]
    latest = max(completed, default=layout.EMPTY_TABLE_INSTANT)
    recovery.recover(storage, latest + "0")  # a time that no data instant has
    if partition in client.reload().metadata_partitions:
        remove_indexes(client, [partition])
    storage.delete_dir(f"{layout.FOLDER}/{partition}")
    taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
    time = free_init_instant(latest, taken)
    _start_partition(storage, partition, shards, time)
    written = []
    for file in files:
        path = layout.base_file_path(partition, layout.file_id(partition, file.group), time)
        storage.move(file.path, path)
        written.append(instants.base_file_stat(partition, path, file.size, file.rows))
    for some in late:
        groups = layout.list_file_groups(storage, partition)
        written += instants.append_records(storage, time, partition, groups, some.hfiles(shards))
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content(written, "BULK_INSERT"))
    add_partitions(client, [partition], properties)


def _start_partition(storage: Storage, partition: str, shards: int, time: str) -> None:
    """Begin the deltacommit that makes a partition, and create its file groups, each by an empty log."""
    instants.start(storage, time, Action.DELTACOMMIT)
    ensure_partition_metadata(storage, f"{layout.FOLDER}/{partition}", time)
    for shard in range(shards):
        storage.create(
            layout.log_file_path(partition, layout.file_id(partition, shard), time, 1), write_empty_block(time)
        )


def metadata_table_properties(table_name: str) -> Mapping[str, str]:
    """The `hoodie.properties` of the metadata table of a version 6 table."""
    return {
        "hoodie.table.name": f"{table_name}_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    }


def _statistics(column_stats: pa.Table | None) -> Records:
    if column_stats is None or not column_stats.num_rows:
        return Records.empty()
    return column_stats_records(column_stats)


def free_init_instant(latest: str, taken: Container[str]) -> str:
    """The first instant for building a partition that the metadata table does not have.

    Args:
        latest: see `latest_data_instant`.
        taken: instants of the metadata table.
    """
    numbers = (layout.init_instant(latest, number) for number in itertools.count())
    return next(time for time in numbers if time not in taken)


def latest_data_instant(client: TableClient) -> str:
    """The newest completed instant, from which init instants take their time.

    Raises:
        TransactionError: a write is pending.
    """
    timeline = client.timeline()
    pending = unlisted_writes(client, timeline)
    if pending:
        raise TransactionError(
            f"{client.storage.uri}: {pending[0]} is pending; an index is built only while no write is, or it would "
            "miss it"
        )
    completed = [instant.time for instant in timeline.completed if instant.action != Action.SAVEPOINT]
    return max(completed, default=layout.EMPTY_TABLE_INSTANT)


_LOG = logging.getLogger(__name__)


def publish_index(client: TableClient, layout: IndexLayout, files: Sequence[BuiltFile]) -> None:
    """Put base files that were built from the table's data to use as its record index.

    Callers hold the table's lock; no write may be pending. An index that the table has is replaced. A table without
    a metadata table gets one with the file listing alone.

    Args:
        client: the data table.
        layout: of the index.
        files: its base files; they are moved away. File groups without one are empty.

    Raises:
        TransactionError: writes are pending.
    """
    storage = client.storage
    latest = latest_data_instant(client)
    if names.FILES not in client.reload().metadata_partitions:
        create_metadata_table(
            client, files=list_data_files(storage).select(FILES_SCHEMA.names), with_column_stats=False
        )
    recovery.recover(storage, latest + "0")  # a time that no data instant has
    if names.RECORD_INDEX in client.config.metadata_partitions or is_private(client.config):
        _LOG.info("%s: the record index is rebuilt, in %d file groups; the old one goes", storage.uri, layout.count)
        remove_indexes(client, [names.RECORD_INDEX])
    storage.delete_dir(f"{names.FOLDER}/{names.RECORD_INDEX}")
    taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
    create_index_partition(storage, layout, files, free_init_instant(latest, taken))
    list_index(client, layout, latest)
