"""How a Parquet footer stands in its file, and the numbers of fields in its structs.

Source: `parquet.thrift` of the Parquet format 2.12.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.thrift_compact import Struct

MAGIC = b"PAR1"
TAIL = 8
"""Bytes after the footer: its length and the magic."""


class FileField:
    """Fields of `FileMetaData`."""

    SCHEMA, ROWS, GROUPS, TEXTS, CREATED_BY, ORDERS = 2, 3, 4, 5, 6, 7
    KNOWN = frozenset(range(1, 8))  # 8 and 9 are of encryption


class GroupField:
    """Fields of `RowGroup`."""

    CHUNKS, BYTES, ROWS, SORTING, OFFSET, COMPRESSED, ORDINAL = range(1, 8)
    KNOWN = frozenset(range(1, 8))


class ChunkField:
    """Fields of `ColumnChunk`."""

    OFFSET, METADATA, OFFSET_INDEX, OFFSET_INDEX_SIZE, COLUMN_INDEX, COLUMN_INDEX_SIZE = range(2, 8)
    KNOWN = frozenset(range(2, 8))  # 1 names another file; 8 and 9 are of encryption


class MetadataField:
    """Fields of `ColumnMetaData`."""

    TYPE, PATH, VALUES, BYTES, COMPRESSED = 1, 3, 5, 6, 7
    DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, STATISTICS, ENCODING_STATISTICS, BLOOM, BLOOM_SIZE = range(9, 16)
    KNOWN = frozenset(range(1, 18))
    NEEDED = frozenset((TYPE, PATH, VALUES, BYTES, COMPRESSED, DATA_PAGE))


class StatisticsField:
    """Fields of `Statistics`; the first two are of old readers."""

    OLD_MAX, OLD_MIN, NULLS, DISTINCT, MAX, MIN, MAX_EXACT, MIN_EXACT = range(1, 9)


def chunks_of(group: Struct) -> list[Struct]:
    """The column chunks of a row group."""
    chunks: list[Struct] = group[GroupField.CHUNKS][1][1]
    return chunks


def parsed_by_pyarrow(data: bytes) -> pq.FileMetaData:
    """Pyarrow's view of the bytes of a footer."""
    whole = b"".join([MAGIC, data, len(data).to_bytes(4, "little"), MAGIC])
    read: Any = pq.read_metadata
    result: pq.FileMetaData = read(pa.BufferReader(whole))
    return result
