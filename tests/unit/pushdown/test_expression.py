import pickle

import pytest

from pushdown import And, Constant, ExpressionError, Not, Op, Or, Predicate, Unknown, all_of, any_of, col, parse_sql


def test_builder_and_text_make_the_same_tree():
    built = ((col("a") >= 3) & (col("b") != "x")) | ~col("c").is_null()
    assert built == any_of(all_of(col("a") >= 3, Predicate(Op.NE, "b", ("x",))), Not(Predicate(Op.IS_NULL, "c")))
    assert repr(built) == "(a >= 3 AND b <> 'x') OR NOT (c IS NULL)"


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (col("a") == 1, "a = 1"),
        (col("a") < 1, "a < 1"),
        (col("a") <= 1, "a <= 1"),
        (col("a") > 1, "a > 1"),
        (col("a").between(1, 2), "a BETWEEN 1 AND 2"),
        (col("a").is_in([1, None]), "a IN (1, NULL)"),
        (col("a").not_in((1, 2)), "a NOT IN (1, 2)"),
        (col("a").is_not_null(), "a IS NOT NULL"),
        (col("a").eq_null_safe(None), "a <=> NULL"),
        (col("a").starts_with("x%"), "startswith(a, 'x%')"),
        (col("a").like("x!%%", escape="!"), "a LIKE 'x!%%' ESCAPE '!'"),
        (col("a").like("x\\_", escape="\\"), r"a LIKE 'x\_'"),
        (col("a.b c") == True, "a.`b c` = true"),  # noqa: E712
    ],
)
def test_builder_says_what_sql_says(built, text):
    assert built == parse_sql(text)


def test_literals_of_different_types_are_different():
    assert col("a").is_in([1]) != col("a").is_in([True])
    assert (col("a") == 1) != (col("a") == 1.0)
    assert (col("a") == 0.0) != (col("a") == -0.0)
    nan = float("nan")
    assert col("a").is_in([nan]) == col("a").is_in([nan])
    assert len({col("a") == 1, col("a") == 1, col("a") == 2}) == 2


def test_filters_have_no_truth_value():
    with pytest.raises(TypeError, match="combine filters with"):
        bool(col("a") == 1)
    with pytest.raises(TypeError, match="made of filters"):
        And((True,))


def test_builder_refuses_what_it_cannot_mean():
    with pytest.raises(ExpressionError, match="column"):
        col("a") == col("b")  # noqa: B015
    with pytest.raises(ExpressionError, match="list of values"):
        col("a").is_in("abc")
    with pytest.raises(ExpressionError, match="escape"):
        col("a").like("x", escape="!!")
    with pytest.raises(ExpressionError, match="must be followed by"):
        col("a").like("x\\")
    with pytest.raises(ValueError, match="takes 1 value"):
        Predicate(Op.EQ, "a", ())


def test_trees_of_any_depth_compare_hash_and_print():
    def deep():
        tree = col("a") == 0
        for i in range(5000):
            tree = Not(Or((col("a") == i, tree))) if i % 2 else And((tree, col("b") > i))
        return tree

    one, two = deep(), deep()
    assert one == two
    assert hash(one) == hash(two)
    assert len(one.to_sql()) > 50_000
    assert repr(one) == one.to_sql()[: len(repr(one)) - 2] + " …"
    assert And(()).to_sql() == "TRUE"
    assert Or(()).to_sql() == "FALSE"


def test_long_lists_are_cut_in_messages_only():
    listed = col("a").is_in(range(100_000))
    assert repr(listed).endswith("18, 19, … 99,980 more)")
    assert listed.to_sql().endswith("99999)")


def test_expressions_pickle():
    tree = (col("a") >= 3) & Unknown("why") | Constant(None)
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_every_operator_has_one_opposite():
    for op in Op:
        assert op.negated.negated is op
        assert op.negated is not op
