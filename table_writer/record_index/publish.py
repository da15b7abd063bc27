"""Putting a finished record index to use in a table that has none, or in place of the one it has."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from table_format.metadata_table import layout as names
from table_format.record_index.layout import IndexLayout
from table_format.slices.file_slices import FILES_SCHEMA, list_data_files
from table_format.slices.table_client import TableClient
from table_writer.metadata import instants, recovery
from table_writer.metadata.creation import create_metadata_table, free_init_instant, latest_data_instant
from table_writer.metadata.writer import has_private_index, list_index, remove_indexes
from table_writer.record_index.founding import BuiltFile, found_index

_LOG = logging.getLogger(__name__)


def publish_index(client: TableClient, layout: IndexLayout, files: Sequence[BuiltFile]) -> None:
    """Make base files that were built from the table's data its record index.

    Callers hold the table's lock; no instant may be pending. An index that the table has is replaced. A table without
    a metadata table gets one, of its list of files alone.

    Args:
        client: the data table.
        layout: of the index.
        files: its base files; they are moved away. File groups without one are empty.

    Raises:
        TransactionError: instants are pending.
    """
    storage = client.storage
    latest = latest_data_instant(client)
    if names.FILES not in client.reload().metadata_partitions:
        create_metadata_table(
            client, files=list_data_files(storage).select(FILES_SCHEMA.names), with_column_stats=False
        )
    recovery.recover(storage, latest + "0")  # no instant of that time is tried again
    if names.RECORD_INDEX in client.config.metadata_partitions or has_private_index(client):
        _LOG.info("%s: the record index is rebuilt, in %d file groups; the old one goes", storage.uri, layout.count)
        remove_indexes(client, [names.RECORD_INDEX])
    storage.delete_dir(f"{names.FOLDER}/{names.RECORD_INDEX}")
    taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
    found_index(storage, layout, files, free_init_instant(latest, taken))
    list_index(client, layout, latest)
