"""A small bucketed table of real files, written through the protocol, and what must hold of it at any time."""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.config.properties import ensure_partition_metadata
from table_format.instant import Action, State
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_names import BaseFileName, bucket_of_file_id, new_bucket_file_id
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.whole import with_archive
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.column_statistics import collect_statistics
from table_writer.metadata.instants import load_metadata_timeline
from table_writer.timeline.markers import create_marker

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
SCHEMA_JSON = json.dumps(
    {
        "type": "record",
        "name": "toy_record",
        "namespace": "hoodie.toy",
        "fields": [
            {"name": "id", "type": ["null", "string"], "default": None},
            {"name": "v", "type": ["null", "long"], "default": None},
        ],
    }
)
PROPERTIES = {
    "hoodie.table.name": "toy",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}
#: partition, bucket -> rows
Changes = Mapping[tuple[str, int], Mapping[str, int]]
Rows = dict[tuple[str, str], int]


def make(storage: Storage, options: Mapping[str, str] | None = None) -> TableClient:
    return create_table(storage, PROPERTIES, options)


def begin(client: TableClient, options: Mapping[str, str] | None = None, action: str = "commit") -> WriteTransaction:
    operation = "UPSERT" if action == "commit" else "INSERT_OVERWRITE"
    return WriteTransaction.begin(client, action, operation, options)


def current_files(client: TableClient) -> dict[tuple[str, int], tuple[str, str, str]]:
    """By partition and bucket: file id, instant and path."""
    timeline = client.timeline()
    files = latest_base_files(_listing(client, timeline), timeline).to_pylist()
    return {
        (row["partition"], bucket_of_file_id(row["file_id"])): (row["file_id"], row["instant"], row["path"])
        for row in files
    }


def _listing(client: TableClient, timeline) -> pa.Table:
    table = MetadataTable.open(client, timeline)
    return table.files() if table else list_data_files(client.storage)


def write_files(
    tx: WriteTransaction, changes: Changes, *, attempt: int = 0, before=None, fresh: bool = False
) -> tuple[list[WriteStat], pa.Table]:
    """Write the new versions of the files that changes touch, as workers do."""
    before = current_files(tx.client) if before is None else before
    stats, columns = [], []
    for (partition, bucket), rows in changes.items():
        known = None if fresh else before.get((partition, bucket))
        file_id, previous, path = known or (new_bucket_file_id(bucket), "null", None)
        name = str(BaseFileName(file_id, f"{bucket}-0-{attempt}", tx.instant))
        create_marker(tx.storage, tx.instant, partition, name, "MERGE" if known else "CREATE")
        ensure_partition_metadata(tx.storage, partition, tx.instant)
        old = dict(zip(*_read(tx.storage, path), strict=True)) if path else {}
        merged = sorted((old | dict(rows)).items())
        table = pa.table([[k for k, _ in merged], [v for _, v in merged]], schema=SCHEMA)
        sink = io.BytesIO()
        pq.write_table(table, sink)
        tx.storage.create(posixpath.join(partition, name), sink.getvalue())
        stats.append(
            WriteStat(
                file_id=file_id,
                path=posixpath.join(partition, name),
                partition_path=partition,
                prev_commit=previous,
                num_writes=len(merged),
                total_write_bytes=len(sink.getvalue()),
                file_size_in_bytes=len(sink.getvalue()),
            )
        )
        footer = pq.read_metadata(io.BytesIO(sink.getvalue()))
        columns.append(collect_statistics(table, name, partition, ["id", "v"], footer))
    return stats, pa.concat_tables(columns) if columns else None


def upsert(
    client: TableClient, changes: Changes, options: Mapping[str, str] | None = None, *, retried: bool = False
) -> CommitMetadata:
    with begin(client, options) as tx:
        tx.mark_inflight()
        if retried:
            write_files(tx, changes, attempt=7)
        stats, columns = write_files(tx, changes)
        return tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)


