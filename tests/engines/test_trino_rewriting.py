"""Real Trino returns the same for a rewritten statement as for the original."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog.trino
from catalog.table import Table
from hudi_catalog.gateway.options import CATALOGS, KEPT_AT_MOST, PATHS, RULES, GatewayOptions
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import Reason, SessionNames
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from tests.engines.awkward_filters import AwkwardFilters, awkward_table
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until

pytestmark = pytest.mark.engine

SCHEMA = "rewriting"
_PATH = re.compile(r"'(file:///(?:[^']|'')*)'")


@dataclass
class Place:
    """Trino, a folder of tables, and a rewriter that narrows wherever it can."""

    engine: Engine
    folder: Path
    tables: dict[str, LocalTable]

    @property
    def options(self) -> dict[str, str]:
        return {CATALOGS: self.engine.hive, KEPT_AT_MOST: "1.0"}

    def synced(self) -> TrinoTables:
        return TrinoTables(FileMetastore(str(self.engine.metastore)))

    def rewriter(self, **more: str) -> Rewriter:
        return Rewriter(self.synced(), GatewayOptions.parse({**self.options, **more}))

    def names(self, **properties: str) -> SessionNames:
        return SessionNames(self.engine.hive, SCHEMA, properties)

    def rewritten(self, sql: str) -> Rewritten:
        return self.rewriter().rewrite(sql, self.names())

    def query(self, sql: str, **session: Any) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=self.engine.hive, schema=SCHEMA, **session)

    def register(self, name: str) -> None:
        table = Table.open(str(self.folder / name))
        sync_to_trino(table, FileMetastore(str(self.engine.metastore)), SyncOptions(database=SCHEMA, table=name))


@pytest.fixture(scope="module")
def place(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = Path(tmp_path_factory.mktemp("rewriting"))
    orders = pa.table(
        {
            "id": pa.array(range(200), pa.int64()),
            "kind": [f"k{number // 50}" for number in range(200)],
            "amount": pa.array([number * 1.5 for number in range(200)], pa.float64()),
            "note": [None if number % 7 == 0 else f"note {number % 5}" for number in range(200)],
        }
    )
    items = pa.table(
        {
            "item": pa.array(range(300), pa.int64()),
            "order_id": pa.array([number % 250 for number in range(300)], pa.int64()),
            "region": [f"r{number % 6}" for number in range(300)],
            "price": pa.array([number % 13 for number in range(300)], pa.int32()),
        }
    )
    made = Place(trino, folder, {})
    made.tables["orders"] = write(folder, "orders", orders, Layout("id", "id", 3, "kind"))
    made.tables["items"] = write(folder, "items", items, Layout("item", "item", 2, "region"))
    made.tables["awkward"] = write(folder, "awkward", awkward_table(), Layout("id", "id", 1, "part"))
    for name in made.tables:
        made.register(name)
    return made


REWRITTEN = [
    "SELECT * FROM orders WHERE kind = 'k1'",
    "select O.id, o.AMOUNT from Orders o where O.Kind in ('k1', 'k2') and amount > 1e2",
    'SELECT "orders"."id" FROM "orders" WHERE "orders"."kind" = \'k3\' -- kind = \'k0\'',
    "SELECT count(*), sum(amount) FROM /* orders */ rewriting.orders AS t WHERE t.kind >= 'k2'",
    "SELECT rewriting.orders.id FROM rewriting.orders WHERE kind = 'k1'",
    "SELECT rewriting.orders.* FROM rewriting.orders WHERE kind = 'k1'",
    "SELECT id FROM orders WHERE kind = 'nowhere'",
    "SELECT count(*) FROM orders WHERE kind = 'nowhere'",
    "SELECT max(note), count(note) FROM orders WHERE id = 17",
    "WITH orders AS (SELECT * FROM orders WHERE kind = 'k1') SELECT count(*) FROM orders",
    "WITH a AS (SELECT * FROM orders WHERE kind = 'k1'), b AS (SELECT * FROM a WHERE id > 3) SELECT * FROM b",
    "WITH a(x, y) AS (SELECT id, kind FROM orders WHERE kind = 'k1') SELECT a.x FROM a WHERE a.y = 'k1'",
    "SELECT * FROM (SELECT * FROM orders WHERE kind = 'k0') s WHERE s.id % 2 = 0",
    "SELECT o.id, i.item FROM orders o JOIN items i ON o.id = i.order_id WHERE o.kind = 'k1' AND i.region = 'r1'",
    "SELECT o.id, i.item FROM orders o JOIN items i ON o.id = i.order_id AND o.kind = 'k1' AND i.region = 'r1'",
    "SELECT o.id, i.item FROM orders o LEFT JOIN items i ON o.id = i.order_id AND i.region = 'r1' AND o.kind = 'k1'",
    "SELECT o.id, i.item FROM orders o LEFT JOIN items i ON o.id = i.order_id WHERE i.region = 'r1'",
    "SELECT o.id, i.item FROM orders o RIGHT JOIN items i ON o.id = i.order_id AND o.kind = 'k2' AND i.price = 3",
    "SELECT o.id, i.item FROM orders o FULL JOIN items i ON o.id = i.order_id WHERE o.kind = 'k1'",
    "SELECT order_id, i.item FROM (SELECT id AS order_id FROM orders WHERE kind = 'k1') JOIN items i USING (order_id)",
    "SELECT count(*) FROM orders, items WHERE id = order_id AND kind = 'k1' AND region = 'r2'",
    (
        "SELECT count(*) FROM orders o CROSS JOIN (items i JOIN orders p ON p.id = i.order_id) "
        "WHERE o.kind = 'k1' AND p.kind = 'k1' AND o.id < 53"
    ),
    "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id + 50 WHERE a.kind = 'k1'",
    "SELECT id FROM orders WHERE kind = 'k1' UNION ALL SELECT id FROM orders WHERE kind = 'k2'",
    "SELECT id FROM orders WHERE kind = 'k1' UNION SELECT item FROM items WHERE region = 'r0' ORDER BY 1 LIMIT 20",
    "SELECT id FROM orders EXCEPT SELECT id FROM orders WHERE kind = 'k1'",
    "(SELECT id FROM orders WHERE kind = 'k1') INTERSECT (SELECT order_id FROM items WHERE region = 'r1')",
    "SELECT * FROM orders WHERE kind = 'k1' AND id IN (SELECT order_id FROM items WHERE region = 'r3')",
    "SELECT * FROM orders o WHERE kind = 'k1' AND EXISTS (SELECT 1 FROM items WHERE order_id = o.id AND region = 'r3')",
    "SELECT * FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items WHERE order_id = o.id AND region = 'r3')",
    "SELECT id, (SELECT count(*) FROM items WHERE order_id = o.id AND region = 'r3') FROM orders o WHERE kind = 'k0'",
    "SELECT kind, count(*) FROM orders WHERE kind <> 'k1' GROUP BY ROLLUP (kind) HAVING count(*) > 1 ORDER BY 1, 2",
    "SELECT id, sum(amount) OVER (PARTITION BY note ORDER BY id) FROM orders WHERE kind = 'k1'",
    "SELECT id, n FROM orders CROSS JOIN UNNEST(ARRAY[1, 2]) AS u (n) WHERE kind = 'k1' AND n = 2",
    (
        "SELECT t.a FROM orders AS t (a, b, c, d, e, f, g, h, i) WHERE t.a = t.a AND EXISTS "
        "(SELECT 1 FROM orders WHERE kind = 'k1')"
    ),
    (
        "SELECT o.*, l.n FROM orders o CROSS JOIN LATERAL (SELECT count(*) n FROM items WHERE order_id = o.id) l "
        "WHERE o.kind = 'k1'"
    ),
    "SELECT id FROM orders WHERE kind LIKE 'k1%' OFFSET 0 LIMIT 500",
    "SELECT id FROM orders WHERE note IS NULL AND kind BETWEEN 'k1' AND 'k2' FETCH FIRST 500 ROWS ONLY",
    "SELECT DISTINCT kind FROM orders WHERE NOT (kind <> 'k1' OR amount < 0)",
    "SELECT filter(ARRAY[1, id], id -> id > 3) FROM orders WHERE kind = 'k1'",
    "SELECT CASE WHEN kind = 'k1' THEN id END FROM orders WHERE kind = 'k1' AND IF(kind = 'k0', false, true)",
    (
        "WITH RECURSIVE n(x) AS "
        "(SELECT id FROM orders WHERE kind = 'k3' UNION ALL SELECT x + 1000 FROM n WHERE x < 1000) "
        "SELECT count(*) FROM n"
    ),
    "EXECUTE IMMEDIATE 'SELECT id FROM orders WHERE kind = ? AND note = ''note 1''' USING 'k1'",
    "SELECT id FROM (orders) WHERE kind = 'k1'",
    "SELECT id FROM (orders JOIN items ON id = order_id) WHERE kind = 'k2'",
    "SELECT 'FROM orders', \"id\" FROM orders WHERE kind = 'k1' AND note <> 'orders'",
    "SELECT id FROM orders\nWHERE kind\t= 'k1' -- OR true\r\nAND true",
    "SELECT id FROM orders WHERE (id, kind) IN ((1, 'k0'), (60, 'k1'))",
]
UNCHANGED = [
    "SELECT * FROM orders",
    "SELECT count(*) FROM orders WHERE amount * 2 > 3",
    "SELECT \"$path\" <> '' FROM orders WHERE kind = 'k1'",
    "SELECT id FROM orders TABLESAMPLE BERNOULLI (100) WHERE kind = 'k1'",
    "SELECT 1 WHERE 1 IN (SELECT count(*) FROM (TABLE orders) WHERE kind = 'k1')",
    "SELECT * FROM TABLE(exclude_columns(input => TABLE(orders), columns => DESCRIPTOR(kind))) WHERE id = 3",
    "WITH FUNCTION year(x varchar) RETURNS bigint RETURN 1 SELECT id FROM orders WHERE kind = 'k1' AND year(kind) = 1",
    "WITH orders AS (SELECT 1 AS kind) SELECT * FROM orders WHERE kind = 2",
    (
        "SELECT kind FROM orders MATCH_RECOGNIZE "
        "(ORDER BY id MEASURES A.kind AS kind PATTERN (A) DEFINE A AS A.id = 3) WHERE kind = 'k0'"
    ),
    "SELECT o.id FROM (orders) o WHERE o.kind = 'k1'",
    "VALUES 1",
    "SHOW COLUMNS FROM orders",
    "EXPLAIN (TYPE IO) SELECT id FROM orders WHERE kind = 'k1'",
]


@pytest.mark.parametrize("sql", REWRITTEN)
def test_rewritten_statements_give_the_same(place: Place, sql: str) -> None:
    statement = place.rewritten(sql)
    assert statement.changed, f"{statement.reason}: {statement.detail}"
    assert sorted(map(repr, place.query(statement.sql))) == sorted(map(repr, place.query(sql)))


@pytest.mark.parametrize("sql", UNCHANGED)
def test_statements_that_are_left_alone(place: Place, sql: str) -> None:
    statement = place.rewritten(sql)
    assert not statement.changed
    assert statement.sql is sql
    place.query(sql)


def test_writing_statements(place: Place) -> None:
    for sql in (
        "CREATE TABLE copied WITH (format = 'ORC') AS SELECT id, kind FROM orders WHERE kind = 'k1' WITH NO DATA",
        "INSERT INTO copied SELECT id, kind FROM orders WHERE kind = 'k1'",
        "INSERT INTO copied (kind, id) SELECT kind, id FROM orders WHERE kind = 'k2'",
        "INSERT INTO copied (SELECT id, kind FROM orders WHERE kind = 'k3')",
    ):
        statement = place.rewritten(sql)
        assert statement.changed, sql
        place.query(statement.sql)
    assert place.query("SELECT kind, count(*) FROM copied GROUP BY 1 ORDER BY 1") == [
        ("k1", 50),
        ("k2", 50),
        ("k3", 50),
    ]
    view = "CREATE VIEW seen AS SELECT id FROM orders WHERE kind = 'k1'"
    assert not place.rewritten(view).changed
    place.query(view)
    assert place.query("SELECT count(*) FROM seen") == [(50,)]


def test_an_explained_plan_reads_the_pinned_files(place: Place) -> None:
    for sql in ("EXPLAIN SELECT * FROM orders WHERE kind = 'k1'", "EXPLAIN ANALYZE SELECT * FROM orders WHERE id = 3"):
        statement = place.rewritten(sql)
        assert statement.changed
        assert f"{SCHEMA}__snapshots" in place.query(statement.sql)[0][0]


def kept_paths(sql: str) -> set[str]:
    if "WHERE false" in sql:
        return set()
    return {path.replace("''", "'") for path in _PATH.findall(sql.partition('"$path" IN (')[2])}


@pytest.mark.parametrize(
    ("seed", "zone", "precision"),
    [
        (0, "UTC", "MILLISECONDS"),
        (1000, "America/Los_Angeles", "MICROSECONDS"),
        (2000, "Asia/Kathmandu", "NANOSECONDS"),
        (3000, "Europe/Berlin", "MILLISECONDS"),
    ],
)
def test_no_file_with_a_matching_row_is_left_out(place: Place, seed: int, zone: str, precision: str) -> None:
    filters = [AwkwardFilters(number).draw() for number in range(seed, seed + 100)]
    filters = [text for text in filters if "-small" not in text and "abs(" not in text]  # which overflow
    matching: list[list[str] | None] = []
    for start in range(0, len(filters), 25):
        aggregates = ", ".join(f"array_agg(DISTINCT p) FILTER (WHERE {text})" for text in filters[start : start + 25])
        session = {"timezone": zone, "session_properties": {f"{place.engine.hive}.timestamp_precision": precision}}
        matching += place.query(f'SELECT {aggregates} FROM (SELECT *, "$path" AS p FROM awkward)', **session)[0]
    rewriter = place.rewriter()
    narrowed = 0
    for text, paths in zip(filters, matching, strict=True):
        statement = rewriter.rewrite(f"SELECT id FROM awkward WHERE {text}", place.names())
        assert statement.reason not in {"failed", "not attributed"}, statement.detail
        narrowed += statement.changed
        lost = set(paths or ()) - kept_paths(statement.sql) if statement.changed else set()
        assert not lost, f"{text} needs {lost}"
    assert narrowed > len(filters) / 3


def test_long_lists_get_a_table_of_their_own(place: Place) -> None:
    sql = "SELECT id, kind FROM orders WHERE kind <> 'k1'"
    statement = place.rewriter(**{PATHS: "2"}).rewrite(sql, place.names())
    assert "$path" not in statement.sql
    assert statement.tables[0].files < statement.tables[0].files_total
    assert sorted(place.query(statement.sql)) == sorted(place.query(sql))
    by_session = place.rewriter().rewrite(sql, place.names(**{f"{place.engine.hive}.domain_compaction_threshold": "2"}))
    assert by_session.sql == statement.sql
    short = place.rewriter().rewrite(sql, place.names(), length_limit=300)
    assert short.sql == statement.sql
    assert place.rewriter().rewrite(sql, place.names(), length_limit=60).reason == "too long"


def test_new_commits_are_seen_by_the_next_statement(place: Place) -> None:
    rows = pa.table({"id": pa.array([1000], pa.int64()), "kind": ["k9"], "amount": [1.0], "note": ["new"]})
    for number, sql in enumerate(
        (
            "SELECT id FROM orders WHERE kind = 'k9'",
            "SELECT id FROM orders WHERE note = 'new'",
            "SELECT count(*) FROM orders",
        )
    ):
        place.tables["orders"].write("upsert", rows.set_column(0, "id", pa.array([1000 + number], pa.int64())))
        statement = place.rewritten(sql)
        expected = [(200 + number + 1,)] if "count" in sql else [(1000 + at,) for at in range(number + 1)]
        assert sorted(place.query(statement.sql)) == expected


def test_the_python_client_rewrites(place: Place) -> None:
    engine = place.engine
    connection = hudi_catalog.trino.connect(
        engine.host,
        engine.port,
        user="test",
        catalog=engine.hive,
        schema=SCHEMA,
        metastore=f"file://{engine.metastore}",
        options=place.options,
    )
    with connection:
        cursor = connection.cursor()
        assert cursor.execute("SELECT count(*) FROM orders WHERE kind = 'k1'").fetchall() == [[50]]
        assert "__snapshots" in cursor.query
        assert cursor.execute("SELECT id FROM orders WHERE kind = ? AND id = ?", ("k1", 60)).fetchall() == [[60]]
        assert "__snapshots" in cursor.query
        cursor.execute("CREATE TABLE IF NOT EXISTS many (id bigint)").fetchall()
        cursor.executemany("INSERT INTO many SELECT id FROM orders WHERE kind = 'k1' AND id = ?", [(60,), (61,), (3,)])
        cursor.fetchall()
        assert sorted(cursor.execute("SELECT * FROM many").fetchall()) == [[60], [61]]
        cursor.execute("USE tpch.tiny").fetchall()
        assert cursor.execute("SELECT count(*) FROM orders WHERE orderkey = 1").fetchall() == [[1]]


def test_row_filters_and_column_masks_hold_for_rewritten_queries(place: Place, tmp_path: Path) -> None:
    """Trino's own access rules go by names of schemas and tables; here those of a catalog."""
    file, everybody = tmp_path / "rules.json", {"privileges": ["SELECT"]}
    rule = {
        "user": "ann",
        "schema": SCHEMA,
        "table": "orders",
        "filter": "kind = 'k1'",
        "columns": [{"name": "note", "mask": "'hidden'"}],
        **everybody,
    }
    file.write_text(json.dumps({"tables": [rule, everybody]}))
    ruled = place.engine.create_catalog(
        "ruled",
        "hive",
        {
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": f"file://{place.engine.metastore}",
            "fs.hadoop.enabled": "true",
            "hive.security": "file",
            "security.config-file": str(file),
            "security.refresh-period": "100ms",
        },
    )
    session = SessionNames(ruled, SCHEMA)
    sql = "SELECT count(*), min(id), max(id), max(note) FROM orders WHERE id < 60"
    allowed = [(10, 50, 59, "hidden")]

    def rewritten(rules: str) -> Rewritten:
        settings = {CATALOGS: ruled, KEPT_AT_MOST: "1.0", RULES: rules}
        return Rewriter(place.synced(), GatewayOptions.parse(settings)).rewrite(sql, session)

    def ask(text: str) -> list[tuple[Any, ...]]:
        return place.engine.query(text, catalog=ruled, schema=SCHEMA, user="ann")

    try:
        assert ask(sql) == allowed
        (leaked,) = ask(rewritten("none").sql)
        assert leaked[0] == 60, "what the rules do not name, they do not protect"
        left = rewritten(str(file))
        assert (left.changed, left.reason) == (False, Reason.ACCESS_RULES)
        file.write_text(
            json.dumps({"tables": [{**rule, "schema": f"{SCHEMA}(__snapshots)?", "table": "orders(__.*)?"}, everybody]})
        )
        # Trino rereads its rules after a while
        until(lambda: (statement := rewritten(str(file))).changed and ask(statement.sql) == allowed)
        assert ask(sql) == allowed
    finally:
        place.engine.drop_catalog(ruled)
