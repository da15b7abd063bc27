"""Statements that are no queries of tables: entries are not changed, and pinned snapshots are not listed."""

import pytest

from hudi_catalog.gateway.options import (
    SNAPSHOTS_LISTED,
)
from hudi_catalog.gateway.statement import Reason
from tests.support.rewritten_place import Place


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
        r"EXECUTE IMMEDIATE U&'drop table \0074rips'",
        "DROP TABLE /* x *//* y */ trips",
        pytest.param("insert into trips values " + ", ".join(["(1, 'a', 1)"] * 10_000), id="long"),
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
