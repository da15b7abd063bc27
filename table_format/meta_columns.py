"""Hudi's five meta columns, which stand in front of the user's columns in every data file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

pc: Any = compute  # the stubs lag behind the functions

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""Their names, in the order of the files."""

META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)
IS_DELETED = "_hoodie_is_deleted"
"""A boolean column of the user's: true in a batch means that the record goes."""


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
    """A table with the meta columns of freshly written records in front.

    Args:
        table: user columns; meta columns in it are replaced.
        instant: of the commit that writes the records.
        task: number that is unique among the commit's writing tasks; it makes the sequence numbers unique.
        keys: record key of each row.
        partition: partition path, "" when the table has no partitions.
        file_name: base file that the rows go to.
        first_row: where the row counter of the sequence numbers starts.
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
    """`<instant>_<task>_<row>` for `count` rows."""
    rows = pa.array(np.arange(first_row, first_row + count, dtype=np.int64)).cast(pa.string())
    numbers: pa.Array[Any] = pc.binary_join_element_wise(pa.scalar(f"{instant}_{task}"), rows, "_")
    return numbers


def constant(text: str, count: int) -> pa.Array[Any]:
    """One text `count` times, as a dictionary array: the Parquet writer then encodes it once."""
    indices: Any = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))
