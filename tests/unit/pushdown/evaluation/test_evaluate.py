from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pushdown import (
    And,
    ColumnStatistics,
    Constant,
    ExpressionError,
    Not,
    Or,
    Outcomes,
    bind,
    col,
    evaluate,
    parse_sql,
    restrict,
    simplify,
)
from pushdown.ordering import greater, greater_equal, less, less_equal
from tests.support.work import function_calls


def stats(kind, low, high, nulls=None, rows=None, **more):
    count = len(low)
    return ColumnStatistics(
        pa.array(low, kind),
        pa.array(high, kind),
        pa.array(nulls or [0] * count, pa.int64()),
        pa.array(rows or [10] * count, pa.int64()),
        **more,
    )


def outcomes(text, kind, low, high, **more):
    schema = pa.schema({"a": kind})
    truths = evaluate(bind(parse_sql(text), schema), {"a": stats(kind, low, high, **more)}, len(low))
    flags = zip(truths.can_true, truths.can_false, truths.can_null, strict=True)
    return ["".join(letter for letter, flag in zip("TFN", each, strict=True) if flag) for each in flags]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Files [1, 4], [5, 5], [5, 9], [6, 9]
        ("a = 5", ["F", "T", "TF", "F"]),
        ("a <> 5", ["T", "F", "TF", "T"]),
        ("a < 5", ["T", "F", "F", "F"]),
        ("a <= 5", ["T", "T", "TF", "F"]),
        ("a > 5", ["F", "F", "TF", "T"]),
        ("a >= 5", ["F", "T", "T", "T"]),
        ("a <=> 5", ["F", "T", "TF", "F"]),
        ("a IN (5)", ["F", "T", "TF", "F"]),
        ("a IN (0, 5, 10)", ["F", "T", "TF", "F"]),
        ("a NOT IN (0, 5, 10)", ["T", "F", "TF", "T"]),
        ("a IN (0, 5, NULL)", ["N", "T", "TN", "N"]),
        ("a NOT IN (0, 5, NULL)", ["N", "F", "FN", "N"]),
        ("a BETWEEN 5 AND 9", ["F", "T", "T", "T"]),
        ("a NOT BETWEEN 5 AND 9", ["T", "F", "F", "F"]),
        ("a IS NULL", ["F", "F", "F", "F"]),
        ("a IS NOT NULL", ["T", "T", "T", "T"]),
        ("a < 5 OR a > 5", ["T", "F", "TF", "T"]),
        ("a < 5 AND NULL", ["N", "F", "F", "F"]),
        ("a > 99999999999", ["F", "F", "F", "F"]),
        ("f(a) = 1", ["TFN", "TFN", "TFN", "TFN"]),
        ("f(a) = 1 AND a > 5", ["F", "F", "TFN", "TFN"]),
        ("f(a) = 1 OR a > 5", ["TFN", "TFN", "TFN", "T"]),
        ("NOT (f(a) = 1 AND a > 5)", ["T", "T", "TFN", "TFN"]),
    ],
)
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64(), pa.decimal128(20, 0), pa.decimal128(9, 2)])
def test_outcomes_of_ranges(text, expected, kind):
    low, high = [1, 5, 5, 6], [4, 5, 9, 9]
    if pa.types.is_decimal(kind):
        low, high = [Decimal(x) for x in low], [Decimal(x) for x in high]
    assert outcomes(text, kind, low, high) == expected


def test_nulls_add_null_and_all_null_files_have_nothing_else():
    more = {"nulls": [1, 10, 0], "rows": [10, 10, 10]}
    assert outcomes("a = 5", pa.int64(), [5, None, None], [5, None, None], **more) == ["TN", "N", "TF"]
    assert outcomes("a <=> 5", pa.int64(), [5, None, None], [5, None, None], **more) == ["TF", "F", "TF"]
    assert outcomes("a IN (5, 6)", pa.int64(), [5, None, None], [5, None, None], **more) == ["TN", "N", "TF"]
    assert outcomes("a NOT IN (7, 8)", pa.int64(), [5, None, None], [5, None, None], **more) == ["TN", "N", "TF"]
    assert outcomes("a IS NULL", pa.int64(), [5, None, None], [5, None, None], **more) == ["TF", "T", "F"]


