"""The Parquet footer as Thrift structs: reading it, and structs for moved column chunks and new row groups.

Source: `parquet.thrift` of the Parquet format 2.12.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from table_format.base_file.footer_fields import (
    MAGIC,
    TAIL,
    ChunkField,
    FileField,
    GroupField,
    MetadataField,
    chunks_of,
    parsed_by_pyarrow,
)
from table_format.codecs.thrift_compact import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    CompactError,
    Struct,
    read_struct,
    write_struct,
)
from table_writer.surgery.policy import CannotSplice, old_java
from table_writer.surgery.source import Source

_ENCRYPTED_MAGIC = b"PARE"
# Some writers annotate plain integers with their own width.
_PLAIN_NUMBERS = {
    "INT32": {"Type": "Int", "bitWidth": 32, "isSigned": True},
    "INT64": {"Type": "Int", "bitWidth": 64, "isSigned": True},
}
_DECIMAL128_BYTES = 16


class SchemaField:
    """Fields of `SchemaElement`."""

    REPETITION, NAME, CHILDREN = 3, 4, 5
    ANNOTATION = frozenset((6, 7, 8, 10))  # converted type, scale, precision, logical type


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column of a Parquet schema.

    Attributes:
        column: the top-level column that it belongs to.
        path: names from the top-level column down.
        repetitions: OPTIONAL (1) and REPEATED (2) of the elements on the path, which determine the levels.
        meaning: physical type, length and logical type, as far as values and their order depend on them.
    """

    column: str
    path: tuple[bytes, ...]
    repetitions: tuple[int, ...]
    meaning: tuple[Any, ...]

    def holds_the_same(self, other: Leaf) -> bool:
        """Whether pages of one leaf can replace those of the other; names on the path do not matter."""
        return self.repetitions == other.repetitions and self.meaning == other.meaning


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a Parquet file.

    Attributes:
        data: its bytes.
        meta: `FileMetaData`.
        start: its offset in the file, bytes.
        parquet: pyarrow's view of it.
        leaves: the leaf columns.
    """

    data: bytes
    meta: Struct
    start: int
    parquet: pq.FileMetaData
    leaves: tuple[Leaf, ...]

    @property
    def groups(self) -> list[Struct]:
        """The row groups."""
        groups: list[Struct] = self.meta[FileField.GROUPS][1][1] if FileField.GROUPS in self.meta else []
        return groups

    def leaf_of(self, column: str) -> int:
        """The ordinal of a column that has one leaf."""
        return next(ordinal for ordinal, leaf in enumerate(self.leaves) if leaf.column == column)


def read_footer(source: Source) -> Footer:
    """Read the footer of a file whose parts can be moved.

    Raises:
        CannotSplice: the file is encrypted, truncated, or has unknown fields in its footer.
    """
    if source.size < TAIL + len(MAGIC):
        raise CannotSplice("the file is too short for a Parquet file")
    tail = source.read(source.size - TAIL, TAIL)
    if tail[4:] == _ENCRYPTED_MAGIC:
        raise CannotSplice("the footer is encrypted")
    if tail[4:] != MAGIC:
        raise CannotSplice("the file does not end as a Parquet file")
    start = source.size - TAIL - int.from_bytes(tail[:4], "little")
    if start < len(MAGIC):
        raise CannotSplice("the footer is longer than the file")
    footer = parse_footer(source.read(start, source.size - TAIL - start), start)
    _check(footer)
    return footer


def parse_footer(data: bytes, start: int) -> Footer:
    """Parse the bytes of a footer, which starts at offset `start` of its file.

    Raises:
        CannotSplice: the bytes are not a footer.
    """
    try:
        with _without_collector():
            meta, end = read_struct(data)
        parquet = parsed_by_pyarrow(data)
        leaves = tuple(_leaves(meta, parquet))
    except (CompactError, LookupError, TypeError, ValueError, OSError) as error:
        raise CannotSplice(f"the footer cannot be read: {error}") from error
    _only_known(meta, FileField.KNOWN, "the footer")
    if end != len(data):
        raise CannotSplice("the footer has bytes after its end")
    return Footer(data, meta, start, parquet, leaves)


def binary_decimals(footer: Footer) -> tuple[frozenset[str], pq.FileMetaData]:
    """The footer with top-level decimals of fixed length as plain bytes, big-endian numbers in two's complement.

    pyarrow reads those bytes in half the time that it takes to decode the decimals.

    Returns:
        Names of these columns, none where the footer is not written canonically; pyarrow's view of the footer.
    """
    elements: list[Struct] = footer.meta[FileField.SCHEMA][1][1]
    counts = Counter(element[SchemaField.NAME][1] for element in elements)
    names = frozenset(
        leaf.column
        for leaf in footer.leaves
        if len(leaf.path) == 1
        and leaf.meaning[0] == "FIXED_LEN_BYTE_ARRAY"
        and ("Type", "Decimal") in leaf.meaning
        and leaf.meaning[1] <= _DECIMAL128_BYTES
        and counts[leaf.path[0]] == 1
    )
    plain = [
        {field: value for field, value in element.items() if field not in SchemaField.ANNOTATION}
        if element[SchemaField.NAME][1].decode() in names
        else element
        for element in elements
    ]
    fields = list(footer.meta)
    head = {field: footer.meta[field] for field in fields[: fields.index(FileField.SCHEMA) + 1]}
    # without the byte that ends a struct; the fields after the schema stay as they are
    old = write_struct(head)[:-1]
    if not names or not footer.data.startswith(old):
        return frozenset(), footer.parquet
    new = write_struct({**head, FileField.SCHEMA: (LIST, (STRUCT, plain))})[:-1]
    return names, parsed_by_pyarrow(new + footer.data[len(old) :])


def footer_bytes(footer: Footer, groups: list[Struct], texts: Mapping[str, str | None]) -> bytes:
    """The same footer with other row groups.

    Args:
        footer: of the source file.
        groups: row groups of the new file.
        texts: key-values to set; None removes a key.
    """
    meta = dict(footer.meta)
    meta[FileField.ROWS] = (I64, sum(group[GroupField.ROWS][1] for group in groups))
    meta[FileField.GROUPS] = (LIST, (STRUCT, groups))
    if texts:
        meta[FileField.TEXTS] = (LIST, (STRUCT, _with_texts(meta, texts)))
    with _without_collector():
        return write_struct(dict(sorted(meta.items())))


def chunk_range(chunk: Struct) -> tuple[int, int]:
    """Offset of the pages of a column chunk, and their bytes, computed as parquet-java and pyarrow do."""
    metadata = chunk[ChunkField.METADATA][1]
    first = metadata[MetadataField.DATA_PAGE][1]
    dictionary = metadata[MetadataField.DICTIONARY_PAGE][1] if MetadataField.DICTIONARY_PAGE in metadata else 0
    return (dictionary if 0 < dictionary < first else first), metadata[MetadataField.COMPRESSED][1]


def moved_chunk(chunk: Struct, distance: int) -> Struct:
    """A copy of a `ColumnChunk` whose pages are moved by some bytes.

    Offsets of its indexes and bloom filter, which are not among the pages, stay.
    """
    metadata = dict(chunk[ChunkField.METADATA][1])
    for field in (MetadataField.DATA_PAGE, MetadataField.INDEX_PAGE, MetadataField.DICTIONARY_PAGE):
        if field in metadata and metadata[field][1] > 0:
            metadata[field] = (I64, metadata[field][1] + distance)
    start, size = chunk_range(chunk)
    offset = chunk[ChunkField.OFFSET][1] if ChunkField.OFFSET in chunk else 0
    # Deprecated, and used for several things: only an offset into the pages is known to move with them.
    offset = offset + distance if start <= offset < start + size else 0
    return dict(sorted({**chunk, ChunkField.OFFSET: (I64, offset), ChunkField.METADATA: (STRUCT, metadata)}.items()))


def row_group_of(model: Struct, chunks: list[Struct], rows: int, start: int, ordinal: int) -> Struct:
    """A row group of these chunks.

    Args:
        model: a row group with the optional fields to write; its sorting columns are copied.
        chunks: one per leaf.
        rows: rows of the group.
        start: offset of its pages.
        ordinal: its position among the row groups.
    """
    group = {
        **model,
        GroupField.CHUNKS: (LIST, (STRUCT, chunks)),
        GroupField.BYTES: (I64, _sum(chunks, MetadataField.BYTES)),
        GroupField.ROWS: (I64, rows),
    }
    if GroupField.OFFSET in group:
        group[GroupField.OFFSET] = (I64, start)
    if GroupField.COMPRESSED in group:
        group[GroupField.COMPRESSED] = (I64, _sum(chunks, MetadataField.COMPRESSED))
    if GroupField.ORDINAL in group:
        group[GroupField.ORDINAL] = (I16, ordinal)
    if ordinal >= 1 << 15:
        group.pop(GroupField.ORDINAL, None)
    return dict(sorted(group.items()))


def sorting_columns(group: Struct) -> list[int]:
    """Ordinals of the leaves that a row group is declared to be sorted by."""
    if GroupField.SORTING not in group:
        return []
    return [column[1][1] for column in group[GroupField.SORTING][1][1]]


def with_sorting_column(group: Struct, leaf: int) -> Struct:
    """A row group that is declared to be sorted by a leaf, ascending."""
    column = {1: (I32, leaf), 2: (FALSE, False), 3: (FALSE, False)}
    return {**group, GroupField.SORTING: (LIST, (STRUCT, [column]))}


def place(struct: Struct, offset: int, size: int, offset_field: int, size_field: int) -> None:
    """Set the offset and size of an index or a bloom filter."""
    struct[offset_field] = (I64, offset)
    struct[size_field] = (I32, size)


def bloom_size(header: bytes) -> int:
    """Bytes of a bloom filter, header included, read from its header.

    Raises:
        CannotSplice: the bytes are not the header of a bloom filter.
    """
    try:
        struct, end = read_struct(header)
        size: int = struct[1][1]
    except (CompactError, LookupError) as error:
        raise CannotSplice(f"a bloom filter has no header: {error}") from error
    return end + size


def _sum(chunks: list[Struct], field: int) -> int:
    return sum(chunk[ChunkField.METADATA][1][field][1] for chunk in chunks)


def _with_texts(meta: Struct, texts: Mapping[str, str | None]) -> list[Struct]:
    keys = {key.encode() for key in texts}
    old: list[Struct] = meta[FileField.TEXTS][1][1] if FileField.TEXTS in meta else []
    others = [pair for pair in old if pair[1][1] not in keys]
    new = [{1: (BINARY, k.encode()), 2: (BINARY, v.encode())} for k, v in texts.items() if v is not None]
    return others + new


def _leaves(meta: Struct, parquet: pq.FileMetaData) -> Iterator[Leaf]:
    elements: list[Struct] = meta[FileField.SCHEMA][1][1]
    count = elements[0][SchemaField.CHILDREN][1]
    open_nodes: list[list[Any]] = [[count, (), ()]]  # children still to come, path, repetitions
    position = leaf = 0
    while open_nodes:
        if open_nodes[-1][0] == 0:
            open_nodes.pop()
            continue
        open_nodes[-1][0] -= 1
        _, path, repetitions = open_nodes[-1]
        position += 1
        element = elements[position]
        repetition = element[SchemaField.REPETITION][1]
        path = (*path, element[SchemaField.NAME][1])
        repetitions = (*repetitions, repetition) if repetition else repetitions
        if SchemaField.CHILDREN in element and element[SchemaField.CHILDREN][1]:
            open_nodes.append([element[SchemaField.CHILDREN][1], path, repetitions])
            continue
        yield Leaf(path[0].decode(), path, repetitions, _meaning(parquet.schema.column(leaf)))
        leaf += 1
    if position + 1 != len(elements) or leaf != len(parquet.schema):
        raise CannotSplice("the schema is not a tree")


def _meaning(column: Any) -> tuple[Any, ...]:
    """Types of a leaf that values depend on; strings of any logical type are bytes in the order of their bytes."""
    logical = column.logical_type
    kind = logical.type
    if column.physical_type == "BYTE_ARRAY" and kind in ("NONE", "STRING", "ENUM", "JSON", "BSON"):
        return ("BYTE_ARRAY",)
    notes = json.loads(logical.to_json())
    for note in ("is_from_converted_type", "force_set_converted_type"):
        notes.pop(note, None)
    if notes == _PLAIN_NUMBERS.get(column.physical_type):
        notes = {"Type": "None"}
    return (column.physical_type, column.length, *sorted(notes.items()))


def _check(footer: Footer) -> None:
    meta = footer.meta
    created_by = meta[FileField.CREATED_BY][1].decode("utf-8", "replace") if FileField.CREATED_BY in meta else ""
    if old_java(created_by):
        raise CannotSplice(f"readers treat files of {created_by!r} differently")
    # A column order is a union; its first field is the order of the type, the only one that pyarrow writes.
    if any(tuple(order) != (1,) for order in (meta[FileField.ORDERS][1][1] if FileField.ORDERS in meta else ())):
        raise CannotSplice("a column has an order that is not its type's")
    columns = [leaf.column for leaf in footer.leaves]
    if len(set(columns)) != meta[FileField.SCHEMA][1][1][0][SchemaField.CHILDREN][1]:
        raise CannotSplice("two columns have one name, or a column has no leaves")
    rows = 0
    for group in footer.groups:
        _check_group(group, footer)
        rows += group[GroupField.ROWS][1]
    if rows != meta[FileField.ROWS][1]:
        raise CannotSplice("the rows of the row groups are not those of the file")


def _check_group(group: Struct, footer: Footer) -> None:
    _only_known(group, GroupField.KNOWN, "a row group")
    chunks = chunks_of(group)
    if len(chunks) != len(footer.leaves):
        raise CannotSplice("a row group lacks columns")
    for chunk, leaf in zip(chunks, footer.leaves, strict=True):
        _only_known(chunk, ChunkField.KNOWN, "a column chunk")
        if ChunkField.METADATA not in chunk:
            raise CannotSplice("a column chunk is described elsewhere")
        metadata = chunk[ChunkField.METADATA][1]
        _only_known(metadata, MetadataField.KNOWN, "the description of a column chunk")
        if not metadata.keys() >= MetadataField.NEEDED:
            raise CannotSplice("the description of a column chunk lacks fields")
        if tuple(metadata[MetadataField.PATH][1][1]) != leaf.path:
            raise CannotSplice("the columns of a row group are not in the schema's order")
        start, size = chunk_range(chunk)
        if start < len(MAGIC) or size < 0 or start + size > footer.start:
            raise CannotSplice("a column chunk lies outside of the file's data")


def _only_known(struct: Struct, known: frozenset[int], what: str) -> None:
    if not struct.keys() <= known:
        raise CannotSplice(f"{what} has fields {sorted(struct.keys() - known)}, of encryption or unknown")


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Switch the garbage collector off: scanning thousands of new dictionaries takes three times as long with it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
