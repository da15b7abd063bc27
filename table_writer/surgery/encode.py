"""Encoding rows as column chunks that fit into an existing Parquet file."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.footer import parquet
from table_format.base_file.footer_fields import TAIL, ChunkField, MetadataField, chunks_of
from table_format.codecs.arrow_numpy import one_chunk
from table_format.codecs.thrift_compact import BINARY, LIST, Struct
from table_writer.encoding.base_file import BaseFileOptions, with_small_indices
from table_writer.encoding.float_chunks import FloatLeaves
from table_writer.surgery.footer import Footer, parse_footer
from table_writer.surgery.policy import CannotSplice
from table_writer.surgery.source import MemorySource

types: Any = pa.types

# New in pyarrow 20; without it such columns are refused, like any column that is written in another form.
_HAS_INTEGER_DECIMALS = "store_decimal_as_integer" in inspect.signature(parquet.ParquetWriter.__init__).parameters


@dataclass(frozen=True, slots=True)
class EncodedColumns:
    """Some columns of one row group.

    Attributes:
        source: their bytes.
        chunks: `ColumnChunk` structs by ordinal of the leaf in the target file; offsets are those in `source`.
        rows: rows of the group.
    """

    source: MemorySource
    chunks: dict[int, Struct]
    rows: int


WriterArguments = dict[Hashable, dict[str, Any]]
"""Arguments of the Parquet writer by the names and types of the columns."""


@dataclass(frozen=True, slots=True)
class RowsToEncode:
    """One row group's rows in a file's types, and how the Parquet writer takes them.

    Attributes:
        table: the rows.
        arguments: of the writer.
    """

    table: pa.Table
    arguments: Mapping[str, Any]


def rows_to_encode(
    table: pa.Table, footer: Footer, options: BaseFileOptions, known_arguments: WriterArguments
) -> RowsToEncode:
    """Rows as `encode_columns` takes them; row groups come in their order, so that a file is the same each time.

    Args:
        table: some or all top-level columns of the file, of the file's types.
        footer: the file's.
        options: how to encode; the file's own encodings do not matter.
        known_arguments: those chosen for other row groups of the file, whose values needn't be sampled again; takes
            the ones chosen here.

    Raises:
        CannotSplice: the columns have another form than the file's.
    """
    table = with_small_indices(_as_in_file(table, footer))
    columns = tuple(zip(table.column_names, table.schema.types, strict=True))
    if columns not in known_arguments:
        known_arguments[columns] = options.writer_arguments(table)
    return RowsToEncode(table, known_arguments[columns])


def encode_columns(rows: RowsToEncode, footer: Footer, *, indexed: bool) -> EncodedColumns:
    """Encode rows as one row group of a file's columns.

    Two-level lists, as Apache Hudi writes them, are possible: a three-level list with a required element has the same
    levels and values.

    Args:
        rows: see `rows_to_encode`.
        footer: the file's.
        indexed: whether to write column and offset indexes.

    Raises:
        CannotSplice: pyarrow writes a column in another form than the file's (INT96, decimals as text, …).
    """
    table = rows.table
    arguments = {**rows.arguments, "write_page_index": indexed}
    if _HAS_INTEGER_DECIMALS:
        arguments["store_decimal_as_integer"] = _has_integer_decimals(footer, table.column_names)
    sink = pa.BufferOutputStream()
    try:
        with parquet.ParquetWriter(sink, table.schema, store_schema=False, **arguments) as writer:
            writer.write_table(table, row_group_size=max(1, len(table)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CannotSplice(f"the rows cannot be encoded: {error}") from error
    source = MemorySource(sink.getvalue())
    start = source.size - TAIL - int.from_bytes(source.read(source.size - TAIL, 4), "little")
    encoded = parse_footer(source.read(start, source.size - TAIL - start), start)
    if len(encoded.groups) != 1:
        raise CannotSplice(f"{len(table)} rows came out as {len(encoded.groups)} row groups")
    chunks = _matched(encoded, footer, table.column_names)
    floats = FloatLeaves.of(table)
    if floats:
        chunks = {leaf: floats.corrected(chunk) for leaf, chunk in chunks.items()}
    return EncodedColumns(source, chunks, len(table))


def _matched(encoded: Footer, footer: Footer, columns: list[str]) -> dict[int, Struct]:
    """The encoded chunks by the ordinals of their leaves in the file."""
    wanted = [(ordinal, leaf) for name in columns for ordinal, leaf in enumerate(footer.leaves) if leaf.column == name]
    chunks = chunks_of(encoded.groups[0])
    if len(wanted) != len(chunks):
        raise CannotSplice("the columns have other leaves than the file's")
    result = {}
    for (ordinal, leaf), encoded_leaf, chunk in zip(wanted, encoded.leaves, chunks, strict=True):
        if encoded_leaf.column != leaf.column or not leaf.holds_the_same(encoded_leaf):
            path = ".".join(name.decode() for name in leaf.path)
            raise CannotSplice(f"{path} is stored as {leaf.meaning}, and would be written as {encoded_leaf.meaning}")
        metadata = {**chunk[ChunkField.METADATA][1], MetadataField.PATH: (LIST, (BINARY, list(leaf.path)))}
        result[ordinal] = {**chunk, ChunkField.METADATA: (chunk[ChunkField.METADATA][0], metadata)}
    return result


def _has_integer_decimals(footer: Footer, columns: list[str]) -> bool:
    meanings = [leaf.meaning for leaf in footer.leaves if leaf.column in columns]
    return any(meaning[0] in ("INT32", "INT64") and ("Type", "Decimal") in meaning for meaning in meanings)


def _as_in_file(table: pa.Table, footer: Footer) -> pa.Table:
    """The columns with the file's nested names and nullability."""
    schema = footer.parquet.schema.to_arrow_schema()
    fields, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if schema.get_field_index(name) < 0:
            raise CannotSplice(f"the file has no column {name!r}")
        field = schema.field(name)
        if not field.nullable and column.null_count:
            raise CannotSplice(f"the file's column {name!r} cannot be null")
        converted = _converted(name, column, field.type)
        fields.append(pa.field(name, converted.type, nullable=field.nullable))
        columns.append(converted)
    return pa.table(columns, schema=pa.schema(fields))


