"""Building blocks of Hudi log files."""

from collections.abc import Mapping, Sequence
from struct import Struct

import pyarrow as pa

from table_format.log.deletes import DeletedRecord, write_deletes, write_key_deletes
from table_format.log.format import MAGIC, ROLLBACK_COMMAND, VERSION, BlockType, HeaderKey

_PAIR = Struct(">ii")


def write_log_block(kind: BlockType, header: Mapping[int, str], content: bytes) -> bytes:
    """One block, to be appended to a log file.

    Args:
        kind: what the content is.
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
    """A data block that holds a whole HFile, as the metadata table's logs do."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.HFILE_DATA, header, hfile)


def write_rollback_block(instant: str, target_instant: str) -> bytes:
    """A command block by which readers drop all blocks of `target_instant` before it."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
        HeaderKey.TARGET_INSTANT_TIME: target_instant,
    }
    return write_log_block(BlockType.COMMAND, header, b"")


def write_empty_block(instant: str) -> bytes:
    """The 80 bytes by which the metadata table founds a file group: a delete block without records."""
    return write_log_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, write_deletes([]))


def write_delete_block(instant: str, schema_json: str, records: Sequence[DeletedRecord]) -> bytes:
    """A block that removes keys."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.DELETE, header, write_deletes(records))


def write_key_delete_block(instant: str, schema_json: str, keys: pa.BinaryArray, partition: str) -> bytes:
    """A block that removes many keys (UTF-8), all of one partition."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json}
    return write_log_block(BlockType.DELETE, header, write_key_deletes(keys, partition))
