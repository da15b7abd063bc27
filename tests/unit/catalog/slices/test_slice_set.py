"""File slices at fixed positions, their stored columns, and their statistics."""

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from catalog.slices.slice_set import SliceSet, names_are_unique
from catalog.statistics.aggregate import PriorStatistics, statistics_of_slices
from catalog.statistics.column_index import ColumnIndex
from catalog.statistics.indexed_column import ColumnPart, IndexedColumn
from catalog.statistics.merged_ranges import RowGroupSize
from catalog.table import TableOptions
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.errors import OptionError
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import SLICES_SCHEMA

LONG = pa.int64()
Slice = tuple[str, str, str, list[str]]


def slices(*rows: Slice) -> pa.Table:
    """Slices from partition, file id, instant and names of log files, by partition and file id."""
    made = [
        {
            "partition": partition,
            "file_id": file_id,
            "instant": instant,
            "file_name": f"{file_id}_{instant}",
            "size": 10,
            "path": f"{partition}/{file_id}_{instant}",
            "logs": [{"file_name": name, "size": 1} for name in logs],
        }
        for partition, file_id, instant, logs in rows
    ]
    return pa.Table.from_pylist(made, SLICES_SCHEMA)


def entries(**bounds: Any) -> pa.Table:
    """Statistics by file: least, greatest, nulls, rows."""
    columns = [list(bounds), *map(list, zip(*bounds.values(), strict=True))]
    names = ["file_name", "min", "max", "null_count", "value_count"]
    return pa.table([pa.array(columns[0], pa.string()), *(pa.array(c, LONG) for c in columns[1:])], names)


FIRST = slices(("p", "a", "1", []), ("p", "b", "1", []), ("q", "a", "1", ["l1"]))


def changed() -> SliceSet:
    """One slice rewritten, one in its own partition, one taken out."""
    first = SliceSet.of(FIRST)
    newer = slices(("p", "b", "2", []), ("r", "c", "2", ["l2", "l3"]))
    return first.with_changes(newer, np.array([1, -1]), np.array([1, 2]), pa.array(["b_2", "c_2", "l2", "l3"]))


def test_what_came_later_stands_behind() -> None:
    first, after = SliceSet.of(FIRST), changed()
    assert first.live_rows.tolist() == [0, 1, 2]
    assert first.live_bytes == 31
    assert after.live_rows.tolist() == [0, 3, 4]
    assert after.live_bytes == 10 + 10 + 12
    assert after.partitions == ["p", "q", "r"]
    assert after.partition_index.tolist() == [0, 0, 1, 0, 2]
    assert after.has_logs.tolist() == [False, False, True, False, True]
    assert after.main is not None
    assert after.files.column("file_name").to_pylist() == ["a_1", "b_1", "a_1", "b_2", "c_2"]


@pytest.mark.parametrize("rows", [[0, 3], [4, 0, 3, 2], [1], [], [3, 4]])
def test_slices_are_taken_in_any_order(rows: list[int]) -> None:
    after = changed()
    assert after.take(np.array(rows, np.int64)).to_pylist() == [after.files.to_pylist()[row] for row in rows]


def test_positions_are_of_living_slices() -> None:
    after = changed()
    asked = [("p", "a"), ("p", "b"), ("q", "a"), ("r", "c"), ("r", "a"), ("s", "a"), ("p", "aa")]
    partitions, file_ids = (list(column) for column in zip(*asked, strict=True))
    assert after.positions(partitions, file_ids).tolist() == [0, 3, -1, 4, -1, -1, -1]


def test_what_came_since_names_the_slices_before() -> None:
    after = changed()
    again = after.with_changes(slices(("p", "b", "3", [])), np.array([3]), np.array([3]), pa.array(["b_3"]))
    late, before, names = again.since(3)
    assert late.column("file_name").to_pylist() == ["b_2", "c_2", "b_3"]
    assert before.tolist() == [1, -1, 1]
    assert names.to_pylist() == ["b_2", "c_2", "l2", "l3", "b_3"]
    late, before, names = again.since(5)
    assert (late.num_rows, before.tolist(), names.to_pylist()) == (1, [3], ["b_3"])


