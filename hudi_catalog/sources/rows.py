"""Arrow-like data as streams of record batches: pyarrow, Polars, pandas, DuckDB, lists of dicts, generators."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from catalog.scan import Scan
from hudi_catalog.sources.python_values import array_of, check_times, needs_type
from hudi_catalog.sources.types import decoded, narrowed, type_in, zoned
from table_format.errors import ArgumentError, HudiError, SchemaError
from table_format.schema.evolution import conform, merge_schemas
from table_writer.execution.sources import refuse_objects

arrow: Any = pa

_TAKEN: Final = (
    "a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Polars or pandas DataFrame, a DuckDB relation, "
    "a list of dicts, or an iterator of any of these"
)
_REMEDIES: Final = {
    "polars.LazyFrame": "rows.collect()",
    "polars.Series": "rows.to_frame()",
    "pandas.Series": "rows.to_frame()",
    "pyspark.DataFrame": "rows.toArrow(), or write it by hudi_catalog.HudiTable",
    "duckdb.DuckDBPyConnection": "the relation, as connection.sql(…) returns it",
}
_READ_AGAIN: Final = ("pyarrow", "polars", "pandas")


@dataclass(frozen=True)
class RowStream:
    """Rows to write.

    Attributes:
        schema: their columns.
        open: returns a reader of all rows.
        repeatable: whether `open` may be called more than once.
    """

    schema: pa.Schema
    open: Callable[[], pa.RecordBatchReader]
    repeatable: bool

    @property
    def stream(self) -> Any:
        """The rows as `table_writer` takes them: a reader, or a function that opens a new one each time."""
        return self.open if self.repeatable else self.open()


def arrow_rows(rows: Any, columns: pa.Schema | None = None, *, time_zone: str | None = None) -> RowStream:
    """Arrow-like data as batches; nothing is read at once but the first batch of a generator.

    Python and pandas only have 64-bit integers, and pandas turns integers with missing values into floats: such columns
    take the type of the table's column if no value is lost.

    Args:
        rows: an object with `__arrow_c_stream__` or `__arrow_c_array__`, a `Scan`, a `pyarrow.dataset.Dataset`, a dict
            of columns, a list of dicts, or an iterable of any of these.
        columns: the columns of the table to write to; None if it has none yet.
        time_zone: of timestamps that have none.

    Raises:
        ArgumentError: data of another kind; the message says how to convert it.
        SchemaError: a column that Arrow cannot hold, or a timestamp without a time zone where none is given.
    """
    stream = _opened(rows, columns, time_zone)
    if columns is not None and not stream.schema.names and isinstance(rows, Sized) and not len(rows):
        stream = rows_of_table(columns.empty_table())  # such as an empty frame, which has lost its columns
    return zoned_rows(_changed(stream, *decoded(stream.schema)), columns, time_zone)


def zoned_rows(rows: RowStream, columns: pa.Schema | None, time_zone: str | None) -> RowStream:
    """Rows whose timestamps have a time zone, except in columns that have none in the table either."""
    return _changed(rows, *zoned(rows.schema, columns, time_zone))


def _changed(
    rows: RowStream, schema: pa.Schema, change: Callable[[pa.RecordBatch], pa.RecordBatch] | None
) -> RowStream:
    if change is None:
        return rows

    def opened() -> Any:
        return arrow.RecordBatchReader.from_batches(schema, map(change, rows.open()))

    return RowStream(schema, opened, rows.repeatable)


def rows_of_table(table: pa.Table) -> RowStream:
    """Rows in memory."""
    return RowStream(table.schema, table.to_reader, repeatable=True)


def imported(read: Callable[[Any], Any], rows: Any) -> Any:
    """Let pyarrow read an object of another library.

    Raises:
        ArgumentError: the object is not a table; the message says how to convert it.
        SchemaError: pyarrow cannot read it.
    """
    try:
        return read(rows)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if _kind(rows) in _REMEDIES:
            raise _refused(rows) from error
        raise SchemaError(f"these rows ({_kind(rows)}) are not columns that Arrow can hold: {error}") from error


def _opened(rows: Any, columns: pa.Schema | None, time_zone: str | None) -> RowStream:  # noqa: PLR0911  a line a kind
    if isinstance(rows, RowStream):
        return rows
    if isinstance(rows, Scan):
        return RowStream(rows.schema, rows.to_batch_reader, repeatable=True)
    if hasattr(rows, "scanner") and isinstance(getattr(rows, "schema", None), pa.Schema):  # pyarrow.dataset.Dataset
        return RowStream(rows.schema, lambda: rows.scanner().to_reader(), repeatable=True)
    if _kind(rows) == "pandas.DataFrame":
        return rows_of_table(_pandas_table(rows, columns))
    if hasattr(rows, "__arrow_c_stream__"):
        return _of_stream(rows)
    if hasattr(rows, "__arrow_c_array__"):
        return rows_of_table(pa.Table.from_batches([imported(arrow.record_batch, rows)]))
    if isinstance(rows, Mapping):
        return rows_of_table(narrowed(imported(functools.partial(_table_of_columns, columns=columns), rows), columns))
    if isinstance(rows, (str, bytes, os.PathLike)) or not isinstance(rows, Iterable) or _kind(rows) in _REMEDIES:
        raise _refused(rows)
    if isinstance(rows, (list, tuple)) and (not rows or isinstance(rows[0], Mapping)):
        return rows_of_table(_table_of_dicts(rows, columns))
    return _of_chunks(rows, columns, time_zone)


def _of_stream(rows: Any) -> RowStream:
    refuse_objects(rows)
    reader = imported(arrow.RecordBatchReader.from_stream, rows)
    again = _kind(rows).partition(".")[0] in _READ_AGAIN and not isinstance(rows, pa.RecordBatchReader)
    unread = iter([reader])

    def opened() -> Any:
        return next(unread, None) or arrow.RecordBatchReader.from_stream(rows)

    return RowStream(reader.schema, opened, repeatable=again)


def _pandas_table(frame: Any, columns: pa.Schema | None) -> pa.Table:
    if any(name is not None for name in frame.index.names):
        _refuse_names_of_columns(frame)
        frame = frame.reset_index()  # a named index is meant as a column; unnamed ones are row numbers
    typed = _typed_by_the_table(frame, columns)
    try:
        plain = frame.drop(columns=list(typed))
        table = pa.Table.from_pandas(plain, preserve_index=False).replace_schema_metadata(None)
        for position, name in enumerate(frame.columns):
            if name in typed:
                table = table.add_column(position, name, array_of(_without_missing(frame[name]), typed[name]))
        for position, field in enumerate(table.schema):
            if _holds_objects(frame.iloc[:, position]):
                _check_times(frame.iloc[:, position], field)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        reason = str(error) if isinstance(error, UnicodeError) else " ".join(str(part) for part in error.args)
        raise SchemaError(f"the pandas DataFrame has a column that Arrow cannot hold: {reason}; convert it") from error
    return narrowed(table, columns, fractions=False)


def _check_times(values: Iterable[Any], field: pa.Field[Any]) -> None:
    try:
        check_times(values, field.type)
    except ValueError as error:
        raise ValueError(f"column {field.name!r}: {error}") from error


def _holds_objects(values: Any) -> bool:
    """Whether an array of numpy or a column of pandas holds Python's values."""
    return getattr(getattr(values, "dtype", None), "kind", None) == "O"


