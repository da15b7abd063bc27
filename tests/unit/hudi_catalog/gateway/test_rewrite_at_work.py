"""Rewriting at work: new commits, failures, access rules, the log, threads, options."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from catalog import Table
from hudi_catalog.gateway.options import (
    CATALOGS,
    KEPT_AT_MOST,
    PATHS,
    RULES,
    GatewayOptions,
)
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import Reason
from hudi_catalog.metastore.metastore import TrinoView
from table_format.errors import OptionError, UnsupportedTableError
from tests.support.rewritten_place import HERE, Place, rows


@pytest.mark.parametrize(
    "sql",
    [
        "select * from trips",
        'select "$path" from trips',
        "show columns from db.trips",
        "this is not sql but it reads from trips",
        "with function f() returns int language python as $$ it's $$ select f() from trips",
        pytest.param(f"select /* all */* from trips where {' or '.join(['k = x'] * 13_000)}", id="long"),
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


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from trips",
        "select * from trips where day = 'd 1%'",
        "select * from other, trips tablesample system (1)",
        "select * from trips where (",
        "execute immediate 'select count(*) from trips'",
        "select count(*) from over_trips",
    ],
)
def test_a_table_that_is_away_is_refused(place: Place, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trino takes an entry without its files for an empty table."""
    monkeypatch.setattr(
        place.tables, "view", lambda _, name: TrinoView("select k from trips", "hive", "db") if "over" in name else None
    )
    folder = Path(place.written.client.storage.uri.removeprefix("file://"))
    folder.rename(folder.with_name("away"))
    try:
        refused = place.rewrite(sql)
        columns = place.rewrite("show columns from db.trips")
    finally:
        folder.with_name("away").rename(folder)
    assert (refused.sql, refused.reason) == (sql, Reason.REFUSED)
    assert "db/trips: no Hudi table here" in refused.refusal
    assert "mount or restore the table" in refused.refusal
    assert columns.reason is Reason.NOT_A_QUERY
    assert not place.rewrite(sql).refusal


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