def test_a_tail_of_any_size_is_allowed_up_to_a_tenth() -> None:
    first = SliceSet.of(slices(*(("p", f"{n:04}", "1", []) for n in range(2_000))))
    newer = slices(*(("p", f"{n:04}", "2", []) for n in range(501)))
    rows = np.arange(501)
    few = first.with_changes(newer.slice(0, 500), rows[:500], rows[:500], pa.array([], pa.string()))
    assert not few.is_stale  # 500 in the tail, 500 dead
    assert first.with_changes(newer, rows, rows, pa.array([], pa.string())).is_stale


def test_names_that_repeat_are_found() -> None:
    assert not SliceSet.of(FIRST).names_are_unique()
    unique = SliceSet.of(slices(("p", "a", "1", []), ("q", "b", "1", ["l"])))
    assert unique.names_are_unique()
    one = slices(("q", "c", "2", []))
    assert unique.with_changes(one, np.array([-1]), np.array([], int), pa.array(["c_2"])).names_are_unique()
    twice = unique.with_changes(one, np.array([-1]), np.array([], int), pa.array(["c_2", "c_2"]))
    assert not twice.names_are_unique()


@pytest.mark.parametrize("width", [8, 36, 60])
def test_repeated_names_among_many(width: int) -> None:
    names = [f"{n:0{width}}" for n in range(3_000)]
    assert names_are_unique(pa.array(names))
    assert names_are_unique(pa.array(names)[7:2_500])
    assert not names_are_unique(pa.array([*names, names[17]]))
    assert names_are_unique(pa.array([f"{'x' * 36}{n}" for n in range(3_000)]))


# kept columns


def column(values: list[int | None]) -> IndexedColumn:
    array = pa.array(values, LONG)
    zeros = pa.array([0] * len(values), LONG)
    return IndexedColumn(ColumnPart(ColumnStatistics(array, array, zeros, zeros), np.ones(len(values), bool), zeros))


def index(table: MetadataTable | None = None, memory: int = 1 << 20) -> ColumnIndex:
    empty = SliceSet.of(SLICES_SCHEMA.empty_table())
    return ColumnIndex(table, empty, None, RowGroupSize(1, 1, 0), memory)


def cached(of: ColumnIndex, *names: str) -> list[bool]:
    return [of.cached_column(name) is not None for name in names]


def put(of: ColumnIndex, name: str, values: IndexedColumn | CannotPrune) -> None:
    with mock.patch.object(of, "_loaded", return_value=values):
        assert of.column(name, LONG) is values


def test_the_column_that_was_used_least_recently_is_evicted() -> None:
    one = column([1, 2, 3])
    columns = index(memory=2 * one.nbytes)
    put(columns, "a", column([1, 2, 3]))
    put(columns, "b", column([1, 2, 3]))
    assert cached(columns, "b", "a") == [True, True]
    put(columns, "c", one)
    assert cached(columns, "a", "b", "c") == [True, False, True]


def test_the_last_column_stays_in_any_case() -> None:
    columns = index(memory=0)
    put(columns, "a", column([1]))
    put(columns, "b", column([1]))
    assert cached(columns, "a", "b") == [False, True]


def test_a_later_index_takes_over_the_columns() -> None:
    columns = index()
    put(columns, "a", column([1]))
    put(columns, "none", CannotPrune("no such column"))
    later = columns.succeeded_by(None, SliceSet.of(SLICES_SCHEMA.empty_table()), RowGroupSize(1, 1, 0))
    assert cached(later, "a", "none") == [True, False]
    assert later.cached_column("a") is columns.cached_column("a")
    put(later, "b", column([1]))
    assert cached(columns, "b") == [False]
    assert later.memory == columns.memory
    assert cached(columns.with_row_groups(RowGroupSize(2, 1, 0)), "a") == [False]


def test_memory_is_an_option() -> None:
    key = "hoodie.catalog.statistics.memory"
    assert TableOptions.parse({key: "1000"}).statistics_memory == 1000
    assert TableOptions.parse(None) == TableOptions()
    for options in ({key: "much"}, {key: "-1"}, {"hoodie.catalog.scan.threads": "2"}):
        with pytest.raises(OptionError, match=next(iter(options))):
            TableOptions.parse(options)


