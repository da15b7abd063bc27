# ruff: noqa: DTZ001 - clock times without a zone are what is tested
import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from pushdown import Constant, ExpressionError, FilterSyntaxError, Not, Op, Predicate, Unknown, parse_sql
from pushdown.spark_types import Typed
from pushdown.sql.queries import predicates_of_query
from tests.support.work import function_calls

UTC = dt.UTC


def only(text, dialect="spark"):
    predicate = parse_sql(text, dialect)
    assert isinstance(predicate, Predicate), predicate
    return predicate.op, predicate.column, predicate.values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", (Op.EQ, "a", (1,))),
        ("a == 1", (Op.EQ, "a", (1,))),
        ("a != 1", (Op.NE, "a", (1,))),
        ("5 < a", (Op.GT, "a", (5,))),
        ("5 >= a", (Op.LE, "a", (5,))),
        ("NULL = a", (Op.EQ, "a", (None,))),
        ("(a) = (((1)))", (Op.EQ, "a", (1,))),
        ("a = -1", (Op.EQ, "a", (-1,))),
        ("a = - (-1)", (Op.EQ, "a", (1,))),
        ("a = +1", (Op.EQ, "a", (1,))),
        ("a = 12345678901234567890", (Op.EQ, "a", (12345678901234567890,))),
        ("a = 1.50", (Op.EQ, "a", (Decimal("1.50"),))),
        ("a = -.5", (Op.EQ, "a", (Decimal("-0.5"),))),
        ("a = 1e3", (Op.EQ, "a", (1000.0,))),
        ("a = 1.5D", (Op.EQ, "a", (1.5,))),
        ("a = 1.1F", (Op.EQ, "a", (Typed(1.10000002384185791015625, pa.float32()),))),
        ("a = 7L", (Op.EQ, "a", (Typed(7, pa.int64(), written=True),))),
        (f"a = -{'9' * 38}BD", (Op.EQ, "a", (Decimal("-" + "9" * 38),))),
        ("a = -128Y", (Op.EQ, "a", (Typed(-128, pa.int8(), written=True),))),
        ("a = -9223372036854775808L", (Op.EQ, "a", (-(2**63),))),  # the least BIGINT
        ("a = cast(7 as bigint)", (Op.EQ, "a", (Typed(7, pa.int64()),))),
        ("a = cast('Infinity' as double)", (Op.EQ, "a", (float("inf"),))),
        ("a = cast(2 as decimal(10, 2))", (Op.EQ, "a", (Typed(Decimal("2.00"), pa.decimal128(10, 2)),))),
        ("a = cast(1.555 as decimal(3, 2))", (Op.EQ, "a", (Decimal("1.56"),))),
        ("a = 'it''s'", (Op.EQ, "a", ("it's",))),
        (r"a = 'it\'s'", (Op.EQ, "a", ("it's",))),
        (r"a = 'a\\b'", (Op.EQ, "a", ("a\\b",))),
        ('a = "x"', (Op.EQ, "a", ("x",))),
        ('a = "x""y"', (Op.EQ, "a", ('x"y',))),
        ("a = 'x' 'y'", (Op.EQ, "a", ("xy",))),
        (r"a = '\n\t\d\%\\'", (Op.EQ, "a", ("\n\td\\%\\",))),
        (r"a = '\u00e4\uD83D\uDE00\U0001F600\101\0'", (Op.EQ, "a", ("ä😀😀A\0",))),
        (r"a IN ('\'', '''', '\\')", (Op.IN, "a", ("'", "'", "\\"))),
        (r"a = r'\d'", (Op.EQ, "a", (r"\d",))),
        ("a = '日本 😀'", (Op.EQ, "a", ("日本 😀",))),
        ("a = X'00fF'", (Op.EQ, "a", (b"\x00\xff",))),
        ("a = X'F'", (Op.EQ, "a", (b"\x0f",))),
        ("a = TRUE", (Op.EQ, "a", (True,))),
        ("a", (Op.EQ, "a", (True,))),
        ("a = DATE '2020-02-29'", (Op.EQ, "a", (dt.date(2020, 2, 29),))),
        ("a = cast('2020-02-29' as date)", (Op.EQ, "a", (dt.date(2020, 2, 29),))),
        ("a = TIMESTAMP '2020-02-29 01:02:03.5'", (Op.EQ, "a", (dt.datetime(2020, 2, 29, 1, 2, 3, 500000),))),
        ("a = TIMESTAMP '2020-02-29 01:02:03Z'", (Op.EQ, "a", (dt.datetime(2020, 2, 29, 1, 2, 3, tzinfo=UTC),))),
        ("a IN (1, NULL, 'x')", (Op.IN, "a", (1, None, "x"))),
        ("a NOT IN (1)", (Op.NOT_IN, "a", (1,))),
        ("a IS NULL", (Op.IS_NULL, "a", ())),
        ("a IS NOT NULL", (Op.NOT_NULL, "a", ())),
        ("NOT_A IS NULL", (Op.IS_NULL, "NOT_A", ())),
        ("a <=> NULL", (Op.NULL_SAFE_EQ, "a", (None,))),
        ("a IS DISTINCT FROM 3", (Op.NULL_SAFE_NE, "a", (3,))),
        ("a IS NOT DISTINCT FROM 3", (Op.NULL_SAFE_EQ, "a", (3,))),
        ("a IS TRUE", (Op.NULL_SAFE_EQ, "a", (True,))),
        ("a IS NOT FALSE", (Op.NULL_SAFE_NE, "a", (False,))),
        ("a LIKE 'x%'", (Op.LIKE, "a", ("x%",))),
        (r"a LIKE 'x\%'", (Op.LIKE, "a", (r"x\%",))),
        ("a NOT LIKE 'x!_!!' ESCAPE '!'", (Op.NOT_LIKE, "a", (r"x\_!",))),
        ("`a b`.`日``本` = 1", (Op.EQ, "a b.日`本", (1,))),
        ("a.b.c.d.e.f = 1", (Op.EQ, "a.b.c.d.e.f", (1,))),
        ("größe = 1", (Op.EQ, "größe", (1,))),
        ('"a b" = 1', (Op.EQ, "a b", (1,))),
        ('"a"."b" IN (1)', (Op.IN, "a.b", (1,))),
        ('"größe" IS NULL', (Op.IS_NULL, "größe", ())),
        ('5 < "größe"', (Op.GT, "größe", (5,))),
        ('"a" = "b"', (Op.EQ, "a", ("b",))),
        ("date = '2020-01-01'", (Op.EQ, "date", ("2020-01-01",))),
        ('date = "2020-01-01"', (Op.EQ, "date", ("2020-01-01",))),
        ("a = 1 -- with a comment", (Op.EQ, "a", (1,))),
        ("a /* and */ = 1", (Op.EQ, "a", (1,))),
    ],
)
def test_conditions(text, expected):
    assert only(text) == expected
    assert [type(v) for v in only(text)[2]] == [type(v) for v in expected[2]]


