"""Splits: the residual filter of each, files divided by row groups, batches."""

import itertools
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from catalog.rows.json_rows import json_lines
from catalog.rows.slice_rows import slice_batches
from catalog.snapshots.scan_options import SPLIT_SIZE
from catalog.splits.file_splits import SPLIT_FIELDS
from catalog.splits.residuals import NOTHING, Residuals
from catalog.splits.splitter import SplitRules, Splitter
from pushdown import Unknown, bind, col, matches, parse_sql
from pushdown.evaluation.statistics import ColumnStatistics
from tests.support.local_writes import LocalTable
from tests.unit.conftest import GoldenTable


def by_partition(values: list[Any], kind: pa.DataType) -> ColumnStatistics:
    known = pa.array(values, kind)
    return ColumnStatistics(
        lower=known,
        upper=known,
        null_count=pa.array([0 if value is not None else None for value in values], pa.int64()),
        row_count=pa.array([1] * len(values), pa.int64()),
    )


def residual_texts(condition: str, parts: list[Any]) -> list[str | None]:
    schema = pa.schema([("p", pa.int32()), ("v", pa.int64())])
    residuals = Residuals(bind(parse_sql(condition), schema), {"p": by_partition(parts, pa.int32())}, len(parts))
    numbers = residuals.numbers(pa.array(range(len(parts))).to_numpy(), pa.array([False] * len(parts)).to_numpy(False))
    expressions = [residuals.expression(number) for number in numbers.tolist()]
    return [None if one is None else one.to_sql() for one in expressions]


@pytest.mark.parametrize(
    ("condition", "residuals"),
    [
        ("p = 1", [None, "FALSE", "p = 1"]),
        ("p = 1 AND v > 5", ["v > 5", "FALSE", "p = 1 AND v > 5"]),
        ("p = 1 OR v > 5", [None, "v > 5", "p = 1 OR v > 5"]),
        ("(p = 1 AND v > 5) OR (p = 2 AND v < 3)", ["v > 5", "v < 3", "(p = 1 AND v > 5) OR (p = 2 AND v < 3)"]),
        ("v > 5", ["v > 5"] * 3),
        ("p IS NOT NULL", [None, None, "p IS NOT NULL"]),
        ("coalesce(v, 1) = 2 AND p = 1", ["coalesce(v, 1) = 2", "FALSE", "coalesce(v, 1) = 2 AND p = 1"]),
        ("coalesce(v, 1) = 2 OR p = 1", [None, "coalesce(v, 1) = 2", "coalesce(v, 1) = 2 OR p = 1"]),
        ("v % 2 = 1 AND p % 2 = 1", ["(v % 2) = 1", "FALSE", "(v % 2) = 1 AND (p % 2) = 1"]),
    ],
)
def test_partitions_answer_their_part_of_the_filter(condition: str, residuals: list[str | None]) -> None:
    assert residual_texts(condition, [1, 2, None]) == residuals


def test_partitions_alike_share_a_residual() -> None:
    schema = pa.schema([("p", pa.int32()), ("x", pa.int64())])
    expression = bind((col("p") > 10) & (col("x") == 1), schema)
    residuals = Residuals(expression, {"p": by_partition(list(range(100)), pa.int32())}, 100)
    numbers = residuals.numbers(pa.array(range(100)).to_numpy(), (pa.array(range(100)).to_numpy() == 50))
    assert len(set(numbers.tolist())) == 3
    assert numbers[50] == NOTHING
    assert residuals.expression(int(numbers[60])) == bind(col("x") == 1, schema)


def test_without_a_filter_or_partitions_there_is_nothing_to_fold() -> None:
    assert Residuals(None, {}, 0).expression(NOTHING) is None
    schema = pa.schema([("x", pa.int64())])
    expression = bind(col("x") == 1, schema)
    residuals = Residuals(expression, {}, 1)
    numbers = residuals.numbers(pa.array([0]).to_numpy(), pa.array([False]).to_numpy(False))
    assert residuals.expression(int(numbers[0])) == expression


