"""Filters drawn at random give the rows that DuckDB gives, through the storage handler in a Hive of New York.

New York's clock times are not UTC's, and its clocks change twice a year.
"""

import datetime as dt
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.hive_engine import ON_TEZ, OWN_SCANS, Engine
from tests.engines.hive_world import World, each_alone
from tests.engines.trino_filters import Filters, table_of_kinds
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "kinds"
FILTERS = [Filters(seed).draw() for seed in range(1000, 1090)]
SESSIONS = 3


def in_hive(text: str) -> str:
    """A filter as Hive spells it."""
    return text.replace("date_trunc('day', moment)", "floor(moment TO DAY)")


@dataclass(frozen=True)
class Kinds:
    """The table in Hive, and DuckDB's results from it with the same clock."""

    hive: Engine
    database: str
    duckdb: DuckDb

    def query(self, sql: str, settings: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
        return self.hive.query(sql, self.database, settings)


@pytest.fixture(scope="module")
def kinds(hive_world: World, hive_new_york: Engine) -> Kinds:
    """The table, in two commits."""
    rows = table_of_kinds()
    table = write(hive_world.folder(SCHEMA), "stored", rows, Layout("id", "id", 8, "region"))
    table.write("upsert", rows.slice(100, 500))
    hive_world.register(SCHEMA, "stored")
    known = DuckDb.of_warehouse(hive_world.folder(SCHEMA))
    known.connection.execute(f"SET TimeZone = '{hive_new_york.time_zone}'")
    # Hive's timestamps are clock times of its time zone
    known.connection.execute("CREATE VIEW kinds AS SELECT * REPLACE (CAST(moment AS TIMESTAMP) AS moment) FROM stored")
    return Kinds(hive_new_york, hive_world.engine.create_database(SCHEMA), known)


def test_filters(kinds: Kinds) -> None:
    expected = [kinds.duckdb.query(f"SELECT id FROM kinds WHERE {text}") for text in FILTERS]
    assert sum(0 < len(rows) < 4000 for rows in expected) > 60
    statements = [f"SELECT id FROM stored WHERE {in_hive(text)}" for text in FILTERS]
    with ThreadPoolExecutor(SESSIONS) as threads:
        answers = list(threads.map(kinds.query, statements))
    compared = zip(FILTERS, answers, expected, strict=True)
    assert [f"{text}: {difference}" for text, rows, other in compared if (difference := rows_agree(rows, other))] == []


@pytest.mark.parametrize("first", [0, 8])
def test_filters_on_tez(kinds: Kinds, first: int) -> None:
    chosen = FILTERS[first : first + 8]
    rows = kinds.query(each_alone([in_hive(text) for text in chosen], "stored"), {**ON_TEZ, **OWN_SCANS})
    for number, text in enumerate(chosen):
        keys = [(key,) for form, key in rows if form == number]
        assert rows_agree(keys, kinds.duckdb.query(f"SELECT id FROM kinds WHERE {text}")) == "", text


def test_the_hours_that_come_twice_and_never(hive_world: World, kinds: Kinds) -> None:
    """Around both changes of the clocks, to the microsecond."""
    changes = [dt.datetime(2024, 3, 10, 7, tzinfo=dt.UTC), dt.datetime(2024, 11, 3, 6, tzinfo=dt.UTC)]
    steps = [dt.timedelta(minutes=15 * n, microseconds=n % 3 - 1) for n in range(-12, 13)]
    moments = [change + step for change in changes for step in steps]
    columns = {"id": list(range(50)), "part": [f"p{number}" for number in range(50)]}
    rows = pa.table({**columns, "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    write(hive_world.folder(SCHEMA), "clocks", rows, Layout("id", "id", 1, "part"))
    hive_world.register(SCHEMA, "clocks")
    clock = dict(kinds.query("SELECT id, at FROM clocks"))
    local = ZoneInfo(kinds.hive.time_zone)
    assert clock == {number: moment.astimezone(local).replace(tzinfo=None) for number, moment in enumerate(moments)}
    for when in ("2024-03-10 01:59:59", "2024-03-10 02:30:00", "2024-11-03 00:59:59.999999", "2024-11-03 01:15:00"):
        for operator, holds in (("<", dt.datetime.__lt__), (">=", dt.datetime.__ge__), ("=", dt.datetime.__eq__)):
            answer = kinds.query(f"SELECT id FROM clocks WHERE at {operator} TIMESTAMP '{when}'")
            bound = dt.datetime.fromisoformat(when)
            assert sorted(key for (key,) in answer) == sorted(key for key, at in clock.items() if holds(at, bound))
    assert min(record["files_out"] for record in hive_world.planned(f"{SCHEMA}.clocks")) < 20


def test_many_of_them_left_files_out(hive_world: World, kinds: Kinds) -> None:
    records = hive_world.planned(f"{SCHEMA}.stored")
    assert sum(record["files_out"] < record["files_in"] for record in records) > len(records) // 5
