import pyarrow as pa
import pytest

from pushdown import And, InexactFilterError, Not, Or, UnknownColumnError, col, matches, parse_sql


@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        ("a%c", ["ac", "abc", "a\nc", "acb", "AC"], [True, True, True, False, False]),
        ("_", ["", "a", "😀", "ab"], [False, True, True, False]),
        ("%.%", ["a.b", "ab"], [True, False]),
        (r"%\\%", ["a\\b", "ab"], [True, False]),
        (r"\%%\_", ["%_", "%x_", "x_"], [True, True, False]),
        ("%(x)[y]{2}^$|?*+%", ["-(x)[y]{2}^$|?*+-", "x"], [True, False]),
        ("%a\x00%", ["ba\x00b", "ba"], [True, False]),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_like(pattern, texts, expected, kind):
    table = pa.table({"a": pa.array([*texts, None], pa.string()).cast(kind)})
    quoted = pattern.replace("\\", "\\\\")
    assert matches(parse_sql(f"a LIKE '{quoted}'"), table).to_pylist() == [*expected, None]
    opposite = [not value for value in expected]
    assert matches(parse_sql(f"a NOT LIKE '{quoted}'"), table).to_pylist() == [*opposite, None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)])
def test_binary_of_all_kinds(kind):
    table = pa.table({"a": pa.array([b"aa", b"\xff\x00", None], kind)})
    assert matches(parse_sql("a > X'7F'"), table).to_pylist() == [False, True, None]
    assert matches(parse_sql("a IN (X'6161', X'00')"), table).to_pylist() == [True, False, None]


def test_chunks_and_empty_tables():
    chunked = pa.table({"a": pa.chunked_array([[1, None], [], [3]], pa.int64())})
    assert matches(parse_sql("a > 1 OR a IS NULL"), chunked).to_pylist() == [False, True, True]
    assert matches(parse_sql("a > 1"), chunked.slice(0, 0)).to_pylist() == []
    assert matches(parse_sql("TRUE"), chunked).to_pylist() == [True] * 3
    assert matches(parse_sql("a > 1"), chunked.slice(1, 2)).to_pylist() == [None, True]


def test_fields_of_null_structs_are_null():
    inner = pa.array([1, 2, 3], pa.int32())
    hidden = pa.StructArray.from_arrays([inner], names=["x"], mask=pa.array([False, True, False]))
    table = pa.table({"s": hidden})
    assert matches(parse_sql("s.x >= 1"), table).to_pylist() == [True, None, True]
    assert matches(parse_sql("s.x IS NULL"), table).to_pylist() == [False, True, False]


def test_an_unknown_part_is_refused_wherever_it_stands():
    table = pa.table({"a": [1]})
    for text in ("upper(a) = 'x'", "a = 1 OR f(a)", "NOT (a = 2 AND f(a))"):
        with pytest.raises(InexactFilterError, match=r"f\(a\)|upper"):
            matches(parse_sql(text), table)
    with pytest.raises(UnknownColumnError):
        matches(parse_sql("b = 1"), table)


def test_times_beyond_pythons_years():
    far = pa.array([2**62, -(2**62), None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"at": far, "day": pa.array([2**30, -(2**30), None], pa.int32()).cast(pa.date32())})
    assert matches(parse_sql("at > '2020-01-01'"), table).to_pylist() == [True, False, None]
    assert matches(parse_sql("day > '2020-01-01'"), table).to_pylist() == [True, False, None]


def test_columns_that_differ_in_case_are_two():
    table = pa.table({"a": [1, 2], "A": [2, 1]})
    assert matches(col("a") == 1, table, case_sensitive=True).to_pylist() == [True, False]
    assert matches(col("A") == 1, table, case_sensitive=True).to_pylist() == [False, True]


def test_branches_without_children():
    table = pa.table({"a": [1, 2]})
    for expression, expected in ((And([]), True), (Or([]), False), (Not(And([])), False), (Not(Or([])), True)):
        assert matches(expression, table).to_pylist() == [expected] * 2


def test_views_of_texts_and_bytes():
    texts = pa.array(["x", "y", None]).cast(pa.string_view())
    table = pa.table({"s": texts, "b": pa.array([b"x", None, b"z"]).cast(pa.binary_view())})
    assert matches(parse_sql("s IN ('y', 'z') OR s LIKE '_z'"), table).to_pylist() == [False, True, None]
    assert matches(parse_sql("s < 'y' AND s NOT LIKE 'y%'"), table).to_pylist() == [True, False, None]
    assert matches(parse_sql("b IS NULL"), table).to_pylist() == [False, True, False]


def test_lists_with_nulls_and_nan():
    nan = float("nan")
    numbers = pa.table({"a": [1.0, 2.0, nan, None]})
    assert matches(col("a").is_in([1.0, nan]), numbers).to_pylist() == [True, False, True, None]
    assert matches(col("a").is_in([1.0, 7.0]), numbers).to_pylist() == [True, False, False, None]
    assert matches(col("a") < nan, numbers).to_pylist() == [True, True, False, None]
    assert matches(col("a") >= nan, numbers).to_pylist() == [False, False, True, None]
    whole = pa.table({"a": [1, 2, None]})
    assert matches(parse_sql("A IN (1, NULL)"), whole).to_pylist() == [True, None, None]
    assert matches(parse_sql("A NOT IN (1, NULL)"), whole).to_pylist() == [False, None, None]


@pytest.mark.parametrize("text", ["a LIKE '{pattern}%x'", "upper(a) LIKE '{pattern}%x'"])
def test_a_pattern_that_is_too_long_is_refused(text):
    table = pa.table({"a": ["x"]})
    with pytest.raises(InexactFilterError, match="200,002 characters"):
        matches(parse_sql(text.format(pattern="_" * 200_000)), table)
