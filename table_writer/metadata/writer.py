"""Writing the metadata table: one deltacommit for each instant of the data table, before that completes.

The metadata table must never lag behind the data table: an index that a write cannot maintain is taken out of use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_format.config.index_definitions import forget_indexes
from table_format.config.option_values import names
from table_format.config.table_config import update_table_config
from table_format.errors import CorruptFileError, MissingFileError, RecordIndexError, SchemaError, TransactionError
from table_format.instant import Action
from table_format.meta_columns import META_COLUMNS
from table_format.metadata_table import layout
from table_format.metadata_table.record_index import is_private
from table_format.metadata_table.record_index_layout import LAYOUT_KEY, PARTITION, IndexLayout, define_layout
from table_format.metadata_table.slices import other_layout
from table_format.slices.file_slices import FILES_SCHEMA
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.encoding.bloom_records import bloom_records, deleted_bloom_records
from table_writer.encoding.metadata_records import (
    NO_FILES,
    Records,
    column_stats_records,
    concatenated,
    deleted_column_stats_records,
    files_records,
)
from table_writer.metadata import instants, recovery
from table_writer.metadata.column_statistics import COLUMN_LIST
from table_writer.metadata.compaction import clean_metadata_table, compact_metadata_table
from table_writer.metadata.file_contents import Statistics, filters_of_files
from table_writer.metadata.index_files import UNCHANGED, IndexChanges, append_changes
from table_writer.metadata.indexed_leaves import leaf_type
from table_writer.metadata.recovery import rollback_in_metadata_table

_LOG = logging.getLogger(__name__)
_FILTERS_AT_ONCE = 1000


def update_metadata_table(
    client: TableClient,
    instant: str,
    *,
    files_added: pa.Table | None = None,
    files_deleted: pa.Table | None = None,
    column_stats: pa.Table | Statistics | None = None,
    new_partitions: Sequence[str] = (),
    deleted_partitions: Sequence[str] = (),
    index_changes: IndexChanges | None = None,
    options: Mapping[str, str] | None = None,
    timeline: Timeline | None = None,
) -> None:
    """Record an instant of the data table, if it has a metadata table.

    Callers hold the table's lock, and complete the data table's instant afterwards. Instants of dead writers and an
    earlier attempt of the same instant are rolled back first; a compaction runs before if it is due by the options.
    Indexes in the metadata table that cannot be maintained are taken out of use, for they would be stale.

    Args:
        client: the data table; its properties are read again.
        instant: the data table's instant, any action but a savepoint.
        files_added: columns `partition`, `file_name`, `size` (bytes).
        files_deleted: columns `partition`, `file_name`.
        column_stats: of `STATISTICS_SCHEMA`, of files added, or what gives them; not used when the table has no such
            index.
        new_partitions: partition paths without files added.
        deleted_partitions: partition paths that were deleted.
        index_changes: what the instant changes in the record index; None if that is not known, which takes the
            index out of use.
        options: see `compact_metadata_table` and `index_files.append_changes`; None for a clean or rollback, which
            leave compaction to the next write.
        timeline: the data table's, loaded under the lock; None loads it where it is needed.

    Raises:
        RecordIndexError: the record index is out of date.
        ConflictError: the record index was rebuilt since the write began.
    """
    storage = client.storage
    listed = ready_partitions(client, record_index=index_changes is not None)
    if layout.FILES not in listed:
        return
    listed = (*listed, *_being_built(client))
    own = recovery.recover(storage, instant)
    mapper = index_changes.mapper if index_changes is not None else in_threads
    if options is not None and compact_metadata_table(client, options, mapper, data=timeline, metadata=own) is not None:
        clean_metadata_table(client)
    added = NO_FILES if files_added is None else files_added
    deleted = NO_FILES if files_deleted is None else files_deleted
    content = {
        layout.FILES: files_records(added, deleted, new_partitions, deleted_partitions),
    }
    if layout.COLUMN_STATS in listed:
        gone = deleted_column_stats_records(
            deleted, _indexed_columns(client, options or {}) if deleted.num_rows else ()
        )
        known = column_stats(client.config) if callable(column_stats) else column_stats
        content[layout.COLUMN_STATS] = concatenated(
            gone, Records.empty() if known is None else column_stats_records(known)
        )
    instants.start(storage, instant, Action.DELTACOMMIT)
    written = []
    for partition, partition_records in content.items():
        written += _append(storage, instant, partition, partition_records)
    if layout.BLOOM_FILTERS in listed:
        for some in _filters(storage, added, deleted, options or {}):
            written += _append(storage, instant, layout.BLOOM_FILTERS, some)
    if index_changes is not None and index_changes.files:
        written += _index_logs(client, instant, index_changes, options or {})
    instants.complete(storage, instant, Action.DELTACOMMIT, instants.commit_content(written, "UPSERT_PREPPED"))


def _being_built(client: TableClient) -> list[str]:
    """Indexes of files that Apache's indexer builds meanwhile, and to which it does not add what we commit."""
    inflight = names(client.config.raw, layout.INFLIGHT_PARTITIONS_KEY)
    return [
        name
        for name in (layout.BLOOM_FILTERS, layout.COLUMN_STATS)
        if name in inflight
        and name not in client.config.metadata_partitions
        and layout.list_file_groups(client.storage, name)
    ]


