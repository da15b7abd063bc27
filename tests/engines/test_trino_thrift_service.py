"""What the service for Trino guarantees besides filters: names, times, snapshots, splits in many batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import trino as client

from hudi_catalog.trino import batches
from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine

SCHEMA = pa.schema([("id", pa.int64()), ("Größe", pa.float64()), ("part", pa.string()), ("_odd", pa.binary())])


def rows(ids: range, size: float) -> pa.Table:
    columns = [list(ids), [size] * len(ids), [f"p{one % 4}" for one in ids], [b"\xff"] * len(ids)]
    return pa.table(columns, schema=SCHEMA)


def create(path: Path) -> LocalTable:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "true",
        "hoodie.clean.automatic": "false",
    }
    return LocalTable.create(str(path), SCHEMA, options)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("served"))
    (folder / "My-Shop").mkdir()
    table = create(folder / "My-Shop" / "Orders 1")
    table.write("insert", rows(range(1000), 1.0))
    table.write("upsert", rows(range(500, 1500), 2.0))
    for name, text in (("future", "hoodie.table.name=future\nhoodie.table.version=99\n"), ("damaged", "\xff\xfe")):
        properties = folder / "My-Shop" / name / ".hoodie" / "hoodie.properties"
        properties.parent.mkdir(parents=True)
        properties.write_text(text, "latin-1")
    return folder


@pytest.fixture(scope="module")
def serving(warehouse: Path) -> Iterator[ServingTrino]:
    with running_trino(TrinoSettings(str(warehouse))) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(trino: Engine, serving: ServingTrino) -> str:
    return trino.thrift_catalog("promises", serving.port)


SUMS = "count(*), sum(id), sum(grou00dfe)"
NEWEST = [(1500, 1500 * 1499 // 2, 2500.0)]
FIRST = [(1000, 1000 * 999 // 2, 1000.0)]


def test_names_and_odd_tables(trino: Engine, catalog: str) -> None:
    assert trino.query(f"SHOW SCHEMAS FROM {catalog}") == [("information_schema",), ("my_shop",)]
    assert trino.query(f"SHOW TABLES FROM {catalog}.my_shop") == [("orders_1",)]
    columns = trino.query(
        f"SELECT column_name FROM {catalog}.information_schema.columns WHERE table_schema = 'my_shop'"
    )
    assert sorted(name for (name,) in columns) == ["grou00dfe", "id", "odd", "part"]
    described = trino.query(f"DESCRIBE {catalog}.my_shop.orders_1")
    assert described[1] == ("grou00dfe", "double", "", "Größe in the table")
    with pytest.raises(client.exceptions.TrinoQueryError, match="version"):
        trino.query(f"SELECT * FROM {catalog}.my_shop.future")
    with pytest.raises(client.exceptions.TrinoUserError, match="does not exist"):
        trino.query(f"SELECT * FROM {catalog}.my_shop.orders_2")


def test_a_table_as_of_a_time(trino: Engine, catalog: str) -> None:
    table = f"{catalog}.my_shop.orders_1"
    first, second = trino.query(f"SELECT DISTINCT hoodie_commit_time FROM {table} ORDER BY 1")
    assert trino.query(f"SELECT {SUMS} FROM {table}") == NEWEST
    assert trino.query(f"SELECT {SUMS} FROM {table}__at_{first[0]}") == FIRST
    assert trino.query(f"SELECT {SUMS} FROM {table}__at_{second[0]}") == NEWEST
    new = f"SELECT count(*) FROM {table} n LEFT JOIN {table}__at_{first[0]} o ON n.id = o.id WHERE o.id IS NULL"
    assert trino.query(new) == [(500,)]
    with pytest.raises(client.exceptions.TrinoQueryError, match="oldest commit"):
        trino.query(f"SELECT * FROM {table}__at_20010101")


@pytest.mark.parametrize("kept", [True, False])
def test_splits_in_many_batches(
    trino: Engine, catalog: str, serving: ServingTrino, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """One split per batch; with the plan at hand, and planned again each time."""
    monkeypatch.setattr(batches, "_MAX_BATCH_BYTES", 0)
    if not kept:
        monkeypatch.setattr(serving.service._planner._batches._plans, "capacity", 0)
    before = len(serving.log.recent())
    assert trino.query(f"SELECT {SUMS} FROM {catalog}.my_shop.orders_1") == NEWEST
    assert len(serving.log.recent()) == before + 1
    assert trino.query(f"SELECT count(*) FROM {catalog}.my_shop.orders_1 WHERE part = 'p2'") == [(375,)]
    assert serving.log.recent()[0]["files_out"] == 4


def test_several_files_in_a_split(trino: Engine, catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MIN_SPLITS", 2)
    assert trino.query(f"SELECT {SUMS} FROM {catalog}.my_shop.orders_1") == NEWEST
    assert trino.query(f"SELECT count(*) FROM {catalog}.my_shop.orders_1") == [(1500,)]
    files = trino.query(f"SELECT DISTINCT hoodie_file_name FROM {catalog}.my_shop.orders_1 WHERE id < 100")
    assert len(files) == 16


def test_new_tables_and_commits_are_seen_at_once(trino: Engine, catalog: str, warehouse: Path) -> None:
    table = create(warehouse / "My-Shop" / "later")
    table.write("insert", rows(range(10), 1.0))
    assert trino.query(f"SELECT count(*) FROM {catalog}.my_shop.later") == [(10,)]
    for count in (20, 30):
        table.write("upsert", rows(range(count), 3.0))
        assert trino.query(f"SELECT count(*) FROM {catalog}.my_shop.later") == [(count,)]
