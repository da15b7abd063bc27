"""Statements with registered tables, before and after."""

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.gateway.options import (
    CATALOGS,
    KEPT_AT_MOST,
    PATHS,
    PATHS_LENGTH,
    QUERY_LENGTH,
    RULES,
    SNAPSHOTS_LISTED,
    GatewayOptions,
)
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import Reason, SessionNames
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.query_log import QueryLog
from table_format.errors import OptionError, UnsupportedTableError
from tests.support.local_writes import LocalTable
from tests.support.work import function_calls

HERE = SessionNames("hive", "db")
PIN = r'"hive"\."db__snapshots"\."trips__\d+__[0-9a-f]+"'


@dataclass
class Place:
    """A table `trips` of four partitions, registered as `db.trips`, with `db.other` beside it."""

    written: LocalTable
    metastore: FileMetastore
    tables: TrinoTables
    log: QueryLog

    def rewrite(
        self, sql: str, session: SessionNames = HERE, options: Mapping[str, str] | None = None, **more: Any
    ) -> Rewritten:
        return Rewriter(self.tables, GatewayOptions.parse(options), self.log).rewrite(sql, session, **more)

    def kept(self, sql: str, **more: Any) -> list[set[str]]:
        """The partitions whose files a rewritten statement lists, place by place."""
        rewritten = self.rewrite(sql, **more)
        assert rewritten.changed, f"{rewritten.reason}: {rewritten.detail}"
        lists = re.findall(r'"\$path" IN \(([^)]*)\)|WHERE (false)\)', rewritten.sql)
        return [set(re.findall(r"/trips/(d \d%)/", listed)) for listed, _ in lists]


def rows(first: int, count: int) -> pa.Table:
    keys = list(range(first, first + count))
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "day": [f"d {key % 4}%" for key in keys], "x": [float(key) for key in keys]}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder: Path = tmp_path_factory.mktemp("rewrite")
    metastore = FileMetastore(str(folder / "metastore"))
    for name in ("other", "trips"):
        options: dict[str, Any] = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.bucket.index.num.buckets": "1",
        }
        written = LocalTable.create(str(folder / f"db/{name}"), rows(0, 1).schema, options)
        written.write("insert", rows(0, 40))
        sync_to_trino(Table.open(written.client.storage.uri), metastore, SyncOptions(database="db"))
    return Place(written, metastore, TrinoTables(metastore), QueryLog())


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
    "sql",
    [
        "DROP TABLE trips",
        "drop view if exists db.trips",
        "ALTER TABLE hive.db.trips ADD COLUMN y bigint",
        "alter table db.new rename to trips",
        "COMMENT ON TABLE trips IS 'x'",
        "comment on column db.trips.k is 'x'",
        'CREATE OR REPLACE VIEW "Trips" AS SELECT 1 a',
        "create or replace table trips as select 1 a",
        "insert into trips select * from other where day = 'd 1%'",
        "delete from trips where day = 'd 1%'",
        "UPDATE trips SET x = 1",
        "MERGE INTO trips t USING other o ON t.k = o.k WHEN MATCHED THEN DELETE",
        "truncate table trips",
        "EXPLAIN ANALYZE VERBOSE insert into trips select 1, 'x', 2e0",
        "drop schema db cascade",
        "EXECUTE IMMEDIATE 'drop table trips'",
        "create table db__snapshots.mine as select 1 a",
    ],
)
def test_entries_are_not_changed_through_the_gateway(place: Place, sql: str) -> None:
    rewritten = place.rewrite(sql)
    assert (rewritten.reason, rewritten.changed, rewritten.sql) == (Reason.REFUSED, False, sql)
    assert "Hudi table" in rewritten.refusal


@pytest.mark.parametrize(
    "sql",
    [
        "drop table db.nothing",
        "drop table iceberg.db.trips",
        "create table trips (a bigint)",
        "create view mine as select * from trips",
        "explain drop table trips",
        "drop schema nothing",
        "comment on column other.nothing.k is 'x'",
        "show create table trips",
    ],
)
def test_other_statements_are_not_refused(place: Place, sql: str) -> None:
    rewritten = place.rewrite(sql)
    assert (rewritten.reason, rewritten.refusal) == (Reason.NOT_A_QUERY, "")


