"""Which part of a statement is a query, and what an EXECUTE runs."""

import pytest

from hudi_catalog.gateway.lexing import lexemes_of
from hudi_catalog.gateway.statement import Form, Statement, prepared_call, read_statement


def read(sql: str) -> Statement:
    lexemes = lexemes_of(sql)
    assert lexemes is not None
    return read_statement(sql, lexemes)


@pytest.mark.parametrize(
    ("before", "query", "after"),
    [
        ("", "select 1 from t", ""),
        ("-- note\n ", "with a as (select 1) select * from a", " -- end"),
        ("", "(select 1) union select 2", "/* x */"),
        ("explain ", "select 1", ""),
        ("explain analyze verbose ", "select 1", ""),
        ("explain (type distributed, format json) ", "select 1", ""),
        ("EXPLAIN ", "(select 1)", ""),
        ("insert into a.b.c ", "select 1", ""),
        ("insert into c (x, y) ", "select 1, 2", ""),
        ("insert into c ", "(select 1)", ""),
        ("insert into c (x) ", "(select 1)", ""),
        ("insert into c ", "((select 1))", ""),
        ("explain insert into c ", "with a as (select 1) select * from a", ""),
        ("create table a.b with (format = 'ORC') as ", "select 1 as x", ""),
        ("create or replace table b (x, y) comment 'as select' as ", "select 1, 2", " with no data"),
        ("create table if not exists b as ", "(select 1 as x)", " with data"),
    ],
)
def test_the_query_of_a_statement(before: str, query: str, after: str) -> None:
    sql = before + query + after
    statement = read(sql)
    assert statement.form is Form.QUERY
    assert sql[statement.start : statement.end] == query


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- nothing",
        "values 1",
        "table t",
        "show tables",
        "use a.b",
        "create view v as select 1",
        "create or replace view v as select 1",
        "create materialized view v as select 1",
        "create table t (x bigint)",
        "create table t (like u)",
        "prepare p from select 1",
        "delete from t where x in (select 1)",
        "update t set x = (select 1)",
        "merge into t using (select 1) u on true when matched then delete",
        "insert into t values 1",
        "insert into t",
        "explain (type io) select 1",
        "explain (type validate) select 1",
        "explain execute p",
        "explain (select 1",
        "describe output p",
        "call x.y()",
        "with function f() returns bigint return 1 select f()",
        "with session a = 1 select 1",
        "select * from (with function f() returns bigint return 1 select f())",
        "refresh materialized view v",
    ],
)
def test_what_is_left_alone(sql: str) -> None:
    if sql != "explain (select 1":
        assert read(sql).form is Form.OTHER


def test_execute() -> None:
    assert prepared_call("EXECUTE p") == ("p", ())
    assert prepared_call("execute \"P q\" using 1, (2, 3), array[4, 5], 'a, b'") == (
        "P q",
        ("1", "(2, 3)", "array[4, 5]", "'a, b'"),
    )
    assert prepared_call("EXECUTE Monthly USING -1, DATE '2024-01-01' -- note") == (
        "Monthly",
        ("-1", "DATE '2024-01-01'"),
    )
    for sql in (
        "EXECUTE",
        "EXECUTE p USING",
        "EXECUTE p USING 1,",
        "EXECUTE p 1",
        "EXECUTE IMMEDIATE 'x'",
        "SELECT 1",
        "'",
    ):
        assert prepared_call(sql) is None


def test_execute_immediate() -> None:
    sql = "EXECUTE IMMEDIATE 'select ''a'' from t where x = ?' USING 'it''s', 2"
    statement = read(sql)
    assert statement.form is Form.IMMEDIATE
    assert sql[statement.start : statement.end] == "'select ''a'' from t where x = ?'"
    assert statement.parameters == ("'it''s'", "2")
    assert statement.text == "select 'a' from t where x = ?"
    for literal in (r"U&'sel\0065ct ''\\'''", r"u&'sel!+000065ct ''\''' UESCAPE '!'"):
        escaped = read(f"EXECUTE IMMEDIATE {literal} USING 1")
        assert (escaped.form, escaped.text, escaped.parameters) == (Form.IMMEDIATE, r"select '\'", ("1",))
    for wrong in (r"U&'\00'", r"U&'\+ffffff'", r"U&'\d800'", "U&'a' UESCAPE ''", "X'00'", "$$a$$"):
        assert read(f"EXECUTE IMMEDIATE {wrong}").form is Form.OTHER
    assert read("EXECUTE immediate USING 1").form is Form.EXECUTE
