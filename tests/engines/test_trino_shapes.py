"""Answers of odd shapes, and tables of odd shapes, through both ways."""

import pyarrow as pa
import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.tpch_tables import Layout, fast_writes, write
from tests.engines.trino_filters import table_of_kinds
from tests.engines.trino_world import World, planned

pytestmark = pytest.mark.engine

SCHEMA = "shapes"
WIDTH = 500
WAYS = ["through_service", "through_gateway"]


@pytest.fixture(scope="module")
def shapes(world: World) -> DuckDb:
    """A plain table, one of 500 columns, an empty one, and one whose schema grew."""
    folder = world.folder(SCHEMA)
    rows = table_of_kinds()
    write(folder, "plain", rows, Layout("id", "id", 8, "region"))
    write(folder, "wide", wide(300), Layout("c0", "c0", 4))
    write(folder, "empty", rows.slice(0, 0), Layout("id", "id", 2))
    grown = write(folder, "grown", rows.select(["id", "small", "name"]).slice(0, 600), Layout("id", "id", 4))
    with fast_writes():
        wider = rows.select(["id", "small", "name", "day"]).slice(500, 300)
        grown.write("upsert", wider, {"hoodie.datasource.write.reconcile.schema": "true"})
    for name in ("plain", "wide", "empty", "grown"):
        world.register(SCHEMA, name)
    return DuckDb.of_warehouse(folder)


def wide(rows: int) -> pa.Table:
    """Whole numbers, fractions and texts by turns."""
    makers = (lambda n, i: n * 1000 + i, lambda n, i: n / 4 + i, lambda n, i: f"v{n % 7}_{i}")
    columns = {f"c{i}": [makers[i % 3](n, i) for n in range(rows)] for i in range(WIDTH)}
    return pa.table(columns)


@pytest.mark.parametrize("ask", WAYS)
def test_all_of_500_columns(world: World, shapes: DuckDb, ask: str) -> None:
    names = ", ".join(f"c{i}" for i in range(WIDTH))
    answer = getattr(world, ask)(f"SELECT {names} FROM wide", SCHEMA)
    assert rows_agree(answer, shapes.query(f"SELECT {names} FROM wide")) == ""


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM wide",
        "SELECT c499, c3 FROM wide WHERE c450 BETWEEN 20450 AND 30450 AND c2 LIKE 'v3%'",
        "SELECT sum(c300), max(c301), min(c302) FROM wide WHERE c0 = 7000",
        "SELECT c1 FROM wide WHERE c0 = 7001",
        "SELECT 1 FROM wide WHERE c0 < 5000",
        "SELECT count(*), count(day), sum(small) FROM grown WHERE day IS NULL OR small > 0",
        "SELECT id, day FROM grown WHERE day >= DATE '2024-02-01'",
        "SELECT region, count(*) FROM plain GROUP BY region",
        "SELECT DISTINCT region FROM plain WHERE region LIKE 'w%'",
        "SELECT count(*) FROM plain WHERE region = 'nowhere'",
        "SELECT id FROM plain WHERE id = 5 AND id = 6",
        "SELECT id FROM plain WHERE false",
        "SELECT a.id, b.id FROM plain AS a JOIN plain AS b ON a.id = b.id + 1 WHERE a.region = 'north' AND b.small = 3",
        "SELECT id FROM plain WHERE small IN (SELECT small FROM plain WHERE id < 4)",
        "SELECT id FROM plain WHERE day = (SELECT max(day) FROM plain WHERE region = 'east')",
        "WITH n AS (SELECT * FROM plain WHERE region = 'north') SELECT count(*), max(id) FROM n WHERE small < 0",
        "SELECT id FROM plain WHERE region = 'north' UNION SELECT id FROM plain WHERE region = 'south' AND small = 1",
        "SELECT p.id, g.day FROM plain AS p LEFT JOIN grown AS g ON p.id = g.id AND g.small > 0 WHERE p.id < 50",
    ],
)
def test_statements(world: World, shapes: DuckDb, sql: str, ask: str) -> None:
    assert rows_agree(getattr(world, ask)(sql, SCHEMA), shapes.query(sql)) == ""


@pytest.mark.parametrize("ask", WAYS)
def test_a_limit_gives_so_many_of_the_rows(world: World, shapes: DuckDb, ask: str) -> None:
    allowed = set(shapes.query("SELECT id, name FROM plain WHERE small > 5"))
    for limit in (0, 1, 37):
        rows = getattr(world, ask)(f"SELECT id, name FROM plain WHERE small > 5 LIMIT {limit}", SCHEMA)
        assert len(rows) == limit
        assert set(rows) <= allowed
    ordered = "SELECT id FROM plain ORDER BY id DESC LIMIT 10"
    assert getattr(world, ask)(ordered, SCHEMA) == shapes.query(ordered)


@pytest.mark.parametrize("ask", WAYS)
def test_a_table_without_rows(world: World, shapes: DuckDb, ask: str) -> None:
    assert getattr(world, ask)("SELECT * FROM empty", SCHEMA) == []
    assert getattr(world, ask)("SELECT count(*), max(id) FROM empty WHERE small > 3", SCHEMA) == [(0, None)]


def test_only_the_partition_asked_for_is_read(world: World, shapes: DuckDb) -> None:
    for ask, log in ((world.through_service, world.service.log), (world.through_gateway, world.gateway.log)):
        ask("SELECT count(small) FROM plain WHERE region = 'south'", SCHEMA)
        record = planned(log, f"{SCHEMA}.plain")[-1]
        assert (record["files_in"], record["files_out"]) == (40, 8)


def test_all_columns_are_described(world: World, shapes: DuckDb) -> None:
    described = world.through_service("DESCRIBE wide", SCHEMA)
    assert [row[0] for row in described if not row[0].startswith("hoodie_")] == [f"c{i}" for i in range(WIDTH)]
    listed = world.through_service("SELECT count(*) FROM information_schema.columns WHERE table_name = 'wide'", SCHEMA)
    assert listed[0][0] >= WIDTH
