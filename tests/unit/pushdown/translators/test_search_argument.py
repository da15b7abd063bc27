import json
import random

import pyarrow as pa
import pytest

from pushdown import Constant, ExpressionError, HudiExpression, Not, Unknown, matches
from pushdown.translators import from_search_argument, to_arrow_expression
from tests.support.work import function_calls


def leaf(operator: str, literal: object = "1", kind: str = "LONG", column: str = "a") -> dict:
    name = "literalList" if operator in {"IN", "BETWEEN"} else "literal"
    return {"operator": operator, "type": kind, "columnName": column, name: literal}


def of(*leaves: dict, tree: object = None) -> dict:
    return {"expression": tree or {"operator": "LEAF", "leaf": 0}, "leaves": list(leaves)}


def branch(operator: str, *children: object) -> dict:
    return {"operator": operator, "children": list(children)}


def at(index: int) -> dict:
    return {"operator": "LEAF", "leaf": index}


def constant(name: str) -> dict:
    return {"operator": "CONSTANT", "constant": name}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (leaf("EQUALS"), "a = 1"),
        (leaf("NULL_SAFE_EQUALS", 1), "a <=> 1"),
        (leaf("NULL_SAFE_EQUALS", None), "a <=> NULL"),
        (leaf("LESS_THAN", 1.5, "FLOAT"), "a < 1.5e0"),
        (leaf("LESS_THAN_EQUALS", "1.5", "DECIMAL"), "a <= 1.5"),
        (leaf("IN", ["x", None], "STRING"), "a IN ('x', NULL)"),
        (leaf("BETWEEN", ["2024-01-01", "2024-01-02"], "DATE"), "a >= DATE '2024-01-01' AND a <= DATE '2024-01-02'"),
        (leaf("IS_NULL", None, "TIMESTAMP", "s.y"), "s.y IS NULL"),
        (leaf("EQUALS", True, "BOOLEAN"), "a = TRUE"),
        (leaf("EQUALS", 5, "INTEGER"), "a = 5"),
        (leaf("EQUALS", "2024-01-01 05:00:00.0", "TIMESTAMP"), "a = TIMESTAMP '2024-01-01 05:00:00'"),
    ],
)
def test_leaves(one, expected):
    assert from_search_argument(of(one)).to_sql() == expected


@pytest.mark.parametrize(
    "one",
    [
        leaf("BETWEEN", []),
        leaf("BETWEEN", [1]),
        leaf("BETWEEN", [1, 2, 3]),
        leaf("IN", []),
        leaf("IN", "1"),
        leaf("EQUALS", None),
        leaf("EQUALS", "x"),
        leaf("LIKE"),
        leaf("EQUALS", kind="UUID"),
        leaf("EQUALS", column=""),
        {"operator": "NULL_SAFE_EQUALS", "type": "LONG", "columnName": "a"},
        {"operator": "EQUALS"},
        "leaf",
    ],
)
def test_a_malformed_leaf_is_unknown(one):
    assert isinstance(from_search_argument(of(one)), Unknown)


@pytest.mark.parametrize(
    "tree",
    [
        at(1),
        at(-1),
        {"operator": "LEAF"},
        {"operator": "LEAF", "leaf": True},
        {"operator": "XOR", "children": [at(0)]},
        {"operator": ["AND"], "children": [at(0)]},
        branch("AND"),
        branch("OR"),
        branch("NOT"),
        branch("NOT", at(0), at(0)),
        {"operator": "AND", "children": at(0)},
        constant("MAYBE"),
        {"operator": "CONSTANT"},
        {"operator": None},
        {"no": "operator"},
    ],
)
def test_a_malformed_tree_is_unknown(tree):
    assert isinstance(from_search_argument(of(leaf("EQUALS"), tree=tree)), Unknown)


def test_roots():
    for wrong in (None, [], {}, {"expression": []}):
        with pytest.raises(ExpressionError, match="SearchArgument"):
            from_search_argument(wrong)
    assert isinstance(from_search_argument({"expression": at(0)}), Unknown)


