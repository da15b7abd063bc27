import math
from pathlib import Path

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from table_format.base_file.footer_fields import ChunkField, MetadataField, chunks_of
from table_format.codecs.avro_schema import avro_to_arrow, schema_text
from table_writer.encoding.base_file import BaseFileOptions, encode_parts
from table_writer.encoding.float_chunks import FloatLeaves
from table_writer.surgery.footer import read_footer
from table_writer.surgery.source import MemorySource
from tests.support.surgery_files import rows_per_group

_NUMBERS = st.lists(
    st.sampled_from([None, math.nan, -0.0, 0.0, 1.0, -2.5, math.inf, -math.inf]), min_size=1, max_size=24
)
_MEMBERS = pa.struct({"x": pa.float64(), "t": pa.string()})


def _file(parts: list[pa.Table]) -> tuple[bytes, pq.FileMetaData]:
    text = schema_text(parts[0].schema, "t", meta_fields=False)
    stream = pa.BufferOutputStream()
    result = encode_parts(stream, iter(parts), text, avro_to_arrow(text), BaseFileOptions())
    data = stream.getvalue().to_pybytes()
    assert result.size == len(data)
    assert result.metadata.equals(pq.read_metadata(pa.BufferReader(data)))
    return data, result.metadata


def _table(numbers: list[float | None], first: int = 0) -> pa.Table:
    return pa.table(
        {
            "n": pa.array(range(first, first + len(numbers)), pa.int32()),
            "f": pa.array(numbers, pa.float32()),
            "d": pa.array(numbers, pa.float64()),
            "s": pa.array([None if number is None else {"x": number, "t": "a"} for number in numbers], _MEMBERS),
            "l": pa.array([[number] for number in numbers], pa.list_(pa.float64())),
        }
    )


def _texts(table: pa.Table) -> list[str]:
    return [str(row) for row in table.to_pylist()]


@pytest.mark.slow
@given(st.lists(_NUMBERS, min_size=1, max_size=3), st.integers(1, 24))
def test_chunks_with_nan_have_bounds_that_hold_it(lists: list[list[float | None]], size: int) -> None:
    parts = [_table(numbers) for numbers in lists]
    with rows_per_group(size):
        data, metadata = _file(parts)
    assert _texts(pq.read_table(pa.BufferReader(data))) == _texts(pa.concat_tables(parts))
    groups = [numbers[start : start + size] for numbers in lists for start in range(0, len(numbers), size)]
    assert metadata.num_row_groups == len(groups)
    for ordinal, numbers in enumerate(groups):
        known = [number for number in numbers if number is not None]
        for column in (1, 2, 3):
            chunk = metadata.row_group(ordinal).column(column)
            bounds = chunk.statistics
            assert bounds.null_count == len(numbers) - len(known)
            if any(map(math.isnan, known)):
                assert (bounds.min, bounds.max) == (-math.inf, math.inf)
                assert not chunk.has_column_index
            elif known:
                assert -math.inf <= bounds.min <= min(known) <= max(known) <= bounds.max
                assert chunk.has_column_index
            else:
                assert not bounds.has_min_max
        others = [metadata.row_group(ordinal).column(column) for column in (0, 4)]
        assert all(chunk.has_column_index and chunk.is_stats_set for chunk in others)


@given(_NUMBERS)
def test_a_dictionary_with_negative_zero_is_not_said_to_hold_all_values(numbers: list[float | None]) -> None:
    data, _ = _file([_table(numbers)])
    [group] = read_footer(MemorySource(pa.py_buffer(data))).groups
    negative = any(number == 0 and math.copysign(1, number) < 0 for number in numbers if number is not None)
    stated = [MetadataField.ENCODING_STATISTICS in chunk[ChunkField.METADATA][1] for chunk in chunks_of(group)]
    assert stated == [True, not negative, not negative, not negative, True, True]


def test_other_readers_find_the_rows(tmp_path: Path) -> None:
    data, _ = _file([_table([1.0, math.nan, None]), _table([-0.0], 3), _table([2.0, 3.0], 4)])
    (tmp_path / "f.parquet").write_bytes(data)
    for where, wanted in (("d > 5", [1]), ("f = 0", [3]), ("s.x >= 2", [1, 4, 5]), ("d IS NULL", [2]), ("d = 1", [0])):
        matching = duckdb.execute(f"SELECT n FROM '{tmp_path}/f.parquet' WHERE {where} ORDER BY n").fetchall()
        assert [n for (n,) in matching] == wanted, where


def test_values_of_dictionaries_and_slices_are_looked_at() -> None:
    numbers = pa.chunked_array([pa.array([1.0, math.nan]), pa.array([-0.0, 2.0], pa.float64())])
    leaves = FloatLeaves.of(
        pa.table({"f": numbers.dictionary_encode(), "s": pc.make_struct(numbers, field_names=["x"])})
    )
    assert leaves == FloatLeaves(frozenset({"f", "s.x"}), frozenset({"f", "s.x"}))
    assert not FloatLeaves.of(pa.table({"f": numbers.slice(3)}))
    assert not FloatLeaves.of(pa.table({"f": pa.array([None], pa.float32()), "t": ["a"]}))
