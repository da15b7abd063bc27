"""Reading base files, the Parquet files of a table: whole, or in batches so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from table_format.base_file.footer import BaseFileFooter, footer_of, named_corruption, parquet
from table_format.codecs.arrow_numpy import nulls
from table_format.schema.evolution import conform, refuse_nulls
from table_format.storage import Storage
from table_format.threads import compute_threads

_PAGE_BYTES = 1 << 18


def read_base_file(
    storage: Storage,
    path: str,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    dictionary_columns: Sequence[str] = (),
    *,
    choose: Callable[[BaseFileFooter], Sequence[int]] | None = None,
) -> pa.Table:
    """The rows of a base file, in the file's order.

    Args:
        storage: the table's.
        path: the file.
        columns: names to read, in this order; all when None. With `schema` given they are names of it.
        schema: the table's columns, to which the file's are cast: older files may lack columns, or hold narrower
            types; any list layout is read. Columns that are not in it are left out.
        dictionary_columns: string columns of few values that come back as dictionary arrays.
        choose: picks the row groups to read by the footer, for files with several; None reads all.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off or damaged.
        MissingFileError: there is no such file.
        SchemaError: a column cannot be cast to the schema's type.
    """
    if schema is not None and columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    wanted = schema.names if schema is not None else columns
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(
            stream, read_dictionary=list(dictionary_columns), coerce_int96_timestamp_unit="us", pre_buffer=True
        )
        present = file.schema_arrow.names
        names = None if wanted is None else [name for name in wanted if name in present]
        groups: Sequence[int] = range(file.num_row_groups)
        if choose is not None and len(groups) > 1:
            groups = choose(footer_of(file, path, stream.size()))
        if schema is not None and not names:
            return only_nulls(schema, sum(file.metadata.row_group(group).num_rows for group in groups))
        table: pa.Table = file.read_row_groups(list(groups), columns=names, use_threads=compute_threads() > 1)
    if names == []:
        return table  # a change of its schema would lose the number of rows
    table = table.replace_schema_metadata(None)
    if schema is None:
        return table if names is None else table.select(names)
    return as_schema(table, schema)


def first_rows(storage: Storage, path: str, columns: Sequence[str], count: int) -> pa.Table:
    """Some columns of the first rows of a base file in the file's own types; only the pages that hold them are read.

    Args:
        storage: the table's.
        path: the file.
        columns: names of top-level columns; those that the file lacks are left out.
        count: how many rows, fewer in a smaller file.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off or damaged.
        MissingFileError: there is no such file.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=_PAGE_BYTES)
        schema = file.schema_arrow.remove_metadata()
        names = [name for name in columns if name in schema.names]
        kept: list[pa.RecordBatch] = []
        for batch in file.iter_batches(batch_size=count, columns=names, use_threads=False):
            kept.append(batch)
            if sum(one.num_rows for one in kept) >= count:
                break
        chosen = pa.schema([schema.field(name) for name in names])
        return pa.Table.from_batches(kept, chosen).slice(0, count)


def as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Conform a table to a schema; dictionary columns with the right value type stay dictionary-encoded.

    Raises:
        HudiError: as for `conform`.
    """
    if table.schema.equals(schema):
        return table
    dictionaries = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        position = schema.get_field_index(name)
        if position >= 0 and isinstance(column.type, pa.DictionaryType):
            field: Any = schema.field(position)
            if field.type == column.type.value_type:
                refuse_nulls(field, column)
                dictionaries[position] = (pa.field(name, column.type, nullable=field.nullable), column)
    plain = [field for position, field in enumerate(schema) if position not in dictionaries]
    result = conform(table, pa.schema([field.remove_metadata() for field in plain]))
    for position in sorted(dictionaries):
        result = result.add_column(position, *dictionaries[position])
    return result


def only_nulls(schema: pa.Schema, rows: int) -> pa.Table:
    """`rows` rows of nulls, for a file that has none of the columns."""
    return pa.Table.from_arrays([nulls(rows, field.type) for field in schema], schema=schema)


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
    buffer_bytes: int | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a base file in the file's order, a row group or less at a time.

    Args:
        storage: the table's.
        path: the file.
        names: of the file's columns to read; those that it lacks are left out.
        schema: at least one column of the table, to which the file's are cast as `read_base_file` does.
            All nulls for a file with none of the names.
        shape: converts the columns that were read to that schema, in place of matching them by name.
        choose: picks the row groups to read by the footer; None reads all.
        start: number of leading rows to skip, counting rows of skipped row groups.
        batch_rows: rows of a batch at most; fewer where rows are wide.
        buffer_bytes: of a column that are read at a time; None reads the chunks of a row group at once, which is
            faster.

    Yields:
        Position in the file of the first row, and the rows.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off or damaged.
        MissingFileError: there is no such file.
        SchemaError: a column cannot be cast to the schema's type.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(
            stream, coerce_int96_timestamp_unit="us", pre_buffer=buffer_bytes is None, buffer_size=buffer_bytes or 0
        )
        present = set(file.schema_arrow.names)
        present_names = [name for name in names if name in present]
        groups = set(range(file.num_row_groups) if choose is None else choose(footer_of(file, path, stream.size())))
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if group in groups and first + rows > start:
                at = first
                for piece in _pieces(
                    file, group, present_names, schema, _fitting_rows(file, group, present_names, batch_rows)
                ):
                    skipped = max(0, start - at)
                    if skipped < piece.num_rows:
                        part = piece.slice(skipped)
                        yield (
                            at + skipped,
                            as_schema(part, schema) if shape is None or not present_names else shape(part),
                        )
                    at += piece.num_rows
            first += rows


def _pieces(file: Any, group: int, names: Sequence[str], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Batches of a row group in the file's own types; nulls in the schema's columns if there are no names."""
    if names:
        for batch in file.iter_batches(most, row_groups=[group], columns=list(names), use_threads=False):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
        return
    rows = file.metadata.row_group(group).num_rows
    for at in range(0, rows, most):
        yield only_nulls(schema, min(most, rows - at))


def _fitting_rows(file: Any, group: int, names: Sequence[str], most: int) -> int:
    """Rows of a row group that fit into one batch."""
    metadata, wanted = file.metadata.row_group(group), set(names)
    chunks = [metadata.column(index) for index in range(metadata.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted)
    width = 8 * len(wanted) + size // max(1, metadata.num_rows)
    fitting: int = _BATCH_BYTES // max(1, width)
    return max(_LEAST_ROWS, min(most, fitting))
