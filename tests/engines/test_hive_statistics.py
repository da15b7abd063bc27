"""What Hive's optimizer knows of tables of the storage handler, and what it answers by that alone."""

import datetime as dt
import re

import pyarrow as pa
import pytest

from tests.engines.hive_engine import ON_TEZ, HiveError
from tests.engines.hive_world import World
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "statistics"


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"id": list(keys), "day": [f"d{key % 3}" for key in keys], "size": [key * 0.5 for key in keys]})


def made(world: World, name: str, count: int = 300) -> LocalTable:
    table = write(world.folder(SCHEMA), name, rows(0, count), Layout("id", "id", 2, "day"))
    world.register(SCHEMA, name)
    return table


def parameters(world: World, name: str) -> dict[str, str]:
    described = world.query(f"DESCRIBE FORMATTED {name}", SCHEMA)
    return {str(key).strip(): str(value).strip() for _, key, value in described if key}


def test_a_count_is_the_newest_snapshots_without_a_scan(hive_world: World) -> None:
    table = made(hive_world, "counted")
    assert hive_world.query("SELECT count(*) FROM counted", SCHEMA, ON_TEZ) == [(300,)]
    table.write("upsert", rows(290, 60))
    assert hive_world.query("SELECT count(*), count(1) FROM counted", SCHEMA, ON_TEZ) == [(350, 350)]
    assert hive_world.planned(f"{SCHEMA}.counted") == []
    # what a filter leaves, and what columns hold, is read
    for select, answer in (("count(*)", 50), ("max(size)", 174.5), ("count(size)", 50)):
        assert hive_world.query(f"SELECT {select} FROM counted WHERE id >= 300", SCHEMA, ON_TEZ) == [(answer,)]
    assert hive_world.query("SELECT min(id), max(id), count(day) FROM counted", SCHEMA, ON_TEZ) == [(0, 349, 350)]
    assert len(hive_world.planned(f"{SCHEMA}.counted")) == 4


def test_analyze_records_the_snapshot_and_never_answers_for_a_later_one(hive_world: World) -> None:
    table = made(hive_world, "analyzed")
    table.write("upsert", rows(0, 300))  # as many rows in as many files, and those that were replaced beside them
    analyze = f"ANALYZE TABLE {hive_world.engine.create_database(SCHEMA)}.analyzed COMPUTE STATISTICS"
    hive_world.engine.run(analyze)
    known = parameters(hive_world, "analyzed")
    assert (known["numRows"], known["numFiles"]) == ("300", "6")
    hive_world.engine.run(f"{analyze} FOR COLUMNS")
    table.write("upsert", rows(300, 60))
    answer = hive_world.query("SELECT count(*), min(id), max(id), count(size) FROM analyzed", SCHEMA, ON_TEZ)
    assert answer == [(360, 0, 359, 360)]
    # nor does it drop a condition that only held then
    assert len(hive_world.query("SELECT id FROM analyzed WHERE id > 320", SCHEMA, ON_TEZ)) == 39


def test_plans_have_the_rows_of_the_snapshot(hive_world: World) -> None:
    table = made(hive_world, "planned")
    table.write("upsert", rows(300, 60))
    plan = "\n".join(
        str(line) for (line,) in hive_world.query("EXPLAIN SELECT id FROM planned WHERE id < 36", SCHEMA, ON_TEZ)
    )
    rows_of = {name: re.search(rf"{name} .*?rows=(\d+)", plan) for name in ("TableScan", "Filter Operator")}
    counts = {name: int(match[1]) for name, match in rows_of.items() if match}
    # by the bounds of id, where Hive takes a third of the rows without them
    assert counts == {"TableScan": 360, "Filter Operator": 36}, plan