@pytest.mark.parametrize(
    ("low", "high", "nulls", "rows"),
    [
        (9, 1, 0, 10),  # bounds the wrong way round
        (1, 2, 11, 10),  # more nulls than rows
        (1, 2, -1, 10),
        (1, 2, 0, 0),  # no rows, but bounds
        (1, 2, 0, -5),
        (1, 2, 10, 10),  # all null, but bounds
        (None, None, 0, 0),  # no rows, though there is a file
    ],
)
def test_contradictions_are_not_believed(low, high, nulls, rows):
    assert outcomes("a = 5", pa.int64(), [low], [high], nulls=[nulls], rows=[rows])[0][:1] == "T"


def test_literals_of_32_bit_floats_are_seen_as_every_engine_sees_them():
    near = float(np.float32(1.1))
    # Spark compares 64-bit numbers, where no 32-bit number is 1.1; Trino rounds the literal first.
    assert outcomes("a = 1.1", pa.float32(), [near, 1.0, 2.0], [near, 1.05, 3.0]) == ["TF", "F", "F"]
    assert outcomes("a > 1.1", pa.float32(), [near], [near]) == ["TF"]
    assert outcomes("a IN (1.1, 7)", pa.float32(), [near, 7.0], [near, 7.0]) == ["TF", "T"]
    assert outcomes("a = 1.5", pa.float32(), [1.5], [1.5]) == ["T"]
    # 1.1 is rounded up, 1.3 down.
    lower = float(np.float32(1.3))
    assert lower < 1.3
    assert outcomes("a = 1.3", pa.float32(), [lower, 1.0, 1.4], [lower, 1.2, 2.0]) == ["TF", "F", "F"]
    assert outcomes("a < 1.3", pa.float32(), [lower], [lower]) == ["TF"]


def test_zeros_are_seen_as_every_engine_sees_them():
    assert outcomes("a < 0.0", pa.float64(), [0.0, 1.0], [5.0, 5.0]) == ["TF", "F"]
    assert outcomes("a = 0", pa.float64(), [-0.0, 1.0], [5.0, 5.0]) == ["TF", "F"]


def test_text_compares_by_unsigned_bytes():
    # U+E000 is above the surrogates in UTF-16, and below every emoji in UTF-8.
    assert outcomes("a > '\ue000'", pa.string(), ["😀", "a"], ["😀", "ä"]) == ["T", "F"]
    assert outcomes("a = 'é'", pa.string(), ["a"], ["z"]) == ["F"]
    assert outcomes("a < X'80'", pa.binary(), [b"\x7f", b"\x80"], [b"\x7f", b"\xff"]) == ["T", "F"]


def test_long_common_prefixes_do_not_confuse_lists():
    stem = "s" * 40
    texts = ", ".join(f"'{stem}{x}'" for x in "bdf")
    low, high = [stem + x for x in "aceg"], [stem + x for x in "aceg"]
    truths = outcomes(f"a IN ({texts})", pa.string(), [*low, stem + "a"], [*high, stem + "z"])
    assert truths[4] == "TF"
    assert truths[3] == "F"
    assert all("F" in each for each in truths)
    short = outcomes("a IN ('b', 'd', 'f')", pa.string(), list("aceg"), list("acez"))
    assert short == ["F", "F", "F", "F"]
    assert outcomes("a IN ('b', 'd', 'f')", pa.string(), ["ba", "b", "c"], ["cz", "c", "cz"]) == ["F", "TF", "F"]


def test_bounds_from_before_a_type_was_widened():
    schema = pa.schema({"a": pa.int64()})
    bound = bind(parse_sql("a > 5"), schema)
    assert evaluate(bound, {"a": stats(pa.int32(), [1, 6], [4, 9])}, 2).can_true.tolist() == [False, True]
    assert evaluate(bound, {"a": stats(pa.string(), ["1", "6"], ["4", "9"])}, 2).can_true.tolist() == [True, True]
    assert evaluate(bound, {"a": stats(pa.null(), [None], [None])}, 1).can_true.tolist() == [True]


