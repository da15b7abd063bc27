"""A base file that is open for surgery: its footer, and its row groups on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.base_file.footer import BaseFileFooter, footer_of, named_corruption, parquet
from table_format.base_file.reader import as_schema
from table_format.codecs.arrow_numpy import nulls
from table_format.meta_columns import FILE_NAME, PARTITION_PATH
from table_format.schema.evolution import storage_type
from table_format.storage import Storage
from table_format.threads import compute_threads
from table_writer.files.rewrite import few_valued_columns
from table_writer.surgery.cost import FileChunks
from table_writer.surgery.footer import Footer, binary_decimals, read_footer
from table_writer.surgery.locate import KeyRange, key_ranges
from table_writer.surgery.page_index import key_pages
from table_writer.surgery.policy import CannotSplice, why_not
from table_writer.surgery.source import Source, open_source

_WORD = 8

# Readers take the calendar of old dates from these; the file's other row groups would be read otherwise without them.
_OLD_CALENDARS = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")


class OpenedFile:
    """A base file whose columns are those of the table.

    The footer is decoded into structs when they are needed first, which takes longer than all else that finding a few
    keys does; a file that is then rewritten whole has not paid for it.

    Args:
        source: the file's bytes.
        stream: the same, for pyarrow.
        plain: the file as pyarrow reads it.
        footer: of the file.
        schema: of the table, meta columns included.
    """

    def __init__(self, source: Source, stream: Any, plain: Any, footer: BaseFileFooter, schema: pa.Schema) -> None:
        self._source = source
        self._stream = stream
        self._plain = plain
        self.footer = footer
        self.schema = schema

    @cached_property
    def structs(self) -> Footer:
        """The footer as Thrift structs.

        Raises:
            CannotSplice: the file's parts cannot be moved.
        """
        return read_footer(self._source)

    @cached_property
    def _quick(self) -> tuple[Any, frozenset[str]]:
        """The file with some decimals as plain bytes, and the names of these; see `footer.binary_decimals`."""
        decimals, metadata = binary_decimals(self.structs)
        file = parquet.ParquetFile(
            self._stream,
            metadata=metadata,
            read_dictionary=few_valued_columns(self.footer),
            coerce_int96_timestamp_unit="us",
            pre_buffer=True,
        )
        return file, decimals

    def key_pages(self, group: int) -> Sequence[KeyRange] | None:
        """The keys of each page of a row group; None if some are unknown."""
        return self._pages(group)

    @cached_property
    def _pages(self) -> Callable[[int], Sequence[KeyRange] | None]:
        return key_pages(self._source, self.structs)

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The keys of each row group."""
        return key_ranges(self.footer.metadata)

    @cached_property
    def chunks(self) -> FileChunks:
        """The file's column chunks."""
        return FileChunks(self.footer.metadata)

    def read_keys(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Like `read`, for few columns: without the footer's structs."""
        return self._read(self._plain, groups, list(names), frozenset()).table(names)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Some columns of some row groups in the table's types, each column in one chunk."""
        return self.read_stored(groups, names).table(names)

    def read_stored(self, groups: Sequence[int], names: Sequence[str], known: StoredRows | None = None) -> StoredRows:
        """As `read`, with columns that are converted when they are asked for, or some of their rows.

        Args:
            groups: ordinals of the row groups.
            names: of the columns.
            known: columns of the same row groups, which are not read again.
        """
        file, decimals = self._quick
        if known is None:
            return self._read(file, groups, list(names), decimals)
        left = [name for name in names if name not in known.rows.column_names]
        return self._read(file, groups, left, decimals).beside(known)

    def whole(self, known: pa.Table, number: int, stored: StoredRows) -> pa.Table:
        """All rows, without the meta columns of partition and file name; each column in one chunk.

        Args:
            known: columns of all rows, which are not read again.
            number: of a row group.
            stored: what was read of it, which is not read again either.
        """
        names = [name for name in self.schema.names if name not in (PARTITION_PATH, FILE_NAME)]
        left = [name for name in names if name not in known.column_names]
        absent = [name for name in left if name not in stored.rows.column_names]
        group = stored.table([name for name in left if name not in absent])
        rest = self.read([number], absent) if absent else group.select([])
        for field, column in zip(rest.schema, rest.columns, strict=True):
            group = group.append_column(field, column)
        others = (range(number), range(number + 1, self.footer.metadata.num_row_groups))
        before, after = ([self.read(groups, left)] if groups else [] for groups in others)
        rows = pa.concat_tables([*before, group.select(left), *after]).unify_dictionaries().combine_chunks()
        columns = {**dict(zip(left, rows.columns, strict=True)), **{name: known[name] for name in known.column_names}}
        return pa.table([columns[name] for name in names], names=names)

    def _read(self, file: Any, groups: Sequence[int], names: list[str], decimals: frozenset[str]) -> StoredRows:
        rows = file.read_row_groups(list(groups), columns=names, use_threads=compute_threads() > 1)
        kinds = {name: self.footer.schema.field(name).type for name in decimals.intersection(names)}
        return StoredRows(rows.replace_schema_metadata(None), kinds, self.schema)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of a file as pyarrow reads them, some decimals as bytes.

    Attributes:
        rows: the rows.
        decimals: types of the columns that are bytes.
        schema: of the table.
    """

    rows: pa.Table
    decimals: Mapping[str, pa.DataType]
    schema: pa.Schema

    def beside(self, other: StoredRows) -> StoredRows:
        """These columns and those of the same rows in another one."""
        rows = self.rows
        for field, column in zip(other.rows.schema, other.rows.columns, strict=True):
            rows = rows.append_column(field, column)
        return StoredRows(rows, {**self.decimals, **other.decimals}, self.schema)

    def table(self, names: Sequence[str], positions: Any = None) -> pa.Table:
        """Some columns in the table's types, each in one chunk.

        Args:
            names: of the columns.
            positions: of the rows, an integer array; None for all.
        """
        rows = self.rows.select(list(names))
        rows = rows if positions is None else rows.take(positions)
        for name in self.decimals.keys() & set(names):
            kind: Any = self.decimals[name]
            chunks: list[Any] = [decimals_of(chunk, kind) for chunk in rows.column(name).chunks]
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.chunked_array(chunks, kind))
        wanted = pa.schema([self.schema.field(name) for name in names])
        return as_schema(rows, wanted).unify_dictionaries().combine_chunks()


@contextlib.contextmanager
def open_file(
    storage: Storage, path: str, schema: pa.Schema, check: Callable[[int], object] = bool
) -> Iterator[OpenedFile]:
    """Open a base file.

    Args:
        storage: the table's.
        path: the file.
        schema: of the table, meta columns included.
        check: called with the file's bytes before more of it is read; raises to refuse it.

    Raises:
        CannotSplice: its columns are not the table's, or it cannot be spliced for another reason.
    """
    with (
        open_source(storage, path) as source,
        storage.open_input(path) as stream,
        named_corruption(path, stream),
    ):
        check(source.size)
        plain = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us", pre_buffer=True)
        footer = footer_of(plain, path, source.size)
        reason = why_not(footer) or _other_columns(footer.schema, schema)
        if reason is None and any(key in footer.key_values for key in _OLD_CALENDARS):
            reason = "its dates are of an old calendar"
        if reason is not None:
            raise CannotSplice(reason)
        yield OpenedFile(source, stream, plain, footer, schema)


def decimals_of(numbers: Any, kind: pa.DataType) -> pa.Array[Any]:
    """Decimals from their unscaled numbers.

    Args:
        numbers: a fixed-size binary array of at most 16 bytes a value, big-endian in two's complement.
        kind: the type of the decimals, of 128 bits.
    """
    width, count = numbers.type.byte_width, numbers.offset + len(numbers)
    validity, data = numbers.buffers()
    if not len(numbers) or data is None:
        empty: pa.Array[Any] = nulls(len(numbers), kind)
        return empty
    # eight bytes in front, so that eight bytes up to the end of any value can be read
    padded = np.zeros(_WORD + count * width, np.uint8)
    padded[_WORD:] = np.frombuffer(data, np.uint8, count * width)

    def number_before(end: int, used: int) -> npt.NDArray[np.int64]:
        """The number of the last `used` of the eight bytes in front of a place in each value, with its sign."""
        words = np.ndarray((count,), ">i8", padded, end, (width,)).astype("<i8")
        unused = 8 * (_WORD - used)
        return words << unused >> unused

    words: Any = np.empty((count, 2), "<i8")
    words[:, 0] = number_before(width, min(width, _WORD))
    words[:, 1] = words[:, 0] >> 63 if width <= _WORD else number_before(width - _WORD, width - _WORD)
    content: Any = [validity, pa.py_buffer(words)]
    decimals: pa.Array[Any] = pa.Array.from_buffers(kind, len(numbers), content, offset=numbers.offset)
    return decimals


def _other_columns(file: pa.Schema, table: pa.Schema) -> str | None:
    if file.names != table.names:
        return "the table's columns are not those of the file"
    for field, other in zip(file, table, strict=True):
        if not _same_type(field.type, other.type):
            return f"column {field.name!r} is {field.type} in the file and {other.type} in the table"
    return None


def _same_type(left: Any, right: Any) -> bool:
    """Whether two types differ only in names of list elements and in nullability."""
    if not pa.types.is_nested(left):
        return bool(left == right)
    if left.id != right.id or left.num_fields != right.num_fields:
        return False
    members = [(left.field(index), right.field(index)) for index in range(left.num_fields)]
    names_count = pa.types.is_struct(left) and storage_type(left) != storage_type(right)
    return not names_count and all(_same_type(one.type, other.type) for one, other in members)
