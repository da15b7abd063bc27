"""Our connector over tables on S3, which Trino reads by its own file system; the S3 API is moto's, on this machine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
import trino as client
from moto.server import ThreadedMotoServer
from pyarrow import fs

from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import planned
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, options

pytestmark = pytest.mark.engine

BUCKET, SCHEMA = "lake", "shop"
KEY = "test"
DAYS, ROWS = 12, 600
NUMBERS = itertools.count()


def facts() -> pa.Table:
    days = [one * DAYS // ROWS for one in range(ROWS)]
    ids = pa.array(range(ROWS), pa.int64())
    # an object's key is taken letter by letter
    return pa.table({"id": ids, "day": [f"d{day} %20+é" for day in days], "key": pa.array(days, pa.int32())})


class Store:
    """A bucket with a warehouse of two tables, served, and catalogs of Trino over it."""

    def __init__(self, engine: Engine, endpoint: str) -> None:
        self.engine = engine
        self.files = {
            "fs.native-s3.enabled": "true",
            "s3.endpoint": endpoint,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
            "s3.aws-access-key": KEY,
            "s3.aws-secret-key": KEY,
        }

    def catalog(self, service: ServingTrino, files: dict[str, str]) -> str:
        return self.engine.connector_catalog(f"s3_{next(NUMBERS)}", service.port, files)

    def query(self, catalog: str, sql: str, **session: Any) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=catalog, schema=SCHEMA, **session)


def plan_of_facts(service: ServingTrino) -> Mapping[str, Any]:
    """The newest one."""
    return planned(service.log, f"{SCHEMA}.facts")[-1]


@pytest.fixture(scope="module")
def store(trino: Engine) -> Iterator[Store]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", endpoint)
            patch.setenv("AWS_ACCESS_KEY_ID", KEY)
            patch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True).create_dir(BUCKET)
            names = pa.table({"key": pa.array(range(DAYS), pa.int32()), "name": [f"n{one % 6}" for one in range(DAYS)]})
            write("facts", facts(), Layout("id", "id", 1, "day"))
            write("names", names, Layout("key", "key", 1))
            yield Store(trino, endpoint)
    finally:
        server.stop()


def write(name: str, rows: pa.Table, layout: Layout) -> None:
    table = LocalTable.create(f"s3://{BUCKET}/warehouse/{SCHEMA}/{name}", rows.schema, options(name, layout))
    table.write("insert", rows)


@pytest.fixture(scope="module", params=["s3", "s3a"])
def service(store: Store, request: pytest.FixtureRequest) -> Iterator[ServingTrino]:
    """Over the same tables, by both spellings of their locations."""
    with running_trino(TrinoSettings(f"{request.param}://{BUCKET}/warehouse")) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(store: Store, service: ServingTrino) -> Iterator[str]:
    made = store.catalog(service, store.files)
    yield made
    store.engine.drop_catalog(made)


def test_trino_reads_the_files_itself(store: Store, service: ServingTrino, catalog: str) -> None:
    rows = store.query(catalog, "SELECT id, day, key FROM facts ORDER BY id")
    assert rows == [tuple(row.values()) for row in facts().to_pylist()]
    assert (plan_of_facts(service)["files_out"], plan_of_facts(service)["served"]) == (DAYS, 0)
    paths = store.query(catalog, 'SELECT DISTINCT "$path" FROM names')
    assert [path.split("://")[1].rpartition("/")[0] for (path,) in paths] == [f"{BUCKET}/warehouse/{SCHEMA}/names"]


def test_files_are_left_out(store: Store, service: ServingTrino, catalog: str) -> None:
    assert store.query(catalog, "SELECT count(*), sum(id) FROM facts WHERE id BETWEEN 100 AND 149") == [(50, 6225)]
    assert (plan_of_facts(service)["files_in"], plan_of_facts(service)["files_out"]) == (DAYS, 1)
    assert store.query(catalog, "SELECT count(*) FROM facts") == [(ROWS,)]
    join = "SELECT count(*), sum(f.id) FROM facts f JOIN names n ON f.key = n.key WHERE n.name = 'n2'"
    patient = {f"{catalog}.dynamic_filtering_wait_timeout": "60s"}
    expected = [(100, sum(range(100, 150)) + sum(range(400, 450)))]
    assert store.query(catalog, join, session_properties=patient) == expected
    assert (plan_of_facts(service)["files_out"], plan_of_facts(service)["served"]) == (2, 0)


def test_without_s3_the_service_reads_and_says_so(store: Store, service: ServingTrino) -> None:
    made = store.catalog(service, {})
    assert store.query(made, "SELECT count(*), sum(key) FROM facts WHERE key > 8") == [(150, 1500)]
    assert plan_of_facts(service)["served"] == plan_of_facts(service)["files_out"] == 3
    text = store.query(made, "EXPLAIN ANALYZE VERBOSE SELECT sum(id) FROM facts")[0][0]
    assert "fs.native-s3.enabled and `hudi-catalog trino-plugin --s3`" in text
    store.engine.drop_catalog(made)


def test_wrong_properties_are_named(store: Store, service: ServingTrino) -> None:
    for more, message in (
        ({"fs.native-s3.enabled": "false"}, r"s3\.aws-access-key counts only with fs\.native-s3\.enabled=true"),
        ({"s3.regoin": "x"}, r"S3 file system has no property s3\.regoin"),
        ({"s3.max-connections": "many"}, r"Invalid value 'many'.*s3\.max-connections"),
    ):
        with pytest.raises(client.exceptions.TrinoQueryError, match=message):
            store.catalog(service, {**store.files, **more})
