"""Creating tables."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Final

from table_format.config.table_config import BACKUP_PATH, PROPERTIES_PATH, TableConfig, create_table_config
from table_format.errors import OptionError, StorageError, TableExistsError
from table_format.instant import WRITE_ACTIONS, parse_instant_file_name
from table_format.keys.partition_buckets import claimed_rules, write_rules
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.file_contents import check_filter_columns
from table_writer.metadata.index_options import IndexOptions, layout_of, scope_of_type
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import ProtocolOptions

_DEFAULTS: Final = {
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.archivelog.folder": "archived",
    "hoodie.populate.meta.fields": "true",
    "hoodie.datasource.write.drop.partition.columns": "false",
    # explicit, because without them Apache's SQL assumes hive-style folders and its data source does not
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}
_log = logging.getLogger(__name__)
_REQUIRED: Final = "hoodie.table.name"
_FOLDERS: Final = ("archived", ".aux", ".schema", ".temp")


def create_table(storage: Storage, values: Mapping[str, str], options: Mapping[str, str] | None = None) -> TableClient:
    """Create an empty table, with its metadata table unless `hoodie.metadata.enable` is false.

    The table exists once its properties do. If the writer dies before the metadata table is ready, the first write
    creates that.

    Args:
        storage: rooted at the table's base folder.
        values: properties; defaults of version, layout, type and so on are Apache's.
        options: of the protocol, and `hoodie.metadata.*`.

    Raises:
        TableExistsError: there is a table already, or the folder holds other files.
        OptionError: the properties lack the table's name, or ask for a record index without a metadata table.
    """
    protocol, index = ProtocolOptions.parse(options or {}), IndexOptions.parse(options or {})
    keys = str(values.get("hoodie.table.recordkey.fields") or "").split(",")
    check_filter_columns(protocol.bloom_columns, keys)
    if not values.get(_REQUIRED):
        raise OptionError(f"{_REQUIRED} is missing: a table needs a name")
    if not protocol.metadata and _index_scope(values, index) is not None:
        raise OptionError("a record index lies in the metadata table: leave hoodie.metadata.enable at true")
    _refuse_second(storage)
    _refuse_foreign_files(storage)
    with FileSystemLock(storage, protocol.lock):
        _refuse_second(storage)  # another writer may have created it meanwhile
        for folder in _FOLDERS:
            storage.make_dir(f".hoodie/{folder}")
        config = TableConfig(dict(values))
        rules = claimed_rules(config.raw, config.bucket_count)
        if rules is not None:
            write_rules(storage, rules)  # no writer of Apache's may see the table without them
        client = TableClient(storage, create_table_config(storage, {**_DEFAULTS, **values}))
        if protocol.metadata:
            _make_metadata_table(client, protocol, index)
    return client


def _refuse_second(storage: Storage) -> None:
    if storage.exists(PROPERTIES_PATH) or storage.exists(BACKUP_PATH):
        raise TableExistsError(f"{storage.uri}: there is a Hudi table already")


def _refuse_foreign_files(storage: Storage) -> None:
    """Refuse a folder with files, other than hidden ones such as those of desktops and checksums.

    Folders below `.hoodie` may be left by an interrupted creation; instants there belong to a table that lost its
    properties.
    """
    try:
        entries = storage.list()
    except StorageError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            raise TableExistsError(f"{storage.uri} is a file; a new table needs an empty folder") from error
        raise
    for entry in entries:
        if entry.name == ".hoodie" and entry.is_dir:
            lost = [file.path for file in storage.list(entry.path) if parse_instant_file_name(file.name)]
            if lost:
                raise TableExistsError(
                    f"{storage.uri}: {lost[0]} is of a table whose {PROPERTIES_PATH} is gone; bring that file back, or "
                    "choose another folder"
                )
        elif not entry.name.startswith("."):
            held = [entry] if not entry.is_dir else storage.list(entry.path, recursive=True)
            files = [file.path for file in held if not file.is_dir]
            if files:
                raise TableExistsError(
                    f"{storage.uri}: the folder is not empty: it holds {files[0]}; a new table needs an empty folder"
                )


def ensure_metadata_table(
    client: TableClient, protocol: ProtocolOptions, index: IndexOptions, timeline: Timeline
) -> None:
    """Create the metadata table of a table without data whose creation was interrupted.

    A table with data and without a metadata table stays so: that is its owner's choice.
    """
    listed = client.config.metadata_partitions
    if protocol.bloom_filters and layout.FILES in listed and layout.BLOOM_FILTERS not in listed:
        _log.warning(
            "%s: hoodie.metadata.index.bloom.filter.enable is on, but the table has no bloom filters: "
            "`hudi-catalog index build` or `maintain` makes them",
            client.storage.uri,
        )
    if not protocol.metadata or listed:
        return
    if not any(instant.comparable_action in WRITE_ACTIONS for instant in timeline.instants):
        _make_metadata_table(client, protocol, index)


def _make_metadata_table(client: TableClient, protocol: ProtocolOptions, index: IndexOptions) -> None:
    scope = _index_scope(client.config.raw, index)
    wanted = dataclasses.replace(index, scope=scope)
    create_metadata_table(
        client,
        with_column_stats=protocol.column_stats,
        column_stats_shards=protocol.column_stats_shards,
        bloom_shards=protocol.bloom_shards if protocol.bloom_filters else None,
        record_index=layout_of(wanted) if scope else None,
    )
    client.reload()


def _index_scope(properties: Mapping[str, str], index: IndexOptions) -> str | None:
    """Scope of the record index of a new table, by its properties or the options; None for no index."""
    return scope_of_type(properties.get("hoodie.index.type")) or index.scope