@pytest.mark.parametrize(
    ("own", "column", "low", "high", "literal", "expected"),
    [
        (pa.float32(), pa.float64(), 1.0, 2.0, "5", "F"),
        (pa.large_string(), pa.string(), "a", "b", "'c'", "F"),
        (pa.string(), pa.large_string(), "a", "b", "'c'", "F"),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), "a", "b", "'c'", "F"),
        (pa.int64(), pa.float64(), 1, 2, "5", "F"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), 1, 2, "TIMESTAMP '2020-01-01 00:00:00'", "F"),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), 1, 2, "TIMESTAMP '2020-01-01 00:00:00'", "TF"),
        (pa.int64(), pa.timestamp("us", "UTC"), 1, 2, "TIMESTAMP '2020-01-01 00:00:00'", "TF"),
        (pa.binary(), pa.string(), b"a", b"b", "'c'", "TF"),
        (pa.string(), pa.binary(), "a", "b", "X'63'", "TF"),
        (pa.string(), pa.float64(), "1", "2", "5", "TF"),
        (pa.float64(), pa.int64(), 1.0, 2.0, "5", "TF"),
        (pa.bool_(), pa.int64(), False, True, "5", "TF"),
    ],
)
def test_bounds_of_another_type_count_only_where_they_are_the_same_values(own, column, low, high, literal, expected):
    bound = bind(parse_sql(f"a = {literal}"), pa.schema({"a": column}))
    truths = evaluate(bound, {"a": stats(own, [low], [high])}, 1)
    assert (truths.can_true[0], truths.can_false[0]) == ("T" in expected, True)


def test_bounds_that_are_null_compare_as_false():
    texts = pa.array([b"a", None, b"c"], pa.large_binary())
    for compare, expected in (
        (less, [True, False, False]),
        (less_equal, [True, False, False]),
        (greater, [False, False, True]),
        (greater_equal, [False, False, True]),
    ):
        assert compare(texts, pa.scalar(b"b", pa.large_binary())).tolist() == expected


def test_decimals_of_18_digits_and_more_are_compared_as_numbers():
    most = 10**18 - 1
    for kind in (pa.decimal128(18, 0), pa.decimal128(19, 0), pa.decimal128(38, 0)):
        low, high = [Decimal(-most), Decimal(-1), Decimal(1)], [Decimal(-2), Decimal(1), Decimal(most)]
        assert outcomes("a = 0", kind, low, high) == ["F", "TF", "F"]
        assert outcomes("a < -1", kind, low, high) == ["T", "F", "F"]


def test_statistics_must_fit_together():
    with pytest.raises(ValueError, match="different lengths"):
        ColumnStatistics(pa.array([1]), pa.array([1, 2]), pa.array([0]), pa.array([1]))
    with pytest.raises(ValueError, match="different types"):
        ColumnStatistics(pa.array([1]), pa.array(["a"]), pa.array([0]), pa.array([1]))
    with pytest.raises(ValueError, match="for 1 files, not 2"):
        evaluate(bind(col("a") == 1, pa.schema({"a": pa.int64()})), {"a": stats(pa.int64(), [1], [1])}, 2)
    with pytest.raises(ExpressionError, match="bind the filter"):
        evaluate(col("a") == 1, {}, 1)
    chunked = pa.chunked_array([[1], [2]])
    assert len(ColumnStatistics(chunked, chunked, chunked, chunked)) == 2


def test_restricting_hides_other_columns_and_keeps_the_shape():
    schema = pa.schema({"a": pa.int64(), "p": pa.string()})
    bound = bind(parse_sql("p = 'x' AND a > 5 OR NOT (p <> 'y' OR a = 1)"), schema)
    truths = evaluate(restrict(bound, ["p"]), {"p": stats(pa.string(), ["x", "y", "z"], ["x", "y", "z"])}, 3)
    assert truths.can_true.tolist() == [True, True, False]
    assert not truths.only_true.any()


