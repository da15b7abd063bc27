"""Tables registered in real Hive Metastores, 2.3.10 and 4.0.1, for Hive and Spark."""

import os
import threading
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.metastore import HiveTable
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import KilledError
from tests.support.sync_histories import HISTORIES, OPTIONS, History, types_of

pytestmark = pytest.mark.engine

PARTITIONS = 1_500


@pytest.fixture(scope="session", params=["hive_metastore", "hive_metastore_4"])
def address(request: pytest.FixtureRequest) -> tuple[str, int]:
    host, port = request.getfixturevalue(request.param).uri.removeprefix("thrift://").split(":")
    return host, int(port)


@pytest.fixture
def store(address: tuple[str, int]) -> ThriftMetastore:
    return ThriftMetastore([address])


@pytest.fixture
def database() -> str:
    return f"d{uuid.uuid4().hex[:12]}"


class DyingMetastore(ThriftMetastore):
    """A client that is killed at one of its calls, before it or when the metastore has carried it out."""

    def __init__(self, address: tuple[str, int], at: int, *, half_done: bool) -> None:
        super().__init__([address])
        self.left = at
        self.half_done = half_done
        self.lock = threading.Lock()

    def _call(self, method: str, *arguments: Any) -> Any:
        with self.lock:
            self.left -= 1
            dies, first = self.left < 0, self.left == -1
        if dies and not (first and self.half_done):
            raise KilledError(f"killed at {method}")
        done = super()._call(method, *arguments)
        if dies:
            raise KilledError(f"killed after {method}")
        return done


@given(
    steps=HISTORIES,
    form=st.sampled_from(["apache", "apache", "handler"]),
    hive_style=st.booleans(),
    half_done=st.booleans(),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_histories(
    address: tuple[str, int],
    tmp_path: Path,
    steps: list[tuple[str, Any]],
    form: str,
    hive_style: bool,
    half_done: bool,
) -> None:
    name = uuid.uuid4().hex[:12]
    store = ThriftMetastore([address])
    try:
        history = History(
            str(tmp_path / name),
            store,
            lambda at: DyingMetastore(address, at, half_done=half_done),
            form,
            hive_style,
            database=f"h{name}",
        )
        for what, of in steps:
            history.step(what, of)
        history.check()
    finally:
        store.close()


def held(store: ThriftMetastore, database: str, name: str = "t") -> HiveTable:
    entry = store.table(database, name)
    assert entry is not None
    return entry


def test_types_that_a_metastore_does_not_alter(store: ThriftMetastore, database: str, tmp_path: Path) -> None:
    """A change that Hive's own tables do not allow is made all the same, and another format too."""
    history = History(str(tmp_path / "t"), store, lambda _: store, "handler", False, database=database)
    history.sync(store)
    entry = held(store, database)
    odd = tuple(c if c.name != "x" else type(c)("x", "string") for c in entry.columns)
    store.put_table(HiveTable(**{**vars(entry), "columns": odd}))
    assert any("string → double" in str(change) for change in history.sync(store))
    for form in ("apache", "handler", "apache"):
        history.form = form
        history.check()
    assert types_of(held(store, database)) == {"k": "string", "p": "string", "x": "double"}
    assert held(store, database).parameters["EXTERNAL"] == "TRUE"
    assert os.path.isdir(tmp_path / "t/.hoodie"), "dropping the entry left the files"


def many_partitions(folder: Path) -> Table:
    """A table whose one commit filled many partitions: one file, and hard links to it."""
    options = {**OPTIONS, "hoodie.metadata.enable": "false"}
    schema = pa.schema([("k", pa.string()), ("p", pa.string())])
    made = LocalTable.create(str(folder), schema, options)
    made.write("insert", pa.table({"k": ["a"], "p": ["p00000"]}, schema))
    first = next((folder / "p00000").glob("*.parquet"))
    metadata = folder / "p00000/.hoodie_partition_metadata"
    for number in range(1, PARTITIONS):
        there = folder / f"p{number:05}"
        there.mkdir()
        os.link(first, there / first.name)
        os.link(metadata, there / metadata.name)
    return Table.open(str(folder))


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return many_partitions(tmp_path_factory.mktemp("wide") / "t")


def test_more_partitions_than_fit_one_call(address: tuple[str, int], wide: Table, database: str) -> None:
    store = open_metastore(f"thrift://{address[0]}:{address[1]}")
    options = SyncOptions(database=database)
    done = sync_to_hive(wide, store, options, format="apache")
    assert sum(change.what.startswith("partition ") for change in done.changes) == PARTITIONS
    assert sync_to_hive(wide, store, options).changes == ()
    entry = store.table(database, "t")
    assert entry is not None
    assert store.partition_values(entry) == {(f"p{number:05}",) for number in range(PARTITIONS)}
    store.drop_table(database, "t")
