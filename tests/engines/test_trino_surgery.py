"""Trino reads files with edited row groups: through the service, through the gateway, and by itself."""

import pytest

from tests.engines import spliced_table
from tests.engines.answers import DuckDb, rows_agree
from tests.engines.trino_world import World

pytestmark = pytest.mark.engine

SCHEMA = "surgery"


@pytest.fixture(scope="module")
def spliced(world: World) -> DuckDb:
    folder = world.folder(SCHEMA)
    for summary in spliced_table.build(folder):
        assert summary.bytes_copied
    world.register(SCHEMA, spliced_table.NAME)
    return DuckDb.of_warehouse(folder)


@pytest.mark.parametrize("ask", ["through_service", "through_gateway", "by_trino"])
def test_statements_on_spliced_files(world: World, spliced: DuckDb, ask: str) -> None:
    for sql in spliced_table.STATEMENTS:
        answer = getattr(world, ask)(sql, SCHEMA)
        assert rows_agree(answer, spliced.query(sql)) == "", sql
