"""Queries of registered tables, before and after."""

import re
from pathlib import Path

import pytest

from hudi_catalog.gateway.options import (
    CATALOGS,
    KEPT_AT_MOST,
    PATHS,
    PATHS_LENGTH,
    QUERY_LENGTH,
)
from hudi_catalog.gateway.statement import Reason, SessionNames
from tests.support.rewritten_place import HERE, PIN, Place
from tests.support.work import function_calls


def test_the_table_is_replaced_and_nothing_else(place: Place) -> None:
    before, after = (
        "/* note */ select  K as \"Trips\",'trips' FROM ",
        "\n\tWHERE Day='d 1%'  -- trips\r\n ORDER BY 1 LIMIT 3",
    )
    rewritten = place.rewrite(f"{before}Trips{after}")
    assert re.fullmatch(
        re.escape(before)
        + rf"""\(SELECT \* FROM {PIN} WHERE "\$path" IN \('file:///[^']*/trips/d 1%/[^']*\.parquet'\)\) AS Trips"""
        + re.escape(after),
        rewritten.sql,
    )
    assert rewritten.reason is Reason.REWRITTEN
    assert (rewritten.tables[0].name, rewritten.tables[0].files, rewritten.tables[0].files_total) == ("db.trips", 1, 4)
    assert rewritten.tables[0].instant is not None
    assert rewritten.tables[0].instant in rewritten.sql


@pytest.mark.parametrize(
    "name",
    ["trips", "TRIPS", '"Trips"', "db.trips", 'hive."DB".trips', 'Hive.db."tRIPs"'],
)
def test_names_as_trino_folds_them(place: Place, name: str) -> None:
    assert place.kept(f"select * from {name} where day = 'd 0%'") == [{"d 0%"}]
    assert place.kept(f"select * from {name} as t where t.day = 'd 0%'") == [{"d 0%"}]


@pytest.mark.parametrize(
    ("session", "name"),
    [
        (SessionNames("hive", "other"), "trips"),
        (SessionNames("hive", None), "trips"),
        (SessionNames(None, None), "db.trips"),
        (SessionNames("iceberg", "db"), "trips"),
        (HERE, "hudi.db.trips"),
        (HERE, "db.nothing"),
        (HERE, '"trips$properties"'),
    ],
)
def test_other_tables(place: Place, session: SessionNames, name: str) -> None:
    rewritten = place.rewrite(f"select * from {name} where day = 'd 0%'", session)
    assert rewritten.reason is Reason.NO_TABLE
    assert not rewritten.changed


def test_each_place_has_its_own_files(place: Place) -> None:
    sql = "select * from trips a join trips b on a.k = b.k where a.day = 'd 1%' and b.day in ('d 1%', 'd 2%')"
    assert place.kept(sql) == [{"d 1%"}, {"d 1%", "d 2%"}]
    rewritten = place.rewrite("select * from trips where day = 'd 1%' union all select * from trips")
    names = re.findall(PIN, rewritten.sql)
    assert len(names) == 2
    assert len(set(names)) == 1, "both places see one snapshot"
    assert rewritten.sql.endswith(f"select * from {names[0]} AS trips")


def test_a_table_that_no_place_narrows_stays(place: Place) -> None:
    rewritten = place.rewrite("select * from trips t join other o on t.k = o.k where o.day = 'd 1%'")
    assert re.search(r"from trips t join \(SELECT", rewritten.sql)


def test_one_place_that_cannot_be_replaced_keeps_all(place: Place) -> None:
    other = "hive.db.trips where 'x' = (select max(hive.db.trips.day))"
    rewritten = place.rewrite(f"select k from trips where day = 'd 1%' union select k from {other}")
    assert (rewritten.changed, rewritten.reason) == (False, Reason.NOT_ATTRIBUTED)


def test_nothing_matches(place: Place) -> None:
    rewritten = place.rewrite("select * from trips where day = 'nowhere'")
    assert re.search(rf"from \(SELECT \* FROM {PIN} WHERE false\) AS trips where", rewritten.sql)
    assert rewritten.tables[0].files == 0


