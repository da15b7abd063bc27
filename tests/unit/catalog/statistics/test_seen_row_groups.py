"""Which files' footers are looked at for the size of row groups, and what counts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.statistics import seen_row_groups
from catalog.statistics.seen_row_groups import MOST_FOOTERS, SeenRowGroups
from table_format.base_file.footer import BaseFileFooter, footer
from table_format.errors import StorageError
from table_format.storage import Storage

JAVA = "parquet-mr version 1.12.3"


def parquet_file(path: Path, group: int) -> int:
    """A file of 100 rows, `group` a row group; its size."""
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table({"a": range(100)}), path, row_group_size=group)
    return path.stat().st_size


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files whose footers are read, as if Parquet's Java library had written all but those of `ours`."""
    paths: list[str] = []

    def read(storage: Storage, path: str) -> BaseFileFooter:
        paths.append(path)
        whole = footer(storage, path)
        return whole if path.startswith("ours") else _of_java(whole)

    monkeypatch.setattr(seen_row_groups, "footer", read)
    return paths


class _JavaMetadata:
    """The metadata of a footer, of another writer."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self.created_by = JAVA

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata, name)


def _of_java(whole: BaseFileFooter) -> BaseFileFooter:
    metadata: Any = _JavaMetadata(whole.metadata)
    return BaseFileFooter(whole.schema, whole.key_values, metadata, whole.size, whole.path)


def slices(*files: tuple[str, str | None, int | None, str]) -> pa.Table:
    names = ["partition", "file_name", "size", "instant"]
    kinds = [pa.string(), pa.string(), pa.int64(), pa.string()]
    columns = zip(*files, strict=True)
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})


def test_the_least_row_group_but_the_last(tmp_path: Path, looked_at: list[str]) -> None:
    whole = parquet_file(tmp_path / "p/whole.parquet", 100)
    halves = parquet_file(tmp_path / "p/halves.parquet", 60)
    first = pq.read_metadata(tmp_path / "p/halves.parquet").row_group(0).column(0).total_compressed_size
    seen = SeenRowGroups(Storage(str(tmp_path)))
    assert seen.least(slices(("p", "whole.parquet", whole, "1"), ("p", None, None, "3"))) is None
    both = slices(("p", "whole.parquet", whole, "1"), ("p", "halves.parquet", halves, "2"))
    assert seen.least(both) == first == seen.least(both)
    assert looked_at == ["p/whole.parquet", "p/halves.parquet"]


def test_files_of_other_writers_hide_nothing(tmp_path: Path, looked_at: list[str]) -> None:
    size = parquet_file(tmp_path / "ours.parquet", 10)
    assert SeenRowGroups(Storage(str(tmp_path))).least(slices(("", "ours.parquet", size, "1"))) is None
    assert looked_at == ["ours.parquet"]


def test_missing_and_damaged_files_show_nothing(tmp_path: Path, looked_at: list[str]) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    files = slices(("", "torn.parquet", 4, "1"), ("", "gone.parquet", 9, "2"))
    assert SeenRowGroups(Storage(str(tmp_path))).least(files) is None


def test_files_that_may_not_be_read_may_have_any_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = parquet_file(tmp_path / "whole.parquet", 100)
    seen, files = SeenRowGroups(Storage(str(tmp_path))), slices(("", "whole.parquet", size, "1"))
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "open_input", lambda self, path: raising(StorageError(f"{path}: access denied")))
        assert seen.least(files) == 0
    assert seen.least(files) is None


def raising(error: Exception) -> Any:
    raise error


def test_the_largest_file_of_a_few_commits(tmp_path: Path, looked_at: list[str]) -> None:
    files = [("p", f"{size}.parquet", size, str(size % 50)) for size in range(1, 1_001)]
    assert SeenRowGroups(Storage(str(tmp_path))).least(slices(*files)) is None
    assert sorted(looked_at) == sorted(f"p/{size}.parquet" for size in range(1_001 - MOST_FOOTERS, 1_001))
    looked_at.clear()
    one_commit = [("p", f"{size}.parquet", size, "1") for size in range(1, 1_001)]
    SeenRowGroups(Storage(str(tmp_path))).least(slices(*one_commit))
    assert looked_at == ["p/1000.parquet"]
