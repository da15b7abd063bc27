"""The rows that users give to a write in this process: Arrow data of any kind, read batch by batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.dataset

from table_format.codecs.avro_schema import check_type
from table_format.errors import ArgumentError, SchemaError
from table_format.meta_columns import IS_DELETED, META_COLUMNS
from table_format.schema.evolution import conform, storage_schema
from table_format.schema.nested import holds
from table_format.storage import Storage
from table_writer.execution.exchange import Segment, Segments, SpillFile
from table_writer.execution.executor import RowSource
from table_writer.execution.spill_folder import SpillFolder
from table_writer.plan.plan import FROM_COLUMN

_SAMPLE_ROWS: Final = 4096

ArrowData = Any
"""`pyarrow` tables, batches, readers and datasets; objects with `__arrow_c_stream__`, such as frames of Polars, pandas
and DuckDB; an iterable of tables or batches; a function that returns a new reader each time; a `RowSource`."""

_REMEDIES: Final = {
    "list": "pyarrow.Table.from_pylist(rows)",
    "dict": "pyarrow.table(rows)",
    "str": "pyarrow.dataset.dataset(rows), or another reader for the files",
    "pandas.DataFrame": "pyarrow.Table.from_pandas(rows, preserve_index=False)",
    "pyspark.DataFrame": "a HudiTable, which writes DataFrames of Spark",
}


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """An Arrow schema in the types under which tables store its columns, without Hudi's meta columns.

    Raises:
        SchemaError: timestamps without a time zone, which Apache's writers of this table version do not write; structs
            without fields, which Parquet cannot hold; other types that tables do not have.
    """
    stored = storage_schema(schema)
    for field in stored:
        if holds(field.type, _has_no_fields):
            raise SchemaError(f"column {field.name!r} has a struct without fields, which Parquet cannot hold")
        path = _without_zone(field.type, field.name)
        if path is not None:
            raise SchemaError(
                f"column {path!r}: Hudi tables cannot hold timestamps without a time zone; cast it to "
                "pyarrow.timestamp('us', 'UTC')"
            )
        if not holds(field.type, pa.types.is_null):  # such a column may get its type from the table, or be left out
            check_type(field)
    return pa.schema([_with_comment_only(field) for field in stored])


def refuse_untyped(schema: pa.Schema) -> None:
    """Refuse columns without a type.

    Raises:
        SchemaError: a column holds only nulls and has no type.
    """
    for field in schema:
        if pa.types.is_null(field.type):
            raise SchemaError(f"column {field.name!r} has no type (void): give the column a type, e.g. by a cast")


def refuse_objects(rows: object) -> None:
    """Refuse a Polars frame with columns of Python objects, which come as their places in memory.

    Raises:
        SchemaError: it has one.
    """
    if type(rows).__module__.partition(".")[0] != "polars":
        return
    schema: Any = getattr(rows, "schema", None) or {}
    for name, kind in schema.items():
        if str(kind) == "Object":
            raise SchemaError(f"column {name!r} holds Python objects, which have no type: give the column a type")


def _has_no_fields(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.StructType) and not kind.num_fields


def without_delete_flag(batch: pa.Schema, table: pa.Schema | None) -> pa.Schema:
    """A batch's columns without `_hoodie_is_deleted`, which marks rows to delete, and the files that rows are from.

    The mark stays where the table has such a column. It must be boolean.

    Raises:
        SchemaError: it is not.
    """
    batch = pa.schema([field for field in batch if field.name != FROM_COLUMN])
    position = batch.get_field_index(IS_DELETED)
    if position < 0 or (table is not None and IS_DELETED in table.names):
        return batch
    if not pa.types.is_boolean(batch.field(position).type):
        raise SchemaError(f"column {IS_DELETED} is {batch.field(position).type}; it must be boolean")
    return batch.remove(position)


class ArrowRows(RowSource):
    """Arrow data as the rows of a write.

    Data that can be read only once is kept while it is read, in memory up to a limit, beyond it in temporary files: a
    write that conflicts with another one is repeated.

    Args:
        rows: see `ArrowData`.
        memory: bytes of it to keep in memory.
        folder: for temporary files; None for the system's own.

    Raises:
        ArgumentError: it is not Arrow data; the message says how to convert it.
        SchemaError: columns that tables cannot hold.
    """

    def __init__(self, rows: ArrowData, *, memory: int, folder: str | None = None) -> None:
        source = _source_of(rows)
        self._source = source if source.again else _Spool(source, memory, SpillFolder(folder))
        self._names = [name for name in source.schema.names if name not in META_COLUMNS]
        self._schema = stored_schema(source.schema)

    @property
    def schema(self) -> pa.Schema:
        """Columns in the types under which tables store them."""
        return self._schema

    def chunks(self, most: int) -> Iterator[list[pa.RecordBatch]]:
        """The rows, in lists of batches of about `most` bytes."""
        chunk: list[pa.RecordBatch] = []
        size = 0
        for batch in filter(len, self._source.batches()):
            rows = self._measurable(batch.select(self._names))
            count = max(1, -(-rows.nbytes // most))
            step = -(-rows.num_rows // count)
            for start in range(0, rows.num_rows, max(1, step)):
                part = rows.slice(start, step)
                if chunk and size + part.nbytes > most:
                    yield chunk
                    chunk, size = [], 0
                chunk.append(part)
                size += part.nbytes
        if chunk:
            yield chunk

    def size(self) -> tuple[int, pa.Table]:
        """Number of rows, and a sample of them; data that can be read only once is read and kept."""
        rows = 0
        sample = self._schema.empty_table()
        for batch in self._source.batches():
            rows += batch.num_rows
            if sample.num_rows < _SAMPLE_ROWS and batch.num_rows:
                some = pa.Table.from_batches([batch.select(self._names).slice(0, _SAMPLE_ROWS - sample.num_rows)])
                sample = pa.concat_tables([sample, conform(some, self._schema)])
        return rows, sample.combine_chunks()

    def _measurable(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, without views where pyarrow (before 24) cannot measure them."""
        try:
            rows.nbytes  # noqa: B018
        except pa.ArrowTypeError:
            [rows] = conform(pa.Table.from_batches([rows]), self._schema).combine_chunks().to_batches()
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._source, _Spool):
            self._source.remove()


