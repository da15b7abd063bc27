"""How each form of a WHERE reaches the service, what it becomes, and which files it keeps.

The table has ten files of a hundred rows, each with a range of its own in every column, so that the kept files tell
how exactly a condition arrived.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine

FILES, ROWS = 10, 100
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("part", pa.string()),
        ("a", pa.int64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("price", pa.decimal128(10, 2)),
    ]
)
FIRST_DAY = dt.date(2020, 1, 1)
FIRST_TIME = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def rows() -> pa.Table:
    """Row n is in file n / 100; every 25th `a` is null, and no other; a file is about two months."""
    count = range(FILES * ROWS)
    columns: dict[str, Any] = {
        "k": list(count),
        "part": [f"p{n // ROWS}" for n in count],
        "a": [None if n % 25 == 24 else n for n in count],
        "i": list(count),
        "d": [n / 4 for n in count],
        "s": [f"{'abcdefghij'[n // ROWS]}{n:04}" for n in count],
        "day": [FIRST_DAY + dt.timedelta(days=n * 6 // 10) for n in count],
        "moment": [FIRST_TIME + dt.timedelta(hours=n * 14, milliseconds=n) for n in count],
        "b": [n >= 500 for n in count],
        "price": [f"{n}.25" for n in count],
    }
    columns["price"] = pa.array(columns["price"]).cast(pa.decimal128(10, 2))
    return pa.table(columns, SCHEMA)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingTrino]:
    warehouse = Path(tmp_path_factory.mktemp("predicates"))
    (warehouse / "db").mkdir()
    options = {
        "hoodie.table.name": "forms",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    LocalTable.create(str(warehouse / "db" / "forms"), SCHEMA, options).write("insert", rows())
    # decimals keep their exact values as texts
    settings = TrinoSettings(warehouse=str(warehouse), options={"hoodie.catalog.trino.type.decimal": "varchar"})
    with running_trino(settings) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(trino: Engine, serving: ServingTrino) -> str:
    return trino.thrift_catalog("forms", serving.port)


@pytest.fixture(scope="module")
def in_duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("forms", rows())
        yield connection


def asked(trino: Engine, catalog: str, serving: ServingTrino, condition: str) -> tuple[list[Any], dict[str, Any]]:
    """The keys that a query gives, and the line that the service logged for it."""
    before = serving.log.recent()[:1]
    keys = trino.query(f"SELECT k FROM {catalog}.db.forms WHERE {condition}")
    fresh = [record for record in serving.log.recent() if not before or record["scan"] != before[0]["scan"]]
    return sorted(key for (key,) in keys), fresh[0]


MANY = [n * 7 for n in range(3_000)]

# condition for Trino; the same for DuckDB where it is another; what arrives by column; the expression; files kept
FORMS: list[tuple[str, str | None, Any, str, int]] = [
    ("a = 250", None, {"a": ["250"]}, "a = 250", 1),
    ("a <> 250", None, {"a": ["(-inf, 250)", "(250, +inf)"]}, "a IS NOT NULL AND a <> 250", 10),
    ("a < 250", None, {"a": ["(-inf, 250)"]}, "a < 250", 3),
    ("a >= 700 AND a < 800", None, {"a": ["[700, 800)"]}, "a >= 700 AND a < 800", 1),
    ("a BETWEEN 150 AND 350", None, {"a": ["[150, 350]"]}, "a >= 150 AND a <= 350", 3),
    ("a IN (5, 205, 999)", None, {"a": ["5", "205", "999"]}, "a IN (5, 205, 999)", 2),
    ("a IN (7, 8, 9)", None, {"a": ["[7, 9]"]}, "a >= 7 AND a <= 9", 1),
    ("k IN (907, 908)", None, {"k": ["[907, 908]"]}, "k >= 907 AND k <= 908", 1),
    ("a NOT IN (5, 205)", None, {"a": 3}, "a IS NOT NULL AND a NOT IN (5, 205)", 10),
    ("a IS NULL", None, {"a": []}, "a IS NULL", 10),
    ("a IS NOT NULL AND a > 950", None, {"a": ["(950, +inf)"]}, "a > 950", 1),
    (
        "a IS DISTINCT FROM 250",
        None,
        {"a": ["(-inf, 250)", "(250, +inf)"]},
        "(a IS NOT NULL AND a <> 250) OR a IS NULL",
        10,
    ),
    ("a IS NOT DISTINCT FROM 250", None, {"a": ["250"]}, "a = 250", 1),
    ("a < 50 OR a > 950", None, {"a": ["(-inf, 50)", "(950, +inf)"]}, "a > 950 OR a < 50", 2),
    ("a IS NULL OR a > 950", None, {"a": ["(950, +inf)"]}, "a > 950 OR a IS NULL", 10),
    (
        "(a BETWEEN 100 AND 150 AND i < 140) OR (a BETWEEN 300 AND 350 AND i > 320)",
        None,
        {"a": ["[100, 150]", "[300, 350]"], "i": ["(-inf, 140)", "(320, +inf)"]},
        "((a >= 100 AND a <= 150) OR (a >= 300 AND a <= 350)) AND (i > 320 OR i < 140)",
        2,
    ),
    ("s LIKE 'c%'", None, {"s": ["['c', 'd')"]}, "s >= 'c' AND s < 'd'", 1),
    ("s LIKE 'c02__'", None, {"s": ["['c02', 'c03')"]}, "s >= 'c02' AND s < 'c03'", 1),
    ("s IN ('a0001', 'j0999', 'zz')", None, {"s": ["'a0001'", "'j0999'", "'zz'"]}, "s IN ('a0001', 'j0999', 'zz')", 2),
    ("part = 'p4'", None, {"part": ["'p4'"]}, "part = 'p4'", 1),
    ("part > 'p7'", None, {"part": ["('p7', +inf)"]}, "part > 'p7'", 2),
    ("d > 224.5", None, {"d": ["(224.5, +inf)"]}, "d > 224.5e0", 2),
    ("d = 0.25", None, {"d": ["0.25"]}, "d = 0.25e0", 1),
    ("i = 950", None, {"i": ["950"]}, "i = 950", 1),
    ("b", None, {"b": ["True"]}, "b = TRUE", 5),
    ("NOT b", None, {"b": ["(-inf, True)", "(True, +inf)"]}, "b IS NOT NULL AND b <> TRUE", 5),
    (
        "day >= DATE '2021-06-01'",
        None,
        {"day": [f"[{(dt.date(2021, 6, 1) - dt.date(1970, 1, 1)).days}, +inf)"]},
        "day >= DATE '2021-06-01'",
        2,
    ),
    ("year(day) = 2020", None, {"day": 1}, "day >= DATE '2020-01-01' AND day <= DATE '2020-12-31'", 7),
    (
        "date_trunc('month', day) = DATE '2020-02-01'",
        None,
        {"day": 1},
        "day >= DATE '2020-02-01' AND day <= DATE '2020-02-29'",
        1,
    ),
    (
        "moment < TIMESTAMP '2020-02-01 00:00:00'",
        "moment < TIMESTAMPTZ '2020-02-01 00:00:00+00'",
        {"moment": ["(-inf, 1580515200000)"]},
        "moment < TIMESTAMP '2020-02-01 00:00:00+00:00'",
        1,
    ),
    (
        "CAST(moment AS date) = DATE '2021-03-01'",
        "CAST(moment AS date) = DATE '2021-03-01'",
        {"moment": 1},
        "moment >= TIMESTAMP '2021-03-01 00:00:00+00:00' AND moment < TIMESTAMP '2021-03-02 00:00:00+00:00'",
        1,
    ),
    ("CAST(i AS bigint) = 950", None, {"i": ["950"]}, "i = 950", 1),
    ("i = DOUBLE '950.0'", "i = 950.0", {"i": ["950"]}, "i = 950", 1),
    ("price = '950.25'", "price = 950.25", {"price": ["'950.25'"]}, "price = 950.25", 1),
    ("a > 950 AND s LIKE '%9'", None, {"a": ["(950, +inf)"]}, "a > 950", 1),
]

# These never arrive: all files are read, and Trino filters.
LOST = [
    "a = 250 OR i = 950",
    "s LIKE '%9'",
    "length(s) = 5 AND abs(a) = 250",
    "a + 1 = 251",
    "CASE WHEN a > 10 THEN i ELSE 0 END = 950",
]


@pytest.mark.parametrize(("condition", "for_duckdb", "received", "expression", "files"), FORMS)
def test_a_form_arrives_and_prunes(
    trino: Engine,
    catalog: str,
    serving: ServingTrino,
    in_duckdb: duckdb.DuckDBPyConnection,
    condition: str,
    for_duckdb: str | None,
    received: Any,
    expression: str,
    files: int,
) -> None:
    keys, record = asked(trino, catalog, serving, condition)
    wanted = in_duckdb.execute(f"SELECT k FROM forms WHERE {for_duckdb or condition} ORDER BY k").fetchall()
    assert keys == [key for (key,) in wanted]
    ranges = {name: domain["ranges"] for name, domain in record["received"].items()}
    assert {name: len(ranges[name]) if isinstance(domain, int) else domain for name, domain in received.items()} == {
        name: len(ranges[name]) if isinstance(received[name], int) else ranges[name] for name in ranges
    }
    assert record["expression"] == expression
    assert (record["files_in"], record["files_out"]) == (FILES, files)
    assert record["unknown"] == []


@pytest.mark.parametrize("condition", LOST)
def test_forms_that_do_not_arrive_are_filtered_by_trino(
    trino: Engine,
    catalog: str,
    serving: ServingTrino,
    in_duckdb: duckdb.DuckDBPyConnection,
    condition: str,
) -> None:
    keys, record = asked(trino, catalog, serving, condition)
    wanted = in_duckdb.execute(f"SELECT k FROM forms WHERE {condition} ORDER BY k").fetchall()
    assert keys == [key for (key,) in wanted]
    assert (record["received"], record["expression"], record["files_out"]) == ({}, None, FILES)


def test_three_thousand_values(trino: Engine, catalog: str, serving: ServingTrino) -> None:
    keys, record = asked(trino, catalog, serving, f"k IN ({', '.join(map(str, MANY))})")
    assert keys == [key for key in MANY if key < FILES * ROWS]
    assert record["received"]["k"]["ranges"][-1] == "2,981 more"
    assert record["expression"].startswith("k IN (0, 7, 14,")
    keys, record = asked(trino, catalog, serving, f"k IN ({', '.join(map(str, MANY[-100:]))})")
    assert (keys, record["files_out"]) == ([], 0)


def test_nothing_can_match(trino: Engine, catalog: str, serving: ServingTrino) -> None:
    assert asked(trino, catalog, serving, "a > 5000")[1]["files_out"] == 0
    keys, record = asked(trino, catalog, serving, "part = 'p4' AND a < 100")
    assert (keys, record["files_out"]) == ([], 0)


def test_only_what_is_needed_is_asked_for(trino: Engine, catalog: str, serving: ServingTrino) -> None:
    table = f"{catalog}.db.forms"
    assert trino.query(f"SELECT count(*) FROM {table}") == [(1000,)]
    assert serving.log.recent()[0]["columns"] == []
    assert trino.query(f"SELECT max(d) FROM {table} WHERE i < 5") == [(1.0,)]
    assert serving.log.recent()[0]["columns"] == ["d", "i"]
    assert len(trino.query(f"SELECT * FROM {table} LIMIT 3")) == 3
    assert trino.query(f"SELECT DISTINCT hoodie_partition_path FROM {table} WHERE i = 950") == [("p9",)]
