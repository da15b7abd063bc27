"""Rows of tables with a record index: what a table must hold after each write, and where its files hold it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.metadata_table.record_index import RecordIndex
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
#: key → partition and value
Rows = dict[str, tuple[str, int]]
#: key → partition and file id
Places = dict[str, tuple[str, str]]
EVENT_TIME = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
COMMIT_TIME = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
OPTIONS = {
    "hoodie.table.name": "indexed",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
}
INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    # without it, Apache Hudi drops an index that it finds
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    # our changes to files by copying what they leave, however small the files
    "hoodie.catalog.write.surgery": "always",
}


@dataclass(frozen=True)
class Step:
    """One write.

    Attributes:
        operation: as `hoodie.datasource.write.operation` calls it.
        rows: the batch.
        options: of this write.
        partitions: that `delete_partition` takes.
    """

    operation: str
    rows: Rows
    options: Mapping[str, str]
    partitions: tuple[str, ...] = ()

    def all_options(self, table: Mapping[str, str]) -> dict[str, str]:
        """Options of the write, by whichever writer."""
        options = {**OPTIONS, **table, **self.options, "hoodie.datasource.write.operation": self.operation}
        if self.partitions:
            options["hoodie.datasource.write.partitions.to.delete"] = ",".join(self.partitions)
        return options

    @property
    def batch(self) -> pa.Table:
        """The rows."""
        columns: list[Any] = [list(self.rows), [p for p, _ in self.rows.values()], [v for _, v in self.rows.values()]]
        return pa.table(columns, schema=SCHEMA)


def step(operation: str, rows: Rows, *partitions: str, **options: str) -> Step:
    """A write; names of options without their dots, as `hoodie_metadata_enable`."""
    return Step(operation, rows, {name.replace("_", "."): text for name, text in options.items()}, partitions)


def apply(rows: Rows, done: Step, *, event_time: bool) -> Rows:
    """What the table holds after a write: a record stays in its partition unless the write moves it."""
    result = dict(rows)
    if done.operation == "delete_partition":
        return {key: row for key, row in rows.items() if row[0] not in done.partitions}
    if done.operation == "insert_overwrite":
        touched = {partition for partition, _ in done.rows.values()}
        result = {key: row for key, row in rows.items() if row[0] not in touched}
    moves = done.options.get("hoodie.record.index.update.partition.path") == "true"
    for key, (partition, value) in done.rows.items():
        known = result.get(key)
        if done.operation == "delete":
            result.pop(key, None)
        elif known is None:
            result[key] = (partition, value)
        elif not event_time or value >= known[1]:
            result[key] = (partition if moves else known[0], value)
    return result


def in_files(path: Path | str) -> tuple[Rows, Places]:
    """Rows and their places, by reading every current base file whole; no key may occur twice."""
    client = TableClient.open(Storage(str(path)))
    rows: Rows = {}
    places: Places = {}
    for file in latest_base_files(list_data_files(client.storage), client.timeline()).to_pylist():
        for row in pq.read_table(io.BytesIO(client.storage.read(file["path"]))).to_pylist():
            key = row["_hoodie_record_key"]
            assert key not in rows, f"{key} occurs twice"
            assert row["_hoodie_partition_path"] == file["partition"]
            assert row["_hoodie_file_name"] == file["file_name"]
            assert row["_hoodie_commit_time"] <= file["instant"]
            rows[key] = (file["partition"], row["v"])
            places[key] = (file["partition"], file["file_id"])
    return rows, places


def by_our_index(path: Path | str, keys: list[str], partitions: list[str] | None = None) -> Places:
    """Where our look-up finds keys."""
    index = RecordIndex.open(TableClient.open(Storage(str(path))))
    texts = None if partitions is None else pa.array(partitions, pa.string())
    locations = index.get_record_locations(pa.array(keys, pa.string()), texts).to_pylist()
    places = {row["key"]: (row["partition"], row["file_id"]) for row in locations}
    assert len(places) == len(locations), "a key has two places"
    return places
