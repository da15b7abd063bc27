"""Tables to cluster, and what must hold of them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_catalog.table import Table, create_table
from table_format.table.client import TableClient
from table_writer.cluster import cluster
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.support.faults import FaultyStorage

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "8000"}
EACH_ITS_FILE = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}


def rows(number: int, count: int = 600, first: int = 0) -> pa.Table:
    ids = [f"k{number}_{n:05d}" for n in range(first, first + count)]
    columns = [ids, [("a", "b", "c")[n % 3] for n in range(count)], [n * 7919 % 997 for n in range(count)]]
    return pa.table([*columns, [n * 31 % 101 / 7 for n in range(count)]], schema=SCHEMA)


def make(path: Path, *, buckets: int | None = None, writes: int = 3) -> Table:
    index = "RECORD_INDEX" if buckets is None else "BUCKET"
    table = create_table(
        path / "t", SCHEMA, record_key="id", partition_by="p", index=index, buckets=buckets, options=EACH_ITS_FILE
    )
    for number in range(writes):
        table.insert(rows(number))
    return table


def content(table: Table, **question: Any) -> list[dict[str, Any]]:
    meta = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
    return sorted(
        table.scan(columns=[*meta, *SCHEMA.names], **question).to_arrow().to_pylist(), key=lambda row: str(row["id"])
    )


def assert_whole(table: Table, wanted: list[dict[str, Any]]) -> None:
    assert content(table) == wanted
    if (table.config.index_type or "RECORD_INDEX") != "BUCKET":
        assert table.verify_index().is_right
    assert_named(table)


def assert_named(table: Table) -> None:
    """Rows name the file that they are in."""
    for path in table.files()["path"].to_pylist():
        names = pq.read_table(f"{table.client.storage.uri}/{path}", columns=["_hoodie_file_name"]).column(0)
        assert set(names.to_pylist()) <= {path.rsplit("/", 1)[-1]}


def faulty(path: Path) -> TableClient:
    """A table whose storage fails as `FaultyStorage.faults` says."""
    return TableClient.open(FaultyStorage(str(path)))


def clustered(client: TableClient) -> None:
    """Plan and run a clustering in one call."""
    options = WriteOptions.of({"hoodie.catalog.write.progress": "false", **SIZE})
    cluster(client, options, LocalExecutor(1), sort_by=["x", "y"], strategy="hilbert")
