from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.slices.file_slice import FileSlice
from catalog.splits import splitter
from catalog.splits.splitter import SplitRules, Splitter
from catalog.statistics import row_groups
from pushdown import col
from pushdown.binding.bind import bind
from pushdown.expression import HudiExpression
from table_format.errors import MissingFileError
from table_format.storage import Storage
from tests.support.hive_client import T, read

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])
GROUPS, ROWS = 10, 1000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    rows = pa.table({"k": list(range(GROUPS * ROWS)), "t": [f"text {k}" for k in range(GROUPS * ROWS)]}, SCHEMA)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=ROWS)
    pq.write_table(rows.slice(0, ROWS), tmp_path / "b.parquet")
    pq.write_table(rows.slice(0, 0), tmp_path / "none.parquet")
    return Storage(str(tmp_path))


def base_file(name: str, size: int) -> FileSlice:
    return FileSlice("", name, name, "1", base_size=size, length=size)


def file(storage: Storage, name: str) -> FileSlice:
    entry = storage.entry(name)
    assert entry is not None
    return base_file(name, entry.size)


def hive_splitter(max_footers: int = 100, prune_bytes: int = 1, footer_memory: int = 1 << 20) -> Splitter:
    rules = SplitRules(max_footers=max_footers, prune_bytes=prune_bytes, footer_memory=footer_memory, byte_ranges=True)
    return Splitter(rules)


def divided(
    splitter: Splitter, storage: Storage, slices: list[FileSlice], expression: HudiExpression | None, most: int
) -> list[FileSlice]:
    parts = splitter.divide(storage, slices, [expression] * len(slices), most)
    return [part for of_slice in parts for part in of_slice]


def ranges(parts: list[FileSlice]) -> list[tuple[str | None, int, int]]:
    return [(part.base, part.start, part.length) for part in parts]


def keys(storage: Storage, splits: list[FileSlice]) -> list[int]:
    wire = [T.Split(f"file:{storage.uri}/{split.base}", split.start, split.length) for split in splits]
    column: Any = read(wire, ["k"])["k"]
    return sorted(column.to_pylist())