def _refuse_names_of_columns(frame: Any) -> None:
    for name in frame.index.names:
        if name is not None and name in frame.columns:
            raise SchemaError(
                f"the index of the pandas DataFrame and one of its columns are both named {name!r}: leave the index "
                "out by reset_index(drop=True), or rename one"
            )


def _typed_by_the_table(frame: Any, columns: pa.Schema | None) -> dict[str, pa.DataType]:
    """Columns of objects that the table's types tell how to read; none where names repeat, which Arrow refuses."""
    if not frame.columns.is_unique:
        return {}
    kinds = {name: type_in(columns, name) for name in frame.columns if isinstance(name, str)}
    return {
        name: kind
        for name, kind in kinds.items()
        if kind is not None and frame[name].dtype == object and needs_type(kind)
    }


def _table_of_columns(arrays: Mapping[str, Any], columns: pa.Schema | None) -> pa.Table:
    table = pa.table(
        {
            name: array_of(values, type_in(columns, name)) if isinstance(values, list | tuple) else values
            for name, values in arrays.items()
        }
    )
    for field, values in zip(table.schema, arrays.values(), strict=True):
        if _holds_objects(values):
            _check_times(values, field)
    return table


def _without_missing(values: Any) -> list[Any]:
    """Python's values of a pandas Series, None where there is none."""
    return [None if missing is True else value for value, missing in zip(values, values.isna(), strict=True)]


