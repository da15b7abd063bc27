"""Parts of a base file that are sorted by record key, by what its footer claims."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.base_file.footer import footer_of
from table_format.base_file.key_runs import Run, key_runs
from table_format.meta_columns import RECORD_KEY

CLAIM = (pq.SortingColumn(1),)


def _groups(path: Path, groups: list[list[str | None]], claim: tuple[pq.SortingColumn, ...] | None = CLAIM) -> None:
    schema = pa.schema({"s": pa.struct({"x": pa.int32()}), RECORD_KEY: pa.string(), "n": pa.int64()})
    with pq.ParquetWriter(path, schema, sorting_columns=claim) as writer:
        for keys in groups:
            rows = {"s": [{"x": 1} for _ in keys], RECORD_KEY: keys, "n": range(len(keys))}
            writer.write_table(pa.table(rows, schema=schema))


def _runs(path: Path) -> list[Run] | None:
    return key_runs(footer_of(pq.ParquetFile(path), str(path), path.stat().st_size))


@given(
    groups=st.lists(st.lists(st.sampled_from(["a", "b", "é", "日", "𝄞", "ab", ""]), min_size=1, max_size=4), max_size=6)
)
def test_runs_are_sorted_and_have_all_row_groups(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("runs") / "f.parquet"
    groups = [sorted(keys, key=str.encode) for keys in groups]
    _groups(path, [*groups])
    runs = _runs(path)
    assert runs is not None
    assert runs[0][0] == 0
    assert sum(length for _, length in runs) == path.stat().st_size
    wanted: list[list[str]] = []
    for keys in groups:
        if wanted and wanted[-1][-1].encode() <= keys[0].encode():
            wanted[-1] += keys
        else:
            wanted.append([*keys])
    # offsets by another reader; a reader of a range takes the row groups whose middles are in it
    query = (
        "SELECT row_group_id, min(coalesce(dictionary_page_offset, data_page_offset)), sum(total_compressed_size) "
        f"FROM parquet_metadata('{path}') GROUP BY ALL ORDER BY ALL"
    )
    middles = [start + size // 2 for _, start, size in duckdb.sql(query).fetchall()]
    read = [
        [key for keys, middle in zip(groups, middles, strict=True) if start <= middle < start + length for key in keys]
        for start, length in runs
    ]
    assert read == (wanted or [[]])


@pytest.mark.parametrize(
    ("groups", "claim"),
    [
        ([["a", "b"]], None),
        ([["a", "b"]], (pq.SortingColumn(2),)),
        ([["b", "a"]], (pq.SortingColumn(1, descending=True),)),
        ([[None, "a"]], CLAIM),
    ],
    ids=["no claim", "another column", "descending", "null"],
)
def test_nothing_is_known_of(
    tmp_path: Path, groups: list[list[str | None]], claim: tuple[pq.SortingColumn, ...] | None
) -> None:
    _groups(tmp_path / "f.parquet", groups, claim)
    assert _runs(tmp_path / "f.parquet") is None


def test_a_file_without_record_keys(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "f.parquet", sorting_columns=[pq.SortingColumn(0)])
    assert _runs(tmp_path / "f.parquet") is None
