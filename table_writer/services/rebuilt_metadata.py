"""The metadata table that is made anew after another tool's restore was finished here.

What the table had is noted among the scratch files of the restore before it is dropped. They are deleted last: whoever
comes after a process that died meanwhile finds the note there, while the restore is pending and after it.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from table_format.errors import CorruptFileError, MissingFileError, SchemaError
from table_format.meta_columns import META_FIELDS
from table_format.metadata_table import layout
from table_format.slices.file_slices import FILES_SCHEMA, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.table.schema_history import internal_schemas
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.metadata.creation import add_column_stats, create_metadata_table
from table_writer.metadata.file_contents import statistics_of_files
from table_writer.timeline.instants import unlisted_writes
from table_writer.timeline.markers import scratch_folder

_log = logging.getLogger(__name__)

_MADE: Final = frozenset({layout.FILES, layout.COLUMN_STATS})


def note_partitions(storage: Storage, restore: str, partitions: Iterable[str]) -> None:
    """Note which partitions the metadata table has, with those of earlier attempts to finish the restore.

    Args:
        storage: of the table.
        restore: time of the restore.
        partitions: in use now.
    """
    noted = {*partitions, *(_noted(storage, restore) or ())}
    storage.overwrite(_path(restore), "\n".join(sorted(noted)).encode())


def rebuild_noted(client: TableClient, restore: str) -> bool:
    """Make the metadata table anew from the files of the table, if it had one before a restore.

    The file listing and the column statistics are; other indexes are named in a warning.

    Args:
        client: the table, whose lock the caller holds.
        restore: time of the restore, which has completed.

    Returns:
        Whether the note of the restore may go: not while writes are pending, which an index that is built would miss.
    """
    noted = _noted(client.storage, restore)
    if noted is None or layout.FILES not in noted:
        return True
    client.reload()
    timeline = client.timeline()
    if unlisted_writes(client, timeline):
        _log.warning("%s: the metadata table is made anew once no write is pending", client.storage.uri)
        return False
    files = list_data_files(client.storage).select(FILES_SCHEMA.names)
    if layout.FILES not in client.config.metadata_partitions:
        create_metadata_table(client, files=files, with_column_stats=False)
    wanted = layout.COLUMN_STATS in noted and layout.COLUMN_STATS not in client.reload().metadata_partitions
    lost = noted - _MADE
    if wanted and timeline.writes and internal_schemas(timeline) is None:
        try:
            schema = pa.schema([*META_FIELDS, *client.table_schema(timeline)])
            columns = indexable_columns(schema, client.config.raw)
            places = files.select(["partition", "file_name"])
            add_column_stats(client, statistics_of_files(client.storage, places, schema, columns))
        except (CorruptFileError, SchemaError) as error:  # a damaged file is no reason to refuse all writes
            _log.warning("%s: column statistics cannot be built: %s", client.storage.uri, error)
            lost |= {layout.COLUMN_STATS}
    if lost:
        _log.warning("%s: %s are to be built again: `hudi-catalog index`", client.storage.uri, ", ".join(sorted(lost)))
    return True


def _noted(storage: Storage, restore: str) -> set[str] | None:
    try:
        return set(storage.read(_path(restore)).decode(errors="replace").split())
    except MissingFileError:
        return None


def _path(restore: str) -> str:
    return posixpath.join(scratch_folder(restore), "metadata_partitions")
