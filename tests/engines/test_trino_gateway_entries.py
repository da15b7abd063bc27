"""What the gateway promises of its entries, with real Trino: views stay fresh, and nobody breaks what is its own."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from trino.exceptions import TrinoUserError

from hudi_catalog.gateway.serve import GatewaySettings, ServingGateway, running_gateway
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import World
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "entries"
CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "3", "hoodie.keep.min.commits": "4"}


def rows(value: int) -> pa.Table:
    ids = pa.array(range(40), pa.int64())
    return pa.table({"id": ids, "kind": [f"k{number % 4}" for number in range(40)], "x": [value] * 40})


@pytest.fixture(scope="module")
def table(world: World) -> LocalTable:
    written = write(world.folder(SCHEMA), "kinds", rows(0), Layout("id", "id", 1, "kind"))
    world.register(SCHEMA, "kinds")
    return written


@pytest.fixture(scope="module")
def gateway(world: World, table: LocalTable) -> Iterator[ServingGateway]:
    options = {"hoodie.catalog.gateway.trino.catalogs": world.engine.hive, "hoodie.catalog.gateway.renew.seconds": "1"}
    settings = GatewaySettings(world.engine.uri, f"file://{world.engine.metastore}", options=options)
    with running_gateway(settings) as running:
        yield running


def ask(engine: Engine, gateway: ServingGateway, sql: str) -> list:
    return engine.query(sql, port=gateway.port, catalog=engine.hive, schema=SCHEMA)


def test_a_view_answers_the_newest_commit_while_a_writer_upserts_and_cleans(
    trino: Engine, gateway: ServingGateway, table: LocalTable
) -> None:
    ask(trino, gateway, "CREATE OR REPLACE VIEW inside AS SELECT x, id FROM kinds")
    ask(trino, gateway, "CREATE OR REPLACE VIEW seen AS SELECT count(*) n, min(x) low, max(x) high FROM inside")
    completed = [0]

    def upsert() -> None:
        for value in range(1, 13):
            table.write("upsert", rows(value), CLEANED)
            completed.append(value)

    writer = threading.Thread(target=upsert)
    writer.start()
    while writer.is_alive():
        at_least = completed[-1]
        ((count, low, high),) = ask(trino, gateway, "SELECT * FROM seen")
        assert (count, low) == (40, high)
        assert low >= at_least
    writer.join()
    assert list(map(tuple, ask(trino, gateway, "SELECT * FROM seen"))) == [(40, 12, 12)]


@pytest.mark.parametrize(
    "sql",
    ["DROP TABLE kinds", "ALTER TABLE entries.kinds RENAME TO others", "INSERT INTO kinds SELECT * FROM kinds"],
)
def test_entries_are_not_changed(trino: Engine, gateway: ServingGateway, sql: str) -> None:
    with pytest.raises(TrinoUserError, match="the entry by which Trino reads a Hudi table") as refused:
        ask(trino, gateway, sql)
    assert refused.value.error_name == "PERMISSION_DENIED"
    assert ask(trino, gateway, "SELECT count(*) FROM kinds") == [(40,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW SCHEMAS",
        "SHOW SCHEMAS LIKE 'entr%'",
        "SELECT schema_name FROM information_schema.schemata",
        "SELECT DISTINCT information_schema.tables.table_schema FROM information_schema.tables",
        "SELECT table_schem FROM system.jdbc.schemas WHERE table_catalog = '{hive}'",
        "SELECT DISTINCT table_schem FROM system.jdbc.tables t WHERE t.table_cat = '{hive}' AND table_schem > 'e'",
    ],
)
def test_schemas_of_snapshots_are_not_listed(trino: Engine, gateway: ServingGateway, sql: str) -> None:
    ask(trino, gateway, "SELECT * FROM kinds WHERE kind = 'k1'")  # pins a snapshot
    sql = sql.format(hive=trino.hive)
    direct = {row[0] for row in trino.query(sql, catalog=trino.hive, schema=SCHEMA)}
    assert f"{SCHEMA}__snapshots" in direct
    shown = {row[0] for row in ask(trino, gateway, sql)}
    hidden = {name for name in direct - shown if not name.endswith("__snapshots")}
    assert SCHEMA in shown
    assert not hidden
    assert not [name for name in shown if name.endswith("__snapshots") and name in direct]


@pytest.mark.parametrize(
    "condition",
    [
        "entries.kinds.kind = 'k' || CAST(7 / 4 AS varchar)",
        "kinds.id > 19 * 2 - -3 / 4",
        "id >= CAST('3' || '9' AS bigint)",
        "DATE '2000-02-29' = DATE '2000-01-31' + INTERVAL '1' MONTH AND kind = 'k2'",
    ],
)
def test_rows_are_those_of_the_original(trino: Engine, gateway: ServingGateway, condition: str) -> None:
    sql = f"SELECT entries.kinds.id, kinds.* FROM entries.kinds WHERE {condition} ORDER BY entries.kinds.id"
    direct = trino.query(sql, catalog=trino.hive, schema=SCHEMA)
    assert ask(trino, gateway, sql) == direct
    assert direct
    line = next(line for line in gateway.log.recent() if line["event"] == "query" and line.get("sql") == sql)
    assert line["outcome"] == "rewritten"