@pytest.mark.parametrize("name", ["v6_0150__bkt_hive", "v6_1200__bkt_datepart", "v6_0150__bkt_complex"])
def test_residuals_select_the_rows_that_the_filter_selects(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name).open()
    field = table.config.partition_fields[0]
    rows = table.scan().to_arrow()
    for value in {*rows[field].to_pylist()} - {None}:
        condition = ((col(field) == value) & col("_hoodie_record_key").is_not_null()) | (col(field) < value)
        wanted = rows.filter(matches(condition, rows))
        tables = []
        for split in table.scan(condition).plan().splits:
            inside = rows.filter(pa.compute.equal(rows["_hoodie_file_name"], split.file_name))
            tables.append(inside if split.residual is None else inside.filter(matches(split.residual, inside)))
        assert sorted(json_lines(pa.concat_tables([rows.slice(0, 0), *tables]))) == sorted(json_lines(wanted))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two partitions, one file each, with many small row groups."""
    path = str(tmp_path_factory.mktemp("large"))
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("text", pa.string())])
    options = {
        "hoodie.table.name": "large",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.parquet.block.size": "4096",
    }
    table = LocalTable.create(path, schema, options)
    keys = range(10_000, 30_000)
    rows = {"k": list(keys), "p": [key % 2 for key in keys], "text": [f"text {key}" for key in keys]}
    table.write("bulk_insert", pa.table(rows, schema))
    return Table.open(path)


def test_large_files_are_divided_by_row_groups(large: Table) -> None:
    plan = large.scan(options={SPLIT_SIZE: "25000"}).plan()
    splits = list(plan.splits)
    assert len(plan) == 2
    assert len(splits) == len(plan.splits) > 2
    assert sum(split.record_count or 0 for split in splits) == 20_000
    for path in {split.path for split in splits}:
        parts = [split for split in splits if split.path == path]
        metadata = pq.read_metadata(path.removeprefix("file:"))
        assert [group for part in parts for group in part.row_groups] == list(range(metadata.num_row_groups))
        assert metadata.num_row_groups > len(parts)
        for before, after in itertools.pairwise(parts):
            assert before.start + before.length <= after.start
        for part in parts:
            assert part.length <= 25_000 or len(part.row_groups) == 1
            assert part.record_count == sum(metadata.row_group(group).num_rows for group in part.row_groups)
            assert part.fully_matching
            assert part.residual is None
            # readers that go by the middle of a row group find the same ones
            for group in range(metadata.num_row_groups):
                middle = _middle(metadata.row_group(group))
                assert (part.start <= middle < part.start + part.length) == (group in part.row_groups)


@pytest.mark.parametrize("most", [777, 25_000, 1 << 20])
def test_files_that_are_cut_without_a_look_give_each_row_once(large: Table, most: int) -> None:
    """Each part was read whole where the service reads it, as of columns whose type changed."""
    snapshot = large.snapshot()
    storage, slices = snapshot.client.storage, snapshot.file_slices(snapshot.live_rows)
    parts = Splitter(SplitRules.of_server(0)).divide(storage, slices, [None] * len(slices), most)
    assert all(part.row_groups is None for of_slice in parts for part in of_slice)
    read = [rows for of_slice in parts for part in of_slice for _, rows in slice_batches(snapshot, part, ["k"])]
    assert sorted(pa.concat_tables(read)["k"].to_pylist()) == [*range(10_000, 30_000)]


def _middle(row_group: Any) -> float:
    chunk = row_group.column(0)
    first = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
    return first + sum(row_group.column(i).total_compressed_size for i in range(row_group.num_columns)) / 2


def test_row_groups_that_cannot_match_are_left_out(large: Table) -> None:
    condition = "p = 0 AND k >= 15000 AND k < 20000"
    splits = list(large.scan(condition, options={SPLIT_SIZE: "1"}).plan().splits)
    assert splits
    rows = 0
    for split in splits:
        assert split.partition == "0"
        file = pq.ParquetFile(split.path.removeprefix("file:"))
        assert len(split.row_groups) == 1 < file.num_row_groups
        part = file.read_row_groups(split.row_groups)
        assert part.num_rows == split.record_count
        matching = part.num_rows if split.residual is None else matches(split.residual, part).true_count
        assert matching > 0
        assert split.fully_matching == (matching == part.num_rows) == (split.residual is None)
        rows += matching
    assert rows == 2500
    assert any(split.fully_matching for split in splits)
    assert len(large.scan("text = 'text 1'", options={SPLIT_SIZE: "1"}).plan().splits) == 0


def test_only_row_groups_that_can_match_are_read(large: Table) -> None:
    scan = large.scan("p = 0 AND k >= 15000 AND k < 20000")
    with mock.patch("catalog.scan.matches", wraps=matches) as judged:
        assert scan.to_arrow().num_rows == scan.count() == 2500
    rows = [call.args[1].num_rows for call in judged.call_args_list]
    assert all(2500 <= count < 5000 for count in rows)
    wide = large.scan("p = 0 AND k >= 15000 AND k < 20000 OR text IS NULL")
    assert wide.to_arrow().num_rows == 2500
    assert large.scan("text = 'text 1'").to_arrow().num_rows == 0


def test_small_files_are_not_opened(large: Table) -> None:
    (split, _) = large.scan("k > 5", options={SPLIT_SIZE: "100000000"}).plan().splits
    assert split.row_groups is None
    assert split.length == split.size


def test_batches_are_bounded_and_complete(large: Table) -> None:
    splits = large.scan(options={SPLIT_SIZE: "1"}).plan().splits
    batches = list(splits.batches(7))
    assert all(0 < len(batch) <= 7 for batch in batches)
    assert [split for batch in batches for split in batch] == list(splits)
    assert splits[-1] == batches[-1][-1]
    assert [split for batch in splits.batches(7) for split in batch] == list(splits)
    with pytest.raises(IndexError):
        splits[len(splits)]


def test_splits_as_json_and_arrow(golden: Callable[[str], GoldenTable]) -> None:
    splits = golden("v6_0150__bkt_hive").open().scan("part = 'eu' AND id > 'k'").plan().splits
    objects = list(splits.json_objects())
    assert json.loads(json.dumps(objects)) == objects
    assert [tuple(one) for one in objects] == [SPLIT_FIELDS] * len(splits)
    assert {one["residual"] for one in objects} <= {"id > 'k'", None}
    assert splits.to_arrow().column_names == list(SPLIT_FIELDS)
    assert splits.to_arrow()["residual"].to_pylist() == [one["residual"] for one in objects]
    assert [one["log_files"] for one in objects] == [[]] * len(splits)


def test_what_is_not_understood_stays_in_the_residual(golden: Callable[[str], GoldenTable]) -> None:
    splits = golden("v6_0150__bkt_hive").open().scan("part = 'eu' AND length(s) > 3").plan().splits
    assert all(isinstance(split.residual, Unknown) for split in splits)