# statistics


def ranges(part: ColumnPart) -> list[tuple[Any, ...]]:
    stats = part.statistics
    columns = [array.to_pylist() for array in (stats.lower, stats.upper, stats.null_count, part.row_count)]
    return list(zip(part.present.tolist(), *columns, strict=True))


def test_a_slice_is_the_hull_of_its_files() -> None:
    table = slices(("p", "a", "1", []), ("p", "b", "1", ["l1", "l2"]), ("p", "c", "1", []))
    known = entries(a_1=(1, 5, 0, 9), b_1=(10, 20, 0, 9), l1=(15, 30, 0, 2), l2=(8, 9, 0, 1))
    hulls = ranges(statistics_of_slices(table, known, LONG))
    assert hulls == [(True, 1, 5, 0, 9), (True, 8, 30, 0, None), (False, None, None, None, None)]


@pytest.mark.parametrize("missing", ["b_1", "l1"])
def test_a_slice_with_a_file_of_which_nothing_is_known_is_unknown(missing: str) -> None:
    every = {"b_1": (10, 20, 0, 9), "l1": (15, 30, 0, 2)}
    known = entries(a_1=(1, 5, 0, 9), **{name: of for name, of in every.items() if name != missing})
    joined = statistics_of_slices(slices(("p", "b", "1", ["l1"]), ("p", "a", "1", [])), known, LONG)
    assert ranges(joined) == [(False, None, None, None, None), (True, 1, 5, 0, 9)]


def test_a_bound_that_one_file_lacks_is_unknown_for_the_slice() -> None:
    known = entries(b_1=(10, 20, 0, 9), l1=(15, None, 0, 2))
    assert ranges(statistics_of_slices(slices(("p", "b", "1", ["l1"])), known, LONG)) == [(True, 10, None, 0, None)]


def test_a_slice_with_another_log_file_widens_what_was_known() -> None:
    first = slices(("p", "b", "1", ["l1"]), ("p", "c", "1", []))
    column = IndexedColumn(statistics_of_slices(first, entries(b_1=(10, 20, 0, 9), l1=(15, 30, 0, 2)), LONG))
    newer = slices(("p", "b", "1", ["l1", "l2"]), ("p", "c", "1", ["l3"]), ("p", "d", "2", ["l4"]))
    before = PriorStatistics(column, np.array([0, 1, -1]), pa.array(["l2", "l3", "d_2", "l4"]))
    came = entries(l2=(1, 2, 0, 1), l3=(1, 2, 0, 1), d_2=(4, 5, 0, 1), l4=(6, 7, 0, 1))
    hulls = ranges(statistics_of_slices(newer, came, LONG, before))
    # Of the file c_1 nothing was known before.
    assert hulls == [(True, 1, 30, 0, None), (False, None, None, None, None), (True, 4, 7, 0, None)]


def test_a_log_file_that_has_grown_widens_what_was_known() -> None:
    first = slices(("p", "b", "1", ["l1"]))
    column = IndexedColumn(statistics_of_slices(first, entries(b_1=(10, 20, 0, 9), l1=(15, 30, 0, 2)), LONG))
    before = PriorStatistics(column, np.array([0]), pa.array([], pa.string()))
    assert ranges(statistics_of_slices(first, entries(l1=(1, 16, 0, 3)), LONG, before)) == [(True, 1, 30, 0, None)]


def test_a_log_file_that_nobody_announced_makes_the_slice_unknown() -> None:
    first = slices(("p", "b", "1", []))
    column = IndexedColumn(statistics_of_slices(first, entries(b_1=(10, 20, 0, 9)), LONG))
    newer = slices(("p", "b", "1", ["l1"]))
    before = PriorStatistics(column, np.array([0]), pa.array(["l1"]))
    hulls = ranges(statistics_of_slices(newer, entries(x=(1, 1, 0, 1)), LONG, before))
    assert hulls == [(False, None, None, None, None)]