def test_decimals_with_a_suffix():
    # sqlglot before 30.22 leaves out the scale, and a cast without one rounds
    assert parse_sql("a = 1.50BD").values == (Decimal("1.50"),)


def test_not_a_number_is_a_literal():
    (value,) = only("a = cast('NaN' as double)")[2]
    assert value != value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\"a b\" = 'it''s'", (Op.EQ, "a b", ("it's",))),
        ("a LIKE 'x\\%'", (Op.LIKE, "a", ("x\\\\%",))),
        ("a = 1.5", (Op.EQ, "a", (Decimal("1.5"),))),
        ("a = REAL '1.5'", (Op.EQ, "a", (Typed(1.5, pa.float32()),))),
        ("a = TIMESTAMP '2020-02-29 01:02:03.000'", (Op.EQ, "a", (dt.datetime(2020, 2, 29, 1, 2, 3),))),
        ("a IS NOT DISTINCT FROM 3", (Op.NULL_SAFE_EQ, "a", (3,))),
    ],
)
@pytest.mark.parametrize("dialect", ["trino", "presto"])
def test_conditions_in_trinos_dialect(text, expected, dialect):
    assert only(text, dialect) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1 AND b = 2 OR c = 3", "(a = 1 AND b = 2) OR c = 3"),
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = 1 AND b = 2", "NOT (a = 1) AND b = 2"),
        ("NOT (a = 1 AND b = 2)", "NOT (a = 1 AND b = 2)"),
        ("(a = 1 OR b = 2) AND c = 3", "(a = 1 OR b = 2) AND c = 3"),
        ("a BETWEEN 1 AND 2 AND b = 3", "(a >= 1 AND a <= 2) AND b = 3"),
        ("a NOT BETWEEN 1 AND 2", "NOT (a >= 1 AND a <= 2)"),
        ("5 BETWEEN a AND b", "a <= 5 AND b >= 5"),
        ("a AND NOT b", "a = TRUE AND NOT (b = TRUE)"),
        ("! a = 1", "NOT (a = 1)"),
        ("1 = 1", "TRUE"),
        ("1 = 0 OR a = 1", "FALSE OR a = 1"),
        ("NULL", "NULL"),
        ("a = 1 AND a = 2 AND a = 3", "a = 1 AND a = 2 AND a = 3"),
    ],
)
def test_precedence(text, expected):
    assert parse_sql(text).to_sql() == expected


