"""Trino reads files with edited row groups: in all three ways, and by itself."""

import pytest

from tests.engines import spliced_table
from tests.engines.answers import DuckDb
from tests.engines.trino_world import World

pytestmark = pytest.mark.engine

SCHEMA = "surgery"


@pytest.fixture(scope="module")
def spliced(world: World) -> DuckDb:
    truth = spliced_table.build(world.folder(SCHEMA))
    world.register(SCHEMA, spliced_table.NAME)
    return truth


@pytest.mark.parametrize("ask", ["through_service", "through_gateway", "through_connector", "by_trino"])
def test_statements_on_spliced_files(world: World, spliced: DuckDb, ask: str) -> None:
    spliced_table.check(lambda sql: getattr(world, ask)(sql, SCHEMA), spliced)
