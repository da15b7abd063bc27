"""A table with a record index, and what must hold of it after each write."""

from __future__ import annotations

from collections.abc import Mapping

from table_format.metadata_table.record_index import RecordIndex
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support.indexed_rows import OPTIONS, SCHEMA, Rows, Step, by_our_index, in_files
from tests.support.local_writes import LocalTable

#: few records a file, two file groups of the index, and every change to files by surgery that it can do
TABLE = {
    **OPTIONS,
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "3",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.catalog.write.surgery": "always",
}


def create(path: str, options: Mapping[str, str]) -> None:
    """An empty table."""
    LocalTable.create(path, SCHEMA, {**TABLE, **options})


def write(storage: Storage, done: Step, options: Mapping[str, str], executor: str = "threads") -> None:
    """One write."""
    table = LocalTable(TableClient.open(storage), {**TABLE, **options, **done.options}, executor)
    table.write(
        done.operation, None if done.operation == "delete_partition" else done.batch, partitions=done.partitions
    )


def compare(path: str, rows: Rows, keys: list[str]) -> None:
    """Data files and index hold the rows, and nothing else."""
    stored, places = in_files(path)
    assert stored == rows
    assert by_our_index(path, keys) == places
    index = RecordIndex.open(TableClient.open(Storage(path)))
    entries = [entry for group in range(len(index.layout.groups)) for entry in index.group_entries(group).to_pylist()]
    assert sorted((e["key"], (e["partition"], e["file_id"])) for e in entries) == sorted(places.items())