@pytest.mark.parametrize(
    "text",
    [
        "coalesce(a, 1) = 2",
        "a + b = 2",
        "a = b",
        "a <=> b",
        "a IN (b, 1)",
        "a IN (SELECT x FROM t)",
        "a[0] = 1",
        "a = current_date()",
        "CASE WHEN a = 1 AND b = 2 THEN c ELSE d END = 5",
        "a RLIKE 'x'",
        "a ILIKE 'x'",
        "a LIKE ANY ('x', 'y')",
        r"a LIKE 'x\\y'",
        "a LIKE b",
        "EXISTS (SELECT 1 FROM t WHERE x = 1 AND y = 2)",
        "INTERVAL '1' DAY = a",
        "a = (SELECT 1)",
        "a = 1e999",
        "1 = 1.0",
    ],
)
def test_what_is_not_understood_is_unknown_with_its_text(text):
    conjunction = parse_sql(f"z = 1 AND {text}")
    assert conjunction.children[0] == Predicate(Op.EQ, "z", (1,))
    unknown = conjunction.children[1]
    assert isinstance(unknown, Unknown)
    assert text in unknown.reason
    assert parse_sql(conjunction.to_sql()) == conjunction


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "a =",
        "a = 1 AND",
        "AND a = 1",
        "a = 1 AND OR b = 2",
        "(a = 1",
        "a = 1)",
        "()",
        "a = 1 b",
        "a b",
        "a XOR b",
        "a = 'open",
        "a = 1; DROP TABLE t",
        "SELECT 1",
        "DROP TABLE t",
        "a = 1 WHERE b = 2",
        "a = = 1",
        "NOT",
    ],
)
def test_text_that_is_no_condition_is_refused(text):
    with pytest.raises(FilterSyntaxError):
        parse_sql(text)


@pytest.mark.parametrize(
    ("text", "dialect", "message"),
    [
        ("a = 1 AND b = X'61'", "hive", r"Hive has no literals that begin with X': write a text \(line 1, column 15\)"),
        ("a = b'1'", "spark", "Spark has no literals that begin with b'"),
        ("a = X'zz'", "spark", "a literal that Spark does not know"),
        ("b = 1 AND a = 'x", "spark", r"this text is not closed \(column 15\)"),
        ("a = 'it''s' AND b = `x", "spark", r"this name is not closed \(column 21\)"),
        (r"a = 'it\'s' AND b = 'x\'", "hive", r"this text is not closed \(column 21\)"),
        ("a = 1 AND b >", "trino", r"an operand is missing after this \(line 1, column 13\)"),
        ("a BETWEEN 1", "spark", "an operand is missing after this"),
        ("a = 1 b = 2", "spark", r"this cannot follow a condition.*column 9"),
        ("CAST(a AS FOO) = 1", "spark", r"this is not a type of Spark's.*>>> FOO"),
    ],
)
def test_refusals_speak_our_words(text, dialect, message):
    with pytest.raises(FilterSyntaxError, match=message) as refused:
        parse_sql(text, dialect)
    assert not re.search("sqlglot|keyword|token", str(refused.value), re.IGNORECASE)


def test_errors_show_the_place():
    with pytest.raises(FilterSyntaxError, match=r"line 2, column 5\)"):
        parse_sql("a = 1 AND\nb=2 ) OR c")


def test_unknown_dialects_are_refused():
    with pytest.raises(ExpressionError, match="spark, hive, trino, presto"):
        parse_sql("a = 1", "klingon")


@pytest.mark.slow
def test_parentheses_and_nots_of_any_depth():
    nested = "(" * 5000 + "a = 1" + ")" * 5000
    assert parse_sql(nested) == Predicate(Op.EQ, "a", (1,))
    negated = parse_sql("NOT " * 5001 + "(a = 1)")
    assert isinstance(negated, Not)
    text = "a = 1"
    for i in range(5000):
        text = f"a = {i} AND ({text})" if i % 2 else f"NOT (b > {i} OR ({text}))"
    assert parse_sql(text).depth > 5000
    assert function_calls(parse_sql, nested) + function_calls(parse_sql, text) < 8_000_000  # about 2.3 million


