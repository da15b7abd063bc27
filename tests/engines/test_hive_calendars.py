"""Dates and times before 1582, texts of limited length, decimals, structs: read as Hive itself does, and pruned.

Hive has two calendars, and shows instants as clock times by an older rule: its own reading of the files is the truth.
"""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.engines.hive_engine import ON_TEZ, OWN_SCANS
from tests.engines.hive_world import ROW_HANDLER, World, each_alone
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "calendars"
MODES = pytest.mark.parametrize("mode", [{}, ON_TEZ], ids=["in the server", "on Tez"])
# how the handler's readers take files that do not name their calendar
AS_STORED = {"hive.parquet.date.proleptic.gregorian.default": "true"}
FIRST_DAYS = [
    "0001-01-01",
    "1000-06-15",
    "1200-06-15",
    "1400-06-15",
    "1500-02-20",
    "1582-10-01",
    "1850-01-01",
    "2020-01-01",
]
ROWS = 30
# a condition, and whether it leaves out files
CONDITIONS = {
    "born = date'1500-03-01'": True,
    "born = date'1582-10-10'": True,
    "born = date'0001-01-01'": True,
    "born <> date'1500-03-01'": False,
    "born < date'1400-06-20'": True,
    "born >= date'1582-10-15'": True,
    "born BETWEEN date'1000-06-20' AND date'1200-06-16'": True,
    "born IN (date'1000-06-20', date'1850-01-02')": True,
    "NOT (born > date'1200-06-20')": True,
    "to_date(seen) = date'1400-06-16'": False,
    "seen = timestamp'1400-06-16 12:00:00'": True,
    "seen < timestamp'1200-06-20 00:00:00'": True,
    "seen > timestamp'1582-10-05 00:00:00' AND seen < timestamp'1850-01-05 00:00:00'": True,
    "seen >= timestamp'1850-01-03 00:00:00'": True,
    "seen IN (timestamp'0001-01-01 12:00:00', timestamp'2020-01-02 12:00:00')": True,
    "born <=> date'1500-03-01'": True,
}
# nested columns have no statistics in every table
LIMITED = {
    "code = 'c03'": True,
    "code < 'c02'": True,
    "word = 'w11'": True,
    "word IN ('w11', 'w29')": True,
    "price = 6.25": True,
    "price BETWEEN -7.50 AND 0.25": True,
    "body.a > 230": None,
    "body.deep.b = 'b7'": None,
}
COLUMNS = (
    "id bigint, code char(5), word varchar(3), price decimal(10,2), body struct<a:int,deep:struct<b:string,c:double>>"
)


def rows() -> pa.Table:
    """A file for each first day: a day for each row from there on, and noon of it in UTC."""
    made = []
    for part, first in enumerate(FIRST_DAYS):
        for number in range(ROWS):
            day = dt.date.fromisoformat(first) + dt.timedelta(days=number)
            made.append(
                {
                    "id": part * ROWS + number,
                    "part": f"p{part}",
                    "born": day,
                    "seen": dt.datetime.combine(day, dt.time(12), dt.UTC),
                    "code": f"c{part:02}",
                    "word": f"w{part}{number % 10}",
                    "price": Decimal(part * 50 - 25) / 4,
                    "body": {"a": part * ROWS + number, "deep": {"b": f"b{number}", "c": number / 4}},
                }
            )
    deep = pa.struct([("a", pa.int32()), ("deep", pa.struct([("b", pa.string()), ("c", pa.float64())]))])
    texts = [("code", pa.string()), ("word", pa.string()), ("price", pa.decimal128(10, 2)), ("body", deep)]
    times = [("born", pa.date32()), ("seen", pa.timestamp("us", "UTC"))]
    return pa.Table.from_pylist(made, pa.schema([("id", pa.int64()), ("part", pa.string()), *times, *texts]))


@pytest.fixture(scope="module")
def world(hive_world: World) -> World:
    """Tables of whole columns, and entries by hand with texts of limited length: by the handler, and plain."""
    write(hive_world.folder(SCHEMA), "old", rows().drop_columns(["body"]), Layout("id", "id", 1, "part"))
    hive_world.register(SCHEMA, "old")
    hive_world.declare_plain(SCHEMA, "old")
    write(hive_world.folder(SCHEMA), "texts", rows(), Layout("id", "id", 1, "part"))
    hive_world.declare_plain(SCHEMA, "texts")
    hive_world.declare(SCHEMA, "limited", COLUMNS, folder=hive_world.folder(SCHEMA) / "texts", handler=ROW_HANDLER)
    folder = hive_world.warehouse / "plain" / SCHEMA / "texts"
    database = hive_world.engine.create_database(f"{SCHEMA}_plain")
    hive_world.engine.run(
        f"CREATE EXTERNAL TABLE {database}.limited ({COLUMNS}) STORED AS PARQUET LOCATION '{folder.as_uri()}'"
    )
    return hive_world


@MODES
def test_old_dates_and_times_are_those_of_plain_parquet(world: World, mode: dict[str, str]) -> None:
    sql = "SELECT id, CAST(born AS string), CAST(seen AS string) FROM old"
    answer = sorted(world.query(sql, SCHEMA, mode))
    assert answer == sorted(world.plain(sql, SCHEMA, {**mode, **AS_STORED}))
    assert [born for _, born, _ in answer] == [str(day) for day in rows()["born"].to_pylist()], "as they are stored"


def test_filters_of_old_dates_and_times_lose_no_row_and_prune(world: World) -> None:
    for condition, prunes in CONDITIONS.items():
        sql = f"SELECT id FROM old WHERE {condition}"
        assert sorted(world.query(sql, SCHEMA)) == sorted(world.plain(sql, SCHEMA, AS_STORED)), condition
        record = world.planned(f"{SCHEMA}.old")[-1]
        assert (record["files_out"] < record["files_in"]) is prunes, (condition, record)


def test_filters_of_old_dates_and_times_on_tez(world: World) -> None:
    sql = each_alone([*CONDITIONS], "old")
    settings = {**ON_TEZ, **OWN_SCANS}
    assert sorted(world.query(sql, SCHEMA, settings)) == sorted(world.plain(sql, SCHEMA, {**settings, **AS_STORED}))


@MODES
def test_texts_of_limited_length_decimals_and_fields_of_structs(world: World, mode: dict[str, str]) -> None:
    whole = "SELECT id, code, word, price, body.a, body.deep.b, body.deep.c FROM limited"
    assert sorted(world.query(whole, SCHEMA, mode)) == sorted(world.plain(whole, SCHEMA, mode))
    for condition, prunes in LIMITED.items():
        sql = f"SELECT id, body.deep.c FROM limited WHERE {condition}"
        answer = sorted(world.query(sql, SCHEMA, mode))
        assert answer == sorted(world.plain(sql, SCHEMA, mode)), condition
        assert answer, condition
        record = world.planned(f"{SCHEMA}.limited")[-1]
        assert prunes in (None, record["files_out"] < record["files_in"]), (condition, record)
