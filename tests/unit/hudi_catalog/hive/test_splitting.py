from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.statistics import row_groups
from hudi_catalog.hive import splitting
from hudi_catalog.hive.files import HiveFile
from hudi_catalog.hive.splitting import Footers, HiveSplit, Splitter
from pushdown import col
from pushdown.binding.bind import bind
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


def file(storage: Storage, name: str) -> HiveFile:
    entry = storage.entry(name)
    assert entry is not None
    return HiveFile(name, entry.size)


def keys(storage: Storage, splits: list[HiveSplit]) -> list[int]:
    wire = [T.Split(f"file:{storage.uri}/{split.path}", split.start, split.length) for split in splits]
    found: Any = read(wire, ["k"])["k"]
    return sorted(found.to_pylist())


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_LARGE", 1)


def test_a_large_file_is_divided_between_row_groups(storage: Storage) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    splitter = Splitter(100)
    assert splitter.splits(storage, files, None, 1 << 30) == [HiveSplit(one.path, 0, one.size) for one in files]
    for most in (1, files[0].size // 4, files[0].size - 1):
        parts = splitter.splits(storage, files[:1], None, most)
        assert len(parts) == {1: GROUPS, files[0].size // 4: 5, files[0].size - 1: len(parts)}[most]
        assert keys(storage, parts) == list(range(GROUPS * ROWS))
        assert all(part.length <= max(most, files[0].size // GROUPS + 1000) for part in parts)


def test_row_groups_that_cannot_match_are_left_out(storage: Storage) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    some = bind((col("k") == 1500) | (col("k") > 8999), SCHEMA)
    parts = Splitter(100).splits(storage, files, some, 1 << 30)
    assert keys(storage, [part for part in parts if part.path == "a.parquet"]) == [
        *range(1000, 2000),
        *range(9000, 10_000),
    ]
    assert parts[-1] == HiveSplit("b.parquet", 0, files[1].size)  # one row group: the plan has decided
    assert Splitter(100).splits(storage, files[:1], bind(col("k") < 0, SCHEMA), 1 << 30) == []


def test_small_files_are_not_looked_into(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_LARGE", 1 << 30)
    one = HiveFile("absent.parquet", 1000)
    assert Splitter(100).splits(storage, [one], bind(col("k") < 0, SCHEMA), 1 << 30) == [HiveSplit(one.path, 0, 1000)]


def test_without_large_files_the_filter_is_not_looked_at(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of conditions it would take seconds."""
    monkeypatch.setattr(row_groups, "evaluate", lambda *_: pytest.fail("a filter was evaluated"))
    small = file(storage, "b.parquet")
    assert Splitter(100).splits(storage, [small], bind(col("k") < 5, SCHEMA), 1 << 30) == [
        HiveSplit("b.parquet", 0, small.size)
    ]


def test_files_that_cannot_be_read_are_left_to_who_reads_them(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 is all that is right")
    files = [HiveFile("absent.parquet", 1000), HiveFile("odd.parquet", 25)]
    splits = Splitter(100).splits(storage, files, bind(col("k") < 0, SCHEMA), 500)
    halves = [HiveSplit("absent.parquet", 0, 500), HiveSplit("absent.parquet", 500, 500)]
    assert splits == [*halves, HiveSplit("odd.parquet", 0, 25)]


@pytest.mark.parametrize("most", [1, 10, 777, 4096, 1 << 20])
def test_too_many_files_are_divided_without_a_look(storage: Storage, most: int) -> None:
    files = [file(storage, "a.parquet"), file(storage, "b.parquet")]
    splits = Splitter(1).splits(storage, files, bind(col("k") < 0, SCHEMA), most)
    assert keys(storage, splits) == sorted([*range(GROUPS * ROWS), *range(ROWS)])
    assert max(split.length for split in splits) <= most
    ends = {(split.path, split.start + split.length) for split in splits}
    assert all(split.start == 0 or (split.path, split.start) in ends for split in splits)


def test_a_file_whose_size_nothing_tells_is_measured(storage: Storage) -> None:
    assert Splitter(100).splits(storage, [HiveFile("b.parquet", 0)], None, 1 << 30)[0].length > 0
    with pytest.raises(MissingFileError, match=r"absent\.parquet: no such file"):
        Splitter(100).splits(storage, [HiveFile("absent.parquet", 0)], None, 1 << 30)


def test_a_file_without_rows_needs_no_split(storage: Storage) -> None:
    empty = file(storage, "none.parquet")
    assert keys(storage, Splitter(100).splits(storage, [empty], None, 10)) == []


def test_footers_are_read_once_and_bounded(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = splitting.footer

    def counted(of: Storage, path: str) -> Any:
        looks.append(path)
        return real(of, path)

    monkeypatch.setattr(splitting, "footer", counted)
    one, other = file(storage, "a.parquet"), file(storage, "b.parquet")
    footers = Footers()
    for _ in range(3):
        (groups,) = footers.get(storage, [one], 9)
        assert groups is not None
        assert len(groups) == GROUPS
    assert looks == ["a.parquet"]
    small = Footers(groups.footer.metadata.serialized_size)
    for which in (one, other, one):
        small.get(storage, [which], 9)
    assert looks == ["a.parquet", "a.parquet", "b.parquet", "a.parquet"]
    assert footers.get(storage, [HiveFile("absent", 1), one], 9) == [None, groups]
