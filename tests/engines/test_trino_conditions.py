"""Conditions that are no ranges of columns, through our connector in real Trino: no row is lost, files are left out."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
import trino as client

from hudi_catalog.trino.serve import TrinoSettings, running_trino
from tests.engines.answers import rows_agree
from tests.engines.connector_conditions import FILES, conditions, write_ranges
from tests.engines.connector_tables import FOLDERS, SCHEMA, Lake, options
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine

TABLES = ("ranges", "served_")
CONDITIONS = int(os.environ.get("HUDI_CATALOG_CONDITIONS", "70"))
"""Each is asked of two tables, and of a copy in Trino's memory."""
ZONES = ("UTC", "America/New_York")


@pytest.fixture(scope="module")
def lake(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = Path(tmp_path_factory.mktemp("conditions"))
    (folder / SCHEMA).mkdir()
    for name in TABLES:
        write_ranges(folder / SCHEMA / FOLDERS.get(name, name), name)
    _write_structs(folder / SCHEMA)
    with running_trino(TrinoSettings(str(folder))) as service:
        lake = Lake(trino, service, folder)
        lake.engine.query("DROP TABLE IF EXISTS memory.default.ranges")
        lake.query("CREATE TABLE memory.default.ranges AS SELECT * FROM ranges")
        yield lake


def _write_structs(folder: Path) -> None:
    """A table of wide rows, and one whose rows got more fields."""
    wide = pa.table(
        {
            "id": pa.array(range(20_000), pa.int64()),
            "part": ["p"] * 20_000,
            "st": [{"a": one, "b": hashlib.sha256(str(one).encode()).hexdigest()} for one in range(20_000)],
        }
    )
    LocalTable.create(str(folder / "wide"), wide.schema, options("wide")).write("insert", wide)
    inner = {"x": 1}
    first = pa.table(
        {
            "id": pa.array(range(10), pa.int64()),
            "part": ["p"] * 10,
            "st": [{"a": one, "inner": inner} for one in range(10)],
        }
    )
    rows = [{"a": one, "inner": inner | {"later": 2}, "added": 7} for one in range(10, 20)]
    second = pa.table({"id": pa.array(range(10, 20), pa.int64()), "part": ["q"] * 10, "st": rows})
    grown = LocalTable.create(str(folder / "grown"), first.schema, options("grown"))
    grown.write("insert", first)
    grown.write("upsert", second, {"hoodie.datasource.write.reconcile.schema": "true"})


def test_conditions_lose_no_row(lake: Lake) -> None:
    texts = list(itertools.islice(conditions(seed=5), CONDITIONS))

    def wrong(number: int) -> str:
        text, zone = texts[number], ZONES[number % 2]
        try:
            expected = lake.engine.query(f"SELECT id FROM memory.default.ranges WHERE {text}", timezone=zone)
        except client.exceptions.TrinoQueryError as error:
            # a value that a cast cannot take, say: files without it may have been left out
            return f"{text}: {error}" if error.error_type != "USER_ERROR" or error.error_name == "SYNTAX_ERROR" else ""
        for name in TABLES:
            difference = rows_agree(lake.query(f"SELECT id FROM {name} WHERE {text}", timezone=zone), expected)
            if difference:
                return f"{name}, {text}: {difference}"
        return ""

    with ThreadPoolExecutor(4) as threads:
        assert [one for one in threads.map(wrong, range(CONDITIONS)) if one] == []


@pytest.mark.parametrize(
    "condition",
    [
        "i = 17 OR s = 'banana1'",
        "lower(s) = 'banana'",
        "s LIKE 'a%1'",
        "starts_with(s, 'ch')",
        "i + 7 = 20",
        "i % 1000 = 13",
        "year(at) = 2020 OR year(at) = 2021",
        "month(day) = 3",
        "date_trunc('month', at) = TIMESTAMP '2020-03-01 00:00:00 UTC' OR i = 3",
        "CAST(at AS date) = DATE '2020-03-01' OR i = 3",
        "substring(s, 2, 3) = 'ana'",
        "day + INTERVAL '3' DAY < DATE '2020-06-01'",
        "sqrt(CAST(abs(i) AS double)) > 1e0",
        "i < j",
    ],
)
def test_files_are_left_out(lake: Lake, condition: str) -> None:
    expected = lake.engine.query(f"SELECT count(*) FROM memory.default.ranges WHERE {condition}")
    assert lake.query(f"SELECT count(*) FROM ranges WHERE {condition}") == expected
    record = lake.planned("ranges")
    assert record["files_out"] < record["files_in"] == FILES


def test_fields_of_rows_are_understood(lake: Lake) -> None:
    """Our writer keeps no statistics of them, so that no file is left out."""
    lake.query("SELECT count(*) FROM ranges WHERE st.c.x + 1 > 400 OR st.B LIKE 'b%'")
    record = lake.planned("ranges")
    assert record["unknown"] == []
    assert "st.c.`x`" in record["expression"]
    assert "st.B" in record["expression"]


def test_what_is_not_understood_is_said(lake: Lake) -> None:
    lake.query("SELECT count(*) FROM ranges WHERE regexp_like(s, 'a') OR i < j")
    unknown = lake.planned("ranges")["unknown"]
    assert any("regexp_like(s" in one for one in unknown)
    assert any("less_than(i, j)" in one for one in unknown)
    shown = lake.query("EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM ranges WHERE regexp_like(s, 'a') OR i < j")
    assert "filter: less_than(i, j) is not understood" in "\n".join(row[0] for row in shown)


AGGREGATES = (
    "count(*)",
    "count(*), count(i), min(i), max(i), min(l), max(day), min(dec)",
    "max(dec), count(day)",
    "min(s), max(d)",
    "count(s)",
    "sum(i)",
    "count(DISTINCT i)",
    "count(*) FILTER (WHERE i > 3)",
    "min(i + 1), max(st.a)",
    "min(at), max(at)",
)


@pytest.mark.parametrize("where", ["", " WHERE part IN ('p03', 'p11')", " WHERE part = 'none'", " WHERE i > 5"])
def test_aggregates_are_those_of_all_rows(lake: Lake, where: str) -> None:
    for text in AGGREGATES:
        expected = lake.engine.query(f"SELECT {text} FROM memory.default.ranges{where}")
        for name in TABLES:
            assert lake.query(f"SELECT {text} FROM {name}{where}") == expected, (name, text)


def test_statistics_answer_aggregates_alone(lake: Lake) -> None:
    plan = "\n".join(row[0] for row in lake.query(f"EXPLAIN SELECT {AGGREGATES[1]} FROM ranges WHERE part <> 'p01'"))
    assert "Aggregate" not in plan
    for text in ("min(s)", "max(d)", "count(s)", "count(*) FILTER (WHERE i > 3)"):
        assert "Aggregate" in str(lake.query(f"EXPLAIN SELECT {text} FROM ranges")), text
    assert "Aggregate" in str(lake.query("EXPLAIN SELECT count(*) FROM ranges WHERE i > 5"))


ORDERS = ("i", "i DESC", "l NULLS FIRST", "day DESC NULLS FIRST, id", "dec, id DESC", "s", "d", "at", "st.a DESC")


@pytest.mark.parametrize("name", TABLES)
def test_the_first_rows_of_an_order(lake: Lake, name: str) -> None:
    for order in ORDERS:
        for where in ("", " WHERE part > 'p09'"):
            column = order.split(",")[0].split()[0]
            text = f"SELECT {column} FROM {{}}{where} ORDER BY {order} LIMIT 30"
            expected = lake.engine.query(text.format("memory.default.ranges"))
            assert rows_agree(lake.query(text.format(name)), expected) == "", text


def test_an_order_and_a_limit_leave_files_out(lake: Lake) -> None:
    lake.query("SELECT id FROM ranges ORDER BY l DESC LIMIT 10")
    assert lake.planned("ranges")["taken"] < FILES // 2
    assert len(lake.query("SELECT id FROM ranges WHERE part > 'p03' LIMIT 30")) == 30
    assert lake.planned("ranges")["taken"] == 2
    assert len(lake.query("SELECT id FROM ranges WHERE i % 2 = 0 LIMIT 30")) == 30
    assert len(lake.query("SELECT id FROM ranges LIMIT 10000")) == FILES * 25


FIELDS = (
    "id, st.a",
    "id, st.a, st.c.x, st.B",
    "id, st.c.x, json_format(CAST(st.c AS json)), st.a",
    "id, json_format(CAST(st AS json)), st.a",
    "id, st.c.x + st.a, upper(st.B)",
    "id, st.c.x, at",
)


@pytest.mark.parametrize("name", TABLES)
def test_fields_of_rows(lake: Lake, name: str) -> None:
    for text in FIELDS:
        for where in ("", " WHERE st.c.x IS NULL OR st.B = 'banana'"):
            expected = lake.engine.query(f"SELECT {text} FROM memory.default.ranges{where}")
            assert rows_agree(lake.query(f"SELECT {text} FROM {name}{where}"), expected) == "", (text, where)


def test_a_single_field_reads_fewer_bytes(lake: Lake) -> None:
    def read(text: str) -> int:
        return int(lake.engine.statistics(text, catalog=lake.catalog, schema=SCHEMA)["physicalInputBytes"])

    assert read("SELECT sum(st.a) FROM wide") * 2 < read("SELECT count(st) FROM wide WHERE st.b <> 'x'")
    files = lake.query("SELECT DISTINCT length(st.b) FROM wide")
    assert files == [(64,)]


def test_fields_that_files_lack_are_null(lake: Lake) -> None:
    assert lake.query('SELECT count(*), count(st.added), count(st."inner".later), count(st.a) FROM grown') == [
        (20, 10, 10, 20)
    ]
    assert lake.query("SELECT count(st) FROM grown WHERE st.added IS NULL") == [(10,)]
    assert lake.query("SELECT st.added FROM grown WHERE id IN (3, 13) ORDER BY id") == [(None,), (7,)]
