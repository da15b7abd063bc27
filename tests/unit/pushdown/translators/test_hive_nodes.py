"""Hive's trees node by node: casts, literals, texts of limited length, clocks, and what is malformed."""

import itertools
import json
import random

import pyarrow as pa
import pytest

from pushdown import (
    ColumnStatistics,
    Constant,
    ExpressionError,
    HudiExpression,
    Not,
    Unknown,
    bind,
    evaluate,
    matches,
    reasons_of,
)
from pushdown.translators import from_hive_json, from_hive_tree, to_arrow_expression
from tests.support.work import function_calls
from tests.unit.pushdown.translators.hive_trees import call, column, equal, sql, value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("tinyint", "-128", "-128"),
        ("bigint", 9223372036854775807, "9223372036854775807"),
        ("double", "1.0E10", "10000000000.0e0"),
        ("double", "-Infinity", "CAST('-Infinity' AS DOUBLE)"),
        ("double", 3, "3.0e0"),
        ("float", "0.1", "0.10000000149011612e0"),
        ("decimal(38,18)", "1.5E-3", "0.0015"),
        ("decimal", "7", "7BD"),
        ("string", "it's\\", "'it\\'s\\\\'"),
        ("boolean", "false", "FALSE"),
        ("boolean", True, "TRUE"),
        ("date", "1582-10-29", "DATE '1582-10-29'"),
        ("timestamp", "2024-01-01 05:00:00.0", "TIMESTAMP '2024-01-01 05:00:00'"),
        ("timestamp", "2024-01-01 05:00:00.123456", "TIMESTAMP '2024-01-01 05:00:00.123456'"),
        ("string", None, "NULL"),
    ],
)
def test_literals(kind, text, expected):
    assert sql(equal(kind, text)) == f"a = {expected}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tinyint", "128"),
        ("int", "1.0"),
        ("int", True),
        ("int", "1_0"),
        ("int", "٣"),
        ("bigint", 2**63),
        ("double", "NaN"),
        ("double", float("nan")),
        ("double", "1e999"),
        ("float", "1e300"),
        ("double", "0x1p3"),
        ("double", 10**400),
        ("decimal(10,2)", 1.5),
        ("decimal(10,2)", "1e99999"),
        ("string", 5),
        ("string", "\ud800"),
        ("boolean", "TRUE"),
        ("boolean", 1),
        ("date", "2024-1-1x"),
        ("date", "0000-12-31"),
        ("date", "+12024-01-01"),
        ("timestamp", "2024-01-01 05:00:00.1234567"),
        ("timestamp", "2024-01-01 05:00:00+02:00"),
        ("timestamp", "-0044-03-15 00:00:00"),
        ("timestamp with local time zone", "2024-01-01 05:00:00.0 UTC"),
        ("interval_day_time", "1 00:00:00"),
        ("binary", "b03"),
        ("array<int>", "1"),
        (None, "1"),
    ],
)
def test_literals_that_have_no_value_here(kind, text):
    assert isinstance(from_hive_tree(equal(kind, text)), Unknown)


def test_bytes_come_in_hexadecimal():
    node = call("GenericUDFOPEqual", column("a", "binary"), {"v": "00ff", "t": "binary", "e": "hex"})
    assert sql(node) == "a = X'00ff'"
    for wrong in ("0", "xx", 5):
        node["a"][1]["v"] = wrong
        assert isinstance(from_hive_tree(node), Unknown)


