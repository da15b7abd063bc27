"""Joins whose keys Trino sends to the service: the same rows as joins of Trino's own."""

import re
from collections.abc import Iterator

import pytest

from hudi_catalog.trino.serve import TrinoSettings
from tests.engines.answers import rows_agree
from tests.engines.trino_filters import table_of_kinds
from tests.engines.trino_world import OPTIONS, World, another_service
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "joined"
INDEX_JOINS = {**OPTIONS, "hoodie.catalog.trino.index.joins": "*"}
PROBES = {
    "repeated and missing keys and nulls": "(VALUES 1, 2, 2, 3999, 4100, NULL) AS p(k) {join} t ON t.id = p.k",
    "many keys": "tpch.tiny.customer AS p {join} t ON t.id = p.custkey * 2",
    "keys in several calls": "tpch.tiny.lineitem AS p {join} t ON t.id = p.orderkey / 20",
    "a filter beside": "tpch.tiny.customer AS p {join} t ON t.id = p.custkey AND t.region = 'north' AND t.small > 0",
    "a partition among the keys": "(VALUES (1, 'north'), (7, 'south'), (9, NULL)) AS p(k, r) "
    "{join} t ON t.id = p.k AND t.region = p.r",
}


@pytest.fixture(scope="module")
def indexed(world: World) -> Iterator[str]:
    """Name of a catalog whose tables answer keys."""
    write(world.folder(SCHEMA), "kinds", table_of_kinds(), Layout("id", "id", 8, "region"))
    write(world.folder(SCHEMA), "flat", table_of_kinds(), Layout("id", "id", 8))
    for name in ("kinds", "flat"):
        world.register(SCHEMA, name)
    with another_service(world.engine, "indexed", TrinoSettings(str(world.warehouse), options=INDEX_JOINS)) as (
        _,
        name,
    ):
        yield name


@pytest.mark.parametrize("table", ["kinds", "flat"])
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_index_joins(world: World, indexed: str, table: str, probe: str, join: str) -> None:
    def statement(catalog: str) -> str:
        source = re.sub(r"\bt ON", f"{catalog}.{SCHEMA}.{table} AS t ON", PROBES[probe].format(join=join))
        return f"SELECT count(*), count(t.id), sum(t.id), sum(t.ratio), min(t.name), max(t.day) FROM {source}"

    plan = "\n".join(row[0] for row in world.engine.query(f"EXPLAIN {statement(indexed)}"))
    answers_those_keys = table == "kinds" or "partition" not in probe
    assert ("IndexJoin" in plan) == answers_those_keys
    expected = world.engine.query(statement(world.engine.hive))
    assert rows_agree(world.engine.query(statement(indexed)), expected, slack=1e-9) == ""


def test_rows_of_an_index_join(world: World, indexed: str) -> None:
    sql = "SELECT p.k, t.name, t.day, t.moment, t.flag FROM (VALUES 5, 77, 77, 900) AS p(k) JOIN {} AS t ON t.id = p.k"
    expected = world.engine.query(sql.format(f"{world.engine.hive}.{SCHEMA}.flat"))
    assert len(expected) == 4
    assert rows_agree(world.engine.query(sql.format(f"{indexed}.{SCHEMA}.flat")), expected) == ""
