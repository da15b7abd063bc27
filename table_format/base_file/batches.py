"""Base files read piece by piece, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.reader import BaseFileFooter, as_schema, footer_of, named_corruption, only_nulls
from table_format.storage import Storage

parquet: Any = pq  # the stubs lag behind the functions

_BATCH_BYTES = 16 << 20
_LEAST_ROWS = 256


def base_file_batches(
    storage: Storage,
    path: str,
    names: Sequence[str],
    schema: pa.Schema,
    *,
    shape: Callable[[pa.Table], pa.Table] | None = None,
    choose: Callable[[BaseFileFooter], Sequence[int]] | None = None,
    start: int = 0,
    batch_rows: int = 65_536,
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a base file in the file's order, a row group or less at a time.

    Args:
        storage: the table's.
        path: the file.
        names: of the file's columns to read; those that it lacks are left out.
        schema: at least one column of the table, to which the file's are brought as `base_file.read_base_file` does.
            Of a file with none of the names they are null.
        shape: makes columns of that schema of those that were read, in place of matching them by name.
        choose: tells by the footer which row groups to read; all when None.
        start: rows of the file to leave out, row groups that are not read counted too.
        batch_rows: rows in a piece at most; fewer where rows are wide.

    Yields:
        Position in the file of the first row, and the rows.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off or damaged.
        MissingFileError: there is no such file.
        SchemaError: a column cannot be brought to the schema's type.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us", pre_buffer=True)
        present = set(file.schema_arrow.names)
        found = [name for name in names if name in present]
        groups = set(range(file.num_row_groups) if choose is None else choose(footer_of(file, path, stream.size())))
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if group in groups and first + rows > start:
                at = first
                for piece in _pieces(file, group, found, schema, _fitting_rows(file, group, found, batch_rows)):
                    skipped = max(0, start - at)
                    if skipped < piece.num_rows:
                        part = piece.slice(skipped)
                        yield at + skipped, as_schema(part, schema) if shape is None or not found else shape(part)
                    at += piece.num_rows
            first += rows


def _pieces(file: Any, group: int, names: Sequence[str], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """The rows of a row group as the file has them; of none of the names, nulls in the schema's columns."""
    if names:
        for batch in file.iter_batches(most, row_groups=[group], columns=list(names), use_threads=False):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
        return
    rows = file.metadata.row_group(group).num_rows
    for at in range(0, rows, most):
        yield only_nulls(schema, min(most, rows - at))


def _fitting_rows(file: Any, group: int, names: Sequence[str], most: int) -> int:
    """How many rows of a row group may be decoded at once."""
    metadata, wanted = file.metadata.row_group(group), set(names)
    chunks = [metadata.column(index) for index in range(metadata.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted)
    width = 8 * len(wanted) + size // max(1, metadata.num_rows)
    fitting: int = _BATCH_BYTES // max(1, width)
    return max(_LEAST_ROWS, min(most, fitting))