HIDDEN = "NOT LIKE '%$_$_snapshots' ESCAPE '$'"


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        (
            "SHOW SCHEMAS",
            (
                f'SELECT schema_name AS "Schema" FROM "hive".information_schema.schemata WHERE schema_name {HIDDEN} '
                "ORDER BY schema_name"
            ),
        ),
        (
            "show schemas from hive like 'd$_%' escape '$'",
            (
                f'SELECT schema_name AS "Schema" FROM "hive".information_schema.schemata WHERE schema_name {HIDDEN} '
                "AND schema_name like 'd$_%' escape '$' ORDER BY schema_name"
            ),
        ),
        (
            "select table_name from hive.information_schema.tables t where t.table_schema = 'db'",
            (
                f"select table_name from (SELECT * FROM hive.information_schema.tables WHERE table_schema {HIDDEN}) t "
                "where t.table_schema = 'db'"
            ),
        ),
        (
            "select information_schema.columns.column_name from information_schema.columns",
            (
                "select columns.column_name from (SELECT * FROM information_schema.columns "
                f"WHERE table_schema {HIDDEN}) AS columns"
            ),
        ),
        (
            "SELECT TABLE_SCHEM FROM system.jdbc.schemas",
            (
                "SELECT TABLE_SCHEM FROM (SELECT * FROM system.jdbc.schemas WHERE NOT coalesce("
                f"table_catalog IN ('hive') AND table_schem {HIDDEN.removeprefix('NOT ')}, false)) AS schemas"
            ),
        ),
    ],
)
def test_schemas_of_pinned_snapshots_are_not_listed(place: Place, sql: str, after: str) -> None:
    assert (place.rewrite(sql).sql, place.rewrite(sql).reason) == (after, Reason.LISTING)
    listed = place.rewrite(sql, options={SNAPSHOTS_LISTED: "true"})
    assert (listed.sql, listed.changed) == (sql, False)


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


@pytest.mark.parametrize(
    "sql",
    [
        "select * from trips",
        'select "$path" from trips',
        "show columns from db.trips",
        "this is not sql but it reads from trips",
        "create view v as select * from trips",
    ],
)
def test_a_new_commit_is_seen_though_nothing_is_rewritten(place: Place, sql: str) -> None:
    place.written.write("upsert", rows(1, 1))
    assert not place.rewrite(sql).changed
    entry = place.metastore.table("db", "trips")
    assert entry is not None
    newest = Table.open(place.written.client.storage.uri).snapshot().instant
    assert newest is not None
    assert newest in entry.location


def test_failures_are_logged_and_fail_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(place.tables, "newest", fail)
    sql = "select * from trips where day = 'd 1%'"
    rewritten = place.rewrite(sql)
    assert (rewritten.sql, rewritten.reason) == (sql, Reason.FAILED)
    record = place.log.recent()[0]
    assert record["outcome"] == "unchanged"
    assert "the disk is gone" in record["detail"]