@pytest.mark.parametrize(
    "text",
    [
        "a + " + "(" * 3000 + "1" + ")" * 3000 + " = 1",
        "a = " + "- " * 3000 + "1",
        "a" + " + 1" * 4000 + " > 0",
        "a = " + "date(f(" * 30 + "1" + "))" * 30,
        "a = " + "array[" * 30 + "1" + "]" * 30,
    ],
)
def test_a_condition_nested_too_deeply_is_refused(text):
    with pytest.raises(FilterSyntaxError, match="too deeply"):
        parse_sql(text)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a = " + "date(f(" * 8 + "b" + "))" * 8, "x IN (" + "date(a), " * 5_000 + "b)"])
def test_calls_named_like_types_are_read(text):
    parse_sql(text)
    assert list(predicates_of_query(f"SELECT * FROM t WHERE {text}", "spark", {"t": pa.schema([])})) == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize("member", ["{}", "-{}", "'v{}'", "{}.5"])
def test_long_lists(member):
    listed = ", ".join(member.format(i) for i in range(100_000))
    text = f"x = 1 AND `a b` NOT IN ({listed})"
    conjunction = parse_sql(text)
    assert function_calls(parse_sql, text) < 20 * 100_000
    op, column, values = conjunction.children[1].op, conjunction.children[1].column, conjunction.children[1].values
    assert (op, column, len(values)) == (Op.NOT_IN, "a b", 100_000)
    short = ", ".join(member.format(i) for i in range(3))
    assert parse_sql(f"a IN ({short})").values == values[:3]


def test_long_lists_with_other_members_are_read_too():
    listed = ", ".join(["NULL", "DATE '2020-01-01'", *(str(i) for i in range(200))])
    assert parse_sql(f"a IN ({listed})").values[:3] == (None, dt.date(2020, 1, 1), 0)


def test_lists_in_strings_and_comments_are_left_alone():
    listed = ", ".join(str(i) for i in range(100))
    assert only(f"a = 'x IN ({listed})'")[2] == (f"x IN ({listed})",)
    assert only(f"a = 1 /* b IN ({listed}) */")[2] == (1,)
    assert only(f"`a IN ({listed})` = 1")[1] == f"a IN ({listed})"
    assert only(rf"a = 'it\'s IN ({listed})'")[2] == (f"it's IN ({listed})",)
    assert isinstance(parse_sql(f"f(a) IN ({listed})"), Unknown)


@pytest.mark.parametrize("odd", ["12L", "1e3", "'x'", "X'00'", "1.", "-(3)", r"'\n'", "b"])
def test_long_lists_with_one_odd_member(odd):
    listed = ", ".join([*(str(i) for i in range(100)), odd])
    expression = parse_sql(f"a IN ({listed})")
    if odd == "b":
        assert isinstance(expression, Unknown)
    else:
        assert (len(expression.values), expression.values[99]) == (101, 99)


def test_constants():
    assert parse_sql("TRUE") == Constant(True)
    assert parse_sql("NOT NULL") == Not(Constant(None))


@pytest.mark.parametrize("dialect", ["spark", "hive", "trino"])
@pytest.mark.parametrize(
    "literals",
    [
        ["1", "-2", "30"],
        ["1.50", "-2", "3.0"],
        ["1e0", "-2.5E1", "3", "4.25"],
        ["'a'", "'it''s'", "'a,b'"],
        ["DATE '2024-02-29'", "date'0001-01-01'", "DATE '9999-12-31'"],
        ["TIMESTAMP '2024-01-01 00:00:00'", "timestamp '1969-12-31 23:59:59.000001'"],
        ["DATE '2024-02-30'", "DATE '2024-01-01'"],
        ["TIMESTAMP '2024-01-01 25:00:00'", "TIMESTAMP '2024-01-01 00:00:00'"],
        ["TIMESTAMP '2024-01-01 00:00:00 +01:00'", "TIMESTAMP '2024-01-01 00:00:00Z'"],
    ],
)
def test_long_lists_are_read_as_short_ones(literals: list[str], dialect: str) -> None:
    short = parse_sql(f"a IN ({', '.join(literals)})", dialect)
    long = parse_sql(f"a IN ({' , '.join(literals * 60)})", dialect)
    if isinstance(short, Predicate):
        assert isinstance(long, Predicate)
        assert [repr(value) for value in long.values] == [repr(value) for value in short.values] * 60
    else:
        assert type(long) is type(short)
