"""Writes that change a table's record index and nothing else, and what must hold of the index at any time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.metadata.index_deltas import DeltaFile, delta_folder, write_delta
from table_writer.metadata.index_options import with_partitions
from tests.support.toy_table import SCHEMA_JSON

PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.index.type": "RECORD_INDEX",
}
BY_PARTITION = {**PROPERTIES, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
FEW_GROUPS = {
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
}
#: a write with these compacts what there is before it
AT_ONCE = {"hoodie.metadata.compact.max.delta.commits": "1"}
Place = tuple[str, str]
#: (key, partition) -> file id in an index by partition, else (key, "") -> partition and file id
Content = dict[tuple[str, str], Place]


def make(storage: Storage, options: Mapping[str, str] = {}, properties: Mapping[str, str] = PROPERTIES) -> TableClient:
    return create_table(storage, properties, {**FEW_GROUPS, **options})


def put(key: str, partition: str = "p", file_id: str = "f") -> tuple[str, str, str, bool]:
    return key, partition, file_id, False


def gone(key: str, partition: str = "p") -> tuple[str, str, None, bool]:
    return key, partition, None, True


def table_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(CHANGES_SCHEMA.names, row, strict=True)) for row in rows], CHANGES_SCHEMA)


def begin(client: TableClient, options: Mapping[str, str] = {}) -> WriteTransaction:
    return WriteTransaction.begin(client, "commit", "UPSERT", options)


def deltas(tx: WriteTransaction, layout: IndexLayout, rows: Sequence[Any], tasks: int = 2) -> list[DeltaFile]:
    """Delta files of several tasks."""
    files = [
        write_delta(tx.storage, delta_folder(tx.instant), str(task), layout, table_of(rows[task::tasks]))
        for task in range(tasks)
    ]
    return [file for file in files if file]


def layout_for(client: TableClient, rows: Sequence[Any], options: Mapping[str, str] = {}) -> IndexLayout:
    layout = IndexLayout.of(client)
    assert layout is not None
    return with_partitions(layout, [row[1] for row in rows], {**FEW_GROUPS, **options})


def touched(*places: Place) -> list[WriteStat]:
    return [WriteStat(file_id=file_id, path=None, partition_path=partition) for partition, file_id in places]


def change(
    client: TableClient,
    *rows: tuple[str, str, str | None, bool],
    options: Mapping[str, str] = {},
    mapper: Callable[..., Any] = in_threads,
) -> CommitMetadata:
    with begin(client, options) as tx:
        tx.mark_inflight()
        layout = layout_for(client, rows)
        files = deltas(tx, layout, rows)
        return tx.commit([], schema_json=SCHEMA_JSON, index_changes=files, index_layout=layout, mapper=mapper)


def expected(content: Content, rows: Sequence[Any], *, by_partition: bool = False) -> Content:
    """The content after a write: of a key that it puts and deletes, the place counts."""
    after = dict(content)
    for put_now in (False, True):
        for key, partition, file_id, deleted in rows:
            name = (key, partition if by_partition else "")
            if put_now and not deleted:
                after[name] = (partition, file_id)
            elif deleted and not put_now:
                after.pop(name, None)
    return after


def content(location: str) -> Content:
    """What a fresh reader finds, group by group and by asking for the keys; both must agree."""
    client = TableClient.open(Storage(location))
    index = pickle.loads(pickle.dumps(RecordIndex.open(client)))
    by_partition = index.layout.scope == PARTITION
    entries = [index.group_entries(group) for group in range(index.layout.count)]
    rows = [row for table in entries for row in table.to_pylist()]
    places = {
        (row["key"], row["partition"] if by_partition else ""): (row["partition"], row["file_id"]) for row in rows
    }
    assert len(places) == len(rows), "a key is in the index twice"
    keys = pa.array([*sorted({key for key, _ in places}), "absent"], pa.string())
    looked_up = index.get_record_locations(keys).to_pylist()
    assert {(row["key"], row["partition"], row["file_id"]) for row in looked_up} == {
        (key, *place) for (key, _), place in places.items()
    }
    return places


def twice_pickled(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """A mapper whose tasks all run twice, as Spark's may."""
    results = {}
    for number in [*reversed(range(len(items))), *range(len(items))]:
        task, work = pickle.loads(pickle.dumps((function, items[number])))
        results[number] = task(work)
    return [results[number] for number in range(len(items))]
