"""One test for each way in which Apache Hudi's data skipping lost rows (the reports are of its issue tracker)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pushdown import Candidates, CannotPrune, ColumnStatistics, bind, evaluate, key_bindings, parse_sql

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("k", pa.int32()),
    ]
)


def column(kind: pa.DataType, *files: tuple[object, object, int | None, int | None]) -> ColumnStatistics:
    low, high, nulls, rows = zip(*files, strict=True)
    return ColumnStatistics(
        pa.array(low, kind), pa.array(high, kind), pa.array(nulls, pa.int64()), pa.array(rows, pa.int64())
    )


def kept(text: str, **stats: ColumnStatistics) -> list[bool]:
    count = len(next(iter(stats.values())))
    return evaluate(bind(parse_sql(text), SCHEMA), stats, count).can_true.tolist()


def sure(text: str, **stats: ColumnStatistics) -> list[bool]:
    count = len(next(iter(stats.values())))
    return evaluate(bind(parse_sql(text), SCHEMA), stats, count).only_true.tolist()


@pytest.mark.parametrize("text", ["n IS NULL", "n <=> NULL", "NOT (n IS NOT NULL)", "n IS NOT DISTINCT FROM NULL"])
def test_hudi_19645_unknown_null_count_may_hide_nulls(text: str) -> None:
    stats = column(pa.int64(), (1, 2, None, 10), (None, None, None, None), (1, 2, 0, 10), (1, 2, 1, 10), (1, 2, -1, 10))
    assert kept(text, n=stats) == [True, True, False, True, True]


@pytest.mark.parametrize("text", ["n IS NULL", "n = 5", "n IS NOT NULL", "n > 100"])
def test_hudi_19645_a_column_that_files_lack_excludes_nothing(text: str) -> None:
    other = column(pa.int32(), (1, 2, 0, 10))
    assert kept(text, k=other) == [True]
    assert sure(text, k=other) == [False]


@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("condition", ["= 7", "> 7", "< -7", "= cast('NaN' as double)", "<> 0", "IN (7, 8)", "<=> 7"])
def test_hudi_18754_zero_bounds_of_a_float_column_hide_everything(name: str, condition: str) -> None:
    kind = SCHEMA.field(name).type
    stats = column(kind, (0.0, 0.0, 0, 10), (-0.0, 0.0, 0, 10))
    assert kept(f"{name} {condition}", **{name: stats}) == [True, True]
    assert sure(f"{name} >= 0", **{name: stats}) == [False, False]


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (1.0, np.inf), (-np.inf, 1.0), (None, None), (np.nan, np.nan)])
@pytest.mark.parametrize("condition", ["= cast('NaN' as double)", "> 100", ">= 100"])
def test_hudi_18754_infinite_or_no_bounds_may_hide_nan(bounds: tuple[float, float], condition: str) -> None:
    stats = column(pa.float64(), (*bounds, 0, 10))
    assert kept(f"f {condition}", f=stats) == [True]


def test_hudi_18754_footer_bounds_leave_nan_out() -> None:
    parts = [pa.array([1.0]), pa.array([2.0]), pa.array([0]), pa.array([10])]
    footer, index = ColumnStatistics(*parts, bounds_cover_nan=False), ColumnStatistics(*parts)
    assert kept("f > 5", f=footer) == [True]
    assert kept("f > 5", f=index) == [False]
    assert kept("f = 5", f=footer) == [False]
    assert sure("f < 5", f=footer) == [False]
    assert sure("f < 5", f=index) == [True]


@pytest.mark.parametrize(
    "text", ["s = 'x'", "s > ''", "s IS NOT NULL", "s LIKE 'x%'", "s IN ('x', 'y')", "NOT (s = 'y')"]
)
def test_hudi_18755_all_null_text_may_be_omitted_statistics(text: str) -> None:
    stats = column(pa.string(), (None, None, 10, 10))
    assert kept(text, s=stats) == [True]
    assert sure("s IS NULL", s=stats) == [False]


def test_hudi_18755_all_null_numbers_are_believed() -> None:
    stats = column(pa.int64(), (None, None, 10, 10))
    assert kept("n = 1", n=stats) == [False]
    assert kept("n IS NOT NULL", n=stats) == [False]
    assert sure("n IS NULL", n=stats) == [True]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("wa", "xa", True),
        ("xa", "xz", True),
        ("xz", "za", True),
        ("aa", "w\U0010ffff", False),
        ("y", "z", False),
        ("x", "xy", True),
        ("a", "x", True),
        ("", "w", False),
        (None, "a", False),
        ("y", None, False),
        (None, None, True),
    ],
)
@pytest.mark.parametrize("text", ["s LIKE 'x%'", "startswith(s, 'x')", "NOT (s NOT LIKE 'x%')", "s LIKE 'x%y_z'"])
def test_hudi_18791_like_keeps_every_file_with_the_prefix(low: str, high: str, expected: bool, text: str) -> None:
    stats = column(pa.string(), (low, high, 0, 10))
    assert kept(text, s=stats) == [expected]


def test_hudi_18791_like_is_sure_only_of_prefixes() -> None:
    stats = column(pa.string(), ("xa", "xz", 0, 10), ("x", "y", 0, 10), ("xa", "xz", 1, 10))
    assert sure("s LIKE 'x%'", s=stats) == [True, False, False]
    assert sure("s LIKE 'x%z'", s=stats) == [False, False, False]
    edges = column(pa.string(), ("x", "xz", 0, 10), ("x", "x", 0, 10), ("w", "xz", 0, 10))
    assert sure("s LIKE 'x%'", s=edges) == [True, True, False]
    assert sure("s NOT LIKE 'x%'", s=column(pa.string(), ("y", "z", 0, 10), ("a", "w", 0, 10))) == [True, True]
    assert kept("s NOT LIKE 'x%'", s=stats) == [False, True, False]
    assert kept("s NOT LIKE 'x%z'", s=stats) == [True, True, True]


def test_hudi_19487_cannot_prune_is_not_an_empty_set() -> None:
    unbound = key_bindings(bind(parse_sql("n > 5"), SCHEMA), ["id"])
    impossible = key_bindings(bind(parse_sql("id = 'a' AND id = 'b'"), SCHEMA), ["id"])
    assert unbound is None
    assert impossible == []
    assert CannotPrune("the hash field is not bound").reason
    with pytest.raises(TypeError, match="keep"):
        Candidates([True], "a list is not a mask")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["n = 5 AND s = 'x'", "s = 'x' AND n = 5", "n = 5 AND s IS NULL", "n = 5 AND NOT s = 'x'"]
)
def test_hudi_7246_a_column_without_index_beside_one_with(text: str) -> None:
    stats = column(pa.int64(), (1, 9, 0, 10), (6, 9, 0, 10))
    assert kept(text, n=stats) == [True, False]
    assert kept(text.replace(" AND ", " OR "), n=stats) == [True, True]
    assert sure(text.replace(" AND ", " OR "), n=stats) == [False, False]


def test_hudi_7246_a_file_indexed_for_one_column_only() -> None:
    numbers = column(pa.int64(), (5, 5, 0, 10), (5, 5, 0, 10))
    floats = column(pa.float64(), (None, None, None, None), (1.0, 2.0, 0, 10))
    assert kept("n = 5 AND f = 5", n=numbers, f=floats) == [True, False]
    assert kept("n = 6 OR f = 5", n=numbers, f=floats) == [True, False]


@pytest.mark.parametrize("text", ["n IN (1, 2)", "n = 1", "n IN (1, 2) OR id = 'a'", "NOT (n NOT IN (1, 2))"])
def test_hudi_7569_values_of_another_column_are_not_keys(text: str) -> None:
    assert key_bindings(bind(parse_sql(text), SCHEMA), ["id"]) is None


def test_hudi_7569_keys_are_bound_beside_conditions_on_other_columns() -> None:
    bound = bind(parse_sql("id IN ('a', 'b') AND n IN (1, 2)"), SCHEMA)
    assert key_bindings(bound, ["id"]) == [("a",), ("b",)]
