"""What the log has of statements: the text of queries, only the kind of all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.gateway.redaction import redacted

SECRET = "hunter2"
ODD = st.text(st.sampled_from("=,()'\"`;-/*\\ \n@#aU&"), max_size=12)
TABLE_FUNCTION = "select * from table(pg.system.query(query => '{}', n => 1)) where a = 'x'"


@pytest.mark.parametrize(
    "sql",
    [
        "select * from t where a = 'x' -- note",
        "  with a as (select 1) select * from a",
        "(select 1) union values 'x'",
        "table t",
        "with function f() returns int return 1 select f()",
        "",
    ],
)
def test_queries_are_logged_as_they_are(sql: str) -> None:
    assert redacted(sql) == sql


@pytest.mark.parametrize(
    ("sql", "logged"),
    [
        ("explain analyze select a from t", "EXPLAIN ANALYZE select a from t"),
        ("EXPLAIN (TYPE LOGICAL) select 1", "EXPLAIN … select 1"),
        ("insert into a.b (x) select 1", "INSERT INTO a.b … select 1"),
        ("create table a.\"B c\" with (x = 'hunter2') as select 1", 'CREATE TABLE a."B c" … select 1'),
        ("insert into t values ('hunter2')", "INSERT INTO t …"),
        ("/* x */ create catalog c using p with (\"p\" = 'hunter2')", "CREATE CATALOG c …"),
        ("create or replace view v as select 'hunter2'", "CREATE OR REPLACE VIEW v …"),
        ("set session hive.password = 'hunter2'", "SET SESSION hive.password …"),
        ("with session hive.password = 'hunter2' select 1", "WITH SESSION hive.password …"),
        ("call system.execute(query => 'create user u identified by ''hunter2''')", "CALL system.execute …"),
        ("create user u identified by hunter2", "CREATE USER u …"),
        ("create user u password 'hunter2", "CREATE USER u …"),
        ("prepare p from select 'hunter2'", "PREPARE p …"),
        ("execute p using 'hunter2'", "EXECUTE p …"),
        ("execute immediate 'create user u password ''hunter2'''", "EXECUTE IMMEDIATE CREATE USER u …"),
        ("execute immediate 'select ''x'' = ?' using 'hunter2'", "EXECUTE IMMEDIATE select 'x' = ?"),
        ("alter table t set properties p = 'hunter2'", "ALTER TABLE t …"),
        ("drop table a.b", "DROP TABLE a.b"),
        ("show tables from a like 'hunter2'", "SHOW TABLES FROM a …"),
        ("hunter2", "…"),
        ("`hunter2`", "…"),
        ("login hunter2", "…"),
        ("commit", "COMMIT"),
        (TABLE_FUNCTION.format("set password = hunter2"), TABLE_FUNCTION.format("…")),
        ("select 1; create user u password 'hunter2'", "select 1 …"),
    ],
)
def test_other_statements_are_logged_by_their_kind(sql: str, logged: str) -> None:
    assert redacted(sql) == logged
    assert SECRET not in logged


def test_long_queries_are_cut() -> None:
    long = "select * from t where a in ('" + "', '".join(map(str, range(100_000))) + "')"
    logged = str(redacted(long))
    assert long.startswith(logged.removesuffix(" …"))
    assert 10_000 <= len(logged) < 10_100
    assert logged.endswith(" …")
    assert redacted(None) is None


@given(st.sampled_from(["CREATE CATALOG c", "CALL p.q", "SET SESSION a.b", "EXECUTE p", "GRANT", "FOO", ""]), ODD, ODD)
def test_no_literal_of_a_statement_that_is_no_query_is_logged(kind: str, before: str, after: str) -> None:
    assert SECRET not in str(redacted(f"{kind} X (p = {before}'{SECRET}'{after}"))
