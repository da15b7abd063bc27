"""The table of operators against rows, and against each engine's order of NaN."""

import pyarrow as pa
import pytest

from pushdown import Op, Predicate, matches
from pushdown.evaluation.evaluate import TABLE, F, N, T, Truth, negated

LETTERS = {True: T, False: F, None: N}
TEXT_OPS = {Op.LIKE, Op.STARTS_WITH}


def truths(op: Op, literal: object, values: list) -> list[Truth]:
    rows = matches(Predicate(op, "a", (literal,)), pa.table({"a": values})).to_pylist()
    return [LETTERS[truth] for truth in rows]


@pytest.mark.parametrize("op", [op for op in TABLE if op not in TEXT_OPS])
def test_comparisons(op):
    row = TABLE[op]
    assert truths(op, 5, [4, 5, 6, None]) == [row.below, row.at, row.above, row.null]


@pytest.mark.parametrize("op", sorted(TEXT_OPS, key=str))
def test_beginnings(op):
    row = TABLE[op]
    literal = "b_%" if op is Op.LIKE else "b"
    below, short, long, above, null = truths(op, literal, ["a", "b", "bx", "c", None])
    assert (below, short | long, above, null) == (row.below, row.at, row.above, row.null)


@pytest.mark.parametrize("op", [op for op in TABLE if op not in TEXT_OPS])
def test_nan_is_greatest_or_nothing(op):
    """Spark: NaN is above every number. Trino, and Hive's vectorised operators: no comparison with it holds."""
    row = TABLE[op]
    assert row.nan == truths(op, 5.0, [float("nan")])[0] | F | (T if op in {Op.LT, Op.LE} else F)


@pytest.mark.parametrize("op", [op for op in Op if op not in {Op.IS_NULL, Op.NOT_NULL}])
def test_every_operator_or_its_negation_is_in_the_table(op):
    assert op in TABLE or op.negated in TABLE


def test_negation():
    assert [negated(truth) for truth in (T, F, N, T | N, F | N, T | F, Truth(0))] == [
        F,
        T,
        N,
        F | N,
        T | N,
        T | F,
        Truth(0),
    ]