def _append(storage: Storage, instant: str, partition: str, records: Records) -> list[WriteStat]:
    groups = layout.list_file_groups(storage, partition)
    if not groups:
        raise CorruptFileError(
            f"{layout.FOLDER}/{partition}", 0, "the metadata table has no file group there; drop and rebuild it"
        )
    return instants.append_records(storage, instant, partition, groups, records.hfiles(len(groups)))


def _filters(storage: Storage, added: pa.Table, deleted: pa.Table, options: Mapping[str, str]) -> Iterator[Records]:
    """Records of bloom filters, not too many at once: a filter by Apache's defaults takes 420 KiB."""
    if deleted.num_rows:
        yield deleted_bloom_records(deleted)
    for start in range(0, added.num_rows, _FILTERS_AT_ONCE):
        some = added.slice(start, _FILTERS_AT_ONCE)
        yield bloom_records(filters_of_files(storage, some, options))


def _index_logs(
    client: TableClient, instant: str, changes: IndexChanges, options: Mapping[str, str]
) -> list[WriteStat]:
    current = index_in_use(client)
    if current is None:
        _LOG.warning(
            "%s: the record index was taken out of use while %s was under way, which therefore does not add to it",
            client.storage.uri,
            instant,
        )
        return []
    return append_changes(client, instant, current, changes, options)


def index_in_use(client: TableClient) -> IndexLayout | None:
    """Layout of the record index that commits maintain, by the table's loaded properties; None without one.

    Raises:
        RecordIndexError: another tool's write left the index out of date.
    """
    layout = IndexLayout.of(client)
    if layout is None and is_private(client.config):
        raise RecordIndexError(
            f"{client.storage.uri}: a write by another tool left the record index out of date, which only this project "
            "reads: build it again by `hudi-catalog index bootstrap`"
        )
    return layout


def ready_partitions(client: TableClient, *, record_index: bool = False) -> tuple[str, ...]:
    """The metadata partitions to maintain, after taking those out of use that cannot be.

    Reads the table's properties again.

    Args:
        client: the data table.
        record_index: whether the record index can be maintained.
    """
    listed = client.reload().metadata_partitions
    if not listed or drop_unusable(client):
        return ()
    maintained = [name for name in layout.MAINTAINED if record_index or name != layout.RECORD_INDEX]
    stale = [name for name in listed if name not in maintained]
    if not record_index and is_private(client.config):
        stale.append(layout.RECORD_INDEX)
    if stale:
        _LOG.warning(
            "%s: the metadata table's %s cannot be maintained by this writer and would be stale: removed. %s",
            client.storage.uri,
            ", ".join(stale),
            "`hudi-catalog index bootstrap` builds it again"
            if stale == [layout.RECORD_INDEX]
            else "Apache Hudi can build it again",
        )
        remove_indexes(client, stale)
    return client.config.metadata_partitions


def drop_unusable(client: TableClient) -> bool:
    """Take a metadata table out of use, and delete it, if no reader would see there what a commit adds.

    Callers hold the table's lock.

    Returns:
        Whether there was one.
    """
    if not client.config.metadata_partitions:
        return False
    reason = _why_unusable(client)
    if reason is None:
        return False
    _LOG.warning("%s: the metadata table is taken out of use: %s", client.storage.uri, reason)
    drop_metadata_table(client)
    return True


def _why_unusable(client: TableClient) -> str | None:
    if layout.FILES not in client.config.metadata_partitions:
        return "it does not list the table's files"
    try:
        return other_layout(client)
    except MissingFileError:
        return "the table's properties name it, and it is missing"


