"""TPC-H's 22 questions through real Hive, by the storage handler and its service, against DuckDB."""

from pathlib import Path

import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.hive_world import World
from tests.engines.tpch_queries import QUERIES
from tests.support.tpch_tables import LAYOUTS, build

pytestmark = pytest.mark.engine

SCHEMA = "tpch"
# averages and quotients of decimals have other scales in Hive than in DuckDB
SLACK = 0.006
# files of lineitem that are read: two ship modes are two of seven partitions
KEPT = {"Q12": 16}
# Hive's merge join takes 40 seconds for what its hash join does in four, of plain files too
SETTINGS = {"Q18": {"hive.auto.convert.join.noconditionaltask.size": "1000000000"}}


@pytest.fixture(scope="module")
def tpch(hive_world: World, tmp_path_factory: pytest.TempPathFactory) -> DuckDb:
    """The tables at scale factor 0.1, registered, and DuckDB's results from their files."""
    warehouse = hive_world.folder(SCHEMA)
    build(warehouse, Path(tmp_path_factory.mktemp("tpch")))
    for name in LAYOUTS:
        hive_world.register(SCHEMA, name)
    return DuckDb.of_warehouse(warehouse)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", QUERIES)
def test_hive_answers_like_duckdb(hive_world: World, tpch: DuckDb, name: str) -> None:
    expected = tpch.query(QUERIES[name])
    assert expected
    rows = hive_world.query(QUERIES[name], SCHEMA, SETTINGS.get(name))
    assert rows_agree(rows, expected, slack=SLACK) == ""
    scans = hive_world.planned(f"{SCHEMA}.lineitem")
    if "lineitem" in QUERIES[name]:
        of_this_query = [scan for scan in scans if scan["query"] == scans[-1]["query"]]
        assert len({scan["instant"] for scan in of_this_query}) == 1
        if name in KEPT:
            assert [scan["files_out"] for scan in of_this_query] == [KEPT[name]]


def test_one_order_reads_one_file(hive_world: World, tpch: DuckDb) -> None:
    order, mode = tpch.query("SELECT l_orderkey, l_shipmode FROM lineitem ORDER BY l_orderkey DESC LIMIT 1")[0]
    sql = f"SELECT l_linenumber, l_comment FROM lineitem WHERE l_orderkey = {order} AND l_shipmode = '{mode}'"
    assert rows_agree(hive_world.query(sql, SCHEMA), tpch.query(sql)) == ""
    record = hive_world.planned(f"{SCHEMA}.lineitem")[-1]
    assert (record["files_in"], record["files_out"]) == (56, 1)
