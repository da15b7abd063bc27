"""Tables to build and to check record indexes of: written by the writer's own job, without Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from table_format.metadata_table.record_index import RecordIndex
from table_format.table.client import TableClient
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.metadata.index_deltas import delta_folder, write_delta
from table_writer.metadata.key_source import KeyReader, current_sources
from tests.support.local_writes import LocalTable

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("x", pa.int64())])
_OPTIONS = {
    "hoodie.table.name": "things",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.min.filegroup.count": "3"}


def make(folder: Path, options: Mapping[str, Any]) -> LocalTable:
    """An empty table."""
    return LocalTable.create(str(folder / "things"), SCHEMA, {**_OPTIONS, **options})


def writer_of(client: TableClient, options: Mapping[str, Any]) -> LocalTable:
    """Of a table that `make` made."""
    return LocalTable(client, {**_OPTIONS, **options})


def rows(first: int, last: int, *, partitions: int = 2, x: int = 0) -> pa.Table:
    """Rows of the keys `k<first>` to `k<last - 1>`, each in the partition of its number."""
    numbers = range(first, last)
    columns = [[f"k{n:03d}" for n in numbers], [f"p{n % partitions}" for n in numbers], [x] * len(numbers)]
    return pa.table(columns, schema=SCHEMA)


def data_places(client: TableClient) -> dict[str, set[tuple[str, str]]]:
    """Partition and file id of each record key, by what data files hold."""
    timeline = client.timeline()
    reader, places = KeyReader(client, timeline), {}
    for source in current_sources(client, timeline):
        for keys in reader.batches(source):
            for key in keys.to_pylist():
                places.setdefault(key.decode(), set()).add((source.partition, source.file_id))
    return places


def index_places(client: TableClient) -> dict[str, set[tuple[str, str]]]:
    """The same by what the index says, with each key looked for as readers do."""
    client.reload()
    index = RecordIndex.open(client)
    entries = [index.group_entries(group) for group in range(index.layout.count)]
    keys = pa.concat_tables(entries)["key"].combine_chunks()
    places: dict[str, set[tuple[str, str]]] = {}
    for row in index.get_record_locations(keys).to_pylist():
        places.setdefault(row["key"], set()).add((row["partition"], row["file_id"]))
    return places


def change_index(client: TableClient, *changes: tuple[str, str, str | None]) -> None:
    """A commit without data that changes entries: key, partition, and file id, or None to delete."""
    client.reload()
    layout = RecordIndex.open(client).layout
    table = pa.Table.from_pylist(
        [
            {"key": key, "partition": partition, "file_id": file_id, "deleted": file_id is None}
            for key, partition, file_id in changes
        ],
        schema=CHANGES_SCHEMA,
    )
    with WriteTransaction.begin(client, "commit", "UPSERT") as transaction:
        delta = write_delta(client.storage, delta_folder(transaction.instant), "fault.arrow", layout, table)
        schema = client.table_schema_json()
        assert delta
        assert schema
        transaction.commit([], schema_json=schema, index_changes=[delta], index_layout=layout)
