"""Statistics that Apache Hudi merged over row groups of which one holds a NaN, or a text too long for statistics."""

import numpy as np
import pyarrow as pa
import pytest

from catalog import Table
from catalog.snapshots.scan_options import BLOCK_SIZE, FOOTER_LIMIT
from catalog.statistics.merged_ranges import DEFAULT_BLOCK_SIZE, RowGroupSize, without_merged_ranges
from catalog.statistics.seen_row_groups import SeenRowGroups
from table_format.config.table_config import update_table_config
from table_format.metadata_table.column_stats import typed_schema
from tests.unit.conftest import unpacked

SMALL = {BLOCK_SIZE: "4096"}
#: What Apache's own skipping loses, and how many rows match.
LOST = {
    "x = 310.0": 1,
    "x > 100": 99,
    "f >= 310.0": 97,
    "x > 1000000": 1,
    "s = 'zebra'": 1,
    "s > 'middle'": 2,
    "s <> 'middle'": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpacked("row_groups.tar.xz", tmp_path_factory)


@pytest.mark.parametrize("version", ["v6", "v9"])
@pytest.mark.parametrize("footers", ["0", "1000"])
def test_what_apache_loses_is_found(folder: str, version: str, footers: str) -> None:
    table = Table.open(f"{folder}/{version}")
    for where, count in LOST.items():
        for told in ({}, SMALL):
            scan = table.scan(where, options={**told, FOOTER_LIMIT: footers})
            assert len(scan.plan()) == 1
            assert scan.to_arrow().num_rows == count
            assert scan.count() == count


@pytest.mark.parametrize("version", ["v6", "v9"])
def test_other_columns_are_pruned_as_before(folder: str, version: str) -> None:
    table = Table.open(f"{folder}/{version}")
    for where in ("n > 999", "n < 0", "id < '0'", "ts <> 1", "n IS NULL"):
        assert len(table.scan(where, options={**SMALL, FOOTER_LIMIT: "0"}).plan()) == 0, where


def test_row_groups_by_the_tables_own_property(
    folder: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeenRowGroups, "least", lambda self, files: None)
    table = Table.open(f"{unpacked('row_groups.tar.xz', tmp_path_factory)}/v6")
    update_table_config(table.client.storage, {BLOCK_SIZE: "4096"})
    reopened = Table.open(table.client.storage.full_uri(""))
    assert all(len(reopened.scan(where).plan()) == 1 for where in LOST)
    whole = {BLOCK_SIZE: str(DEFAULT_BLOCK_SIZE)}
    assert not any(len(reopened.scan(where, options=whole).plan()) for where in LOST)


def test_scans_with_another_size_share_a_snapshot(folder: str) -> None:
    table = Table.open(f"{folder}/v6")
    plain, small = table.scan("x > 100"), table.scan("x > 100", options=SMALL)
    assert plain.snapshot is table.snapshot()
    assert small.snapshot is table.scan("x > 1", options=SMALL).snapshot
    assert [len(small.plan()), len(plain.plan()), len(small.plan())] == [1, 1, 1]
    assert (small.snapshot.block_size, plain.snapshot.block_size) == (4096, DEFAULT_BLOCK_SIZE)


def entries(kind: pa.DataType, *rows: tuple[object, ...]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(typed_schema(kind).names, (f"f{at}", *row), strict=True)) for at, row in enumerate(rows)],
        typed_schema(kind),
    )


def left(kind: pa.DataType, *rows: tuple[object, ...], size: int = 10**9) -> list[int]:
    """Which statistics of files of that size are trusted."""
    statistics = entries(kind, *rows)
    files = pa.table({"file_name": [*statistics["file_name"].to_pylist(), None], "size": [size] * len(rows) + [0]})
    limit = RowGroupSize.of(pa.schema([("a", kind)]), DEFAULT_BLOCK_SIZE)
    kept = without_merged_ranges(statistics, kind, files, limit)
    return [int(name[1:]) for name in kept["file_name"].to_pylist()]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_float_ranges_around_zero(kind: pa.DataType) -> None:
    counts = (0, 10)
    ranges = [(-1.0, 1.0), (0.0, 5.0), (-5.0, -0.0), (1.0, 5.0), (-5.0, -1.0), (None, 5.0), (1.0, None), (None, -1.0)]
    rows = [(*bounds, *counts) for bounds in ranges]
    assert left(kind, *rows) == [3, 4, 6, 7]
    assert left(kind, *rows, size=10**6) == [*range(8)]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_texts_beside_nulls(kind: pa.DataType) -> None:
    low, high = ("a", "b") if pa.types.is_string(kind) else (b"a", b"b")
    assert left(kind, (low, high, 0, 10), (low, high, 1, 10), (low, high, None, 10), (low, None, 3, 10)) == [0]


def test_a_row_group_that_was_seen_counts_as_one_that_was_told() -> None:
    statistics = entries(pa.float64(), (-1.0, 1.0, 0, 10), (1.0, 2.0, 0, 10))
    files = pa.table({"file_name": ["f0", "f1"], "size": [10**6, 10**6]})
    limit = RowGroupSize.of(pa.schema([("a", pa.float64())]), DEFAULT_BLOCK_SIZE)
    for seen, kept in [(None, 2), (10**9, 2), (10**6, 1), (1, 1)]:
        assert without_merged_ranges(statistics, pa.float64(), files, limit, lambda _, s=seen: s).num_rows == kept
    never = without_merged_ranges(statistics.slice(1), pa.float64(), files, limit, lambda _: pytest.fail("was asked"))
    assert never.num_rows == 1


def test_other_types_have_no_such_statistics() -> None:
    assert left(pa.int64(), (-1, 1, 5, 10), (None, None, 10, 10)) == [0, 1]


def test_statistics_of_log_files_are_of_no_row_groups() -> None:
    statistics = entries(pa.float64(), (-1.0, 1.0, 0, 10))
    files = pa.table({"file_name": ["other"], "size": [10**9]})
    limit = RowGroupSize.of(pa.schema([("a", pa.float64())]), DEFAULT_BLOCK_SIZE)
    assert without_merged_ranges(statistics, pa.float64(), files, limit).num_rows == 1


def several(schema: pa.Schema, size: int, rows: int) -> bool:
    return bool(RowGroupSize.of(schema, DEFAULT_BLOCK_SIZE).may_be_several(np.array([size]), np.array([rows]))[0])


def test_from_which_size_on_there_may_be_several() -> None:
    narrow = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert [several(narrow, size, 1000) for size in (94_371_839, 94_371_840)] == [False, True]
    # Pages that are not complete count as they are, and may be compressed to next to nothing.
    texts = pa.schema([(f"s{n}", pa.string()) for n in range(100)])
    assert several(texts, 1_000, 1_000)
    numbers = pa.schema([(f"n{n}", pa.struct([("a", pa.int64()), ("b", pa.float32())])) for n in range(50)])
    assert [several(numbers, 90_000_000, rows) for rows in (10_000, 10_000_000)] == [False, True]
    lists = pa.schema([("l", pa.list_(pa.struct([(f"n{n}", pa.int64()) for n in range(100)])))])
    assert several(lists, 1_000, 10)
