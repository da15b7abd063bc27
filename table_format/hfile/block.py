"""One block of an HFile: header, checksums, compression. Reading and writing share the header, so both are here."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

import google_crc32c
import pyarrow as pa

from table_format.codecs import isal_gzip
from table_format.codecs.inflation import MEBIBYTE, most_inflated
from table_format.errors import CorruptFileError, UnsupportedTableError

DATA = b"DATABLK*"
META = b"METABLKc"
ROOT_INDEX = b"IDXROOT2"
LEAF_INDEX = b"IDXLEAF2"
INTERMEDIATE_INDEX = b"IDXINTE2"
FILE_INFO = b"FILEINF2"
HEADER = Struct(">8siiqBii")
HEADER_SIZE = HEADER.size
CODECS = {0: "LZO", 1: "GZ", 2: "NONE", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}
CODEC_IDS = {name: number for number, name in CODECS.items()}

# Bytes that HBase covers by one checksum, which it stores after the block even for checksum type "none".
CHUNK = 16384
_CHECKSUM_NONE = 0
_CHECKSUMS: dict[int, Callable[[bytes], int]] = {1: zlib.crc32, 2: google_crc32c.value}
_GZIP = 31
# A gzip member (RFC 1952): ten bytes, pieces of deflate, CRC-32 and length. A stored piece starts at a byte.
_MEMBER, _MEMBER_HEAD, _MEMBER_TAIL = b"\x1f\x8b\x08\x00", 10, Struct("<II")
_MEMBER_ENDS = _MEMBER_HEAD + _MEMBER_TAIL.size
_PIECE, _LONGEST_PIECE = Struct("<BHH"), 0xFFFF
# Limits of a block's decompressed size. Writers close data blocks at a megabyte by default, and filters of few keys,
# nearly all zeros, are smaller.
_FLOOR, _RATIO = 64 * MEBIBYTE, 128


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """The 33 bytes before a block's content.

    Attributes:
        magic: the block's type.
        size: bytes of the whole block in the file, with this header and the checksums.
        uncompressed_size: bytes of the decompressed content.
        checksum_type: 0 none, 1 CRC-32, 2 CRC-32C.
        bytes_per_checksum: bytes that one checksum covers.
        checked_size: bytes of header and compressed content, which the checksums cover.
    """

    magic: bytes
    size: int
    uncompressed_size: int
    checksum_type: int
    bytes_per_checksum: int
    checked_size: int


def read_header(data: memoryview, offset: int, path: str) -> BlockHeader:
    """Parse the header at the start of a buffer.

    Args:
        data: bytes from the block's start on.
        offset: the block's offset in the file, for messages.
        path: the file, for messages.

    Raises:
        CorruptFileError: too few bytes, or sizes that contradict one another.
    """
    if len(data) < HEADER_SIZE:
        raise CorruptFileError(path, offset, "the HFile ends inside a block header; restore the file")
    magic, disk, uncompressed, _, checksum_type, per_checksum, checked = HEADER.unpack_from(data)
    if min(disk, uncompressed) < 0 or checked < HEADER_SIZE or per_checksum <= 0:
        raise CorruptFileError(path, offset, "the HFile block header holds impossible sizes; restore the file")
    chunks = -(-checked // per_checksum)
    if disk + HEADER_SIZE != checked + 4 * chunks:
        raise CorruptFileError(path, offset, "the sizes in the HFile block header do not add up; restore the file")
    return BlockHeader(magic, disk + HEADER_SIZE, uncompressed, checksum_type, per_checksum, checked)


def read_block(data: memoryview, offset: int, path: str, codec: int, expected: tuple[bytes, ...]) -> bytes:
    """Verify and decompress the block at the start of a buffer.

    Args:
        data: bytes from the block's start to at least its end.
        offset: the block's offset in the file, for messages.
        path: the file, for messages.
        codec: the file's codec by its number in the trailer.
        expected: the allowed magics.

    Raises:
        CorruptFileError: another type of block, a checksum that does not match, content that does not decompress.
        UnsupportedTableError: a codec other than NONE and GZ.
    """
    header = _checked_header(data, offset, path, expected)
    body = data[HEADER_SIZE : header.checked_size]
    if codec == CODEC_IDS["GZ"]:
        return _inflate(body, header.uncompressed_size, offset, path)
    if codec != CODEC_IDS["NONE"]:
        name = CODECS.get(codec, str(codec))
        raise UnsupportedTableError(f"{path}: HFile codec {name} is not supported, only NONE and GZ; rewrite the file")
    if len(body) != header.uncompressed_size:
        raise CorruptFileError(path, offset, "an uncompressed HFile block has two different sizes; restore the file")
    return bytes(body)


def read_stored_block(
    data: memoryview, offset: int, path: str, codec: int, expected: tuple[bytes, ...]
) -> bytes | memoryview:
    """As `read_block`, for a block that `write_block` stored: faster, in a buffer of Arrow's pool.

    The pool hands the memory of one file's block on to the next file's; the process would get new pages for each, which
    takes longer than reading them.
    """
    header = _checked_header(data, offset, path, expected)
    if codec == CODEC_IDS["GZ"]:
        content = _unstored(data[HEADER_SIZE : header.checked_size], header.uncompressed_size)
        if content is not None:
            return content
    return read_block(data, offset, path, codec, expected)


def _checked_header(data: memoryview, offset: int, path: str, expected: tuple[bytes, ...]) -> BlockHeader:
    header = read_header(data, offset, path)
    if header.magic not in expected:
        raise CorruptFileError(path, offset, f"expected an HFile block {expected[0]!r}, found {header.magic!r}")
    if header.size > len(data):
        raise CorruptFileError(path, offset, "an HFile block reaches past its bound; the file is cut off or broken")
    _verify(data[: header.size], header, offset, path)
    return header


def _unstored(body: memoryview, size: int) -> memoryview | None:
    """The content of a gzip member of stored pieces only (RFC 1951, 3.2.4); None for all others, broken ones too.

    Args:
        body: the member, and nothing after it.
        size: bytes of the content.
    """
    # as written by zlib: no name, no comment, no extra field
    if len(body) < size + _MEMBER_ENDS or bytes(body[:4]) != _MEMBER or size > len(body):
        return None
    content = memoryview(pa.allocate_buffer(size)).cast("B")
    at, end, last = _MEMBER_HEAD, 0, False
    while not last and at + _PIECE.size <= len(body):
        kind, length, complement = _PIECE.unpack_from(body, at)
        at += _PIECE.size
        if kind > 1 or length ^ complement != _LONGEST_PIECE or end + length > size or at + length > len(body):
            return None
        content[end : end + length] = body[at : at + length]
        at, end, last = at + length, end + length, kind == 1
    if not last or end != size or bytes(body[at:]) != _MEMBER_TAIL.pack(isal_gzip.crc32(content), size & 0xFFFFFFFF):
        return None
    return content.toreadonly()


def content_size(data: memoryview, offset: int, path: str, codec: int, magic: bytes) -> int:
    """Check a block's header and return the size of its decompressed content, before memory is allocated for it.

    Args:
        data: exactly the bytes of the block.
        offset: the block's offset in the file, for messages.
        path: the file, for messages.
        codec: the file's codec by its number in the trailer.
        magic: the block's type.

    Raises:
        CorruptFileError: another type of block, or sizes that contradict one another.
    """
    header = read_header(data, offset, path)
    if header.magic != magic:
        raise CorruptFileError(path, offset, f"expected an HFile block {magic!r}, found {header.magic!r}")
    if header.size != len(data):
        raise CorruptFileError(
            path, offset, "the HFile's index and block header name different sizes; restore the file"
        )
    size = header.uncompressed_size
    _check_growth(header.checked_size - HEADER_SIZE, size, offset, path)
    # gzip's trailer has the size too.
    if codec == CODEC_IDS["GZ"] and size.to_bytes(4, "little") != data[header.checked_size - 4 : header.checked_size]:
        raise CorruptFileError(path, offset, "an HFile block has two different sizes; restore the file")
    if codec == CODEC_IDS["NONE"] and size != header.checked_size - HEADER_SIZE:
        raise CorruptFileError(path, offset, "an uncompressed HFile block has two different sizes; restore the file")
    return size


def _check_growth(compressed: int, size: int, offset: int, path: str) -> None:
    """Refuse a decompressed size that is impossible for the compressed size."""
    if size > most_inflated(compressed, floor=_FLOOR, ratio=_RATIO):
        reason = f"an HFile block of {compressed} bytes promises {size} decompressed ones; restore the file"
        raise CorruptFileError(path, offset, reason)


def _inflate(body: memoryview, size: int, offset: int, path: str) -> bytes:
    _check_growth(len(body), size, offset, path)
    try:
        content = isal_gzip.decompress(body, size)
    except isal_gzip.BROKEN_STREAM as error:
        raise CorruptFileError(
            path, offset, f"an HFile block does not decompress ({error}); restore the file"
        ) from error
    if content is None:
        raise CorruptFileError(path, offset, "an HFile block decompresses to another size; restore the file")
    return content


def _verify(block: memoryview, header: BlockHeader, offset: int, path: str) -> None:
    stored = block[header.checked_size :]
    if header.checksum_type == _CHECKSUM_NONE:
        if any(stored):
            raise CorruptFileError(path, offset, "an HFile block of checksum type none has checksums; restore the file")
        return
    checksum = _CHECKSUMS.get(header.checksum_type)
    if checksum is None:
        raise CorruptFileError(path, offset, f"unknown HFile checksum type {header.checksum_type}; restore the file")
    size, step = header.checked_size, header.bytes_per_checksum
    sums = (checksum(bytes(block[at : min(at + step, size)])) for at in range(0, size, step))
    if b"".join(value.to_bytes(4, "big") for value in sums) != stored:
        raise CorruptFileError(path, offset, "the checksum of an HFile block does not match; restore the file")


def write_block(magic: bytes, content: bytes, previous: int, codec: str, *, stored: bool = False) -> bytes:
    """Encode a block without checksums (their slots are zero), which every reader accepts.

    Args:
        magic: the block's type.
        content: its uncompressed content.
        previous: file offset of the previous block of this type, -1 for the first.
        codec: `GZ` or `NONE`.
        stored: with `GZ`, store the content uncompressed, if it hardly compresses and must be read fast.
    """
    body = content if codec != "GZ" else _store(content) if stored else isal_gzip.compress(content)
    checked = HEADER_SIZE + len(body)
    slots = bytes(4 * -(-checked // CHUNK))
    header = HEADER.pack(magic, len(body) + len(slots), len(content), previous, _CHECKSUM_NONE, CHUNK, checked)
    return b"".join((header, body, slots))


def _store(content: bytes) -> bytes:
    stream = zlib.compressobj(zlib.Z_NO_COMPRESSION, zlib.DEFLATED, _GZIP)
    return stream.compress(content) + stream.flush()
