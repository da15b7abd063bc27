"""The cases over which PyIceberg tests its inclusive metrics evaluator: we read no file that it skips, but for two.

The file holds ids from 30 to 79. Of columns whose statistics say nothing, all files are read.
"""

import pyarrow as pa
import pytest

from pushdown import ColumnStatistics, UnknownColumnError, bind, col, evaluate, parse_sql, simplify

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "no_stats": pa.int32(),
        "required": pa.string(),
        "all_nulls": pa.string(),
        "some_nulls": pa.string(),
        "no_nulls": pa.string(),
        "all_nulls_number": pa.float64(),
        "nans": pa.float64(),
        "some_empty": pa.string(),
        "truncated": pa.string(),
    }
)


def one(low, high, nulls, kind=None, rows=50):
    counts = pa.array([nulls], pa.int64()), pa.array([rows], pa.int64())
    return ColumnStatistics(pa.array([low], kind), pa.array([high], kind), *counts, all_null_is_certain=True)


STATISTICS = {
    "id": one(30, 79, 0, pa.int32()),
    "all_nulls": one(None, None, 50, pa.string()),
    "some_nulls": one("b", "e", 10, pa.string()),
    "no_nulls": one("", "", 0, pa.string()),
    "all_nulls_number": one(None, None, 50, pa.float64()),
    "nans": one(float("nan"), float("nan"), 0, pa.float64()),
    "some_empty": one("", "房东整租霍营小区二层两居室", 0, pa.string()),
    "truncated": one("abc", "abd", 0, pa.string()),
}