@pytest.mark.parametrize("table", ["trips", "db.trips", "hive.db.trips"])
@pytest.mark.parametrize("qualifier", ["hive.DB.trips", "db.Trips", "trips"])
def test_columns_by_their_tables_whole_name(place: Place, table: str, qualifier: str) -> None:
    sql = f"select {qualifier}.*, {qualifier}.k + 1 from {table} where {qualifier}.day = 'd 1%' order by {qualifier}.k"
    assert place.kept(sql) == [{"d 1%"}]
    after = place.rewrite(sql).sql
    assert re.fullmatch(
        r"select trips\.\*, trips\.k \+ 1 from \(SELECT .*\) AS trips where trips\.day = 'd 1%' order by trips\.k",
        after if qualifier != "trips" else after.replace("Trips", "trips"),
    )


@pytest.mark.parametrize(
    ("condition", "unknown"),
    [
        ("day = concat('d', ' 1%')", "day = CONCAT('d', ' 1%')"),
        ("(day = 'd 1%' or length(day) + k = 3) and k = 5", "LENGTH(day) + k = 3"),
        ("coalesce(trips.day, '') = 'd 1%'", "COALESCE(trips.day, '') = 'd 1%'"),
        ("db.trips.day = 'd 1%' and k + x > 2 and db.trips.k in (select 1)", "k + x > 2"),
    ],
)
def test_conditions_that_are_not_understood_are_said(place: Place, condition: str, unknown: str) -> None:
    rewritten = place.rewrite(f"select * from trips where {condition}")
    line = place.log.recent()[0]
    assert line["unknown"] == list(rewritten.not_understood)
    assert rewritten.not_understood == ((f"{unknown} is not understood",) if "concat" not in condition else ())


def test_constants_are_folded(place: Place) -> None:
    assert place.kept("select * from trips where day = 'd ' || CAST(3 - 2 AS varchar) || '%'") == [{"d 1%"}]
    assert place.kept("select * from trips where k >= 3 * 13") == [{"d 3%"}]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select * from trips", Reason.KEEPS_MOST),
        ("select * from trips where x > 0", Reason.KEEPS_MOST),
        ("select \"$path\" from trips where day = 'd 1%'", Reason.HIDDEN_COLUMN),
        ("select * from trips where day = 'd 1%' and \"$file_size\" > 3", Reason.HIDDEN_COLUMN),
        ("select * from trips tablesample bernoulli (50) where day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("select * from (table trips) where day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("select * from trips for version as of 3 where day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("select (select db.trips.k) from db.trips where day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("select db.trips.nothing from db.trips where day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("select db.trips.k from db.trips, other as trips where db.trips.day = 'd 1%'", Reason.NOT_ATTRIBUTED),
        ("create view v as select * from trips where day = 'd 1%'", Reason.NOT_A_QUERY),
        ("select * from trips where day = 'd 1%' and", Reason.NOT_PARSED),
        ("select * from trips where k = 1_0", Reason.NOT_PARSED),
        ("select * from trips where day = 'd 1%';", Reason.NOT_PARSED),
        ("select * from trips where " + "(" * 200 + "k = 1" + ")" * 200, Reason.NOT_PARSED),
        ("with trips as (select 1 as day) select * from trips where day = 1", Reason.NO_TABLE),
        ("select 1", Reason.NO_TABLE),
        ("", Reason.NOT_A_QUERY),
    ],
)
def test_left_alone(place: Place, sql: str, reason: Reason) -> None:
    rewritten = place.rewrite(sql)
    assert (rewritten.reason, rewritten.changed, rewritten.sql) == (reason, False, sql), rewritten.detail


def test_a_cte_of_the_same_name_hides_the_table(place: Place) -> None:
    sql = "with trips as (select * from trips where day = 'd 1%') select * from trips where day = 'd 2%'"
    assert place.kept(sql) == [{"d 1%"}]


def test_a_session_that_reads_columns_by_place(place: Place) -> None:
    session = SessionNames("hive", "db", {"hive.parquet_use_column_names": "false"})
    assert place.rewrite("select * from trips where day = 'd 1%'", session).reason is Reason.NOT_ATTRIBUTED


def test_parameters(place: Place) -> None:
    sql = "select * from trips where day = ? and k > ?"
    rewritten = place.rewrite(sql, parameters=["'d 3%'", "-5"])
    assert "/d 3%/" in rewritten.sql
    assert rewritten.sql.endswith("AS trips where day = ? and k > ?")
    assert place.rewrite(sql).reason is Reason.KEEPS_MOST
    assert place.rewrite(sql, parameters=["'d 3%'"]).reason is Reason.NOT_PARSED
    assert place.rewrite(sql, parameters=["'d 3%", "1"]).reason is Reason.KEEPS_MOST
    nested = "array[" * 40 + "1" + "]" * 40
    assert "/d 3%/" in place.rewrite(sql, parameters=["'d 3%'", nested]).sql
    immediate = place.rewrite("EXECUTE IMMEDIATE 'select * from trips where day = ?' USING 'd 2%'")
    assert immediate.sql.startswith("EXECUTE IMMEDIATE 'select * from (SELECT * FROM")
    assert "IN (''file:///" in immediate.sql
    assert immediate.sql.endswith("AS trips where day = ?' USING 'd 2%'")


@pytest.mark.slow
def test_long_lists(place: Place) -> None:
    days = ", ".join(["'d 1%'", *(f"'it''s {number}'" for number in range(3_000))])
    sql = f"select * from trips where day in ({days}) /* x */ and k not in ({', '.join(map(str, range(100, 200)))})"
    assert place.kept(sql) == [{"d 1%"}]
    assert place.rewrite(sql).sql.endswith(sql.partition("trips")[2]), "the list is sent as it was"
    assert place.rewrite(f"select * from trips where day not in ({days})").tables[0].files == 3
    many = " or ".join(f"k = {number}" for number in range(20_000))
    assert place.rewrite(f"select * from trips where {many}").reason is Reason.TOO_LONG


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        "array[" * 30 + "1" + "]" * 30 + " is null",
        "(" * 90 + "x = 1" + ")" * 90,
        "k = " + "date(" * 30 + "1" + ")" * 30,
        " and ".join(["k = " + "row(f(" * 8 + "1" + "))" * 8] * 900),
        "not " * 5_000 + "x = 1",
        "x in (select k from trips where " * 60 + "x = 1" + ")" * 60,
        "'" + "/*" * 100_000 + "' <> day",
        "/*" * 100_000,
        "'" * 100_001,
        "k in (1, " * 10_000,
    ],
)
def test_hostile_statements_take_little_work(place: Place, condition: str) -> None:
    joins = " ".join(f"join trips t{number} on t{number}.k = t0.k" for number in range(300))
    for tables in ("trips", f"trips t0 {joins}"):
        assert function_calls(place.rewrite, f"select * from {tables} where {condition}") < 5_000_000