def remove_indexes(client: TableClient, indexes: Sequence[str]) -> None:
    """Take metadata partitions other than `files` out of use, then delete them. Callers hold the table's lock.

    Readers notice it when they next read the table's properties.
    """
    if layout.FILES in indexes:
        raise TransactionError("without `files` there is no metadata table; drop the whole of it instead")
    remaining = [name for name in client.config.metadata_partitions if name not in indexes]
    _set_partitions(client, remaining, {LAYOUT_KEY: None} if layout.RECORD_INDEX in indexes else None)
    forget_indexes(client.storage, client.config, indexes)
    for name in indexes:
        client.storage.delete_dir(f"{layout.FOLDER}/{name}")


def drop_metadata_table(client: TableClient) -> None:
    """Take the whole metadata table out of use, then delete it. Callers hold the table's lock."""
    if client.config.metadata_partitions or client.config.raw.get(layout.INFLIGHT_PARTITIONS_KEY):
        _set_partitions(client, [], {LAYOUT_KEY: None})
    client.storage.delete_dir(layout.FOLDER)


def add_partitions(
    client: TableClient, added: Sequence[str], properties: Mapping[str, str | None] | None = None
) -> None:
    """List metadata partitions as ready for use, and set further properties of the table with that."""
    _set_partitions(client, [*client.reload().metadata_partitions, *added], properties)


def list_index(client: TableClient, layout_in_use: IndexLayout, since: str, *, private: bool = False) -> None:
    """Put a record index to use: list it as Apache does, or note the layout of one that Apache cannot read.

    Args:
        client: the data table.
        layout_in_use: the layout.
        since: the newest instant in the index.
        private: whether to hide it from Apache whatever its layout.
    """
    others = [name for name in client.reload().metadata_partitions if name != layout.RECORD_INDEX]
    if layout_in_use.is_private or private:
        _LOG.warning(
            "%s: the record index has a layout that Apache Hudi cannot read; it is not listed for Apache, and a write "
            "by Apache puts it out of date",
            client.storage.uri,
        )
        _set_partitions(client, others, {LAYOUT_KEY: layout_in_use.to_json(since)})
        return
    if layout_in_use.scope == PARTITION:
        _LOG.warning(
            "%s: the record index is kept by partition, which Apache Hudi reads from 1.1 on only", client.storage.uri
        )
    properties = define_layout(client, layout_in_use)
    _set_partitions(client, [*others, layout.RECORD_INDEX], {LAYOUT_KEY: None, **properties})


def _set_partitions(
    client: TableClient, listed: Sequence[str], properties: Mapping[str, str | None] | None = None
) -> None:
    text = ",".join(sorted(set(listed)))
    changes = {layout.PARTITIONS_KEY: text, layout.INFLIGHT_PARTITIONS_KEY: "", **(properties or {})}
    client.config = update_table_config(client.storage, changes)


def _indexed_columns(client: TableClient, options: Mapping[str, str]) -> tuple[str, ...]:
    """Columns that may have statistics, and listed fields of structs; tombstones for those without any do no harm."""
    try:
        schema = client.table_schema()
    except SchemaError:
        return ()
    plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
    listed = {**options, **client.config.raw}.get(COLUMN_LIST, "").split(",")
    fields = [name.strip() for name in listed if "." in name and leaf_type(schema, name.strip()) is not None]
    return (*META_COLUMNS, *plain, *fields)


DELETED_SCHEMA = pa.schema([("partition", pa.string()), ("file_name", pa.string())])


def record_commit(
    client: TableClient,
    instant: str,
    stats: Sequence[WriteStat],
    column_stats: Statistics | None,
    *,
    index_changes: IndexChanges | None,
    options: Mapping[str, str],
    timeline: Timeline,
) -> None:
    """Add the files of a commit. File groups that it replaced stay until cleaning deletes them.

    A record index is taken out of use unless the commit has its changes. A compaction of the metadata table that is due
    (`hoodie.metadata.compact.*` in options) runs before.
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
        timeline=timeline,
    )


def record_clean(
    client: TableClient, instant: str, deleted: Mapping[str, Iterable[str]], partitions: Sequence[str] = ()
) -> None:
    """Remove the files that a clean deleted, by partition, and the partitions that are gone with them."""
    update_metadata_table(
        client,
        instant,
        files_added=FILES_SCHEMA.empty_table(),
        files_deleted=_table([(p, name) for p, names in deleted.items() for name in names], DELETED_SCHEMA),
        column_stats=None,
        new_partitions=[],
        deleted_partitions=partitions,
        index_changes=UNCHANGED,
    )


def record_rollback(client: TableClient, rollback: str, failed: str) -> None:
    """Roll back a failed instant in the metadata table, and record the rollback there."""
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
