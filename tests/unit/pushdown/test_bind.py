# ruff: noqa: DTZ001 - clock times without a zone are what is tested
import datetime as dt
import time
from decimal import Decimal

import pyarrow as pa
import pytest

from pushdown import (
    Constant,
    ExpressionError,
    InexactFilterError,
    LiteralTypeError,
    Op,
    Predicate,
    Unknown,
    UnknownColumnError,
    bind,
    col,
    evaluate,
    matches,
    parse_sql,
    resolve_column,
)

UTC = dt.UTC
SCHEMA = pa.schema(
    {
        "b": pa.bool_(),
        "i": pa.int32(),
        "l": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "dec": pa.decimal128(10, 2),
        "s": pa.string(),
        "bin": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "ms": pa.timestamp("ms", "UTC"),
        "local": pa.timestamp("us"),
        "list": pa.list_(pa.int32()),
        "St": pa.struct({"A": pa.int32(), "n": pa.struct({"z": pa.string()})}),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i < 1.5", "i < 2"),
        ("i <= 1.5", "i <= 1"),
        ("i > 1.5", "i > 1"),
        ("i >= 1.5", "i >= 2"),
        ("i = 1.5", "i IS NULL AND NULL"),
        ("i <> 1.5", "NOT (i IS NULL AND NULL)"),
        ("i = 1.0", "i = 1"),
        ("i = '7'", "i = 7"),
        ("i < 3000000000", "i IS NOT NULL OR NULL"),
        ("i > 2147483647", "i IS NULL AND NULL"),
        ("i >= -2147483648", "i IS NOT NULL OR NULL"),
        ("i > 3000000000", "i IS NULL AND NULL"),
        ("i IN (1, 1, 2.5, 3000000000)", "i = 1"),
        ("i IN (2.5, NULL)", "NULL"),
        ("i IN (3, 1, NULL)", "i IN (1, 3, NULL)"),
        ("l = 9007199254740992e0", "l >= 9007199254740992 AND l <= 9007199254740993"),
        ("l = 9007199254740994e0", "l = 9007199254740994"),
        ("l IN (9007199254740993, 1e0)", "l = 1 OR (l >= 9007199254740992 AND l <= 9007199254740993)"),
        ("l < 1e300", "l IS NOT NULL OR NULL"),
        ("d = 1.1", "d = 1.1e0"),
        ("d = -0.0e0", "d = 0.0e0"),
        ("f = 1.1", "f = 1.1e0"),
        ("dec = 1.5", "dec = 1.50"),
        ("dec < 1.495", "dec < 1.50"),
        ("dec > 1e20", "dec IS NULL AND NULL"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("s LIKE 'ab%'", "startswith(s, 'ab')"),
        ("s LIKE '%%'", "s IS NOT NULL OR NULL"),
        (r"s LIKE 'a\_%'", "startswith(s, 'a_')"),
        ("s LIKE 'a_%'", "s LIKE 'a_%'"),
        ("bin = 'a'", "bin = X'61'"),
        ("day = '2020-2-9'", "day = DATE '2020-02-09'"),
        ("day > TIMESTAMP '2020-02-09 10:00:00'", "day > DATE '2020-02-09'"),
        ("day < TIMESTAMP '2020-02-09 10:00:00'", "day < DATE '2020-02-10'"),
        ("at >= '2020-02-09'", "at >= TIMESTAMP '2020-02-09 00:00:00+00:00'"),
        ("ms < TIMESTAMP '2020-02-09 00:00:00.0005'", "ms < TIMESTAMP '2020-02-09 00:00:00.001000+00:00'"),
        ("ms = TIMESTAMP '2020-02-09 00:00:00.0005'", "ms IS NULL AND NULL"),
        ("i <=> 1.5", "i IS NOT NULL AND i IS NULL AND NULL"),
        ("i <=> NULL", "i IS NULL"),
        ("i = NULL", "NULL"),
        ("st.a = 1", "St.A = 1"),
        ("ST.N.Z IS NULL", "St.n.z IS NULL"),
    ],
)
def test_literals_move_to_the_columns_type(text, expected):
    assert bind(parse_sql(text), SCHEMA).to_sql() == expected


@pytest.mark.parametrize(
    "text",
    [
        "s = 5",
        "s > DATE '2020-01-01'",
        "b = 1",
        "i = '1.5'",
        "i = ' '",
        "i = cast('NaN' as double)",
        "l IN (1, '2')",
        "day = '2020'",
        "day = '2020-01-01 00:00:00'",
        "day = 'soon'",
        "at = '2020-01-01 00:00:00.1234567'",
        "list = 1",
        "St = 1",
        "i LIKE '1%'",
        "d = 'many'",
    ],
)
def test_comparisons_that_engines_differ_on_are_unknown(text):
    bound = bind(parse_sql(text), SCHEMA)
    assert isinstance(bound, Unknown)
    outcomes = evaluate(bound, {}, 1)
    assert outcomes.can_true.all()
    assert outcomes.can_false.all()
    table = pa.table({name: pa.nulls(1, SCHEMA.field(name).type) for name in SCHEMA.names})
    with pytest.raises(InexactFilterError, match="rows cannot be selected exactly"):
        matches(parse_sql(text), table)


@pytest.mark.parametrize(
    "filter_",
    [
        col("day") == 5,
        col("day") == True,  # noqa: E712
        col("at") > 1.5,
        col("bin") == 1,
        col("i") == b"x",
        col("i") == dt.date(2020, 1, 1),
        col("b") == dt.date(2020, 1, 1),
        col("s") == "\ud800",
        col("i") == object(),
    ],
)
def test_literals_that_fit_no_engine_are_refused(filter_):
    with pytest.raises(LiteralTypeError):
        bind(filter_, SCHEMA)


def test_columns_that_are_not_there_are_refused():
    with pytest.raises(UnknownColumnError, match="no column x; the columns are b, i"):
        bind(col("x") == 1, SCHEMA)
    with pytest.raises(UnknownColumnError):
        bind(col("list.element") == 1, SCHEMA)
    with pytest.raises(UnknownColumnError):
        bind(col("st.a") == 1, SCHEMA, case_sensitive=True)


def test_ambiguous_columns_are_refused():
    schema = pa.schema({"a": pa.int32(), "A": pa.int32(), "s.x": pa.int32(), "s": pa.struct({"x": pa.int32()})})
    with pytest.raises(UnknownColumnError, match="ambiguous: it may be any of a, A"):
        bind(col("a") == 1, schema)
    assert bind(col("A") == 1, schema, case_sensitive=True).column == "A"
    with pytest.raises(UnknownColumnError, match="ambiguous"):
        bind(col("s.x") == 1, schema)


def test_names_with_dots_are_found():
    schema = pa.schema({"a.b": pa.struct({"c.d": pa.int32()})})
    assert resolve_column("A.B.C.D", schema).path == ("a.b", "c.d")


def test_time_zone_of_the_session():
    berlin = {"time_zone": "Europe/Berlin"}
    found = bind(parse_sql("at >= '2020-07-01 02:00:00'"), SCHEMA, **berlin)
    assert found.values[0].as_py() == dt.datetime(2020, 7, 1, 0, 0, tzinfo=UTC)
    found = bind(col("day") <= dt.datetime(2020, 6, 30, 22, 0, tzinfo=UTC), SCHEMA, **berlin)
    assert found.values[0].as_py() == dt.date(2020, 7, 1)
    # The hour that clocks skip counts as if they had not yet been changed, the hour they repeat as its first time.
    skipped = bind(col("at") == dt.datetime(2020, 3, 29, 2, 30), SCHEMA, **berlin)
    assert skipped.values[0].as_py() == dt.datetime(2020, 3, 29, 1, 30, tzinfo=UTC)
    repeated = bind(col("at") == dt.datetime(2020, 10, 25, 2, 30), SCHEMA, **berlin)
    assert repeated.values[0].as_py() == dt.datetime(2020, 10, 25, 0, 30, tzinfo=UTC)
    assert isinstance(bind(col("local") == dt.datetime(2020, 1, 1, tzinfo=UTC), SCHEMA, **berlin), Unknown)
    assert bind(col("local") == dt.datetime(2020, 1, 1), SCHEMA, **berlin).op is Op.EQ
    with pytest.raises(ExpressionError, match="no time zone"):
        bind(col("i") == 1, SCHEMA, time_zone="Mars/Olympus")


def test_long_lists_bind_quickly():
    start = time.process_time()
    for name, values in (
        ("l", range(100_000)),
        ("i", [Decimal(i) / 2 for i in range(100_000)]),
        ("d", [i / 7 for i in range(100_000)]),
        ("s", [f"v{i}" for i in range(100_000)]),
    ):
        assert bind(col(name).is_in(values), SCHEMA).op is Op.IN
    assert time.process_time() - start < 4


def test_binding_again_changes_nothing():
    bound = bind(parse_sql("i < 1.5 AND st.a IN (1, NULL) OR s LIKE 'a%b'"), SCHEMA)
    assert bind(bound, SCHEMA) == bound
    with pytest.raises(LiteralTypeError, match="was bound as"):
        bind(bind(col("i") == 1, SCHEMA), pa.schema({"i": pa.int64()}))
    assert bind(Constant(None), SCHEMA) == Constant(None)


def test_lists_of_doubles_for_whole_numbers_are_quick_and_exact():
    schema = pa.schema({"a": pa.int64(), "i": pa.int8()})
    assert bind(Predicate(Op.IN, "a", (1.0, 2.5, -0.0, 3)), schema).to_sql() == "a IN (0, 1, 3)"
    assert bind(Predicate(Op.IN, "i", (1.0, 300.0, None)), schema).to_sql() == "i IN (1, NULL)"
    huge = bind(Predicate(Op.IN, "a", (1.0, 2.0**53)), schema).to_sql()
    assert huge == "a = 1 OR (a >= 9007199254740992 AND a <= 9007199254740993)"
    started = time.process_time()
    many = bind(Predicate(Op.IN, "a", tuple(i / 2 for i in range(200_000))), schema)
    assert len(many.values) == 100_000
    assert time.process_time() - started < 1  # about 0.1 s
