"""The share of files that a range keeps, against counting it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog.layout import _kept
from catalog.statistics.indexed_column import IndexedColumn
from hudi_catalog.table import create_table, open_table
from table_format.errors import ArgumentError, SchemaError
from table_format.metadata_table.reader import MetadataTable


def kept(lower: list[object], upper: list[object], share: float = 0.01) -> float:
    return _kept(pa.array(lower), pa.array(upper), np.full(len(lower), 100.0), share)


def test_files_that_follow_each_other_and_files_that_overlap() -> None:
    parts = list(range(0, 1000, 10))
    assert kept(parts, [low + 9 for low in parts]) == pytest.approx(2, abs=0.1)
    assert kept([n % 7 for n in parts], [990 + n % 9 for n in parts]) == pytest.approx(100, rel=0.02)
    assert kept([1, 2, 3], [1, 2, 3]) == pytest.approx(1, abs=0.05)
    assert kept([5], [5]) == 1
    texts = [f"key-{low:04d}" for low in parts]
    assert kept(texts, [f"key-{low + 9:04d}" for low in parts]) == pytest.approx(2, abs=0.3)
    assert kept([float("-inf"), 0.0], [0.0, float("inf")]) <= 2


@pytest.mark.parametrize("writes", [2, 12])
def test_columns_that_are_loaded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    kinds = {"x": pa.int64(), "y": pa.int64(), "s": pa.string(), "t": pa.string(), "d": pa.float64(), "e": pa.float64()}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    table = create_table(tmp_path / "t", schema, record_key="id", buckets=4)  # after ten writes it is compacted
    for number in range(writes):
        values = {
            name: pa.array([n * number % 7 for n in range(20)], pa.int64()).cast(kind) for name, kind in kinds.items()
        }
        table.upsert(pa.table({"id": range(number, number + 20), **values}, schema))
    table = open_table(tmp_path / "t")
    counts: list[int] = []
    load = MetadataTable.column_stats
    monkeypatch.setattr(MetadataTable, "column_stats", lambda *arguments: counts.append(1) or load(*arguments))
    together = table.layout()
    assert not counts
    assert {one.column for one in together} == set(schema.names)
    snapshot = table.snapshot()
    for kind in set(schema.types):
        names = [field.name for field in schema if field.type == kind]
        for name, column in snapshot.indexed_columns(names, kind):
            alone = snapshot.indexed_column(name, kind)
            assert isinstance(column, IndexedColumn)
            assert isinstance(alone, IndexedColumn)
            one, other = (each.take(snapshot.live_rows) for each in (column, alone))
            assert one.statistics.lower.to_pylist() == other.statistics.lower.to_pylist()
            assert one.statistics.upper.to_pylist() == other.statistics.upper.to_pylist()
            assert one.row_count.to_pylist() == other.row_count.to_pylist()
    assert len(counts) == len(schema.names)


def test_the_layout_of_a_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("x", pa.int64()), ("n", pa.int64()), ("l", pa.list_(pa.int64()))])
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = create_table(tmp_path / "t", schema, record_key="id", index="RECORD_INDEX", options=options)
    assert [one.kept for one in table.layout(["x"])] in ([0.0], [1.0])
    for number in range(4):
        x = list(range(number * 100, number * 100 + 100))
        ids = [f"{n:05d}" for n in x]
        table.insert(pa.table([ids, x, [None] * 100, [[1]] * 100], schema=schema))
    layouts = {one.column: one for one in table.layout()}
    assert layouts.keys() == {"id", "x", "n"}
    assert layouts["x"].files == 4
    assert layouts["x"].kept == pytest.approx(0.25, abs=0.05)
    assert layouts["n"].kept == 0.0
    assert table.layout(["l"])[0].reason
    with pytest.raises(SchemaError, match="no column 'y'"):
        table.layout(["y"])
    with pytest.raises(ArgumentError, match="share=2"):
        table.layout(share=2)