def _table_of_dicts(rows: Sequence[Mapping[str, Any]], columns: pa.Schema | None) -> pa.Table:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            kind = "None" if row is None else f"of the type {_kind(row)}"
            raise ArgumentError(f"item {number} of the rows is {kind}, and those before it are dicts")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names and rows:
        raise SchemaError("the dicts of the rows are empty, and so have no columns, nor a record key")
    if not names:
        return _no_rows(columns)
    arrays = {}
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"a dict of the rows has the key {name!r}; keys are column names, which are texts")
        try:
            arrays[name] = array_of([row.get(name) for row in rows], type_in(columns, name))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise SchemaError(f"column {name!r} of the dicts has no one type: {error}") from error
    return narrowed(pa.table(arrays), columns)


def _no_rows(columns: pa.Schema | None) -> pa.Table:
    if columns is None:
        raise SchemaError("there are no rows, and so no columns; give a pyarrow Table or reader that has a schema")
    return columns.empty_table()


def _of_chunks(rows: Iterable[Any], columns: pa.Schema | None, time_zone: str | None) -> RowStream:
    """An iterable of Arrow-like chunks, each read when the previous one is written."""
    iterator = iter(rows)
    begin = [*itertools.islice(iterator, 1)]
    if not begin:
        return rows_of_table(_no_rows(columns))
    chunk = _chunk(begin[0], 0, columns, time_zone)
    schema = chunk.schema if columns is None else _types_of_table(chunk.schema, columns)

    def batches() -> Iterator[pa.RecordBatch]:
        for number, each in enumerate(itertools.chain([chunk], iterator)):
            part = _chunk(each, number, columns, time_zone)
            absent = [name for name in part.schema.names if name not in schema.names]
            if absent:
                raise SchemaError(
                    f"chunk {number} of the rows has a column {absent[0]!r} that the first chunk lacks: give all "
                    "chunks the same columns"
                )
            for batch in part.open():
                yield from _conformed(batch, schema, number)

    once = arrow.RecordBatchReader.from_batches(schema, batches())
    return RowStream(schema, lambda: once, repeatable=False)


def _types_of_table(schema: pa.Schema, columns: pa.Schema) -> pa.Schema:
    """The columns of the first chunk in the types that they will have in the table."""
    merged = merge_schemas(columns, schema)
    return pa.schema([merged.field(name) if name in merged.names else schema.field(name) for name in schema.names])


def _chunk(rows: Any, number: int, columns: pa.Schema | None, time_zone: str | None) -> RowStream:
    if rows is None:
        raise ArgumentError(f"item {number} of the rows is None: leave it out")
    if isinstance(rows, Mapping) or not _is_arrow_like(rows):
        raise ArgumentError(
            f"item {number} of the rows is of the type {_kind(rows)}: give a list of dicts, such as [{{'id': 1}}], or "
            "an iterator of record batches, tables, frames or such lists"
        )
    return arrow_rows(rows, columns, time_zone=time_zone)


def _is_arrow_like(rows: Any) -> bool:
    is_stream = hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")
    return is_stream or isinstance(rows, (RowStream, list, tuple)) or _kind(rows) == "pandas.DataFrame"


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, number: int) -> Iterator[pa.RecordBatch]:
    if batch.schema.equals(schema):
        yield batch
        return
    try:
        yield from conform(pa.Table.from_batches([batch]), schema).to_batches()
    except HudiError as error:
        raise type(error)(f"chunk {number} of the rows differs from the first one: {error}") from error


def _refused(rows: Any) -> ArgumentError:
    kind = _kind(rows)
    if isinstance(rows, (str, os.PathLike)):
        return ArgumentError(
            f"the rows are of the type {kind}, {os.fspath(rows)!r}: for files give "
            f"pyarrow.dataset.dataset({os.fspath(rows)!r}), "
            "or write them by the command hudi-catalog write"
        )
    remedy = _REMEDIES.get(kind) or _TAKEN
    return ArgumentError(f"the rows are of the type {kind}, which holds no Arrow data: give {remedy}")


def _kind(value: object) -> str:
    """Package and name of a value's class; the name alone for Python's own."""
    kind = type(value)
    package = kind.__module__.partition(".")[0].removeprefix("_")
    return kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
