"""Trino's lexemes, and sqlglot's tokens beside them."""

import pytest
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from hudi_catalog.gateway.lexing import Kind, dotted_names, lexemes_of, same_boundaries


def kinds(sql: str) -> list[tuple[str, str]]:
    lexemes = lexemes_of(sql)
    assert lexemes is not None
    return [(lexeme.kind.value, lexeme.text) for lexeme in lexemes]


def alike(sql: str) -> bool:
    lexemes = lexemes_of(sql)
    try:
        return lexemes is not None and same_boundaries(lexemes, Dialect.get_or_raise("trino").tokenize(sql))
    except TokenError:
        return False


def test_all_kinds() -> None:
    assert kinds("a \"b\"\"c\" 'it''s' X'00' 1.5e3 -- x\n/* y */>=") == [
        ("word", "a"),
        ("quoted", '"b""c"'),
        ("string", "'it''s'"),
        ("string", "X'00'"),
        ("number", "1.5e3"),
        ("comment", "-- x"),
        ("comment", "/* y */"),
        ("symbol", ">"),
        ("symbol", "="),
    ]


def test_bodies_of_functions_are_strings() -> None:
    assert kinds("as $$ it's # / ` $$ select $1") == [
        ("word", "as"),
        ("string", "$$ it's # / ` $$"),
        ("word", "select"),
        ("symbol", "$"),
        ("number", "1"),
    ]


def test_names_are_folded_quoted_or_not() -> None:
    lexemes = lexemes_of('Orders "Or""ders" \'x\'')
    assert lexemes is not None
    assert [lexeme.name for lexeme in lexemes] == ["orders", 'or"ders', None]
    assert lexemes[1].spelled == 'Or"ders'
    assert [lexeme.word for lexeme in lexemes] == ["ORDERS", "", ""]


@pytest.mark.parametrize(
    "sql",
    [
        "select 'open",
        'select "open',
        "select `a`",
        "select a;",
        "select \\",
        "sel\u00e9ct",
        "a\u00a0b",
        '""',
    ],
)
def test_what_is_in_no_query_of_trino(sql: str) -> None:
    assert lexemes_of(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "select 1",
        "select a.b, \"c d\" from s.\"T\" where x = 'it''s' and y >= 1.5e0 -- z\norder by 1",
        "select /* ' \" */ count(*) from t group by grouping sets ((a), ())",
        "select x'00ff', U&'\\0041', date '2024-01-01', interval '1' day, ?",
        "select /* a /* b */ c from t",  # comments do not nest
        "select /* all */* from t /* x *//* y */",
        "select 1 -- x\r , 2",  # a carriage return ends a line comment
        "select -0.5, a[1], map(array[1], array[2]), x -> x + 1",
    ],
)
def test_usual_text_is_cut_alike(sql: str) -> None:
    assert alike(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select /* open",
        "select 1_000",
        "select 0xFF",
        "select 0b01",
        "select 1x from t",
        "select N'x'",
        "select {# or 1 = 1 #} 2",
    ],
)
def test_what_sqlglot_cuts_otherwise_is_noticed(sql: str) -> None:
    assert not alike(sql)


def test_chains_are_dotted_names() -> None:
    lexemes = lexemes_of('select a.b . "C", s.t.*, x, f(y) from "k".l /* m */ . n where 1.5 = z')
    assert lexemes is not None
    chains = [tuple(part.name or part.text for part in chain) for chain in dotted_names(lexemes)]
    assert [chain for chain in chains if len(chain) > 1] == [("a", "b", "c"), ("s", "t", "*"), ("k", "l", "n")]
    assert ("x",) in chains


def test_kinds_are_told_by_the_first_letter() -> None:
    lexemes = lexemes_of("xX'00' DATE'2024-01-01' _a1")
    assert lexemes is not None
    assert [lexeme.kind for lexeme in lexemes] == [Kind.WORD, Kind.STRING, Kind.WORD, Kind.STRING, Kind.WORD]