def test_no_function_is_called_for_each_of_a_hundred_thousand_files():
    count = 100_000
    low = np.arange(count) * 3
    texts = [f"key{i:08}" for i in range(2 * count)]
    statistics = {
        "n": ColumnStatistics(pa.array(low), pa.array(low + 2), pa.array(low * 0), pa.array(low * 0 + 9)),
        "s": ColumnStatistics(pa.array(texts[::2]), pa.array(texts[1::2]), pa.array(low * 0), pa.array(low * 0 + 9)),
    }
    schema = pa.schema({"n": pa.int64(), "s": pa.string()})
    for text in ("n > 5 AND n < 100", "s = 'key00000007'", "s LIKE 'key0000%' OR n IS NULL"):
        bound = bind(parse_sql(text), schema)
        assert function_calls(evaluate, bound, statistics, count) < 5_000, text
    numbers = bind(col("n").is_in(range(0, 300_000, 3)), schema)
    assert function_calls(evaluate, numbers, statistics, count) < 5_000
    assert evaluate(numbers, statistics, count).can_true.sum() == count


@pytest.mark.slow
def test_deep_trees_need_little_memory_and_work():
    schema = pa.schema({"a": pa.int64()})
    tree = col("a") > 0
    for i in range(5000):
        tree = ~((col("a") > i) | tree) if i % 2 else (col("a") < i) & tree
    bound = bind(tree, schema)
    truths = evaluate(bound, {"a": stats(pa.int64(), [1, 6], [4, 9])}, 2)
    smaller = simplify(bound)
    assert function_calls(lambda: simplify(bind(tree, schema))) < 10_000_000  # about 3.5 million
    again = evaluate(smaller, {"a": stats(pa.int64(), [1, 6], [4, 9])}, 2)
    assert (truths.can_true | ~again.can_true).all()


