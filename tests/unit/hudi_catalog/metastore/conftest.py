"""Tables that our own writer makes, and a metastore for them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.metastore.file_metastore import FileMetastore
from table_format.table.client import TableClient
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import MemoryMetastore

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), metadata={"comment": "the key"}),
        pa.field("day", pa.string()),
        pa.field("x", pa.float64()),
    ]
)
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "Trips",
    "hoodie.database.name": "db",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.bucket.index.num.buckets": "2",
}


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    columns = {"k": list(keys), "day": [f"d {key % 3}%" for key in keys], "x": [key / 4 for key in keys]}
    return pa.table(columns, SCHEMA)


@pytest.fixture(scope="package")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A partitioned table with one commit, written once: a copy takes a tenth of the time of a write."""
    table = LocalTable.create(str(tmp_path_factory.mktemp("template") / "trips"), SCHEMA, OPTIONS)
    table.write("insert", rows(0, 30))
    return table.client.storage.uri


@pytest.fixture
def written(template: str, tmp_path: Path) -> LocalTable:
    """A partitioned table with one commit, of a test's own."""
    path = str(tmp_path / "warehouse/db/trips")
    shutil.copytree(template, path)
    return LocalTable(TableClient.open(path), OPTIONS)


@pytest.fixture
def opened(written: LocalTable) -> Callable[[], Table]:
    return lambda: Table.open(written.client.storage.uri)


@pytest.fixture
def metastore(tmp_path: Path) -> FileMetastore:
    return FileMetastore(str(tmp_path / "metastore"))


@pytest.fixture
def store() -> MemoryMetastore:
    return MemoryMetastore()
