"""Pages that are filled to a number of bytes and not beyond."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.trino.pages import TOKEN_BYTES, Cells, PageBuilder, cells_of
from hudi_catalog.trino.types import TypeMapping, columns_of
from hudi_catalog.trino.values import served_values
from tests.support.trino_wire import block_values, decoded

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int32(), st.integers(-5, 5)),
    "l": (pa.int64(), st.integers(-5, 5)),
    "b": (pa.bool_(), st.booleans()),
    "s": (pa.string(), st.text(max_size=20)),
    "d": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "long text"])),
    "a": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-5, 5), max_size=5)),
    "j": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=5), max_size=3)),
}


@st.composite
def batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=4, unique=True))
    schema = pa.schema([(name, KINDS[name][0]) for name in names])
    drawn_batches = []
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=4)):
        nullable = draw(st.booleans())
        arrays: list[Any] = []
        for name in names:
            kind, values = KINDS[name]
            drawn = draw(st.lists(st.none() | values if nullable else values, min_size=size, max_size=size))
            arrays.append(pa.array([None, *drawn, None], kind).slice(1, size))
        drawn_batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema) if names else pa.record_batch([]))
    return drawn_batches


def cells(batch: pa.RecordBatch) -> list[Cells]:
    columns = columns_of(batch.schema, TypeMapping())
    arrays = (served_values(batch.column(i), column) for i, column in enumerate(columns))
    return [cells_of(array, column.block) for array, column in zip(arrays, columns, strict=True)]


@pytest.mark.slow
@given(batches(), st.integers(0, 900), st.data())
def test_pages_of_any_size_hold_the_same_rows(
    drawn_batches: list[pa.RecordBatch], room: int, data: st.DataObject
) -> None:
    kinds = [column.block for column in columns_of(drawn_batches[0].schema, TypeMapping())]
    limit = TOKEN_BYTES + room
    rows: list[list[Any]] = [[] for _ in kinds]
    builder = PageBuilder(kinds, limit)
    token = b"t" * TOKEN_BYTES

    def send(last: bytes | None) -> None:
        parts = builder.parts(last)
        size = sum(len(part) for part in parts)
        page = decoded(parts, "TrinoThriftPageResult")
        assert size <= limit or page.rowCount <= 1
        assert (page.nextToken.id if page.nextToken else None) == last
        for column, block in zip(rows, page.columnBlocks, strict=True):
            values = block_values(block)
            assert len(values) == page.rowCount
            column.extend(values)

    for batch in drawn_batches:
        columns, at = cells(batch), 0
        while at < batch.num_rows:
            count = builder.fitting(columns, at, batch.num_rows)
            assert count or builder.rows
            builder.add(columns, at, at + count)
            at += count
            if at < batch.num_rows:
                send(token)
                builder = PageBuilder(kinds, limit)
    send(None)
    expected = [[value for batch in drawn_batches for value in decoded_alone(batch, i)] for i in range(len(kinds))]
    assert rows == expected


def decoded_alone(batch: pa.RecordBatch, position: int) -> list[Any]:
    builder = PageBuilder([cells(batch)[position].block], 1 << 20)
    builder.add(cells(batch)[position : position + 1], 0, batch.num_rows)
    return block_values(decoded(builder.parts(None), "TrinoThriftPageResult").columnBlocks[0])


def test_a_page_is_filled() -> None:
    """As many rows as fit, not some fewer: 8 bytes each, and 1 more where the page has nulls."""
    batch = pa.record_batch({"l": pa.array(range(100_000), pa.int64())})
    column = cells(batch)
    builder = PageBuilder([column[0].block], 100_000)
    count = builder.fitting(column, 0, batch.num_rows)
    builder.add(column, 0, count)
    size = sum(map(len, builder.parts(b"t" * TOKEN_BYTES)))
    assert 100_000 - 8 < size <= 100_000
    with_nulls = cells(pa.record_batch({"l": pa.array([None, *range(100_000)], pa.int64())}))
    builder = PageBuilder([column[0].block], 100_000)
    builder.add(with_nulls, 0, builder.fitting(with_nulls, 0, 100_000))
    assert 100_000 - 9 < sum(map(len, builder.parts(b"t" * TOKEN_BYTES))) <= 100_000


def test_a_row_larger_than_a_page_goes_alone() -> None:
    column = cells(pa.record_batch({"s": pa.array(["a", "b" * 10_000, "c"])}))
    builder = PageBuilder([column[0].block], 2_000)
    assert builder.fitting(column, 0, 3) == 1
    builder.add(column, 0, 1)
    assert builder.fitting(column, 1, 3) == 0
    builder = PageBuilder([column[0].block], 2_000)
    assert builder.fitting(column, 1, 3) == 1


def test_values_are_not_copied() -> None:
    text = "x" * 1_000_000
    array: Any = pa.array([text])
    column = cells(pa.record_batch({"s": array}))
    builder = PageBuilder([column[0].block], 2_000_000)
    builder.add(column, 0, 1)
    parts = [part for part in builder.parts(None) if len(part) == len(text)]
    assert [pa.py_buffer(part).address for part in parts] == [array.buffers()[2].address]


@pytest.mark.parametrize("rows", [0, 1, 2**31 + 5])
def test_rows_without_columns(rows: int) -> None:
    counts, at = [], 0
    while True:
        builder = PageBuilder([], 1_000)
        count = builder.fitting([], at, rows)
        builder.add([], at, at + count)
        counts.append(decoded(builder.parts(None), "TrinoThriftPageResult").rowCount)
        at += count
        if at >= rows:
            break
    assert sum(counts) == rows
    assert max(counts) < 2**31