@pytest.mark.parametrize(
    ("text", "with_nan", "without"),
    [
        ("a = 7", "TF", "TF"),
        ("a = 1", "F", "F"),
        ("a <> 1", "T", "T"),
        ("a IN (1, 2)", "F", "F"),
        ("a <=> 1", "F", "F"),
        # Spark: NaN is the greatest number. Trino: no comparison with NaN holds.
        ("a > 1", "TF", "T"),
        ("a >= 1", "TF", "T"),
        ("a < 1", "TF", "F"),
        ("a <= 1", "TF", "F"),
        ("a = cast('NaN' as double)", "TF", "F"),
        ("a <> cast('NaN' as double)", "TF", "T"),
        ("a <=> cast('NaN' as double)", "TF", "F"),
        ("a IN (1, cast('NaN' as double))", "TF", "F"),
        ("a < cast('NaN' as double)", "TF", "TF"),
        ("a >= cast('NaN' as double)", "TF", "TF"),
        ("a > 1 AND a < 100", "TF", "T"),
    ],
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_seen_as_every_engine_sees_it(text, with_nan, without, kind):
    assert outcomes(text, kind, [5.0], [9.0]) == [without]
    assert outcomes(text, kind, [5.0], [9.0], bounds_cover_nan=False) == [with_nan]
    truths = outcomes(text, kind, [5.0, -np.inf, None], [np.inf, 9.0, None])
    assert all(set(with_nan) <= set(each) for each in truths)


def test_one_bound_that_is_nan_spoils_the_other():
    assert outcomes("a > 5", pa.float64(), [1.0, np.nan], [np.nan, 2.0]) == ["TF", "TF"]
    assert outcomes("a < 0", pa.float64(), [1.0, np.nan], [np.nan, 2.0]) == ["TF", "TF"]


def test_no_files_at_all():
    for kind in (pa.int64(), pa.string(), pa.float64(), pa.decimal128(30, 2)):
        assert outcomes("a IS NULL", kind, [], []) == []
        assert outcomes("a = '1' OR a > '2'" if kind == pa.string() else "a = 1 OR a > 2", kind, [], []) == []
        one = ColumnStatistics(pa.nulls(1, kind), pa.nulls(1, kind), pa.array([0]), pa.array([5]))
        literal = "'1'" if kind == pa.string() else "1"
        bound = bind(parse_sql(f"a = {literal} OR a IN ({literal}, NULL)"), pa.schema({"a": kind}))
        assert evaluate(bound, {"a": one}, 1).can_true.tolist() == [True]
    assert outcomes("a IN (1, 2)", pa.int64(), [], []) == []
    assert outcomes("a IN ('x', 'y') OR a LIKE 'z%'", pa.string(), [], []) == []


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_texts_of_which_all_are_null_are_believed_where_the_count_is_certain(kind):
    more = {"nulls": [10, 3], "rows": [10, 10]}
    for certain, expected in ((False, ["TFN", "TFN"]), (True, ["N", "TFN"])):
        truths = outcomes("a = 'x'", kind, [None, None], [None, None], all_null_is_certain=certain, **more)
        assert truths == expected
        taken = stats(kind, [None, None], [None, None], all_null_is_certain=certain, **more).take(np.array([0]))
        assert taken.all_null_is_certain is certain
    # A contradiction is none the more certain.
    assert outcomes("a = 'x'", pa.string(), ["a"], ["a"], nulls=[10], rows=[10], all_null_is_certain=True) == ["TFN"]


def test_a_pattern_that_is_too_long_prunes_by_its_beginning_only():
    text = f"a LIKE 'b{'_' * 200_000}%x'"
    assert outcomes(text, pa.string(), ["b", "c"], ["b", "c"]) == ["TF", "F"]


@pytest.mark.parametrize(
    ("low", "high", "begins", "like"),
    [
        ("a", "az", "F", "F"),
        ("c", "d", "F", "F"),
        ("c", None, "F", "F"),
        (None, "a", "F", "F"),
        ("b", "b", "T", "F"),
        ("b", "bz", "T", "TF"),
        ("ba", "b\U0010ffff", "T", "TF"),
        ("a", "b", "TF", "TF"),
        ("bz", "c", "TF", "TF"),
        ("a", "z", "TF", "TF"),
        ("b", None, "TF", "TF"),
        (None, "b", "TF", "TF"),
        (None, "z", "TF", "TF"),
        (None, None, "TF", "TF"),
    ],
)
def test_outcomes_of_beginnings(low, high, begins, like):
    """Texts that begin with ``b`` lie from ``b`` up to, but not at, ``c``."""
    opposite = {"T": "F", "F": "T"}.get(begins, begins)
    other = {"F": "T"}.get(like, like)
    for nulls, null in (([0], ""), ([3], "N")):
        more = {"nulls": nulls, "rows": [10]}
        kind = pa.string()
        assert outcomes("a LIKE 'b%'", kind, [low], [high], **more) == [begins + null]
        assert outcomes("a NOT LIKE 'b%'", kind, [low], [high], **more) == [opposite + null]
        assert outcomes("a LIKE 'b%x'", kind, [low], [high], **more) == [like + null]
        assert outcomes("a NOT LIKE 'b%x'", kind, [low], [high], **more) == [other + null]


def test_beginnings_in_files_that_are_all_null():
    more = {"nulls": [10], "rows": [10], "all_null_is_certain": True}
    for text in ("a LIKE 'b%'", "a NOT LIKE 'b%'", "a LIKE 'b%x'", "a = 'b'", "a <> 'b'", "a < 'b'", "a > 'b'"):
        assert outcomes(text, pa.string(), [None], [None], **more) == ["N"]
    for text in ("a IN ('b', 'c')", "a NOT IN ('b', 'c')", "a IN ('b', NULL)"):
        assert outcomes(text, pa.string(), [None], [None], **more) == ["N"]


def test_texts_of_which_all_are_said_to_be_null_are_not_believed_by_default():
    assert outcomes("a = 'x'", pa.string(), [None], [None], nulls=[10], rows=[10]) == ["TFN"]


@pytest.mark.parametrize("wide", [0, 1])
def test_a_bound_that_does_not_fit_the_columns_type_hides_the_other(wide):
    bounds = [Decimal(5), Decimal(7)]
    bounds[wide] = Decimal(10) ** 30 * (2 * wide - 1)
    low, high = (pa.array([bound], pa.decimal128(38, 0)) for bound in bounds)
    counts = pa.array([0], pa.int64()), pa.array([10], pa.int64())
    bound = bind(parse_sql("a = 9"), pa.schema({"a": pa.decimal128(9, 0)}))
    assert evaluate(bound, {"a": ColumnStatistics(low, high, *counts)}, 1).can_true.tolist() == [True]


def test_only_zero_on_both_sides_hides_nan():
    assert outcomes("a = 7", pa.float64(), [0.0, -5.0, 0.0, -0.0], [5.0, 0.0, 0.0, 0.0]) == ["F", "F", "TF", "TF"]


def test_only_true_is_true_and_nothing_else():
    cases = [[letter in text for text in ("T", "TF", "TN", "TFN", "F", "N", "FN", "")] for letter in "TFN"]
    assert Outcomes(*(np.array(case) for case in cases)).only_true.tolist() == [True] + [False] * 7


def test_what_is_known_in_part_is_used_in_part():
    # One bound where all rows are said to be null contradicts that as well.
    for low, high in ((1, None), (None, 9)):
        assert outcomes("a = 5", pa.int64(), [low], [high], nulls=[10], rows=[10]) == ["TFN"]
    # Without a count of rows the nulls are still counted, and are not all there is.
    assert outcomes("a = 5", pa.int64(), [5], [5], nulls=[3], rows=[None]) == ["TN"]
    assert outcomes("a IS NOT NULL", pa.int64(), [None], [None], nulls=[0], rows=[None]) == ["T"]
    assert outcomes("a IS NULL", pa.int64(), [None], [None], nulls=[None], rows=[10]) == ["TF"]
    # What stands in the place of a bound that is not known is compared with nothing.
    assert outcomes("a = 7", pa.int64(), [None, 9], [-5, None]) == ["F", "F"]
    assert outcomes("a < 1", pa.float64(), [1.0, None], [None, 5.0]) == ["TF", "TF"]
    assert outcomes("a >= 9", pa.float64(), [1.0, None], [None, 5.0]) == ["TF", "TF"]


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        (pa.int64(), 0, 0, "N"),
        (pa.int32(), 0, 0, "N"),
        (pa.int64(), 0, 9, "TFN"),
        (pa.int64(), -9, 0, "TFN"),
        (pa.int64(), 1, 1, "TFN"),
        (pa.int64(), None, 0, "TFN"),
        (pa.decimal128(9, 0), 0, 0, "TFN"),
        (pa.date32(), 0, 0, "TFN"),
        (pa.string(), "0", "0", "TFN"),
    ],
)
def test_zeros_are_the_bounds_of_integer_columns_without_values_only(kind, low, high, expected):
    literal = {pa.date32(): "DATE '1970-01-05'", pa.string(): "'5'"}.get(kind, "5")
    truths = outcomes(f"a = {literal}", kind, [low], [high], nulls=[10], rows=[10], all_null_is_certain=True)
    assert truths == [expected]


def test_branches_without_children_and_constants():
    for expression, expected in (
        (And([]), [True, False, False]),
        (Or([]), [False, True, False]),
        (Not(And([])), [False, True, False]),
        (Constant(value=True), [True, False, False]),
        (Constant(value=False), [False, True, False]),
        (Constant(value=None), [False, False, True]),
    ):
        truths = evaluate(expression, {}, 1)
        assert [truths.can_true[0], truths.can_false[0], truths.can_null[0]] == expected


def test_64_bit_floats_are_not_rounded():
    assert outcomes("a = 1.1", pa.float64(), [1.1, 1.0], [1.1, 1.2]) == ["T", "TF"]
    near = float(np.float32(1.1))
    assert outcomes("a = 1.1", pa.float64(), [near], [near]) == ["F"]
    infinite = "a = cast('Infinity' as double)"
    assert outcomes(infinite, pa.float32(), [1.0, float("inf")], [2.0, float("inf")]) == ["F", "TF"]