def test_branches():
    tree = branch(
        "OR", branch("AND", at(0), branch("AND", at(1), at(0))), branch("NOT", at(1)), constant("YES_NO_NULL")
    )
    expression = from_search_argument(of(leaf("EQUALS", 1), leaf("LESS_THAN", 5), tree=tree))
    assert expression.to_sql() == "(a = 1 AND a < 5 AND a = 1) OR a >= 5 OR unknown('YES_NO_NULL')"


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("YES", {True}),
        ("NO", {False}),
        ("NULL", {None}),
        ("YES_NULL", {True, None}),
        ("NO_NULL", {False, None}),
        ("YES_NO", {True, False, None}),
        ("YES_NO_NULL", {True, False, None}),
    ],
)
def test_truth_values_of_constants(name, outcomes):
    expression = from_search_argument(of(tree=constant(name)))
    table = pa.table({"a": [1]})
    assert table.filter(to_arrow_expression(expression, table.schema, unknown="weaken")).num_rows == (True in outcomes)
    negated = to_arrow_expression(Not(expression), table.schema, unknown="weaken")
    assert table.filter(negated).num_rows == (False in outcomes)
    if isinstance(expression, Constant):
        assert matches(expression, table).to_pylist() == list(outcomes)


def test_padded_literals_are_of_a_char_column():
    """A SearchArgument calls char columns STRING: stored texts may have padding or not."""
    table = pa.table({"a": ["c03", "c03  ", "c04", None]})
    for one in (leaf("EQUALS", "c03  ", "STRING"), leaf("IN", ["c03  ", "x    "], "STRING")):
        expression = from_search_argument(of(one))
        kept = table.filter(to_arrow_expression(expression, table.schema, unknown="weaken"))["a"].to_pylist()
        assert kept == ["c03", "c03  "]
    full = of(leaf("EQUALS", "abc", "STRING"))
    assert from_search_argument(full).to_sql() == "a = 'abc'"
    assert from_search_argument(full, types={"A": "char(3)"}).to_sql().startswith("startswith(a, 'abc') AND unknown(")
    assert from_search_argument(full, types={"a": "varchar(3)"}).to_sql().startswith("startswith(a, 'abc') AND")
    assert from_search_argument(full, types={"a": "varchar(4)"}).to_sql() == "a = 'abc'"
    assert isinstance(from_search_argument(full, types={"a": "int"}), Unknown)


def test_deep_and_wide():
    wide = of(leaf("IN", list(range(100_000))))
    assert len(from_search_argument(wide).values) == 100_000
    node: dict = at(0)
    for i in range(5_000):
        node = branch("NOT", node) if i % 3 == 2 else branch(("AND", "OR")[i % 3], node, at(0))
    assert from_search_argument(of(leaf("EQUALS"), tree=node)).depth > 3_000
    assert len(from_search_argument(of(leaf("EQUALS"), tree=branch("OR", *[at(0)] * 100_000))).children) == 100_000
    calls = {size: function_calls(from_search_argument, of(leaf("IN", list(range(size))))) for size in (1_000, 10_000)}
    assert calls[10_000] < 12 * calls[1_000]


def test_damaged_arguments_are_unknown_or_one_error():
    source = of(
        leaf("EQUALS", "x ", "STRING"),
        leaf("BETWEEN", [1, "2"]),
        leaf("IN", ["2024-01-01"], "DATE"),
        tree=branch("AND", at(0), branch("OR", branch("NOT", at(1)), at(2)), constant("YES_NO")),
    )
    chance = random.Random(3)
    junk = [
        None,
        True,
        -1,
        1.5,
        "",
        "x",
        [],
        {},
        "NOT",
        "IN",
        [None],
        {"operator": "LEAF"},
        10**30,
        "\ud800",
        float("nan"),
    ]
    for _ in range(3_000):
        argument = json.loads(json.dumps(source))
        for _ in range(chance.randint(1, 3)):
            place: object = argument
            while isinstance(place, dict | list) and place:
                key = chance.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
                if not isinstance(place[key], dict | list) or chance.random() < 0.2:
                    place[key] = chance.choice(junk)
                    break
                place = place[key]
        if isinstance(argument.get("expression"), dict):
            assert isinstance(from_search_argument(argument), HudiExpression)