@pytest.fixture(scope="module")
def facts_and_days(hive_world: World) -> None:
    """Facts that are clustered by their days, and partitioned by them."""
    days = pa.table({"day": list(range(60)), "month": [f"m{day // 10}" for day in range(60)]})
    write(hive_world.folder(SCHEMA), "days", days, Layout("day", "day", 1))
    hive_world.register(SCHEMA, "days")
    keys = range(6000)
    facts = pa.table(
        {"id": list(keys), "sold": [key // 100 for key in keys], "day": [f"p{key // 100}" for key in keys]}
    )
    write(hive_world.folder(SCHEMA), "facts", facts, Layout("id", "id", 1, "day"))
    hive_world.register(SCHEMA, "facts")


@pytest.mark.usefixtures("facts_and_days")
def test_what_a_join_finds_prunes_the_facts(hive_world: World) -> None:
    """Tez hands the values of the filtered side to the splits of the other one; both ways of clustering."""
    sql = "SELECT count(*), min(f.id), max(f.id) FROM facts f JOIN days d ON f.sold = d.day WHERE d.month = 'm2'"
    assert hive_world.query(sql, SCHEMA, ON_TEZ) == [(1000, 2000, 2999)]
    record = hive_world.planned(f"{SCHEMA}.facts")[-1]
    assert record["files_in"] == 60
    assert record["files_out"] <= 18, record
    none = sql.replace("'m2'", "'never'")
    assert hive_world.query(none, SCHEMA, ON_TEZ) == [(0, None, None)]


SOLD = """
    SELECT f.sold, count(*) AS pieces FROM facts f JOIN {days} d ON f.sold = d.day
    WHERE d.month IN ({months}) GROUP BY f.sold
"""
TWICE = f"""
    WITH sales AS ({SOLD})
    SELECT count(*), sum(a.pieces + b.pieces) FROM sales a JOIN sales b ON a.pieces = b.pieces
"""
"""A query that has a join twice, which Hive computes once."""


def scanned(world: World, sql: str, answer: list[tuple[object, ...]]) -> list[int]:
    """How many files each scan of the facts kept."""
    begun = len(world.planned(f"{SCHEMA}.facts"))
    assert world.query(sql, SCHEMA, ON_TEZ) == answer
    return [plan["files_out"] for plan in world.planned(f"{SCHEMA}.facts")[begun:]]


@pytest.mark.usefixtures("facts_and_days")
def test_a_join_that_a_query_has_twice_reads_the_kept_part_once(hive_world: World) -> None:
    """The values of the other side are known when the query is compiled, so that both scans are one."""
    for months, days in (("'m0', 'm2', 'm5'", 30), ("'m2'", 10)):
        sql = TWICE.format(days="days", months=months)
        assert scanned(hive_world, sql, [(days * days, 200 * days * days)]) == [days]
    assert scanned(hive_world, TWICE.format(days="days", months="'never'"), [(0, None)]) == [0]


@pytest.mark.usefixtures("facts_and_days")
def test_known_values_leave_other_scans_of_the_query_alone(hive_world: World) -> None:
    """Hive makes one scan of several, also where their filters differ."""
    counts = "SELECT count(*), sum(pieces) FROM ({}) q"
    one, other = (counts.format(SOLD.format(days="days", months=months)) for months in ("'m0'", "'m3', 'm4'"))
    whole = "SELECT count(id), max(sold) FROM facts"
    for parts in ([one, one, other, other], [one, whole, one], [other, one, whole, one, other]):
        answers = {one: (10, 1000), other: (20, 2000), whole: (6000, 59)}
        counted = hive_world.query(" UNION ALL ".join(parts), SCHEMA, ON_TEZ)
        assert sorted(counted) == sorted(answers[part] for part in parts), parts


@pytest.mark.parametrize("first", ["0001-01-01", "1400-02-01", "1582-09-20", "9999-10-01"])
def test_a_join_by_old_dates_that_a_query_has_twice(hive_world: World, first: str) -> None:
    """Hive reads dates before 1582-10-15 as others than those that are stored, on both sides of the join."""
    name = f"d{first[:4]}"
    dates = [dt.date.fromisoformat(first) + dt.timedelta(day) for day in range(60)]
    days = pa.table({"day": list(range(60)), "born": dates, "month": [f"m{day // 10}" for day in range(60)]})
    facts = pa.table({"id": list(range(600)), "sold": [dates[key // 10] for key in range(600)]})
    facts = facts.append_column("part", pa.array([f"p{key // 10}" for key in range(600)]))
    write(hive_world.folder(SCHEMA), f"{name}_days", days, Layout("day", "day", 1))
    write(hive_world.folder(SCHEMA), f"{name}_facts", facts, Layout("id", "id", 1, "part"))
    for table in ("days", "facts"):
        hive_world.register(SCHEMA, f"{name}_{table}")
    sold = f"""
        SELECT f.sold, count(*) AS pieces FROM {name}_facts f JOIN {name}_days d ON f.sold = d.born
        WHERE d.month = 'm2' GROUP BY f.sold
    """
    sql = f"WITH s AS ({sold}) SELECT count(*), sum(a.pieces) FROM s a JOIN s b ON a.pieces = b.pieces"
    assert hive_world.query(sql, SCHEMA, ON_TEZ) == [(100, 1000)]


def test_a_join_where_null_equals_null_that_a_query_has_twice(hive_world: World) -> None:
    days = pa.table({"id": list(range(60)), "day": [day if day % 10 else None for day in range(60)]})
    days = days.append_column("month", pa.array([f"m{day // 10}" for day in range(60)]))
    write(hive_world.folder(SCHEMA), "open_days", days, Layout("id", "id", 1))
    sold = pa.array([key // 10 if key % 100 else None for key in range(600)], pa.int64())
    facts = pa.table({"id": list(range(600)), "sold": sold, "part": [f"p{key // 10}" for key in range(600)]})
    write(hive_world.folder(SCHEMA), "open_facts", facts, Layout("id", "id", 1, "part"))
    for table in ("open_days", "open_facts"):
        hive_world.register(SCHEMA, table)
    sold_of = """
        SELECT f.sold, count(*) AS pieces FROM open_facts f JOIN open_days d ON f.sold <=> d.day
        WHERE d.month = 'm2' GROUP BY f.sold
    """
    sql = f"WITH s AS ({sold_of}) SELECT sum(a.pieces), sum(b.pieces) FROM s a JOIN s b ON a.sold <=> b.sold"
    assert hive_world.query(sql, SCHEMA, ON_TEZ) == [(96, 96)]


@pytest.mark.usefixtures("facts_and_days")
def test_a_join_that_a_query_has_twice_is_computed_once(hive_world: World) -> None:
    """Of a table that is not ours the values are not known; waiting for them may leave out enough files to pay."""
    with hive_world.engine.session(ON_TEZ) as session:
        session.run(f"USE {hive_world.engine.create_database(SCHEMA)}")
        session.run("CREATE TABLE their_days STORED AS PARQUET AS SELECT day, month FROM days")
        session.run("ANALYZE TABLE their_days COMPUTE STATISTICS FOR COLUMNS")
    many, few = (TWICE.format(days="their_days", months=months) for months in ("'m0', 'm2', 'm5'", "'m2'"))
    assert scanned(hive_world, many, [(900, 180_000)]) == [60]
    assert max(scanned(hive_world, few, [(100, 20_000)])) <= 18


@pytest.mark.usefixtures("facts_and_days")
def test_a_whole_dimension_is_not_waited_for(hive_world: World) -> None:
    days = pa.table({"day": list(range(200)), "month": [f"m{day // 10}" for day in range(200)]})
    write(hive_world.folder(SCHEMA), "calendar", days, Layout("day", "day", 1))
    hive_world.register(SCHEMA, "calendar")
    sql = "SELECT count(*), min(f.id) FROM facts f JOIN calendar c ON f.sold = c.day"
    assert hive_world.query(sql, SCHEMA, ON_TEZ) == [(6000, 0)]
    assert hive_world.planned(f"{SCHEMA}.facts")[-1]["expression"] == "sold IS NOT NULL"
    assert hive_world.query(f"{sql} WHERE c.month = 'm3'", SCHEMA, ON_TEZ) == [(1000, 3000)]
    assert hive_world.planned(f"{SCHEMA}.facts")[-1]["files_out"] <= 18


def test_joins_by_decimals(hive_world: World) -> None:
    """Of the values of a decimal Hive can make no constants, which a plan with them would need."""
    kind = pa.decimal128(12, 2)
    days = pa.table({"day": list(range(60)), "worth": pa.array(range(60), pa.int32()).cast(kind)})
    write(hive_world.folder(SCHEMA), "worths", days, Layout("day", "day", 1))
    hive_world.register(SCHEMA, "worths")
    sold = pa.array([key // 100 for key in range(6000)], pa.int32())
    facts = pa.table({"id": list(range(6000)), "price": sold.cast(kind), "part": sold.cast(kind)})
    write(hive_world.folder(SCHEMA), "prices", facts, Layout("id", "id", 1, "part"))
    hive_world.register(SCHEMA, "prices")
    for column in ("price", "part"):
        by_join = f"SELECT count(*), min(f.id) FROM prices f JOIN worths d ON f.{column} = d.worth WHERE d.day = 7"
        by_part = f"SELECT count(*), min(id) FROM prices WHERE {column} IN (SELECT worth FROM worths WHERE day = 7)"
        for sql in (by_join, by_part):
            assert hive_world.query(sql, SCHEMA, ON_TEZ) == [(100, 700)], sql


def test_columns_of_a_synced_entry_come_from_its_table(hive_world: World) -> None:
    table = made(hive_world, "grown")
    database = hive_world.engine.create_database(SCHEMA)
    with hive_world.engine.session() as session:
        session.run(f"USE {database}")
        with pytest.raises(HiveError, match=r"gets its columns from its writer.*hudi-catalog sync"):
            session.run("ALTER TABLE grown ADD COLUMNS (note string)")
        session.run("ALTER TABLE grown SET TBLPROPERTIES ('mine' = 'yes')")
        assert len(session.query("SELECT * FROM grown WHERE id = 5")[0]) == 8
        more = rows(0, 5).append_column("note", [["new"] * 5])
        table.write("upsert", more)
        hive_world.register(SCHEMA, "grown")
        assert session.query("SELECT count(note), count(*) FROM grown WHERE id < 10") == [(5, 10)]


def test_a_column_that_is_behind_is_refused_when_the_query_is_compiled(hive_world: World) -> None:
    made(hive_world, "late")
    hive_world.declare(SCHEMA, "late_entry", "id bigint, size bigint", folder=hive_world.folder(SCHEMA) / "late")
    for sql in ("SELECT * FROM late_entry", "EXPLAIN SELECT size FROM late_entry WHERE id = 3"):
        with pytest.raises(HiveError, match="column size is bigint in Hive and double in") as refused:
            hive_world.query(sql, SCHEMA, ON_TEZ)
        assert "Vertex" not in str(refused.value)
    assert hive_world.query("SELECT count(id) FROM late_entry WHERE id < 30", SCHEMA, ON_TEZ) == [(30,)]
