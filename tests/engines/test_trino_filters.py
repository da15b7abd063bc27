"""Filters drawn at random give the rows that DuckDB and Trino's own connector give, in all three ways."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.trino_filters import Filters, table_of_kinds
from tests.engines.trino_world import World, planned
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

#: More of them by night: HUDI_CATALOG_TRINO_FILTERS.
FILTERS = [Filters(seed).draw() for seed in range(int(os.environ.get("HUDI_CATALOG_TRINO_FILTERS", "100")))]
SCHEMA = "kinds"


@pytest.fixture(scope="module")
def kinds(world: World) -> DuckDb:
    """The table, in two commits, and DuckDB's results from its files."""
    rows = table_of_kinds()
    table = write(world.folder(SCHEMA), "kinds", rows, Layout("id", "id", 8, "region"))
    table.write("upsert", rows.slice(100, 500))
    world.register(SCHEMA, "kinds")
    return DuckDb.of_warehouse(world.folder(SCHEMA))


def wrong_answers(world: World, kinds: DuckDb, ask: str, filters: list[str]) -> list[str]:
    """Filters answered otherwise than by DuckDB, each with the difference."""
    statements = [f"SELECT id FROM kinds WHERE {text}" for text in filters]
    expected = [kinds.query(statement) for statement in statements]
    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda statement: getattr(world, ask)(statement, SCHEMA), statements)
        compared = zip(filters, answers, expected, strict=True)
        return [f"{text}: {difference}" for text, rows, other in compared if (difference := rows_agree(rows, other))]


def test_some_filters_keep_rows_and_some_leave_rows_out(kinds: DuckDb) -> None:
    counts = [kinds.query(f"SELECT count(*) FROM kinds WHERE {text}")[0][0] for text in FILTERS]
    assert sum(0 < count < 4000 for count in counts) > 0.7 * len(FILTERS)


@pytest.mark.parametrize("ask", ["through_service", "through_gateway", "through_connector"])
def test_filters(world: World, kinds: DuckDb, ask: str) -> None:
    assert wrong_answers(world, kinds, ask, FILTERS) == []


def test_duckdb_and_trino_mean_the_same(world: World, kinds: DuckDb) -> None:
    assert wrong_answers(world, kinds, "by_trino", FILTERS[::4]) == []


def test_many_of_them_were_rewritten(world: World, kinds: DuckDb) -> None:
    for text in FILTERS[:40]:
        world.through_gateway(f"SELECT count(*) FROM kinds WHERE {text}", SCHEMA)
    outcomes = [record["outcome"] for record in world.gateway.log.recent() if record["event"] == "query"][:40]
    assert outcomes.count("rewritten") >= 10


def test_plans_left_files_out(world: World, kinds: DuckDb) -> None:
    sql = "SELECT id FROM kinds WHERE region = 'north' AND day < DATE '2024-03-20'"
    ways = ((world.through_service, world.service.log), (world.through_gateway, world.gateway.log))
    for ask, log in (*ways, (world.through_connector, world.service.log)):
        assert rows_agree(ask(sql, SCHEMA), kinds.query(sql)) == ""
        assert planned(log, f"{SCHEMA}.kinds")[-1]["files_out"] <= 8