def overwrite(client: TableClient, changes: Changes, options: Mapping[str, str] | None = None) -> CommitMetadata:
    """Replace the partitions that changes touch."""
    with begin(client, options, "replacecommit") as tx:
        tx.mark_inflight()
        replaced: dict[str, list[str]] = {}
        for (partition, _), (file_id, _, _) in current_files(client).items():
            if any(partition == p for p, _ in changes):
                replaced.setdefault(partition, []).append(file_id)
        stats, columns = write_files(tx, changes, fresh=True)
        return tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns, replaced=replaced)


def _read(storage: Storage, path: str) -> tuple[list[str], list[int]]:
    table = pq.read_table(io.BytesIO(storage.read(path)))
    return table["id"].to_pylist(), table["v"].to_pylist()


def rows_of(location: str) -> Rows:
    """What a fresh reader sees: by listing the storage, and by the metadata table, which must agree."""
    client = TableClient.open(Storage(location))
    timeline = client.timeline()
    listed = latest_base_files(list_data_files(client.storage), timeline)
    table = MetadataTable.open(client, timeline)
    assert (table is not None) == bool(client.config.metadata_partitions), "the metadata table is not usable"
    if table is not None:
        planned = latest_base_files(table.files(), timeline)
        assert planned.to_pylist() == listed.to_pylist()
        if "column_stats" in table.partitions:
            known = table.column_stats("v", pa.int64())
            assert set(listed["file_name"].to_pylist()) <= set(known["file_name"].to_pylist())
            assert known.filter(pc.greater(known["value_count"], 0))["min"].null_count == 0
    rows: Rows = {}
    for partition, path in zip(listed["partition"].to_pylist(), listed["path"].to_pylist(), strict=True):
        for key, value in zip(*_read(client.storage, path), strict=True):
            assert (partition, key) not in rows, f"two file groups hold {key}"
            rows[partition, key] = value
    return rows


def assert_tidy(location: str) -> None:
    """Nothing is pending, and every file belongs to something."""
    storage = Storage(location)
    client = TableClient.open(storage)
    timeline = client.timeline()
    assert [str(i) for i in timeline.pending] == []
    assert [str(i) for i in load_metadata_timeline(storage).pending] == []
    names = [entry.path for entry in storage.list(".hoodie", recursive=True) if not entry.is_dir]
    stray = [
        name
        for name in names
        if name.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/", ".hoodie/metadata/.hoodie/.temp"))
        or name in (".hoodie/lock", ".hoodie/hoodie.properties.backup")
    ]
    assert stray == []
    assert [e.path for e in storage.list(".hoodie/.temp") if e.is_dir] == []
    whole = with_archive(timeline)
    counted = {s.path for i in whole.writes for s in whole.commit_metadata(i).stats()}
    everything = {e.path for e in storage.list("", recursive=True) if not e.is_dir}
    data = {path for path in everything if path.endswith(".parquet")}
    assert data <= counted, f"stray data files: {sorted(data - counted)}"
    assert {p for p in everything if not p.startswith(".hoodie/")} - data == {
        posixpath.join(folder, ".hoodie_partition_metadata") for folder in {posixpath.dirname(p) for p in counted}
    }
    archived = {instant.time for instant, _ in timeline.archive.files()}
    for instant in timeline.instants:
        for state in State if instant.time not in archived else ():  # else a run broke off, which the next one finishes
            if (instant.action, state) == (Action.SAVEPOINT, State.REQUESTED):
                continue  # nobody asks for one
            assert storage.exists(timeline.path(instant.at(state))), f"{instant} lacks {state}"
    table = MetadataTable.open(client, timeline)
    if table is not None:
        files = table.files().to_pylist()
        assert {posixpath.join(row["partition"], row["file_name"]) for row in files} == data
        assert all(storage.entry(posixpath.join(r["partition"], r["file_name"])).size == r["size"] for r in files)
