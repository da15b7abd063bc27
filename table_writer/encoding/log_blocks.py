"""Writing blocks of Hudi log files: data as HFiles, deletes, rollback commands."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from struct import Struct

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import join_bytes, spans_of, to_numpy
from table_format.errors import UnsupportedTableError
from table_format.log import deletes
from table_format.log.blocks import MAGIC, ROLLBACK_COMMAND, VERSION, BlockType, HeaderKey
from table_format.log.deletes import DeletedRecord
from table_writer.encoding.avro import encode_long, encode_longs

_PAIR = Struct(">ii")


def write_log_block(kind: BlockType, header: Mapping[int, str], content: bytes) -> bytes:
    """Encode a block, to be appended to a log file.

    Args:
        kind: block type.
        header: values by `HeaderKey`; INSTANT_TIME is mandatory, SCHEMA for data blocks.
        content: the block's bytes.
    """
    entries = bytearray(len(header).to_bytes(4, "big"))
    for key, value in header.items():
        text = value.encode()
        entries += _PAIR.pack(key, len(text)) + text
    body = b"".join((_PAIR.pack(VERSION, kind), entries, len(content).to_bytes(8, "big"), content, bytes(4)))
    length = len(body) + 8
    return b"".join((MAGIC, length.to_bytes(8, "big"), body, (length + len(MAGIC)).to_bytes(8, "big")))


def write_hfile_block(instant: str, schema_json: str, hfile: bytes) -> bytes:
    """Encode a data block with an HFile, as in the metadata table's logs."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.HFILE_DATA, header, hfile)


def write_rollback_block(instant: str, target_instant: str) -> bytes:
    """Encode a command block, which makes readers drop all earlier blocks of `target_instant`."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
        HeaderKey.TARGET_INSTANT_TIME: target_instant,
    }
    return write_log_block(BlockType.COMMAND, header, b"")


def write_deletes(records: Sequence[DeletedRecord]) -> bytes:
    """Encode the content of a delete block for records without ordering values, as in the metadata table.

    Args:
        records: the deleted keys; may be empty. Their `ordering` must be None.
    """
    if any(record.ordering is not None for record in records):
        raise UnsupportedTableError("delete blocks with ordering values are not written yet")
    out = io.BytesIO()
    listed = [
        {"recordKey": record.key, "partitionPath": record.partition, "orderingVal": deletes.NATURAL_ORDER}
        for record in records
    ]
    fastavro.schemaless_writer(out, deletes.SCHEMA, {"deleteRecordList": listed})
    payload = out.getvalue()
    return deletes.HEAD.pack(deletes.VERSION, len(payload)) + payload


def write_key_deletes(keys: pa.BinaryArray, partition: str) -> bytes:
    """As `write_deletes` for many keys of one partition, vectorized.

    Args:
        keys: UTF-8, without nulls.
        partition: partition of all keys.
    """
    if not len(keys):
        return write_deletes([])
    counts = encode_longs(to_numpy(pc.binary_length(keys)))
    name = partition.encode()
    # the second branch of a nullable string, and the third of the ordering value, the int 0
    tail = deletes.PRESENT + encode_long(len(name)) + name + deletes.NATURAL
    data, starts, lengths = spans_of(join_bytes(deletes.PRESENT, counts, keys, tail))
    head = encode_long(len(keys))
    payload = head + data[int(starts[0]) : int(starts[-1] + lengths[-1])].tobytes() + b"\x00"
    return deletes.HEAD.pack(deletes.VERSION, len(payload)) + payload


def write_empty_block(instant: str) -> bytes:
    """Encode a delete block without records: the 80 bytes by which the metadata table creates a file group."""
    return write_log_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, write_deletes([]))


def write_delete_block(instant: str, schema_json: str, records: Sequence[DeletedRecord]) -> bytes:
    """Encode a delete block."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.DELETE, header, write_deletes(records))


def write_key_delete_block(instant: str, schema_json: str, keys: pa.BinaryArray, partition: str) -> bytes:
    """Encode a delete block of many keys (UTF-8) of one partition."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.DELETE, header, write_key_deletes(keys, partition))
