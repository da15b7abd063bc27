"""Rows exchanged by slot: columns that are in one array already are not copied."""

import decimal
import itertools

import numpy as np
import pyarrow as pa
import pytest

from table_writer.execution.exchange import SlotStore
from table_writer.execution.sources import ArrowRows

ROWS = 100
COLUMNS = {
    "i": pa.array(range(ROWS)),
    "nulls": pa.array([None if row % 3 else row for row in range(ROWS)]),
    "s": pa.array([None if row % 5 == 0 else "é" * (row % 7) for row in range(ROWS)]),
    "b": pa.array([row % 2 == 0 for row in range(ROWS)]),
    "d": pa.array([decimal.Decimal(row) for row in range(ROWS)], pa.decimal128(15, 2)),
    "few": pa.array([f"x{row % 3}" for row in range(ROWS)]).dictionary_encode(),
    "l": pa.array([[row] * (row % 4) for row in range(ROWS)]),
    "none": pa.nulls(ROWS, pa.string()),
}


def stored(parts):
    store = SlotStore(2, 1 << 30, "")
    for part in parts:
        store.add(part, np.zeros(part.num_rows, np.int64))
    (slot,) = store.finished(None)
    (table,) = slot.source.tables()
    return table


@pytest.mark.parametrize("by_c_interface", [False, True])
@pytest.mark.parametrize("cuts", [[0, 100], [0, 33, 66, 100], [20, 21, 50, 90], [40, 60, 10, 30]])
def test_slices_of_a_table_come_together_as_they_were(cuts, by_c_interface):
    whole = pa.table(COLUMNS)
    parts = [whole.slice(start, end - start) for start, end in itertools.pairwise(cuts) if start < end]
    if by_c_interface:  # buffers then end where the slice does
        parts = [pa.table(pa.RecordBatchReader.from_stream(part)) for part in parts]
    table = stored(parts)
    table.validate(full=True)
    assert table.equals(pa.concat_tables(parts).unify_dictionaries())
    assert all(column.num_chunks == 1 for column in table.columns)


def test_slices_that_follow_each_other_share_the_memory_of_the_rows():
    whole = pa.table(COLUMNS).select(["i", "s", "d"])
    table = stored([whole.slice(10, 20), whole.slice(30, 50)])
    for name in whole.column_names:
        addresses = [[buffer and buffer.address for buffer in t[name].chunk(0).buffers()] for t in (whole, table)]
        assert addresses[0] == addresses[1]


def test_chunks_of_a_source_keep_to_their_size():
    rows = pa.table({"i": pa.array(range(10_000))})
    sizes = [[batch.nbytes for batch in chunk] for chunk in ArrowRows(rows, memory=0).chunks(30_000)]
    assert all(len(chunk) == 1 and sum(chunk) <= 30_000 for chunk in sizes)
    small = pa.Table.from_batches(rows.to_batches(max_chunksize=100))
    assert [len(chunk) for chunk in ArrowRows(small, memory=0).chunks(30_000)] == [37, 37, 26]
