"""Small files that expand to very large content, which a service must refuse without using the memory.

Run as a script it reads them all with as much memory as its argument says (MiB beyond what Python itself takes), and
prints what each is refused for.
"""

import bz2
import json
import lzma
import resource
import sys
import zlib

import pyarrow as pa

from table_format.codecs.avro_file import read_avro_file
from table_format.errors import CorruptFileError
from table_format.hfile import block
from table_format.hfile.entries import SUFFIX
from table_format.hfile.index import write_entry
from table_format.hfile.reader import HFileReader
from table_format.hfile.trailer import Trailer, write_file_info

MEBIBYTE = 1 << 20
TEXT = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}


def varint(number):
    """A zigzag varint of Avro."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def container(schema, *blocks, codec="null", count=1):
    """An Avro object container file with blocks as they are."""
    sync = b"marker of a file"
    entries = [(b"avro.schema", json.dumps(schema).encode()), (b"avro.codec", codec.encode())]
    texts = b"".join(varint(len(part)) + part for entry in entries for part in entry)
    body = b"".join(varint(count) + varint(len(content)) + content + sync for content in blocks)
    return b"Obj\x01" + varint(len(entries)) + texts + b"\0" + sync + body


def text_record(size):
    """A record of TEXT, of zeros."""
    return varint(size) + bytes(size)


def deflate(content):
    stream = zlib.compressobj(9, wbits=-15)
    return stream.compress(content) + stream.flush()


def snappy(content):
    return pa.Codec("snappy").compress(content, asbytes=True) + zlib.crc32(content).to_bytes(4, "big")


PACK = {
    "deflate": deflate,
    "snappy": snappy,
    "zstandard": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def endless_deflate(mebibytes):
    """Deflate of so many mebibytes of zeros, without making them."""
    stream = zlib.compressobj(9, wbits=-15)
    piece = stream.compress(bytes(MEBIBYTE)) + stream.flush(zlib.Z_FULL_FLUSH)
    again = stream.compress(bytes(MEBIBYTE)) + stream.flush(zlib.Z_FULL_FLUSH)
    return piece + again * (mebibytes - 1) + stream.flush()


def hfile(data_block, count):
    """An HFile that has one data block so many times."""
    size = len(data_block)
    root = b"".join(write_entry(number * size, size, b"\0\1k" + SUFFIX) for number in range(count))
    return with_end(data_block * count, root, count, levels=1, last=size * (count - 1))


def hfile_with_index(leaf):
    """An HFile whose root points to a leaf index block."""
    return with_end(leaf, write_entry(0, len(leaf), b"\0\1k" + SUFFIX), 1, levels=2, last=0)


def with_end(front, root, count, *, levels, last):
    """The first blocks of an HFile with a root index and all that follows it."""
    contents = [
        (block.ROOT_INDEX, root),
        (block.ROOT_INDEX, b""),
        (block.FILE_INFO, write_file_info({b"schema": b"1"})),
    ]
    first, second, info = (block.write_block(magic, content, -1, "GZ") for magic, content in contents)
    places = (len(front) + len(first) + len(second), len(front))
    trailer = Trailer(*places, len(root), 0, count, 0, count, levels, 0, last, block.CODEC_IDS["GZ"])
    return front + first + second + info + trailer.to_bytes()


def bombs():
    """Name → (how it is read, its bytes)."""
    yield "avro", read_avro, container(TEXT, endless_deflate(4096), codec="deflate")
    blocks = [deflate(text_record(6 * MEBIBYTE))] * 200
    yield "avro blocks", read_avro, container(TEXT, *blocks, codec="deflate")
    for name, size, count in (("hfile", 200, 1), ("hfile blocks", 60, 40)):
        data_block = block.write_block(block.DATA, bytes(size * MEBIBYTE), -1, "GZ")
        yield name, read_hfile, hfile(data_block, count)
    leaf = block.write_block(block.LEAF_INDEX, bytes(200 * MEBIBYTE), -1, "GZ")
    yield "hfile index", read_hfile, hfile_with_index(leaf)


def read_avro(data):
    return read_avro_file(data, "bomb")


def read_hfile(data):
    return HFileReader(data, "bomb").entries()


def main():
    made = list(bombs())
    with open("/proc/self/statm") as stream:
        taken = int(stream.read().split()[0]) * resource.getpagesize()
    limit = taken + int(sys.argv[1]) * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name, read, data in made:
        try:
            read(data)
            print(f"{name}: read")
        except CorruptFileError as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    main()
