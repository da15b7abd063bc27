"""Decompression with limits on the decompressed size.

A megabyte of deflate can expand to a gigabyte, of bzip2 or zstd to far more. Formats that declare a size are held to
it; if they declare none, or one that the file itself chose, content may be `ratio` times as large as its compressed
form, or `floor` bytes if that is more. Content of Hudi's writers (names of files, keys, filters) shrinks to a
fifth, and to a fiftieth if it is repetitive.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

import pyarrow as pa

from table_format.codecs.varint import BadEncodingError, read_varint

MEBIBYTE: Final = 1 << 20
_LZMA_MEMORY: Final = 128 * MEBIBYTE  # twice what the strongest preset takes
Inflater = Callable[[bytes | memoryview, int], bytes]


class InflationError(ValueError):
    """Bytes that do not decompress, or exceed the limit."""


def most_inflated(compressed: int, *, floor: int, ratio: int) -> int:
    """Limit of the decompressed size for a compressed size.

    >>> most_inflated(10, floor=1000, ratio=32), most_inflated(100, floor=1000, ratio=32)
    (1000, 3200)
    """
    return max(floor, ratio * compressed)


def inflate(codec: str, data: bytes | memoryview, most: int) -> bytes:
    """Decompress one block, never producing more than `most` + 1 bytes.

    Args:
        codec: as Avro names it: `null`, `deflate`, `zlib`, `snappy` (with the CRC-32 after it), `zstandard`, `bzip2`
            or `xz`.
        data: exactly the compressed bytes.
        most: limit of the decompressed size.

    Raises:
        InflationError: it exceeds the limit, is cut off, broken, or followed by other bytes.
        KeyError: another codec.
    """
    content = _CODECS[codec](data, most)
    if len(content) > most:
        raise InflationError(f"it decompresses to more than {most} bytes, which no Hudi file needs")
    return content


def _by_object(
    make: Callable[[], Any], errors: tuple[type[Exception], ...]
) -> Callable[[bytes | memoryview, int], bytes]:
    """Decompress by one of the standard library's decompressor objects, which take a size limit."""

    def run(data: bytes | memoryview, most: int) -> bytes:
        stream = make()
        try:
            content = cast("bytes", stream.decompress(data, most + 1))
        except errors as error:
            raise InflationError(str(error)) from error
        if len(content) <= most and not stream.eof:
            raise InflationError("it is cut off")
        if stream.unused_data:
            raise InflationError("other bytes follow it")
        return content

    return run


def _zstandard(data: bytes | memoryview, most: int) -> bytes:
    stream_type: Any = pa.CompressedInputStream
    try:
        with stream_type(io.BytesIO(data), "zstd") as stream:
            content: bytes = stream.read(most + 1)
    except (OSError, pa.ArrowException) as error:
        raise InflationError(str(error)) from error
    return content


def _snappy(data: bytes | memoryview, most: int) -> bytes:
    body, check = bytes(data[:-4]), bytes(data[-4:])
    try:
        size, _ = read_varint(body, 0)
        if size > most:
            raise InflationError(f"it declares {size} bytes, which no Hudi file needs")
        content: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    except (BadEncodingError, OSError, pa.ArrowException) as error:
        raise InflationError(str(error)) from error
    if zlib.crc32(content) != int.from_bytes(check, "big"):
        raise InflationError("its checksum does not match")
    return content


_CODECS: Final[dict[str, Inflater]] = {
    "null": lambda data, _: bytes(data),
    "deflate": _by_object(lambda: zlib.decompressobj(-zlib.MAX_WBITS), (zlib.error,)),
    "zlib": _by_object(zlib.decompressobj, (zlib.error,)),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _by_object(bz2.BZ2Decompressor, (OSError, ValueError)),
    "xz": _by_object(lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY), (lzma.LZMAError, MemoryError)),
}
