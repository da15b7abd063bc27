"""Hudi's five meta columns, the first columns of every data file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.errors import RecordError

pc: Any = compute  # the stubs lag behind the functions

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The meta columns in file order."""

META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)
IS_DELETED = "_hoodie_is_deleted"
"""A boolean user column: true in a batch deletes the record."""
_INT32_MAX = 2**31 - 1


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
        instant: of the commit that writes the records.
        task: number that is unique among the commit's writing tasks; it makes the sequence numbers unique.
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
        RecordError: the texts take more than 2 GiB.
    """
    prefix = np.frombuffer(f"{instant}_{task}_".encode(), np.uint8)
    row, end = first_row, first_row + count
    texts: list[npt.NDArray[np.uint8]] = []
    widths = np.zeros(count, np.int64)
    while row < end:
        # rows whose numbers have equally many digits are a matrix of bytes
        stop = min(end, 10 ** len(str(row)))
        block = np.empty((stop - row, len(prefix) + len(str(row))), np.uint8)
        block[:, : len(prefix)] = prefix
        _put_digits(np.arange(row, stop), block[:, len(prefix) :])
        texts.append(block.reshape(-1))
        widths[row - first_row : stop - first_row] = block.shape[1]
        row = stop
    ends = np.concatenate([[0], np.cumsum(widths)])
    data: Any = np.concatenate([*texts, np.empty(0, np.uint8)])
    if len(data) > _INT32_MAX:
        raise RecordError(f"{count:,} rows for one file are too many; write them in several batches or to more buckets")
    offsets: Any = ends.astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _put_digits(numbers: npt.NDArray[np.int64], into: npt.NDArray[np.uint8]) -> None:
    """Write integers in decimal, one digit a column."""
    if len(numbers) and numbers[-1] <= _INT32_MAX:
        numbers = numbers.astype(np.uint32)  # divides several times as fast
    for column in range(into.shape[1] - 1, -1, -1):
        quotients = numbers // 10
        into[:, column] = numbers - quotients * 10 + ord("0")
        numbers = quotients


def constant(text: str, count: int) -> pa.Array[Any]:
    """A constant string column, as a dictionary array: the Parquet writer then encodes the text once."""
    indices: Any = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))
