"""Records of log files' data blocks (Avro, Parquet, HFile) as Arrow tables."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs import avro_values
from table_format.codecs.arrow_numpy import Bytes, Positions, from_numpy, packed, spans_of
from table_format.codecs.avro_columns import check_ends
from table_format.codecs.avro_schema_tree import Node, parse_text
from table_format.errors import CorruptFileError, HudiError, SchemaError, UnsupportedTableError
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import BlockType, HeaderKey, LogBlock

_BROKEN = (avro_values.BadValueError, IndexError, pa.ArrowInvalid, OverflowError)
_Decoded = tuple[Any, Positions]
arrow: Any = pa  # the stubs know no arrays of any type


def decode_records(
    buffer: Bytes, starts: Positions, lengths: Positions, root: Node, columns: Collection[str], *, path: str
) -> pa.Table:
    """Decode some columns of Avro records.

    Args:
        buffer: the bytes of all records.
        starts: where each record starts.
        lengths: bytes of each record.
        root: the writer's schema, a record.
        columns: names of top-level fields; missing ones are left out.
        path: the file, for messages.

    Returns:
        The columns, in the order of the records' schema. Strings and enums are `string`, a union of null and one
        type is that type with nulls.

    Raises:
        CorruptFileError: a record's bytes do not follow the schema, or are too few or too many.
        SchemaError: a column of several types.
    """
    if root.kind != "record":
        raise SchemaError(f"{path}: the schema of a log block is not a record")
    decoder = _Decoder(buffer)
    arrays: dict[str, Any] = {}
    at = starts.astype(np.int64, copy=True)
    try:
        with np.errstate(over="ignore"):
            for name, node in root.fields:
                array, at = decoder.value(node, at, keep=name in columns)
                if array is not None:
                    arrays[name] = array
    except _BROKEN as error:
        raise CorruptFileError(path, 0, f"records do not follow their Avro schema ({error})") from error
    check_ends(path, starts, lengths, at)
    return pa.table(arrays)


@dataclass(frozen=True, slots=True)
class _Decoder:
    buffer: Bytes

    def value(self, node: Node, at: Positions, *, keep: bool) -> _Decoded:
        """Values of one type at some positions (None unless kept), and the end positions."""
        if node.kind == "record":
            return self._record(node, at, keep=keep)
        if node.kind == "union":
            return self._union(node, at, keep=keep)
        if node.kind in ("array", "map"):
            return self._collection(node, at, keep=keep)
        leaf, after = avro_values.read(self.buffer, node, at, keep=keep)
        return None if leaf is None else avro_values.to_arrow(self.buffer, leaf), after

    def _record(self, node: Node, at: Positions, *, keep: bool) -> _Decoded:
        members, count = [], len(at)
        for _, child in node.fields:
            member, at = self.value(child, at, keep=keep)
            members.append(member)
        if not keep:
            return None, at
        if not members:
            return arrow.array([{}] * count, pa.struct([])), at
        return arrow.StructArray.from_arrays(members, names=[name for name, _ in node.fields]), at

    def _union(self, node: Node, at: Positions, *, keep: bool) -> _Decoded:
        values = [branch for branch in node.branches if branch.kind != "null"]
        if keep and len(values) > 1:
            raise SchemaError(f"a column of several Avro types ({', '.join(b.name for b in values)}) is not read")
        branches, after = avro_values.read_long(self.buffer, at)
        if branches.size and (branches.min() < 0 or branches.max() >= len(node.branches)):
            raise avro_values.BadValueError("a union has no such branch")
        result: Any = arrow.nulls(len(at)) if keep else None
        for number, branch in enumerate(node.branches):
            if branch.kind == "null":
                continue
            rows = np.flatnonzero(branches == number)
            # if all are null, decoding none of them still has the type
            if rows.size or keep:
                array, after[rows] = self.value(branch, after[rows], keep=keep)
                result = _spread(array, rows, len(at)) if keep else None
        return result, after

    def _collection(self, node: Node, at: Positions, *, keep: bool) -> _Decoded:
        item = node.item
        if item is None:
            raise SchemaError("an Avro collection without an item type")
        after = at.copy()
        rows, left = np.arange(len(at)), np.zeros(len(at), dtype=np.int64)
        owners: list[Positions] = []
        keys: list[Any] = []
        items: list[Any] = []
        while rows.size:
            # after a whole block comes the head of the next; an empty block ends the collection
            heads = rows[left[rows] == 0]
            if heads.size:
                left[heads], after[heads] = self._block_heads(after[heads])
                rows = rows[left[rows] > 0]
            if not rows.size:
                break
            position = after[rows]
            if node.kind == "map":
                key, position = self.value(_KEY, position, keep=keep)
                keys.append(key)
            values, next_items = self.value(item, position, keep=keep)
            if (next_items == after[rows]).any():
                raise avro_values.BadValueError("a collection has items without bytes")
            items.append(values)
            owners.append(rows)
            after[rows] = next_items
            left[rows] -= 1
        if not keep:
            return None, after
        # an empty first piece has the type if there are no items
        nothing = np.empty(0, dtype=np.int64)
        items.insert(0, self.value(item, nothing, keep=True)[0])
        keys.insert(0, self.value(_KEY, nothing, keep=True)[0])
        owner = np.concatenate([nothing, *owners])
        order = from_numpy(np.argsort(owner, kind="stable"))
        offsets = np.zeros(len(at) + 1, dtype=np.int32)
        np.cumsum(np.bincount(owner, minlength=len(at)), out=offsets[1:])
        inner = arrow.concat_arrays(items).take(order)
        if node.kind == "array":
            return arrow.ListArray.from_arrays(from_numpy(offsets), inner), after
        return arrow.MapArray.from_arrays(from_numpy(offsets), arrow.concat_arrays(keys).take(order), inner), after

    def _block_heads(self, at: Positions) -> tuple[Positions, Positions]:
        """Item counts of blocks and their starts; a negative count is followed by the block's size."""
        counts, after = avro_values.read_long(self.buffer, at)
        sized = np.flatnonzero(counts < 0)
        if sized.size:
            counts[sized] = -counts[sized]
            _, after[sized] = avro_values.read_long(self.buffer, after[sized])
        return avro_values.checked_lengths(self.buffer, counts), after


_KEY = Node("string", "string")


def _spread(array: Any, rows: Positions, count: int) -> Any:
    """The values at `rows` of `count`, null elsewhere."""
    if len(rows) == count:
        return array
    valid = np.zeros(count, dtype=np.bool_)
    valid[rows] = True
    places = np.zeros(count, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    if not len(array):
        return arrow.nulls(count, array.type)
    indices = pa.Array.from_buffers(pa.int64(), count, [packed(valid), pa.py_buffer(places)])  # type: ignore[arg-type]
    return array.take(indices)


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
    buffer, starts, lengths = spans_of(values)
    return decode_records(buffer, starts, lengths, schema, columns, path=block.path)
