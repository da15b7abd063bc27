"""Hive reads files with edited row groups: through the storage handler, and as plain Parquet files."""

import pytest

from tests.engines import spliced_table
from tests.engines.answers import DuckDb, rows_agree
from tests.engines.hive_engine import ON_TEZ
from tests.engines.hive_world import World

pytestmark = pytest.mark.engine

SCHEMA = "surgery"


@pytest.fixture(scope="module")
def spliced(hive_world: World) -> DuckDb:
    folder = hive_world.folder(SCHEMA)
    for summary in spliced_table.build(folder):
        assert summary.bytes_copied
    hive_world.register(SCHEMA, spliced_table.NAME)
    hive_world.declare_plain(SCHEMA, spliced_table.NAME)
    return DuckDb.of_warehouse(folder)


@pytest.mark.parametrize("ask", ["query", "plain"])
def test_statements_on_spliced_files(hive_world: World, spliced: DuckDb, ask: str) -> None:
    for sql in spliced_table.STATEMENTS:
        answer = getattr(hive_world, ask)(sql, SCHEMA, ON_TEZ)
        assert rows_agree(answer, spliced.query(sql)) == "", sql