@pytest.mark.parametrize(
    ("own", "cast", "to", "literal", "expected"),
    [
        ("tinyint", "UDFToInteger", "int", "300", "a < 300"),
        ("int", "UDFToLong", "bigint", "3000000000", "a < 3000000000"),
        ("int", "UDFToDouble", "double", "2.5", "a < 2.5e0"),
        ("bigint", "UDFToDouble", "double", "2.5", "a < 2.5e0"),
        ("smallint", "UDFToFloat", "float", "2.5", "a < 2.5e0"),
        ("float", "UDFToDouble", "double", "0.1", "a < 0.1e0"),
        ("int", "GenericUDFToDecimal", "decimal(11,1)", "2.5", "a < 2.5"),
        ("bigint", "GenericUDFToDecimal", "decimal(19,0)", "2", "a < 2BD"),
        ("decimal(10,2)", "GenericUDFToDecimal", "decimal(12,4)", "2.5", "a < 2.5"),
        ("varchar(5)", "GenericUDFToString", "string", "x", "a < 'x'"),
        ("string", "UDFToString", "string", "x", "a < 'x'"),
        ("date", "GenericUDFTimestamp", "timestamp", "2024-01-01 05:00:00", "a < TIMESTAMP '2024-01-01 05:00:00'"),
        # What rounds, wraps, or is respelled has another order.
        ("bigint", "UDFToInteger", "int", "5", None),
        ("double", "UDFToLong", "bigint", "5", None),
        ("int", "UDFToFloat", "float", "5", None),
        ("bigint", "GenericUDFToDecimal", "decimal(10,0)", "5", None),
        ("decimal(10,2)", "GenericUDFToDecimal", "decimal(10,4)", "5", None),
        ("decimal(10,2)", "GenericUDFToDecimal", "decimal(12,1)", "5", None),
        ("decimal(10,2)", "UDFToDouble", "double", "5", None),
        ("double", "UDFToFloat", "float", "5", None),
        ("int", "GenericUDFToString", "string", "5", None),
        ("string", "UDFToInteger", "int", "5", None),
        ("timestamp with local time zone", "GenericUDFTimestamp", "timestamp", "2024-01-01 05:00:00", None),
        ("array<int>", "UDFToInteger", "int", "5", None),
        ("int", "com.example.UDFToLong", "bigint", "5", None),
    ],
)
def test_casts_of_columns(own, cast, to, literal, expected):
    node = call("GenericUDFOPLessThan", call(cast, column("a", own), to=to), value(literal, to))
    expression = from_hive_tree(node)
    assert isinstance(expression, Unknown) if expected is None else expression.to_sql() == expected


def test_a_column_cast_to_double_is_compared_with_doubles_only():
    cast = call("UDFToDouble", column("a", "bigint"), to="double")
    assert isinstance(from_hive_tree(call("GenericUDFOPEqual", cast, value("5", "bigint"))), Unknown)
    further = call("GenericUDFToDecimal", cast, to="decimal(38,0)")
    assert isinstance(from_hive_tree(call("GenericUDFOPEqual", further, value("5", "decimal(1,0)"))), Unknown)
    node = call("GenericUDFOPEqual", cast, value("9007199254740992", "double"))
    table = pa.table({"a": pa.array([2**53, 2**53 + 1, 2**53 + 2], pa.int64())})
    assert matches(from_hive_tree(node), table).to_pylist() == [True, True, False]


def test_literals_of_another_family_are_unknown():
    for own, literal in itertools.permutations(
        [("int", "5"), ("string", "5"), ("date", "2024-01-01"), ("boolean", "true")], 2
    ):
        assert isinstance(from_hive_tree(equal(own[0], literal[1], literal[0])), Unknown)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (column("a", "boolean"), "a = TRUE"),
        (value("true", "boolean"), "TRUE"),
        (value(None, "void"), "NULL"),
        (call("GenericUDFOPLessThan", value("5", "int"), column("a", "int")), "a > 5"),
        (call("org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNull", column("a", "int")), "a IS NULL"),
        (call("GenericUDFOPNotNull", call("UDFToLong", column("a", "int"), to="bigint")), "a IS NOT NULL"),
        (call("GenericUDFOPNull", column("a", "array<int>")), "a IS NULL"),
        (call("GenericUDFOPTrue", column("a", "boolean")), "a <=> TRUE"),
        (call("GenericUDFOPFalse", column("a", "boolean")), "a <=> FALSE"),
        (call("GenericUDFOPNotTrue", column("a", "boolean")), "a IS DISTINCT FROM TRUE"),
        (call("GenericUDFOPNotFalse", call("GenericUDFOPNot", column("a", "boolean"))), "a IS DISTINCT FROM TRUE"),
        (call("GenericUDFIn", value("5", "int"), column("a", "int")), "a = 5"),
        (call("GenericUDFIn", column("a", "int"), value("5", "int"), value(None, "int")), "a IN (5, NULL)"),
        (call("GenericUDFBetween", value("false", "boolean"), value("5", "int"), column("a", "int"),
              column("b", "int")), "a <= 5 AND b >= 5"),
        (call("like", column("a", "string"), value(None, "string")), "a LIKE NULL"),
        (call("UDFLike", column("a", "string"), value("x\\%y%", "string")), "a LIKE 'x\\\\%y%'"),
        (call("GenericUDFOPOr", call("GenericUDFOPOr", column("a", "boolean"), column("b", "boolean"))),
         "a = TRUE OR b = TRUE"),
        (None, "TRUE"),
    ],
)  # fmt: skip
def test_forms(node, expected):
    assert sql(node) == expected


