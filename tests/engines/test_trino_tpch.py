"""TPC-H's 22 questions through real Trino: by the service, the gateway, both connectors, and by DuckDB."""

import json
import re
from pathlib import Path
from typing import Any

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
def test_our_connector_answers_as_duckdb(world: World, tpch: DuckDb, name: str) -> None:
    expected = tpch.query(QUERIES[name])
    assert expected
    assert rows_agree(world.through_connector(QUERIES[name], SCHEMA), expected, slack=SLACK) == ""


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", QUERIES)
def test_every_way_answers_alike(world: World, tpch: DuckDb, name: str) -> None:
    sql = QUERIES[name]
    expected = tpch.query(sql)
    by_connector = world.through_connector(sql, SCHEMA)  # first: the others are not on all releases
    by_trino = world.by_trino(sql, SCHEMA)
    assert rows_agree(by_trino, expected, slack=SLACK) == ""
    # the same types from the same files: the same digits
    assert rows_agree(world.through_gateway(sql, SCHEMA), by_trino) == ""
    assert rows_agree(by_connector, by_trino) == ""
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


@pytest.fixture(scope="module")
def truth(world: World, tpch: DuckDb) -> str:
    """The same rows in tables of Trino's hive connector, with statistics that Trino gathered when it wrote them."""
    assert tpch
    world.engine.query(f"CREATE SCHEMA {world.engine.hive}.truth")
    for name in LAYOUTS:
        world.engine.query(
            f"CREATE TABLE {world.engine.hive}.truth.{name} AS SELECT * FROM {world.own}.{SCHEMA}.{name}"
        )
    return "truth"


#: Lines of one order lie in several partitions, so that files tell badly how many orders there are (7, 18, 21); and the
#: rows of the partition that a filter names are known exactly (19).
OTHER_JOINS = {"Q7", "Q18", "Q19", "Q21"}


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in OTHER_JOINS])
def test_joins_are_those_of_true_statistics(world: World, truth: str, name: str) -> None:
    """Order, sides and distribution that AUTOMATIC chooses; at a limit between the sizes of the tables."""
    session = {"join_max_broadcast_table_size": "1MB"}
    sql = f"EXPLAIN (TYPE LOGICAL, FORMAT JSON) {QUERIES[name]}"
    ours = world.through_connector(sql, SCHEMA, session_properties=session)[0][0]
    true = world.engine.query(sql, catalog=world.engine.hive, schema=truth, session_properties=session)[0][0]
    assert _joins(json.loads(ours))[1] == _joins(json.loads(true))[1]


def _joins(node: dict[str, Any]) -> tuple[list[str], list[tuple[str, Any, Any, Any]]]:
    """The tables below a node of a plan, and the joins: distribution, tables of the probed and of the built side."""
    tables: list[str] = []
    joins = []
    below = [_joins(child) for child in node["children"]]
    for of_child, joins_of_child in below:
        tables += of_child
        joins += joins_of_child
    if "Join" in node["name"] and len(below) == 2:
        joins.append((node["name"], node["descriptor"].get("distribution"), sorted(below[0][0]), sorted(below[1][0])))
    text = node["descriptor"].get("table", "")
    return tables + [name for name in re.findall(r"\w+", text) if name in LAYOUTS], joins
