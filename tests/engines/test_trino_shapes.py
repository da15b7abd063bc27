"""Results and tables of unusual shapes, in all three ways."""

import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.odd_tables import STATEMENTS, TABLES, WIDTH, build
from tests.engines.trino_world import World, planned

pytestmark = pytest.mark.engine

SCHEMA = "shapes"
WAYS = ["through_service", "through_gateway", "through_connector"]


@pytest.fixture(scope="module")
def shapes(world: World) -> DuckDb:
    """A plain table, one of 500 columns, an empty one, and one whose schema grew."""
    folder = world.folder(SCHEMA)
    build(folder)
    for name in TABLES:
        world.register(SCHEMA, name)
    return DuckDb.of_warehouse(folder)


@pytest.mark.parametrize("ask", WAYS)
def test_all_of_500_columns(world: World, shapes: DuckDb, ask: str) -> None:
    names = ", ".join(f"c{i}" for i in range(WIDTH))
    answer = getattr(world, ask)(f"SELECT {names} FROM wide", SCHEMA)
    assert rows_agree(answer, shapes.query(f"SELECT {names} FROM wide")) == ""


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("sql", STATEMENTS)
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