class ComputedRows(ArrowRows):
    """Rows that were computed from those of a table, to be upserted: they win whatever the ordering values are.

    Args:
        schema: their columns.
        batches: the rows, computed when they are read first; told the object, to count new keys.
        memory: see `ArrowRows`.
        folder: see `ArrowRows`.
        uri: of the table.
        selected: see `RowSource.is_selected`.
    """

    is_computed = True

    def __init__(
        self,
        schema: pa.Schema,
        batches: Callable[[ComputedRows], Iterator[pa.RecordBatch]],
        *,
        memory: int,
        folder: str | None,
        uri: str,
        selected: bool,
    ) -> None:
        super().__init__(pa.RecordBatchReader.from_batches(schema, batches(self)), memory=memory, folder=folder)
        self._uri = uri
        self.is_selected = selected

    def reads_table(self, storage: Storage, name: str) -> bool:  # noqa: ARG002  # a location is more exact
        """Whether the table is the one being written."""
        return self._uri == storage.uri


@dataclass(frozen=True)
class _Source:
    """Batches of one schema.

    Attributes:
        schema: theirs.
        batches: iterates over them; only once unless `again`.
        again: whether they can be read again.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    again: bool


class _Spool:
    """Makes the batches of a one-time source readable again."""

    def __init__(self, source: _Source, memory: int, folder: SpillFolder) -> None:
        self._memory = memory
        self._folder = folder
        self._fresh = source.batches()
        self._aside: list[pa.RecordBatch | Segment] = []
        self._size = 0
        self._failure: Exception | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches, those already read first.

        A source that failed fails each time: an iterator that raised is at its end, which is not that of the rows.
        """
        for number in itertools.count():
            if number == len(self._aside):
                batch = self._next()
                if batch is None:
                    return
                self._keep(batch)
                yield batch
                continue
            kept = self._aside[number]
            if isinstance(kept, pa.RecordBatch):
                yield kept
            else:
                yield from next(Segments((kept,)).tables()).to_batches()

    def _next(self) -> pa.RecordBatch | None:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._fresh, None)
        except Exception as error:
            self._failure = error
            raise

    def remove(self) -> None:
        """Delete the batches."""
        self._aside = []
        self._folder.remove()

    def _keep(self, batch: pa.RecordBatch) -> None:
        self._size += _size(batch)
        if self._size <= self._memory:
            self._aside.append(batch)
            return
        with SpillFile(self._folder.path) as file:
            self._aside.append(file.write(pa.Table.from_batches([batch])))