def test_other_tables_are_brought_up_to_date_when_one_fails(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real = place.tables.newest

    def newest(synced: Any) -> Any:
        if synced.entry.name == "other":
            raise UnsupportedTableError("a column was renamed")
        return real(synced)

    monkeypatch.setattr(place.tables, "newest", newest)
    for sql in (
        "select * from other, trips where trips.day = 'd 1%'",
        "select * from other, trips tablesample system (1)",
    ):
        place.written.write("upsert", rows(1, 1))
        assert not place.rewrite(sql).changed
        entry = place.metastore.table("db", "trips")
        newest_instant = Table.open(place.written.client.storage.uri).snapshot().instant
        assert entry is not None
        assert str(newest_instant) in entry.location


@pytest.mark.slow
def test_a_statement_inside_a_string_has_less_room(place: Place) -> None:
    sql = "EXECUTE IMMEDIATE 'select * from trips where day <> ?' USING 'd 1%'"
    long = place.rewrite(sql)
    assert "$path" in long.sql
    for limit in range(len(sql), len(long.sql) + 60, 7):
        rewritten = place.rewrite(sql, length_limit=limit)
        assert len(rewritten.sql) <= limit
        assert rewritten.changed == (rewritten.reason is Reason.REWRITTEN)


def test_tables_whose_access_rules_do_not_hold_for_snapshots_are_left_alone(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    everybody = {"privileges": ["SELECT"]}
    rule = {"user": "ann", "schema": "db", "table": "trips", "filter": "k = 1", **everybody}
    sql = "SELECT * FROM trips WHERE day = 'd 0%'"
    both = "SELECT * FROM trips t JOIN other o ON t.k = o.k WHERE t.day = 'd 0%' AND o.day = 'd 0%'"

    def ruled(*rules: dict[str, Any], sql: str = sql) -> Rewritten:
        file.write_text(json.dumps({"tables": [*rules]}))
        return place.rewrite(sql, options={RULES: str(file)})

    rewritten = ruled(rule, everybody)
    assert (rewritten.changed, rewritten.reason, rewritten.detail) == (False, Reason.ACCESS_RULES, "db.trips")
    assert [table.name for table in ruled(rule, everybody, sql=both).tables] == ["db.other"]
    assert ruled({**rule, "schema": "db(__snapshots)?", "table": "trips(__.*)?"}, everybody).changed
    # one snapshot of it alone
    odd = ruled({**rule, "schema": "db(__snapshots)?", "table": "trips(__.*0123456789abcdef)?"}, everybody)
    assert (odd.changed, odd.reason) == (False, Reason.ACCESS_RULES)
    rewriter = Rewriter(place.tables, GatewayOptions.parse({RULES: str(file)}))
    file.write_text("{")
    assert rewriter.rewrite(sql, HERE).reason is Reason.FAILED, "rules that cannot be read any more"
    assert place.rewrite(sql, options={RULES: "none"}).changed


def test_the_log_has_no_literal_of_statements_that_are_no_queries(place: Place) -> None:
    place.rewrite("CREATE CATALOG c USING postgresql WITH (\"connection-password\" = 'hunter2')")
    place.rewrite("EXECUTE IMMEDIATE 'CALL system.execute(''hunter2'')'")
    place.rewrite("CREATE TABLE x WITH (a = 'hunter2') AS SELECT k FROM nothing")
    place.rewrite("SELECT * FROM TABLE(pg.system.query(query => 'SET PASSWORD hunter2'")
    assert "hunter2" not in str(place.log.recent())
    assert [record["sql"] for record in place.log.recent() if "sql" in record][1:4] == [
        "CREATE TABLE x … SELECT k FROM nothing",
        "EXECUTE IMMEDIATE CALL system.execute …",
        "CREATE CATALOG c …",
    ]


def test_the_log_tells_what_was_planned(place: Place) -> None:
    place.rewrite("select * from trips where day = 'd 1%' and x + 1 > 3")
    query, planned = place.log.recent()[:2]
    assert (query["outcome"], query["reason"], query["tables"][0]["files"]) == ("rewritten", "rewritten", 1)
    assert (planned["table"], planned["files_in"], planned["files_out"]) == ("db.trips", 4, 1)
    assert "day = 'd 1%'" in planned["expression"]


def test_threads_share_a_rewriter(place: Place) -> None:
    rewriter = Rewriter(place.tables, log=place.log)
    results: list[Rewritten] = []

    def ask(number: int) -> None:
        results.extend(rewriter.rewrite(f"select * from trips where day = 'd {number % 4}%'", HERE) for _ in range(5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    assert all(one.changed for one in results)


def test_options() -> None:
    parsed = GatewayOptions.parse({CATALOGS: "Hive, lake", KEPT_AT_MOST: "0.25", "hoodie.catalog.scan.threads": "2"})
    assert (parsed.catalogs, parsed.kept_at_most, parsed.scan.threads) == (frozenset({"hive", "lake"}), 0.25, 2)
    assert GatewayOptions.parse(None) == GatewayOptions()
    for wrong in ({CATALOGS: " ,"}, {KEPT_AT_MOST: "2"}, {KEPT_AT_MOST: "most"}, {PATHS: "-1"}, {"hoodie.other": "1"}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            GatewayOptions.parse(wrong)
