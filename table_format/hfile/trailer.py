"""Trailer (of fixed size) and file info block of an HFile, read and written by the same field numbers."""

from dataclasses import dataclass
from typing import Final

from table_format.codecs.varint import BadEncodingError, read_fields, read_varint, require, write_field, write_varint
from table_format.errors import CorruptFileError, UnsupportedTableError

SIZE = 4096
MAGIC = b'TRABLK"$'
COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
# Major version 3 in the low byte, HBase's minor version 3 in the high one.
_VERSION = b"\x03\x00\x00\x03"
_PROTOBUF = b"PBUF"
BLOOM_NAME: Final = "bloomFilter"
"""Name of the meta block with the bloom filter of the keys, as base64 text."""
BLOOM_TYPE: Final = b"bloomFilterTypeCode"
"""Key of the filter's type in the file info."""


@dataclass(frozen=True, slots=True)
class Trailer:
    """Trailer of an HFile.

    Attributes:
        file_info_offset: bytes from the file's start, like all offsets.
        root_index_offset: offset of the root data index; index, meta index and file info are loaded from here on.
        index_size: decompressed bytes of the root data index.
        uncompressed_size: decompressed bytes of all blocks, with their headers.
        data_index_count: entries of the root data index.
        meta_index_count: entries of the meta index.
        entry_count: number of entries in the file.
        index_levels: 1 when the root points to data blocks.
        first_data_offset: offset of the first data block.
        last_data_offset: offset of the last data block.
        codec: number of the compression codec.
    """

    file_info_offset: int
    root_index_offset: int
    index_size: int
    uncompressed_size: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    index_levels: int
    first_data_offset: int
    last_data_offset: int
    codec: int

    def to_bytes(self) -> bytes:
        """Encode the 4,096 bytes at the file's end."""
        values = [
            self.file_info_offset,
            self.root_index_offset,
            self.index_size,
            self.uncompressed_size,
            self.data_index_count,
            self.meta_index_count,
            self.entry_count,
            self.index_levels,
            self.first_data_offset,
            self.last_data_offset,
        ]
        message = b"".join(write_field(number, value) for number, value in enumerate(values, 1))
        message += write_field(11, COMPARATOR) + write_field(12, self.codec)
        front = MAGIC + write_varint(len(message)) + message
        return front + bytes(SIZE - len(front) - len(_VERSION)) + _VERSION


def read_trailer(data: bytes, offset: int, path: str) -> Trailer:
    """Parse the last 4,096 bytes of a file.

    Args:
        data: these bytes.
        offset: their offset in the file.
        path: the file, for messages.

    Raises:
        CorruptFileError: it is not an HFile trailer, or points outside the file.
        UnsupportedTableError: another major version, or encryption.
    """
    if len(data) != SIZE or not data.startswith(MAGIC):
        raise CorruptFileError(path, max(offset, 0), "no HFile trailer; the file is cut off or not an HFile")
    if data[-1] != 3:
        raise UnsupportedTableError(f"{path}: HFile version {data[-1]} is not supported, only version 3")
    numbers: dict[int, int] = {}
    try:
        length, start = read_varint(data, len(MAGIC))
        require(start + length <= SIZE - len(_VERSION), start, "the message is longer than the trailer")
        for number, value in read_fields(data[start : start + length]):
            if number == 13 and value:
                raise UnsupportedTableError(f"{path}: encrypted HFiles are not supported")
            if isinstance(value, int):
                numbers[number] = value
    except BadEncodingError as error:
        raise CorruptFileError(path, offset + error.offset, f"broken HFile trailer: {error}") from error
    trailer = Trailer(*(numbers.get(number, 2 if number == 12 else 0) for number in (*range(1, 11), 12)))
    places = [trailer.root_index_offset, trailer.file_info_offset]
    if trailer.entry_count:  # an empty file has -1 for these
        places += [trailer.first_data_offset, trailer.last_data_offset]
    if any(place > offset for place in places) or trailer.file_info_offset < trailer.root_index_offset:
        raise CorruptFileError(path, offset, "the HFile trailer points to places outside the file")
    return trailer


def read_file_info(content: bytes, offset: int, path: str) -> dict[bytes, bytes]:
    """Parse the file info block.

    Raises:
        CorruptFileError: the content is malformed.
    """
    if not content.startswith(_PROTOBUF):
        raise CorruptFileError(path, offset, "the HFile's info block does not begin with PBUF")
    info: dict[bytes, bytes] = {}
    try:
        length, start = read_varint(content, len(_PROTOBUF))
        require(start + length == len(content), start, "its length differs from the block's")
        for number, entry in read_fields(content[start:]):
            if number == 1 and isinstance(entry, bytes):
                pair = {part: value for part, value in read_fields(entry) if isinstance(value, bytes)}
                info[pair.get(1, b"")] = pair.get(2, b"")
    except BadEncodingError as error:
        raise CorruptFileError(path, offset, f"broken HFile info block: {error}") from error
    return info


def write_file_info(info: dict[bytes, bytes]) -> bytes:
    """Encode a file info block."""
    message = b"".join(write_field(1, write_field(1, key) + write_field(2, value)) for key, value in info.items())
    return _PROTOBUF + write_varint(len(message)) + message
