"""Tables that our own writer makes, and a metastore for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.metastore.file_metastore import FileMetastore
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import MemoryMetastore

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), metadata={"comment": "the key"}),
        pa.field("day", pa.string()),
        pa.field("x", pa.float64()),
    ]
)


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    columns = {"k": list(keys), "day": [f"d {key % 3}%" for key in keys], "x": [key / 4 for key in keys]}
    return pa.table(columns, SCHEMA)


@pytest.fixture
def written(tmp_path: Path) -> LocalTable:
    """A partitioned table with one commit."""
    options: dict[str, Any] = {
        "hoodie.table.name": "Trips",
        "hoodie.database.name": "db",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.bucket.index.num.buckets": "2",
    }
    table = LocalTable.create(str(tmp_path / "warehouse/db/trips"), SCHEMA, options)
    table.write("insert", rows(0, 30))
    return table


@pytest.fixture
def opened(written: LocalTable) -> Callable[[], Table]:
    return lambda: Table.open(written.client.storage.uri)


@pytest.fixture
def metastore(tmp_path: Path) -> FileMetastore:
    return FileMetastore(str(tmp_path / "metastore"))


@pytest.fixture
def store() -> MemoryMetastore:
    return MemoryMetastore()
