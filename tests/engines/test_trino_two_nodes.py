"""Our connector on a cluster of two nodes: both read, whatever a scan is made of, and no row is lost or read twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.conftest import skip_or_fail
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import planned
from tests.support.tpch_tables import Layout, write
from tools.engines.artifacts import EngineMissingError
from tools.engines.trino import TrinoServer

pytestmark = pytest.mark.engine

ROWS, DAYS, CUSTOMERS = 12_000, 24, 500
RUNS, MARKS = 8, itertools.count()
#: The path has a character that Trino's locations cannot have: the service reads all files of the table.
SERVED = "served#"


class Cluster:
    """A coordinator that works, too, another worker, and a catalog over a warehouse."""

    def __init__(self, engine: Engine, service: ServingTrino) -> None:
        self.engine = engine
        self.service = service
        self.catalog = engine.connector_catalog("lake", service.port)

    def query(self, sql: str, **session: str) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=self.catalog, schema="default", session_properties=session)

    def check_on_both(self, sql: str, expected: list[tuple[Any, ...]], **session: str) -> None:
        """A query gives these rows, and both nodes read for it; asked again where Trino gave all splits to one."""
        for _ in range(RUNS):
            mark = f"run {next(MARKS)}"
            assert self.query(f"{sql} /* {mark} */", **session) == expected
            readers = self.readers(mark)
            if readers == 2:
                break
        assert readers == 2

    def readers(self, mark: str) -> int:
        """How many nodes read files or pages for the query that holds a comment."""
        tasks = "system.runtime.tasks t JOIN system.runtime.queries q ON q.query_id = t.query_id"
        of_query = f"q.query LIKE '%/* {mark} */%' AND q.query NOT LIKE '%runtime%' AND t.physical_input_bytes > 0"
        return int(self.engine.query(f"SELECT count(DISTINCT t.node_id) FROM {tasks} WHERE {of_query}")[0][0])

    def planned(self, table: str) -> Mapping[str, Any]:
        """The newest plan of a table."""
        return planned(self.service.log, f"default.{table}")[-1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = Path(tmp_path_factory.mktemp("nodes"))
    numbers = range(ROWS)
    facts = pa.table(
        {
            "customer": pa.array([one % CUSTOMERS for one in numbers], pa.int64()),
            "id": pa.array(numbers, pa.int64()),
            "day": [f"d{one * DAYS // ROWS:02}" for one in numbers],
            "month": pa.array([one * DAYS // ROWS for one in numbers], pa.int32()),
        }
    )
    for name in ("facts", SERVED):
        write(folder / "warehouse", name, facts, Layout("customer,id", "customer", 4, "day"))
    customers = pa.table(
        {"customer": pa.array(range(CUSTOMERS), pa.int64()), "name": [f"n{n}" for n in range(CUSTOMERS)]}
    )
    write(folder / "warehouse", "customers", customers, Layout("customer", "customer", 8))
    months = pa.table({"month": pa.array(range(DAYS), pa.int32()), "quarter": [f"q{one // 3}" for one in range(DAYS)]})
    write(folder / "warehouse", "months", months, Layout("month", "month", 1))
    with ExitStack() as stack:
        try:
            coordinator = TrinoServer(folder / "coordinator", lasting=False)
            stack.callback(coordinator.process.kill)
            worker = TrinoServer(folder / "worker", coordinator=coordinator.uri, lasting=False)
            stack.callback(worker.process.kill)
        except EngineMissingError as error:
            skip_or_fail(str(error))
        service = stack.enter_context(running_trino(TrinoSettings(str(folder / "warehouse"))))
        yield Cluster(Engine(coordinator.uri, coordinator.metastore), service)


@pytest.mark.parametrize("table", ["facts", "served_"])
def test_both_nodes_read_files_and_pages(cluster: Cluster, table: str) -> None:
    expected = [(ROWS, sum(range(ROWS)), CUSTOMERS)]
    cluster.check_on_both(f"SELECT count(*), sum(id), count(DISTINCT customer) FROM {table}", expected)
    assert (cluster.planned(table)["served"] > 0) == (table != "facts")


def test_buckets_are_joined_and_grouped_on_both_nodes(cluster: Cluster) -> None:
    join = "SELECT count(*), sum(f.id), count(DISTINCT c.name) FROM facts f JOIN customers c ON f.customer = c.customer"
    by_bucket = {"join_distribution_type": "PARTITIONED"}
    cluster.check_on_both(join, [(ROWS, sum(range(ROWS)), CUSTOMERS)], **by_bucket)
    grouped = cluster.query("SELECT customer, count(*), max(id) FROM facts GROUP BY customer ORDER BY customer")
    assert grouped == [(n, ROWS // CUSTOMERS, ROWS - CUSTOMERS + n) for n in range(CUSTOMERS)]


def test_dynamic_filters_of_both_nodes_leave_files_out(cluster: Cluster) -> None:
    join = "SELECT count(*), min(f.month), max(f.month) FROM facts f JOIN months m ON f.month = m.month"
    patient = {f"{cluster.catalog}.dynamic_filtering_wait_timeout": "60s"}
    for joins in ("BROADCAST", "PARTITIONED"):
        rows = cluster.query(f"{join} WHERE m.quarter = 'q2'", join_distribution_type=joins, **patient)
        assert rows == [(ROWS * 3 // DAYS, 6, 8)]
        plan = cluster.planned("facts")
        assert (plan["files_in"], plan["files_out"]) == (DAYS * 4, 12)
