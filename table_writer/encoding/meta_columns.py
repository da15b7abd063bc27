"""The meta columns of newly written rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import RecordError
from table_format.keys.number_texts import FOUR_DIGITS
from table_format.meta_columns import META_COLUMNS, META_FIELDS

_INT32_MAX = 2**31 - 1
# The last digits of numbers that follow each other.
_RUN = len(FOUR_DIGITS)


def add_meta_columns(
    table: pa.Table,
    *,
    instant: str,
    task: int,
    keys: pa.Array[Any] | pa.ChunkedArray[Any],
    partition: str,
    file_name: str,
    first_row: int = 0,
) -> pa.Table:
    """Add the meta columns of newly written records in front of the user's columns.

    Args:
        table: user columns; meta columns in it are replaced.
        instant: the commit that writes the records.
        task: number of the writing task, unique in the commit; it makes the sequence numbers unique.
        keys: record key of each row.
        partition: partition path, "" when the table has no partitions.
        file_name: base file of the rows.
        first_row: start of the row counter in sequence numbers.
    """
    user = table.drop_columns([name for name in META_COLUMNS if name in table.column_names])
    columns: list[Any] = [
        constant(instant, len(table)),
        sequence_numbers(instant, task, len(table), first_row),
        keys,
        constant(partition, len(table)),
        constant(file_name, len(table)),
    ]
    schema = pa.schema([*META_FIELDS, *user.schema])
    fields = [pa.field(name, column.type) for name, column in zip(META_COLUMNS, columns, strict=True)]
    return pa.table([*columns, *user.columns], schema=pa.schema([*fields, *list(schema)[len(META_COLUMNS) :]]))


def sequence_numbers(instant: str, task: int, count: int, first_row: int = 0) -> pa.Array[Any]:
    """`<instant>_<task>_<row>` for `count` rows.

    Raises:
        RecordError: the sequence numbers take more than 2 GiB.
    """
    runs = list(_runs(f"{instant}_{task}_".encode(), first_row, first_row + count))
    size = sum(len(digits) * (len(lead) + digits.shape[1]) for lead, digits in runs)
    if size > _INT32_MAX:
        raise RecordError(f"{count:,} rows for one file are too many; write them in several batches or to more buckets")
    # Arrow's pool keeps the memory for the next file
    data = pa.allocate_buffer(size)
    texts: Any = np.asarray(memoryview(data))
    offsets: Any = np.zeros(count + 1, np.int32)
    row = end = 0
    for lead, digits in runs:
        width = len(lead) + digits.shape[1]
        start, end = end, end + len(digits) * width
        block = texts[start:end].reshape(len(digits), width)
        block[:, : len(lead)] = np.frombuffer(lead, np.uint8)
        block[:, len(lead) :] = digits
        offsets[row + 1 : row + 1 + len(digits)] = np.arange(start + width, end + 1, width)
        row += len(digits)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), data])


def _runs(prefix: bytes, row: int, end: int) -> Iterator[tuple[bytes, npt.NDArray[np.uint8]]]:
    """Numbers that follow each other, in runs of equal width: what texts of a run begin with, and their last digits."""
    while row < end:
        high, low = divmod(row, _RUN)
        if high:
            stop = min(end, (high + 1) * _RUN)
            yield prefix + str(high).encode(), FOUR_DIGITS[low : low + stop - row]
        else:
            width = len(str(row))
            stop = min(end, 10**width)
            yield prefix, FOUR_DIGITS[row:stop, -width:]
        row = stop


def constant(text: str, count: int) -> pa.Array[Any]:
    """A constant string column, as a dictionary array: the Parquet writer then encodes the text once."""
    indices: Any = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))
