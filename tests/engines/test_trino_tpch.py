"""TPC-H's 22 questions through real Trino: by the service, by the gateway, by Trino's own connector, by DuckDB."""

from pathlib import Path

import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.tpch_queries import QUERIES
from tests.engines.trino_world import World, planned
from tests.support.tpch_tables import LAYOUTS, build

pytestmark = pytest.mark.engine

SCHEMA = "tpch"
# Averages of decimals keep two places in Trino, and none at all in DuckDB.
SLACK = 0.006


@pytest.fixture(scope="module")
def tpch(world: World, tmp_path_factory: pytest.TempPathFactory) -> DuckDb:
    """The tables at scale factor 0.1, registered, and DuckDB's results from their files."""
    warehouse = world.folder(SCHEMA)
    build(warehouse, Path(tmp_path_factory.mktemp("tpch")))
    for name in LAYOUTS:
        world.register(SCHEMA, name, also_hudi=True)
    return DuckDb.of_warehouse(warehouse)


@pytest.mark.parametrize("name", QUERIES)
def test_every_way_answers_alike(world: World, tpch: DuckDb, name: str) -> None:
    sql = QUERIES[name]
    expected = tpch.query(sql)
    assert expected
    by_trino = world.by_trino(sql, SCHEMA)
    assert rows_agree(by_trino, expected, slack=SLACK) == ""
    # the same types from the same files: the same digits
    assert rows_agree(world.through_gateway(sql, SCHEMA), by_trino) == ""
    assert rows_agree(world.through_service(sql, SCHEMA), expected, slack=SLACK) == ""


@pytest.mark.parametrize("name", LAYOUTS)
def test_trinos_hudi_connector_reads_the_same_rows(world: World, tpch: DuckDb, name: str) -> None:
    columns = [(column, kind) for column, kind, *_ in tpch.query(f"DESCRIBE {name}") if not column.startswith("_")]
    texts = [f"count({column}), min({column}), max({column})" for column, _ in columns]
    sums = [f"sum({column})" for column, kind in columns if "DECIMAL" in kind or "INT" in kind]
    select = f"SELECT {', '.join(['count(*)', *texts, *sums])} FROM {name}"
    by_hudi = world.engine.query(f"{select}_hudi", catalog=world.engine.hudi, schema=SCHEMA)
    assert rows_agree(world.through_gateway(select, SCHEMA), by_hudi) == ""
    assert rows_agree(world.through_service(select, SCHEMA), by_hudi, slack=SLACK) == ""


def test_one_order_reads_one_file(world: World, tpch: DuckDb) -> None:
    order, mode = tpch.query("SELECT l_orderkey, l_shipmode FROM lineitem ORDER BY l_orderkey DESC LIMIT 1")[0]
    sql = f"SELECT l_linenumber, l_comment FROM lineitem WHERE l_orderkey = {order} AND l_shipmode = '{mode}'"
    for ask, log in ((world.through_service, world.service.log), (world.through_gateway, world.gateway.log)):
        answer = ask(sql, SCHEMA)
        assert answer
        assert rows_agree(answer, tpch.query(sql)) == ""
        record = planned(log, f"{SCHEMA}.lineitem")[-1]
        assert (record["files_in"], record["files_out"]) == (56, 1)


def test_question_12_reads_two_of_seven_partitions(world: World, tpch: DuckDb) -> None:
    for ask, log in ((world.through_service, world.service.log), (world.through_gateway, world.gateway.log)):
        assert rows_agree(ask(QUERIES["Q12"], SCHEMA), tpch.query(QUERIES["Q12"])) == ""
        assert planned(log, f"{SCHEMA}.lineitem")[-1]["files_out"] == 16