@pytest.mark.parametrize(
    "node",
    [
        call("GenericUDFOPNull", call("UDFToInteger", column("a", "bigint"), to="int")),
        call("GenericUDFBetween", value("false", "boolean"), column("a", "int"), value("5", "int")),
        call("GenericUDFBetween", value(None, "boolean"), column("a", "int"), value("5", "int"), value("6", "int")),
        call("GenericUDFBetween", column("b", "boolean"), column("a", "int"), value("5", "int"), value("6", "int")),
        call("GenericUDFIn", column("a", "int")),
        call("GenericUDFIn", column("a", "int"), {"x": "RS_5", "t": "int"}),
        call("GenericUDFIn", column("a", "int"), value("5", "int"), column("b", "int")),
        call("like", column("a", "string"), value("x", "string"), value("!", "string")),
        call("like", value("x", "string"), column("a", "string")),
        call("like", column("a", "int"), value("5%", "string")),
        call("like", call("GenericUDFUpper", column("a", "string"), to="string"), value("5%", "string")),
        call("default.like", column("a", "string"), value("x", "string")),
        call("com.example.GenericUDFOPEqual", column("a", "string"), value("x", "string")),
        call("GenericUDFOPEqual", column("a", "string"), value("x", "string"), value("x", "string")),
        call("GenericUDFOPEqual", value("1", "int"), value("1", "int")),
        call("GenericUDFOPEqual", column("INPUT__FILE__NAME", "string"), value("1", "string")),
        call("GenericUDFOPEqual", {"c": "", "t": "string"}, value("1", "string")),
        call("GenericUDFOPEqual", column("s", "struct<a:int>"), value("1", "string")),
        call("GenericUDFOPEqual", call(".a", column("s", "array<struct<a:int>>"), to="array<int>"), value("1", "int")),
        call("GenericUDFOPEqual", call(".", column("s", "struct<a:int>"), to="int"), value("1", "int")),
        call("GenericUDFOPNot", column("a", "boolean"), column("b", "boolean")),
        call("GenericUDFOPTrue", column("a", "boolean"), column("b", "boolean")),
        call("GenericUDFOPAnd"),
        call("GenericUDFOPOr"),
        {"f": "GenericUDFOPAnd", "t": "boolean"},
        {"f": "GenericUDFOPAnd", "t": "boolean", "a": {"c": "a"}},
        {"f": 5, "a": []},
        column("a", "int"),
        {"c": "a"},
        {"x": "DynamicValue(RS_5)", "t": "boolean"},
        {},
    ],
)
def test_what_is_not_known_or_malformed_is_unknown(node):
    assert isinstance(from_hive_tree(node), Unknown)
    below = from_hive_tree(call("GenericUDFOPAnd", call("GenericUDFOPNot", node), equal("int", "1")))
    assert reasons_of(below)


def test_is_true_of_a_condition_is_false_where_it_is_null():
    table = pa.table({"a": [1, 2, None]})
    for name, true_for in (("GenericUDFOPTrue", {0}), ("GenericUDFOPNotTrue", {1, 2})):
        expression = from_hive_tree(call(name, equal("int", "1")))
        assert reasons_of(expression)
        for row in range(3):
            assert (row in true_for) in possible(expression, table, row)
        assert True not in possible(expression, table, 1) or name == "GenericUDFOPNotTrue"


def possible(expression: HudiExpression, table: pa.Table, row: int) -> set:
    """What a filter with unknown parts may be for a row, as far as weakening it tells."""
    one = table.slice(row, 1)
    truths = set()
    for wanted, tried in ((True, expression), (False, Not(expression))):
        weak = to_arrow_expression(tried, one.schema, unknown="weaken")
        if one.filter(weak).num_rows:
            truths.add(wanted)
    return truths


