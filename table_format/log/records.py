"""Records of log files' data blocks (Avro, Parquet, HFile) as Arrow tables."""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.arrow_numpy import Bytes, Positions
from table_format.codecs.avro_records import decode_records
from table_format.codecs.avro_schema_tree import Node, parse_text
from table_format.errors import CorruptFileError, HudiError, SchemaError, UnsupportedTableError
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import BlockType, HeaderKey, LogBlock

parquet: Any = pq  # the stubs lack much of it
_INT = Struct(">i")
_AVRO_VERSION = 3
# HFile blocks omit this field's value in their records.
_HFILE_KEY = "key"


def is_partial(block: LogBlock) -> bool:
    """Whether the block's records have only the columns that an update changed (version 8 and later)."""
    return block.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


def read_records(block: LogBlock, columns: Collection[str]) -> pa.Table:
    """Read columns of a data block's records, in the block's order.

    Args:
        block: of Avro, Parquet or HFile data.
        columns: names; missing ones are left out. At least one must exist.

    Raises:
        CorruptFileError: the content breaks its format.
        SchemaError: a column's type has no Arrow type.
        UnsupportedTableError: an unsupported version or type of block.
    """
    if block.type is BlockType.PARQUET_DATA:
        return _parquet(block, columns)
    if block.type is BlockType.HFILE_DATA:
        return _hfile(block, columns)
    if block.type is not BlockType.AVRO_DATA:
        raise UnsupportedTableError(f"{block.path}: a {block.type.name} block has no records")
    buffer = np.frombuffer(block.content, dtype=np.uint8)
    starts, lengths = _avro_records(block)
    return decode_records(buffer, starts, lengths, _schema(block), columns, path=block.path)


def _schema(block: LogBlock) -> Node:
    if block.schema_json is None:
        raise CorruptFileError(block.path, block.offset, "a log block has no schema; restore the file")
    try:
        node = parse_text(block.schema_json)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, HudiError):
            raise
        raise CorruptFileError(
            block.path, block.offset, f"the block's schema is not an Avro schema: {error}"
        ) from error
    if node.kind != "record":
        raise SchemaError(f"{block.path}: the schema of a log block is not a record")
    return node


def _avro_records(block: LogBlock) -> tuple[Positions, Positions]:
    """Starts and lengths of the records of an Avro block: each follows its length."""
    content = block.content
    if len(content) < 2 * _INT.size:
        raise CorruptFileError(block.path, block.content_offset, "an Avro block is cut off; restore the file")
    version, count = _INT.unpack_from(content)[0], _INT.unpack_from(content, _INT.size)[0]
    if version != _AVRO_VERSION:
        raise UnsupportedTableError(f"{block.path}: an Avro block of content version {version}")
    end, position = len(content), 2 * _INT.size
    if not 0 <= count <= (end - position) // _INT.size:
        raise CorruptFileError(
            block.path, block.content_offset, f"impossible count of {count} records in an Avro block"
        )
    starts, read = [], _INT.unpack_from
    for _ in range(count):
        position += _INT.size
        if position > end:
            break
        starts.append(position)
        length = read(content, position - _INT.size)[0]
        if length < 0:
            break
        position += length
    if len(starts) != count or position != end:
        raise CorruptFileError(block.path, block.content_offset, "records are cut off, or bytes follow them")
    record_starts = np.array(starts, dtype=np.int64)
    return record_starts, np.diff(np.append(record_starts, end + _INT.size)) - _INT.size


def _parquet(block: LogBlock, columns: Collection[str]) -> pa.Table:
    try:
        file = parquet.ParquetFile(pa.BufferReader(block.content), coerce_int96_timestamp_unit="us")
        table: pa.Table = file.read(columns=[name for name in file.schema_arrow.names if name in columns])
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(block.path, block.content_offset, f"not a whole Parquet block: {error}") from error
    return table.replace_schema_metadata(None)


def _hfile(block: LogBlock, columns: Collection[str]) -> pa.Table:
    schema = _schema(block)
    if any(name == _HFILE_KEY for name, _ in schema.fields):
        raise UnsupportedTableError(f"{block.path}: an HFile block of records with a column {_HFILE_KEY!r}")
    values: Any = HFileReader(block.content, block.path).entries().values()
    buffer, starts, lengths = _spans(values)
    return decode_records(buffer, starts, lengths, schema, columns, path=block.path)


def _spans(values: Any) -> tuple[Bytes, Positions, Positions]:
    offsets = np.frombuffer(values.buffers()[1] or b"", dtype=np.int32)[values.offset :][: len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)
    wide = offsets.astype(np.int64)
    return data, wide[:-1], np.diff(wide)
