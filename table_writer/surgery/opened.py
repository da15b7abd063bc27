"""A base file that is open for surgery: its footer, and its row groups on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.footer import BaseFileFooter, footer_of, named_corruption
from table_format.base_file.reader import as_schema
from table_format.schema.evolution import storage_type
from table_format.storage import Storage
from table_writer.files.rewrite import few_valued_columns
from table_writer.surgery.footer import Footer, read_footer
from table_writer.surgery.locate import KeyRange, key_ranges
from table_writer.surgery.page_index import key_pages
from table_writer.surgery.policy import CannotSplice, why_not
from table_writer.surgery.source import open_source

parquet: Any = pq

# Readers take the calendar of old dates from these; the file's other row groups would be read otherwise without them.
_OLD_CALENDARS = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")


class OpenedFile:
    """A base file whose columns are those of the table.

    Attributes:
        footer: of the file.
        schema: of the table, meta columns included.
        structs: the footer as Thrift structs, once it was needed.
    """

    def __init__(self, storage: Storage, file: Any, footer: BaseFileFooter, schema: pa.Schema) -> None:
        self._storage = storage
        self._file = file
        self.structs: Footer | None = None
        self.footer = footer
        self.schema = schema

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The keys of each row group."""
        return key_ranges(self.footer.metadata)

    @contextlib.contextmanager
    def key_pages(self) -> Iterator[Callable[[int], Sequence[KeyRange] | None]]:
        """The keys of each page of a row group, see `candidate_groups`; the footer is read on the first call."""
        with open_source(self._storage, self.footer.path) as source:
            pages: Callable[[int], Sequence[KeyRange] | None] | None = None

            def pages_of(group: int) -> Sequence[KeyRange] | None:
                nonlocal pages
                if pages is None:
                    self.structs = read_footer(source)
                    pages = key_pages(source, self.structs)
                return pages(group)

            yield pages_of

    @cached_property
    def chunk_sizes(self) -> list[dict[str, int]]:
        """Compressed bytes of each top-level column in each row group."""
        metadata = self.footer.metadata
        sizes: list[dict[str, int]] = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            group_sizes: dict[str, int] = {}
            for index in range(group.num_columns):
                chunk = group.column(index)
                name = chunk.path_in_schema.split(".", 1)[0]
                group_sizes[name] = group_sizes.get(name, 0) + chunk.total_compressed_size
            sizes.append(group_sizes)
        return sizes

    @cached_property
    def size_of_chunks(self) -> int:
        """Compressed bytes of all column chunks."""
        return sum(sum(group.values()) for group in self.chunk_sizes)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Some columns of some row groups in the table's types, each column in one chunk."""
        names = list(names)
        rows = self._file.read_row_groups(list(groups), columns=names).select(names).replace_schema_metadata(None)
        wanted = pa.schema([self.schema.field(name) for name in names])
        return as_schema(rows, wanted).unify_dictionaries().combine_chunks()


@contextlib.contextmanager
def open_file(storage: Storage, path: str, schema: pa.Schema) -> Iterator[OpenedFile]:
    """Open a base file.

    Args:
        storage: the table's.
        path: the file.
        schema: of the table, meta columns included.

    Raises:
        CannotSplice: its columns are not the table's, or it cannot be spliced for another reason.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        first = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        footer = footer_of(first, path, stream.size())
        reason = why_not(footer) or _other_columns(footer.schema, schema)
        if reason is None and any(key in footer.key_values for key in _OLD_CALENDARS):
            reason = "its dates are of an old calendar"
        if reason is not None:
            raise CannotSplice(reason)
        file = parquet.ParquetFile(
            stream,
            metadata=footer.metadata,
            read_dictionary=few_valued_columns(footer),
            coerce_int96_timestamp_unit="us",
            pre_buffer=True,
        )
        yield OpenedFile(storage, file, footer, schema)


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