def test_roots():
    assert from_hive_tree(None) == Constant(value=True)
    assert from_hive_json("null") == Constant(value=True)
    for wrong in ([], "a", 5):
        with pytest.raises(ExpressionError, match="object"):
            from_hive_tree(wrong)
    with pytest.raises(ExpressionError, match="JSON"):
        from_hive_json("{")
    with pytest.raises(ExpressionError, match="time zone"):
        from_hive_tree(None, time_zone="Nowhere/Else")
    assert isinstance(from_hive_json('{"a":[' * 100_000 + "]}" * 100_000), Unknown)


STRUCT = "struct<col1:bigint,col2:string>"


def test_lists_of_structs():
    pair = call("GenericUDFStruct", column("a", "bigint"), column("b", "string"), to=STRUCT)

    def member(*fields: object) -> dict:
        return {"v": list(fields), "t": STRUCT}

    few = call("GenericUDFIn", pair, member("1", "x"), member("2", None))
    assert sql(few) == "(a <=> 1 AND b <=> 'x') OR (a <=> 2 AND b <=> NULL)"
    many = call("GenericUDFIn", pair, *(member(str(i), "x" if i else None) for i in range(101)))
    expression = from_hive_tree(many)
    assert expression.to_sql().endswith("unknown('101 combinations of a, b')")
    table = pa.table({"a": [0, 1, 2, 999], "b": [None, "x", "y", "x"]})
    kept = table.filter(to_arrow_expression(expression, table.schema, unknown="weaken"))
    assert kept["a"].to_pylist() == [0, 1]
    for wrong in (
        member("1"),
        member("1", "x", "y"),
        member("x", "x"),
        {"v": "[1, x]", "t": STRUCT},
        column("a", STRUCT),
    ):
        assert isinstance(from_hive_tree(call("GenericUDFIn", pair, wrong)), Unknown)
    other = call("GenericUDFStruct", column("a", "bigint"), call("GenericUDFUpper", column("b", "string"), to="string"))
    assert isinstance(from_hive_tree(call("GenericUDFIn", other, member("1", "x"))), Unknown)


LONG = {"int": lambda node: node, "bigint": lambda node: call("UDFToLong", node, to="bigint")}


def may_be_true(node: dict, stored: int, kind: pa.DataType) -> bool:
    one = pa.array([stored], kind)
    statistics = {"a": ColumnStatistics(one, one, pa.array([0]), pa.array([1]))}
    return bool(evaluate(bind(from_hive_tree(node), pa.schema([("a", kind)])), statistics, 1).can_true[0])


@pytest.mark.parametrize("cast", LONG)
@pytest.mark.parametrize(
    ("name", "literal", "compared", "stored"),
    [
        ("GenericUDFOPMultiply", "1000", "1500000000000", 1600000000),
        ("GenericUDFOPPlus", "2000000000", "3000000000", 1600000000),
        ("GenericUDFAbs", None, "2147483647", -(2**31)),
    ],
)
def test_arithmetic_beside_a_bigint_is_in_bigint(name, literal, compared, stored, cast):
    literals = [value(literal, "bigint")] if literal else []
    result = call(name, LONG[cast](column("a", "int")), *literals, to="bigint")
    other = value(compared, "bigint")
    assert may_be_true(call("GenericUDFOPGreaterThan", result, other), stored, pa.int32())
    below = call("GenericUDFOPLessThan", result, other)
    assert may_be_true(call("GenericUDFOPNot", below), stored, pa.int32())
    assert not may_be_true(call("GenericUDFOPGreaterThan", result, other), 1, pa.int32())


@pytest.mark.parametrize(
    ("name", "literal", "stored"),
    [("GenericUDFOPPlus", "1", 2**31 - 1), ("GenericUDFOPMultiply", "3", 2**30), ("GenericUDFAbs", None, -(2**31))],
)
def test_arithmetic_of_int_wraps_around(name, literal, stored):
    result = call(name, column("a", "int"), *([value(literal, "int")] if literal else []), to="int")
    assert may_be_true(call("GenericUDFOPLessThan", result, value("0", "int")), stored, pa.int32())
    assert not may_be_true(call("GenericUDFOPLessThan", result, value("0", "int")), 5, pa.int32())


