"""Ways in which data skipping has lost rows in Apache Hudi, each on a table that Apache wrote."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from catalog import Table
from pushdown import HudiExpression, col, matches
from tests.unit.conftest import GoldenTable

LONG = "x" * 1200


def check(
    table: Table,
    condition: HudiExpression,
    options: dict[str, str] | None = None,
    whole: pa.Table | None = None,
) -> int:
    """Rows that meet a condition; `whole` has all rows of the table, where a test has read them already."""
    if whole is None:
        whole = table.scan().to_arrow()
    read = table.scan(condition, options=options).to_arrow()
    wanted = whole.filter(matches(condition, whole))
    assert sorted(map(repr, read.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    return int(wanted.num_rows)


@pytest.mark.parametrize("condition", [col("added_s").is_null(), col("added_s").eq_null_safe(None)])
def test_null_of_a_column_added_later(golden: Callable[[str], GoldenTable], condition: HudiExpression) -> None:
    # H#19645: files whose null count is unknown
    assert check(golden("v6_0150__bkt_evolve").open(), condition) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v6_0150__edge_stats", "v6_1200__edge_stats"])
@pytest.mark.parametrize("column", ["f", "d"])
def test_one_nan_hides_no_row(golden: Callable[[str], GoldenTable], name: str, column: str) -> None:
    # H#18754: Parquet leaves min = max = 0.0 where a chunk holds NaN
    table = golden(name).open()
    whole = table.scan().to_arrow()
    for value in {*whole[column].to_pylist()} - {None}:
        assert check(table, col(column) == value, whole=whole) > 0
        check(table, col(column) > value, whole=whole)
        check(table, col(column) <= value, whole=whole)


@pytest.mark.parametrize("name", ["v6_0150__edge_stats", "v6_1200__edge_stats"])
def test_texts_too_long_for_statistics(golden: Callable[[str], GoldenTable], name: str) -> None:
    # H#18755: Parquet leaves bounds of long values out, and the index says that all rows are null
    table = golden(name).open()
    assert check(table, col("s") == LONG) > 0
    assert check(table, col("s").starts_with("xx")) > 0
    assert check(table, col("s").is_null()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v6_0150__bkt_np_types", "v6_1200__edge_stats", "v6_0150__bkt_hive"])
def test_prefixes(golden: Callable[[str], GoldenTable], name: str) -> None:
    # H#18791: LIKE 'x%' taken for min <= 'x' <= max
    table = golden(name).open()
    whole = table.scan().to_arrow()
    texts = whole["s"].to_pylist()
    for text in sorted({value[:1] for value in texts if value} | {value[:2] for value in texts if value})[::3]:
        assert check(table, col("s").starts_with(text), whole=whole) > 0


def test_no_bound_hash_field_is_no_empty_plan(golden: Callable[[str], GoldenTable]) -> None:
    # H#19487: "cannot prune" taken for an empty set of buckets
    golden_table = golden("v6_1200__bkt_complex")
    assert check(golden_table.open(), col("i") >= 0, golden_table.scan_options) > 0
    assert check(golden_table.open(), col("kb").is_null() | (col("i") >= 0), golden_table.scan_options) > 0


def test_indexed_and_unindexed_columns_together(golden: Callable[[str], GoldenTable]) -> None:
    # HUDI-7246: statistics of ka, kb, i, d and dec18 only
    table = golden("v6_1200__bkt_complex").open()
    row = next(row for row in table.scan().to_arrow().to_pylist() if row["i"] is not None and row["l"] is not None)
    assert check(table, (col("i") == row["i"]) & (col("l") == row["l"])) > 0
    assert check(table, (col("i") == row["i"]) | (col("l") == row["l"])) > 0
    assert check(table, (col("i") == row["i"]) & (col("l") == row["l"]), {"hoodie.catalog.scan.footer.limit": "0"}) > 0


def test_lists_on_other_columns_than_the_key(golden: Callable[[str], GoldenTable]) -> None:
    # HUDI-7569: IN on another column taken for record keys
    table = golden("v6_1200__rli_part").open()
    values = [value for value in table.scan(columns=["i"]).to_arrow()["i"].to_pylist() if value is not None]
    assert check(table, col("i").is_in(values[:3])) >= 3


def test_files_missing_from_the_index_after_a_restore(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_restore").open()
    whole: pa.Table = table.scan().to_arrow()
    for value in whole["n"].to_pylist():
        if value is not None:
            assert check(table, col("n") == value, whole=whole) > 0


def test_fields_of_structs(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_np_types").open()
    values = [row["st"]["a"] for row in table.scan(columns=["st"]).to_arrow().to_pylist() if row["st"]]
    for value in [value for value in values if value is not None][:5]:
        assert check(table, col("st.a") == value) > 0
    assert check(table, col("st.a").is_null()) > 0
    assert check(table, col("st.c.x").is_null()) > 0
    assert check(table, col("added_st.k").is_null()) if "added_st" in table.schema.names else True