def _converted(name: str, column: Any, kind: Any) -> Any:
    if isinstance(column.type, pa.DictionaryType) and column.type.value_type == kind:
        return column
    if column.type == kind and not types.is_nested(kind):
        return column
    if not _differs_in_names_only(column.type, kind):
        raise CannotSplice(f"column {name!r} is {column.type}, in the file {kind}")
    try:
        converted = pc.cast(one_chunk(column), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise CannotSplice(f"column {name!r}: {error}") from error
    if _hides_nulls(converted, kind):
        raise CannotSplice(f"column {name!r} has nulls inside where the file takes none")
    return pa.chunked_array([converted])


def _differs_in_names_only(left: Any, right: Any) -> bool:
    """Whether two types differ only in the names of list and map elements and in nullability."""
    if types.is_list(left) and types.is_list(right):
        return _differs_in_names_only(left.value_type, right.value_type)
    if types.is_map(left) and types.is_map(right):
        return _differs_in_names_only(left.key_type, right.key_type) and _differs_in_names_only(
            left.item_type, right.item_type
        )
    if types.is_struct(left) and types.is_struct(right):
        left_fields, right_fields = ([kind.field(i) for i in range(kind.num_fields)] for kind in (left, right))
        return [field.name for field in left_fields] == [field.name for field in right_fields] and all(
            _differs_in_names_only(one.type, other.type) for one, other in zip(left_fields, right_fields, strict=True)
        )
    return bool(left == right)


def _hides_nulls(array: Any, kind: Any) -> bool:
    """Whether an array has nulls where a nested field of its type is not nullable."""
    if types.is_list(kind):
        return _nulls_in(array.flatten(), kind.value_field)
    if types.is_map(kind):
        first, last = (array.offsets[at].as_py() for at in (0, -1))
        keys, items = (values.slice(first, last - first) for values in (array.keys, array.items))
        return _nulls_in(keys, kind.key_field) or _nulls_in(items, kind.item_field)
    if types.is_struct(kind):
        members = [(pc.struct_field(array, [i]), kind.field(i)) for i in range(kind.num_fields)]
        return any(
            (not field.nullable and member.null_count > array.null_count) or _hides_nulls(member, field.type)
            for member, field in members
        )
    return False


def _nulls_in(values: Any, field: Any) -> bool:
    return bool(not field.nullable and values.null_count) or _hides_nulls(values, field.type)