@pytest.mark.slow
def test_a_large_file_is_divided_between_row_groups(storage: Storage) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    splitter = hive_splitter()
    assert divided(splitter, storage, files, None, 1 << 30) == files
    for most in (1, files[0].size // 4, files[0].size - 1):
        parts = divided(splitter, storage, files[:1], None, most)
        assert len(parts) == {1: GROUPS, files[0].size // 4: 5, files[0].size - 1: len(parts)}[most]
        assert keys(storage, parts) == list(range(GROUPS * ROWS))
        assert all(part.length <= max(most, files[0].size // GROUPS + 1000) for part in parts)
        assert parts == divided(Splitter(SplitRules()), storage, files[:1], None, most)


def test_row_groups_that_cannot_match_are_left_out(storage: Storage) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    some = bind((col("k") == 1500) | (col("k") > 8999), SCHEMA)
    parts = divided(hive_splitter(), storage, files, some, 1 << 30)
    assert keys(storage, [part for part in parts if part.base == "a.parquet"]) == [
        *range(1000, 2000),
        *range(9000, 10_000),
    ]
    assert parts[-1] == files[1]  # one row group: the plan has decided
    assert divided(hive_splitter(), storage, files[:1], bind(col("k") < 0, SCHEMA), 1 << 30) == []


def test_each_slice_is_divided_by_its_own_filter(storage: Storage) -> None:
    """Of two partitions one may answer a part of the filter that the other leaves open."""
    one = file(storage, "a.parquet")
    filters = [bind(col("k") < 10, SCHEMA), None, bind(col("k") < 0, SCHEMA), None]
    parts = Splitter(SplitRules()).divide(storage, [one] * 3, filters, one.size - 1)
    assert [part.row_groups for part in parts[0]] == [(0,)]
    assert [part.record_count for part in parts[0]] == [ROWS]
    assert [group for part in parts[1] for group in part.row_groups or ()] == list(range(GROUPS))
    assert all(part.fully_matching for part in parts[1])
    assert parts[2] == []


@pytest.mark.parametrize("splitter", [Splitter(SplitRules()), hive_splitter()])
def test_slices_with_log_files_stay_whole(storage: Storage, splitter: Splitter) -> None:
    """Each part would be merged to the rows of the whole slice."""
    one = replace(file(storage, "a.parquet"), logs=(("a.log", 1),))
    assert divided(splitter, storage, [one], bind(col("k") < 0, SCHEMA), 1) == [one]
    alone = replace(one, base=None, base_size=0, length=0)
    assert divided(splitter, storage, [alone], bind(col("k") < 0, SCHEMA), 1) == [alone]


def test_small_files_are_not_looked_into(storage: Storage) -> None:
    one = base_file("absent.parquet", 1000)
    never = bind(col("k") < 0, SCHEMA)
    assert divided(hive_splitter(prune_bytes=1 << 30), storage, [one], never, 1 << 30) == [one]


def test_without_large_files_the_filter_is_not_looked_at(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of conditions it would take seconds."""
    monkeypatch.setattr(row_groups, "evaluate", lambda *_: pytest.fail("a filter was evaluated"))
    small = file(storage, "b.parquet")
    assert divided(hive_splitter(), storage, [small], bind(col("k") < 5, SCHEMA), 1 << 30) == [small]


def test_files_that_cannot_be_read_are_left_to_who_reads_them(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 is all that is right")
    files = [base_file("absent.parquet", 1000), base_file("odd.parquet", 25)]
    never = bind(col("k") < 0, SCHEMA)
    splits = divided(hive_splitter(), storage, files, never, 500)
    assert ranges(splits) == [("absent.parquet", 0, 500), ("absent.parquet", 500, 500), ("odd.parquet", 0, 25)]
    assert divided(Splitter(SplitRules()), storage, files, never, 20) == files


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 10, 777, 4096, 1 << 20])
def test_too_many_files_are_divided_without_a_look(storage: Storage, most: int) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    splits = divided(hive_splitter(1), storage, files, bind(col("k") < 0, SCHEMA), most)
    assert keys(storage, splits) == sorted([*range(GROUPS * ROWS), *range(ROWS)])
    assert max(split.length for split in splits) <= most
    ends = {(split.base, split.start + split.length) for split in splits}
    assert all(split.start == 0 or (split.base, split.start) in ends for split in splits)


def test_a_file_whose_size_nothing_tells_is_measured(storage: Storage) -> None:
    assert divided(hive_splitter(), storage, [base_file("b.parquet", 0)], None, 1 << 30)[0].length > 0
    with pytest.raises(MissingFileError, match=r"absent\.parquet: no such file"):
        divided(hive_splitter(), storage, [base_file("absent.parquet", 0)], None, 1 << 30)


def test_a_file_without_rows_needs_no_split(storage: Storage) -> None:
    empty = file(storage, "none.parquet")
    assert keys(storage, divided(hive_splitter(), storage, [empty], None, 10)) == []


@pytest.mark.slow
def test_footers_are_read_once_and_bounded(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    read_paths: list[str] = []
    real = splitter.footer

    def counted(of: Storage, path: str) -> Any:
        read_paths.append(path)
        return real(of, path)

    monkeypatch.setattr(splitter, "footer", counted)
    one, other = file(storage, "a.parquet"), file(storage, "b.parquet")
    size = real(storage, "a.parquet").metadata.serialized_size
    cached = hive_splitter()
    for _ in range(3):
        assert len(divided(cached, storage, [one], None, 1)) == GROUPS
    assert read_paths == ["a.parquet"]
    small = hive_splitter(footer_memory=size)
    for which in (one, other, one):
        divided(small, storage, [which], None, 1)
    assert read_paths[1:] == ["a.parquet", "b.parquet", "a.parquet"]
    absent = base_file("absent.parquet", 2)
    assert ranges(divided(cached, storage, [absent, one], None, 1))[0] == ("absent.parquet", 0, 1)
    assert read_paths[4:] == ["absent.parquet"]
