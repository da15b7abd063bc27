import pyarrow as pa
import pytest

from pushdown import And, Constant, Not, Op, Predicate, Unknown, bind, col, matches, parse_sql, simplify
from tests.support.work import function_calls

SCHEMA = pa.schema({"a": pa.int32(), "b": pa.bool_(), "s": pa.string(), "d": pa.float64(), "dec": pa.decimal128(30, 2)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 3 AND a > 5", "a > 5"),
        ("a > 5 AND a >= 5", "a > 5"),
        ("a < 5 AND a <= 5 AND a < 9", "a < 5"),
        ("a > 3 OR a > 5", "a > 3"),
        ("a > 5 OR a >= 5", "a >= 5"),
        ("a < 3 OR a <= 3", "a <= 3"),
        ("a >= 5 AND a <= 5", "a = 5"),
        ("a > 5 AND a < 3", "a IS NULL AND NULL"),
        ("a > 5 AND a <= 5", "a IS NULL AND NULL"),
        ("a < 3 OR a < 5", "a < 5"),
        ("a <= 9 OR a < 5 OR a > 20 OR a >= 15", "a >= 15 OR a <= 9"),
        ("a IN (4, 5, 6) AND a < 5", "a = 4"),
        ("a IN (4, 5, 6) AND a <= 5", "a IN (4, 5)"),
        ("a IN (4, 5, 6) AND a > 5", "a = 6"),
        ("a IN (4, 5, 6) AND a >= 5", "a IN (5, 6)"),
        ("a = 1 OR a = 2 OR a IN (2, 3)", "a IN (1, 2, 3)"),
        ("a IN (1, 2, 3) AND a > 1 AND a <> 3", "a IN (2, 3) AND a <> 3"),
        ("a = 1 AND a = 2", "a IS NULL AND NULL"),
        ("a = 1 AND a IN (1, NULL)", "a = 1 AND a IN (1, NULL)"),
        ("a = 1 AND a = 1", "a = 1"),
        ("NOT (a = 1 AND NOT s = 'x')", "a <> 1 OR s = 'x'"),
        ("NOT NOT NOT (a IN (1, 2))", "a NOT IN (1, 2)"),
        ("NOT (a < 1 OR a IS NULL)", "a >= 1 AND a IS NOT NULL"),
        ("a = 1 AND TRUE", "a = 1"),
        ("a = 1 AND FALSE", "FALSE"),
        ("a = 1 OR TRUE", "TRUE"),
        ("a = 1 OR NULL", "a = 1 OR NULL"),
        ("NOT NULL", "NULL"),
        ("(a = 1 AND (s = 'x' AND (b AND a = 1)))", "a = 1 AND s = 'x' AND b = TRUE"),
        ("s > 'a' AND s > 'ä' AND s > 'b'", "s > 'ä'"),
        ("dec > 3 AND dec > -5 AND dec <= 99999999999999999999", "dec > 3.00 AND dec <= 99999999999999999999.00"),
        ("d > 3 AND d > 5", "d > 3.0e0 AND d > 5.0e0"),
        ("f(a) AND a = 1 OR FALSE", "unknown('f(a) is not understood') AND a = 1"),
    ],
)
def test_simplified(text, expected):
    assert simplify(bind(parse_sql(text), SCHEMA)).to_sql() == expected


def test_a_filter_beyond_the_budget_is_left_alone():
    tree = bind(parse_sql("a > 3 AND a > 5 AND a IN (7, 8, 9)"), SCHEMA)
    assert simplify(tree, budget=5) is tree
    assert simplify(tree, budget=50).to_sql() == "a IN (7, 8, 9)"
    # Three predicates, five literals.
    assert simplify(tree, budget=7) is tree
    assert simplify(tree, budget=8).to_sql() == "a IN (7, 8, 9)"


def test_unbound_filters_keep_their_literals():
    assert simplify(~((col("c") > 1) & ~(col("y") == "z"))).to_sql() == "c <= 1 OR y = 'z'"
    assert simplify(And((col("c") > 1, col("c") > 2))).to_sql() == "c > 1 AND c > 2"
    assert simplify(~Unknown("why")) == Unknown("why")
    assert simplify(And(())) == Constant(True)


@pytest.mark.slow
def test_many_and_deep():
    chain = bind(parse_sql(" OR ".join(f"a = {i} OR NOT (a <> {i + 1})" for i in range(2500))), SCHEMA)
    assert len(simplify(chain).values) == 2501
    tree = bind(col("a") > 0, SCHEMA)
    for i in range(5000):
        tree = ~(bind(col("a") > i, SCHEMA) | tree) if i % 2 else bind(col("s") < str(i), SCHEMA) & tree
    assert function_calls(simplify, chain) + function_calls(simplify, tree) < 10_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <> 1 AND a <> 2", "a NOT IN (1, 2)"),
        ("a <> 1 AND a NOT IN (3, 1) AND a > 0", "a NOT IN (1, 3) AND a > 0"),
        ("NOT (a = 1 OR a IN (2, 3))", "a NOT IN (1, 2, 3)"),
        ("a NOT IN (1, 2, 3) OR a NOT IN (2, 3, 4)", "a NOT IN (2, 3)"),
        ("a NOT IN (1, 2) OR a <> 2", "a <> 2"),
        ("a <> 1 OR a <> 2", "a IS NOT NULL OR NULL"),
        ("a <> 1 OR a = 1", "a <> 1 OR a = 1"),
        ("a NOT IN (1, NULL) AND a <> 2", "a NOT IN (1, NULL) AND a <> 2"),
        ("a <> 1 AND b <> 1", "a <> 1 AND b <> 1"),
    ],
)
def test_what_a_column_must_differ_from_is_joined(text, expected):
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    table = pa.table({"a": [0, 1, 2, 3, 4, 5, None], "b": [1] * 7}, schema)
    bound = bind(parse_sql(text), schema)
    assert simplify(bound).to_sql() == expected
    assert matches(simplify(bound), table).to_pylist() == matches(bound, table).to_pylist()


@pytest.mark.slow
def test_many_values_to_differ_from_are_one_list():
    bound = bind(And([Predicate(Op.NE, "a", (i,)) for i in range(10_000)]), pa.schema({"a": pa.int64()}))
    simplified = simplify(bound)
    assert isinstance(simplified, Predicate)
    assert (simplified.op, len(simplified.values)) == (Op.NOT_IN, 10_000)


def test_constants_are_negated():
    for value, expected in ((True, False), (False, True), (None, None)):
        assert simplify(Not(Constant(value))) == Constant(expected)
        assert simplify(Not(Not(Constant(value)))) == Constant(value)


def test_times_beyond_pythons_years_are_joined():
    schema = pa.schema({"at": pa.timestamp("us", "UTC")})
    far = [pa.array([number], pa.int64()).cast(pa.timestamp("us", "UTC")) for number in (2**61, 2**62)]
    both = And([Predicate(Op.GT, "at", values, schema.field("at").type) for values in far])
    assert simplify(both) == both.children[1]
