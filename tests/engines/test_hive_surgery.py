"""Hive reads files with edited row groups: through the storage handler, and as plain Parquet files."""

import pytest

from tests.engines import spliced_table
from tests.engines.answers import DuckDb
from tests.engines.hive_engine import ON_TEZ
from tests.engines.hive_world import World

pytestmark = pytest.mark.engine

SCHEMA = "surgery"


@pytest.fixture(scope="module")
def spliced(hive_world: World) -> DuckDb:
    truth = spliced_table.build(hive_world.folder(SCHEMA))
    hive_world.register(SCHEMA, spliced_table.NAME)
    hive_world.declare_plain(SCHEMA, spliced_table.NAME)
    return truth


@pytest.mark.parametrize("ask", ["query", "plain"])
def test_statements_on_spliced_files(hive_world: World, spliced: DuckDb, ask: str) -> None:
    spliced_table.check(lambda sql: getattr(hive_world, ask)(sql, SCHEMA, ON_TEZ), spliced)
