"""The values of merged rows, each column moved once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import SchemaError
from table_format.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    constant,
)

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.int64]


def merged_values(old: pa.Table, new: pa.Table, rows: Rows, places: Rows, unwritten: Collection[str] = ()) -> pa.Table:
    """Old and new rows as one table with the columns of the old rows.

    Args:
        old: rows of a file, with some of its columns.
        new: rows of a batch, with at least these columns.
        rows: source of each row; see `MergedRows`.
        places: for each of `rows` the old row that it is or replaces, -1 for none.
        unwritten: columns that retain the old row's value, and are null in inserted rows.
    """
    written = [name for name in old.column_names if name not in unwritten]
    added = _encoded_as(new.select(written), old.select(written).schema)
    both = pa.concat_tables([old.select(written), added]).unify_dictionaries()
    columns: dict[str, Any] = dict(zip(written, both.take(from_numpy(rows)).columns, strict=True))
    if len(written) < old.num_columns:
        places_or_null = from_numpy(places, places >= 0)
        retained = [name for name in old.column_names if name in unwritten]
        columns |= {name: old.column(name).take(places_or_null) for name in retained}
    return pa.table([columns[name] for name in old.column_names], names=old.column_names)


def with_constants(table: pa.Table, partition: str, name: str) -> pa.Table:
    """Add partition path and file name at their places among the meta columns."""
    position = len((COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY))
    for column, text in ((PARTITION_PATH, partition), (FILE_NAME, name)):
        values = constant(text, len(table))
        table = table.add_column(position, pa.field(column, values.type), values)
        position += 1
    if table.column_names[: len(META_COLUMNS)] != list(META_COLUMNS):
        raise SchemaError(f"meta columns are out of place: {table.column_names[: len(META_COLUMNS)]}")
    return table


def _encoded_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns, dictionary-encoded where the schema says so and nowhere else."""
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            columns.append(pc.dictionary_encode(column))
        else:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
    return pa.table(columns, schema=schema)
