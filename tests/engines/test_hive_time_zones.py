"""Instants in a Hive whose JVM is in New York: shown and compared as its clock times, without a row lost by pruning."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from tests.engines.conftest import skip_or_fail
from tests.engines.hive_engine import ON_TEZ, OWN_SCANS, Engine
from tests.engines.hive_world import World, each_alone
from tests.support.local_writes import LocalTable
from tools.engines.artifacts import EngineMissingError
from tools.engines.hive.jars import handler
from tools.engines.hive.server import HiveMetastore, HiveServer

pytestmark = pytest.mark.engine

SCHEMA, TABLE = "zones", "moments"
HALF_HOUR = dt.timedelta(minutes=30)
# an hour is skipped there at 07:00 UTC of the first day, and comes twice from 05:00 UTC of the second
SKIPPED, REPEATED = dt.datetime(2026, 3, 8, 5, tzinfo=dt.UTC), dt.datetime(2026, 11, 1, 4, tzinfo=dt.UTC)
MOMENTS = [
    dt.datetime(1890, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    *(SKIPPED + number * HALF_HOUR for number in range(7)),
    *(dt.datetime(2026, 6, 15, hour, tzinfo=dt.UTC) for hour in (0, 3, 4, 5, 23)),
    *(REPEATED + number * HALF_HOUR for number in range(8)),
]
# by New York's clocks; those that they skip or show twice prune nothing
CLOCKS = ["2026-03-08 01:30:00", "2026-03-08 03:00:00", "2026-06-15 00:00:00", "1969-12-31 19:00:00"]
ODD_CLOCKS = ["2026-03-08 02:30:00", "2026-11-01 01:30:00"]
CONDITIONS = [
    *(f"ts {op} TIMESTAMP '{clock}'" for clock in CLOCKS + ODD_CLOCKS for op in ("=", "<", ">=")),
    "to_date(ts) = DATE '2026-06-14'",
    "ts < DATE '2026-03-08'",
    "year(ts) = 1969",
    "hour(ts) = 1",
    "ts BETWEEN TIMESTAMP '2026-06-14 20:00:00' AND TIMESTAMP '2026-06-15 00:30:00'",
    "ts IN (TIMESTAMP '2026-06-15 01:00:00', TIMESTAMP '1969-12-31 19:00:00')",
    "ts > CAST('2026-06-15 04:00:00 UTC' AS TIMESTAMP WITH LOCAL TIME ZONE)",
    "CAST(ts AS string) < '2026-03-08 02'",
]


@pytest.fixture(scope="module")
def world(hive_metastore_4: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A table with a file for each moment, and Hive in New York."""
    rows = {"id": range(len(MOMENTS)), "ts": MOMENTS, "part": [f"p{number}" for number in range(len(MOMENTS))]}
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("part", pa.string())])
    options = {
        "hoodie.table.name": TABLE,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.bucket.index.num.buckets": "1",
    }
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("hive-new-york")
        try:
            server = HiveServer(folder, hive_metastore_4, classes=[handler()], time_zone="America/New_York")
        except EngineMissingError as error:
            skip_or_fail(str(error))
        stack.callback(server.process.kill)
        engine = Engine("127.0.0.1", server.port)
        stack.callback(engine.close)
        made = World(engine, tmp_path_factory.mktemp("hive-zones"), stack)
        written = LocalTable.create(str(made.folder(SCHEMA) / TABLE), schema, options)
        written.write("insert", pa.table({name: list(values) for name, values in rows.items()}, schema))
        made.register(SCHEMA, TABLE)
        yield made


@pytest.fixture(scope="module")
def truth(world: World) -> dict[str, list[int]]:
    """The ids of rows for which Hive finds a condition true, reading every file."""
    columns = ", ".join(f"({condition})" for condition in CONDITIONS)
    rows = world.query(f"SELECT id, {columns} FROM {TABLE}", SCHEMA)
    assert len(rows) == len(MOMENTS)
    return {text: sorted(row[0] for row in rows if row[at]) for at, text in enumerate(CONDITIONS, 1)}


def test_instants_are_shown_as_clock_times_of_the_servers_zone(world: World) -> None:
    rows = dict(world.query(f"SELECT id, ts FROM {TABLE} WHERE id < 9", SCHEMA))
    assert str(rows[1]) == "1969-12-31 19:00:00"
    assert [rows[at].hour for at in range(2, 9)] == [0, 0, 1, 1, 3, 3, 4]
    elsewhere = world.query(f"SELECT ts FROM {TABLE} WHERE id = 1", SCHEMA, {"hive.local.time.zone": "Asia/Tokyo"})
    assert elsewhere == [(rows[1],)]


@pytest.mark.parametrize("first", range(0, len(CONDITIONS), 9))
def test_no_row_is_lost(world: World, truth: dict[str, list[int]], first: int) -> None:
    conditions = CONDITIONS[first : first + 9]
    answers: dict[str, list[int]] = defaultdict(list)
    for number, key in world.query(each_alone(conditions, TABLE), SCHEMA, {**ON_TEZ, **OWN_SCANS}):
        answers[conditions[number]].append(key)
    assert {text: sorted(answers[text]) for text in conditions} == {text: truth[text] for text in conditions}


def test_clock_times_prune(world: World, truth: dict[str, list[int]]) -> None:
    for clock, op in itertools.product(CLOCKS, ("=", "<")):
        condition = f"ts {op} TIMESTAMP '{clock}'"
        rows = world.query(f"SELECT id FROM {TABLE} WHERE {condition}", SCHEMA)
        assert sorted(key for (key,) in rows) == truth[condition]
        record = world.planned(f"{SCHEMA}.{TABLE}")[-1]
        assert (record["files_in"], record["unknown"]) == (len(MOMENTS), [])
        assert record["files_out"] == len(rows)
    world.query(f"SELECT id FROM {TABLE} WHERE ts < TIMESTAMP '{ODD_CLOCKS[0]}'", SCHEMA)
    record = world.planned(f"{SCHEMA}.{TABLE}")[-1]
    assert record["files_out"] == len(MOMENTS)
    assert record["unknown"]