def test_limits(place: Place) -> None:
    sql = "select * from trips where day <> 'd 1%'"
    own = rf"select \* from {PIN} AS trips where day <> \'d 1%\'"
    assert "$path" in place.rewrite(sql).sql
    pinned = place.rewrite(sql, options={PATHS: "2"})
    assert re.fullmatch(own, pinned.sql)
    assert pinned.tables[0].files == 3
    assert place.rewrite(sql, options={PATHS_LENGTH: "50"}).sql == pinned.sql
    assert place.rewrite(sql, length_limit=len(pinned.sql)).sql == pinned.sql
    assert place.rewrite(sql, options={QUERY_LENGTH: "200"}).sql == pinned.sql
    assert place.rewrite(sql, SessionNames("hive", "db", {"hive.domain_compaction_threshold": "2"})).sql == pinned.sql
    assert place.rewrite(sql, length_limit=60).reason is Reason.TOO_LONG
    assert place.rewrite(sql, options={KEPT_AT_MOST: "0.5"}).reason is Reason.KEEPS_MOST
    assert place.rewrite(sql, options={CATALOGS: "lake, main"}).reason is Reason.NO_TABLE


def test_the_pinned_list_holds_the_kept_files(place: Place) -> None:
    rewritten = place.rewrite("select * from trips where day <> 'd 1%'", options={PATHS: "2"})
    name = re.search(r'"(trips__[^"]*)"', rewritten.sql)
    assert name is not None
    entry = place.metastore.table("db__snapshots", name[1])
    assert entry is not None
    listed = Path(entry.location.removeprefix("file://"), "manifest").read_text(encoding="utf-8").splitlines()
    assert {line.split("/")[-2] for line in listed} == {"d 0%", "d 2%", "d 3%"}


@pytest.mark.slow
def test_a_statement_inside_a_string_has_less_room(place: Place) -> None:
    sql = "EXECUTE IMMEDIATE 'select * from trips where day <> ?' USING 'd 1%'"
    long = place.rewrite(sql)
    assert "$path" in long.sql
    for limit in range(len(sql), len(long.sql) + 60, 7):
        rewritten = place.rewrite(sql, length_limit=limit)
        assert len(rewritten.sql) <= limit
        assert rewritten.changed == (rewritten.reason is Reason.REWRITTEN)