def _source_of(rows: Any) -> _Source:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _Source(rows.schema, lambda: iter(rows.to_batches()), again=True)
    if isinstance(rows, pyarrow.dataset.Dataset):
        return _Source(rows.schema, lambda: iter(rows.to_batches(use_threads=False)), again=True)
    if isinstance(rows, pa.RecordBatchReader):
        return _Source(rows.schema, lambda: iter(rows), again=False)
    if hasattr(rows, "__arrow_c_stream__"):
        refuse_objects(rows)
        reader = pa.RecordBatchReader.from_stream(rows)
        return _Source(reader.schema, lambda: iter(reader), again=False)
    if callable(rows):
        schema = rows().schema
        return _Source(schema, lambda: iter(rows()), again=True)
    if isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, dict)):
        return _iterated(iter(rows), rows)
    raise _refusal(rows)


def _iterated(items: Iterator[Any], rows: Any) -> _Source:
    first = next(items, None)
    if not isinstance(first, (pa.Table, pa.RecordBatch)):
        raise _refusal(rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for item in itertools.chain((first,), items):
            if item.schema.names != first.schema.names:
                raise SchemaError(
                    f"the batches of one write have the same columns: {first.schema.names} in the first, and "
                    f"{item.schema.names} in a later one"
                )
            table = item if isinstance(item, pa.Table) else pa.Table.from_batches([item])
            if item.schema != first.schema:
                try:
                    table = table.cast(first.schema)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise SchemaError(f"a later batch of the write has other types than the first: {error}") from error
            yield from table.to_batches()

    return _Source(first.schema, batches, again=False)


def _refusal(rows: object) -> ArgumentError:
    kind = type(rows)
    package = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    remedy = _REMEDIES.get(name, "a pyarrow Table or RecordBatchReader, or a frame of Polars, pandas or DuckDB")
    return ArgumentError(f"rows must be Arrow data, and this is a {name}: give {remedy}")


def _without_zone(kind: Any, path: str) -> str | None:
    """The path of a timestamp without a time zone in a column; None if there is none."""
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return path
    if isinstance(kind, pa.StructType):
        members = [(kind.field(index).type, f"{path}.{kind.field(index).name}") for index in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        members = [(kind.item_type, f"{path}.value")]
    elif pa.types.is_list(kind):
        members = [(kind.value_type, f"{path}.element")]
    else:
        members = []
    return next((changed for member, name in members if (changed := _without_zone(member, name)) is not None), None)


def _with_comment_only(field: Any) -> Any:
    comment = (field.metadata or {}).get(b"comment")
    return field.remove_metadata() if comment is None else field.with_metadata({b"comment": comment})


def _size(batch: pa.RecordBatch) -> int:
    """Bytes of a batch in memory."""
    try:
        return batch.nbytes
    except pa.ArrowTypeError:
        return batch.get_total_buffer_size()  # see `_measurable`