def reads(expression) -> bool:
    bound = bind(parse_sql(expression) if isinstance(expression, str) else expression, SCHEMA)
    plain = evaluate(bound, STATISTICS, 1).can_true.tolist()
    smaller = evaluate(simplify(bound), STATISTICS, 1).can_true.tolist()
    assert plain[0] or not smaller[0]
    return smaller[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # all nulls, some, none
        ("all_nulls IS NOT NULL", False),
        ("some_nulls IS NOT NULL", True),
        ("no_nulls IS NOT NULL", True),
        ("all_nulls IS NULL", True),
        ("some_nulls IS NULL", True),
        ("no_nulls IS NULL", False),
        ("all_nulls_number IS NULL", True),
        ("all_nulls_number IS NOT NULL", False),
        # every comparison with a column that is all null
        ("all_nulls < 'a'", False),
        ("all_nulls <= 'a'", False),
        ("all_nulls > 'a'", False),
        ("all_nulls >= 'a'", False),
        ("all_nulls = 'a'", False),
        ("all_nulls LIKE 'a%'", False),
        ("all_nulls IN ('abc', 'def')", False),
        ("all_nulls_number < 1", False),
        ("all_nulls_number = 1", False),
        # no statistics
        ("no_stats < 5", True),
        ("no_stats <= 5", True),
        ("no_stats = 5", True),
        ("no_stats > 5", True),
        ("no_stats >= 5", True),
        ("no_stats <> 5", True),
        ("no_stats IS NULL", True),
        ("no_stats IS NOT NULL", True),
        ("no_stats IN (1, 2)", True),
        ("required > 'a'", True),
        # NaN bounds
        ("nans < 1", True),
        ("nans >= 1", True),
        ("nans = 1", True),
        ("nans IS NULL", False),
        # NOT, AND, OR
        ("NOT id < 5", True),
        ("NOT id > 5", False),
        ("id < 5 AND id >= 0", False),
        ("id > 5 AND id <= 30", True),
        ("id < 5 OR id >= 80", False),
        ("id < 5 OR id >= 60", True),
        # the edges
        ("id < 5", False),
        ("id < 30", False),
        ("id < 31", True),
        ("id < 79", True),
        ("id <= 5", False),
        ("id <= 29", False),
        ("id <= 30", True),
        ("id <= 79", True),
        ("id > 85", False),
        ("id > 79", False),
        ("id > 78", True),
        ("id > 75", True),
        ("id >= 85", False),
        ("id >= 80", False),
        ("id >= 79", True),
        ("id >= 75", True),
        ("id = 5", False),
        ("id = 29", False),
        ("id = 30", True),
        ("id = 75", True),
        ("id = 79", True),
        ("id = 80", False),
        ("id = 85", False),
        ("id <> 5", True),
        ("id <> 30", True),
        ("id <> 75", True),
        ("id <> 79", True),
        ("id <> 85", True),
        ("NOT id = 5", True),
        ("NOT id = 30", True),
        ("NOT id = 85", True),
        ("ID <> 5", True),
        # lists
        ("id IN (5, 6)", False),
        ("id IN (28, 29)", False),
        ("id IN (29, 30)", True),
        ("id IN (75, 76)", True),
        ("id IN (79, 80)", True),
        ("id IN (80, 81)", False),
        ("id IN (85, 86)", False),
        ("some_nulls IN ('abc', 'def')", True),
        ("no_nulls IN ('abc', 'def')", False),
        ("id NOT IN (5, 6)", True),
        ("id NOT IN (29, 30)", True),
        ("id NOT IN (75, 76)", True),
        ("id NOT IN (80, 81)", True),
        ("some_nulls NOT IN ('abc', 'def')", True),
        ("no_nulls NOT IN ('abc', 'def')", True),
        # beginnings of texts
        ("some_nulls LIKE 'a%'", False),
        ("some_nulls LIKE 'b%'", True),
        ("some_nulls LIKE 'c%'", True),
        ("some_nulls LIKE 'e%'", True),
        ("some_nulls LIKE 'f%'", False),
        ("some_nulls LIKE 'bb%'", True),
        ("some_nulls LIKE 'ea%'", False),
        ("required LIKE 'a%'", True),
        ("some_empty LIKE '房东整租霍%'", True),
        ("some_empty NOT LIKE '房东整租霍%'", True),
        ("truncated NOT LIKE 'ab%'", False),
        ("truncated NOT LIKE 'abc%'", True),
        ("truncated NOT LIKE 'abcd%'", True),
        ("truncated NOT LIKE 'abcde%'", True),
        ("truncated NOT LIKE 'b%'", True),
        ("some_nulls NOT LIKE 'b%'", True),
        ("required NOT LIKE 'a%'", True),
    ],
)
def test_same_answer(text, expected):
    assert reads(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        # PyIceberg reads a file for any of these.
        "all_nulls <> 'a'",
        "all_nulls NOT IN ('abc', 'def')",
        "all_nulls NOT LIKE 'a%'",
        "no_nulls <> ''",
        "no_nulls NOT IN ('', 'x')",
        "id > 5 AND NULL",
        "id BETWEEN 40 AND 35",
    ],
)
def test_tighter_answers(text):
    assert reads(text) is False


def test_long_lists_are_looked_into():
    """PyIceberg reads every file for a list of more than 200 values."""
    assert not reads(col("id").is_in(range(-500, 30)))
    assert not reads(col("id").is_in([*range(-500, 30), *range(80, 500)]))
    assert reads(col("id").is_in(range(-500, 31)))


def test_a_column_that_is_not_there_is_an_error():
    with pytest.raises(UnknownColumnError):
        reads("missing < 5")
    with pytest.raises(UnknownColumnError):
        bind(parse_sql("ID < 5"), SCHEMA, case_sensitive=True)


@pytest.mark.parametrize("rows", [0, -1])
def test_a_file_said_to_have_no_rows_is_read(rows):
    """PyIceberg skips a file with a record count of 0: a Hudi file has rows, so such a count is not believed."""
    for nulls in (0, -1, None):
        statistics = {"id": one(30, 79, nulls, pa.int32(), rows)}
        for text in ("id = 5", "id IS NULL", "id IS NOT NULL"):
            assert evaluate(bind(parse_sql(text), SCHEMA), statistics, 1).can_true[0]


def test_counts_of_nan_are_not_kept():
    """PyIceberg counts NaN and skips a file of NaN only: Hudi keeps no such count, so the file is read."""
    statistics = {"nans": one(None, None, 0, pa.float64())}
    assert evaluate(bind(parse_sql("nans = 1"), SCHEMA), statistics, 1).can_true[0]