@pytest.mark.parametrize("name", ["GenericUDFOPEqual", "GenericUDFOPEqualOrLessThan", "GenericUDFIn"])
def test_integers_beside_a_large_float_may_be_rounded(name):
    for literal, expected in (("1.6777216E7", True), ("1.6777215E7", False)):
        node = call(name, column("a", "int"), value(literal, "float"))
        assert may_be_true(node, 16777217, pa.int32()) is expected
        assert not may_be_true(call(name, column("a", "int"), value(literal, "double")), 16777217, pa.int32())


@pytest.mark.parametrize(("divisor", "surely"), [(2**30, True), (2**30 + 1, False), (2**31 - 1, False)])
def test_pmod_of_a_large_divisor_may_be_negative(divisor, surely):
    result = call("GenericUDFPosMod", column("a", "int"), value(str(divisor), "int"), to="int")
    below = call("GenericUDFOPLessThan", result, value("0", "int"))
    assert may_be_true(below, 2**30 - 1, pa.int32()) is not surely


@pytest.mark.slow
def test_deep_and_wide_trees():
    leaf = equal("bigint", "1")
    for names in (("GenericUDFOPAnd", "GenericUDFOPOr"), ("GenericUDFOPAnd",), ("GenericUDFOPNot",)):
        node = leaf
        for i in range(5_000):
            name = names[i % len(names)]
            node = call(name, node, leaf) if name != "GenericUDFOPNot" else call(name, node)
        assert not reasons_of(from_hive_tree(node))
    wide = call("GenericUDFIn", column("a", "bigint"), *(value(str(i), "bigint") for i in range(100_000)))
    assert len(from_hive_tree(wide).values) == 100_000
    chain = column("a", "int")
    for _ in range(5_000):
        chain = call("UDFToInteger", chain, to="int")
    assert sql(call("GenericUDFOPEqual", chain, value("1", "int"))) == "a = 1"
    fields = column("a", "struct<a:int>")
    for _ in range(5_000):
        fields = call(".a", fields, to="struct<a:int>")
    assert sql(call("GenericUDFOPNull", fields)).endswith(".a IS NULL")
    strange = column("a", "int")
    for _ in range(5_000):
        strange = call("strange", strange)
    assert isinstance(from_hive_tree(strange), Unknown)


def test_the_work_for_a_deep_tree_grows_with_its_depth():
    def chain(depth: int) -> dict:
        node = column("a", "int")
        for _ in range(depth):
            node = call("UDFToInteger", node, to="int")
        return call("GenericUDFOPEqual", node, value("1", "int"))

    calls = {depth: function_calls(from_hive_tree, chain(depth)) for depth in (300, 3_000)}
    assert calls[3_000] < 12 * calls[300]


def test_damaged_trees_are_unknown_or_one_error():
    """Any part of a tree replaced by anything."""
    source = call("GenericUDFOPAnd")
    source["a"] = [
        call("GenericUDFIn", column("a", "char(3)"), value("x", "char(3)")),
        call("GenericUDFBetween", value("false", "boolean"), column("b", "timestamp"), value("2024-01-01 00:00:00",
             "timestamp"), value("2024-01-02 00:00:00", "timestamp")),
        call("GenericUDFOPEqual", call(".f", column("s", "struct<f:int>"), to="int"), value("1", "int")),
        call("GenericUDFIn", call("GenericUDFStruct", column("a", "bigint"), to=STRUCT), {"v": ["1"], "t": STRUCT}),
        call("like", column("a", "string"), value("x%", "string")),
    ]  # fmt: skip
    chance = random.Random(7)
    junk = [
        None,
        True,
        -1,
        1.5,
        "",
        "x",
        [],
        {},
        "GenericUDFOPNot",
        "like",
        [None],
        {"v": []},
        {"c": None},
        10**30,
        "\ud800",
    ]
    for _ in range(3_000):
        node = json.loads(json.dumps(source))
        for _ in range(chance.randint(1, 3)):
            at: object = node
            while isinstance(at, dict | list) and at:
                keys = list(at) if isinstance(at, dict) else range(len(at))
                key = chance.choice(list(keys))
                if not isinstance(at[key], dict | list) or chance.random() < 0.2:
                    at[key] = chance.choice(junk)
                    break
                at = at[key]
        assert isinstance(from_hive_tree(node), HudiExpression)
