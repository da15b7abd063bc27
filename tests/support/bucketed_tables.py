"""Tables with buckets before and after a resize: their rows, and what plans that prune by bucket find of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_catalog.table import Table, create_table
from table_format.table.client import TableClient
from tests.support.faults import FaultyStorage

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
QUIET = {"hoodie.catalog.write.progress": "false"}
EAGER = {**QUIET, "hoodie.clean.failed.writes.policy": "EAGER"}
COUNT = "hoodie.bucket.index.num.buckets"
MOST_BYTES = "hoodie.catalog.bucket.max.file.size"
#: One file group of each bucket; several, with one new record in each; several, which are filled.
GROUPS: tuple[dict[str, str], ...] = ({}, {MOST_BYTES: "1"}, {MOST_BYTES: "1000000"})


def rows_in(partitions: tuple[str, ...]) -> Callable[..., pa.Table]:
    """A function that makes rows by their numbers, in these partitions by turns."""

    def rows(*numbers: int, value: int = 0) -> pa.Table:
        places = [partitions[n % len(partitions)] for n in numbers]
        return pa.table([[f"k{n}" for n in numbers], places, [value + n for n in numbers]], schema=SCHEMA)

    return rows


def tables_of(rows: Callable[..., pa.Table]) -> Callable[..., Table]:
    """A function that makes a table of the first of such rows."""

    def make(path: Path, buckets: int = 4, count: int = 60, **arguments: Any) -> Table:
        table = create_table(path / "t", SCHEMA, record_key="id", partition_by="p", buckets=buckets, **arguments)
        table.insert(rows(*range(count)), QUIET)
        return table

    return make


def content(table: Table, **question: Any) -> list[dict[str, Any]]:
    names = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
    rows = table.scan(columns=[*names, *SCHEMA.names], **question).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def assert_pruned_plans_find_all(table: Table, before: list[dict[str, Any]], **question: Any) -> None:
    for row in before[::5]:
        assert content(table, filter=f"id = '{row['id']}'", **question) == [row]


def bucket_verdict(table: Table, key: str = "k7", **question: Any) -> str:
    [verdict] = [one for one in table.scan(f"id = '{key}'", **question).plan().results if one.name == "bucket"]
    return verdict.reason


def faulty(path: Path) -> TableClient:
    return TableClient.open(FaultyStorage(str(path)))
