"""Blocks that are stored in gzip members: read without gzip, and checked as gzip does."""

import gzip
import zlib

import numpy as np
import pytest

from table_format.errors import CorruptFileError
from table_format.hfile import block

GZ = block.CODEC_IDS["GZ"]


def content_of(size: int) -> bytes:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()


def stored(content: bytes) -> bytes:
    return block.write_block(block.META, content, -1, "GZ", stored=True)


def framed(member: bytes, size: int) -> bytes:
    """A block of some gzip member, with a header that calls its content `size` bytes long."""
    checked = block.HEADER_SIZE + len(member)
    slots = bytes(4 * -(-checked // block.CHUNK))
    header = block.HEADER.pack(block.META, len(member) + len(slots), size, -1, 0, block.CHUNK, checked)
    return header + member + slots


def both_ways(data: bytes) -> tuple[bytes, bytes]:
    arguments = (memoryview(data), 0, "file", GZ, (block.META,))
    return block.read_block(*arguments), bytes(block.read_stored_block(*arguments))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 131_070, 200_001])
def test_content_is_that_of_gzip(size: int) -> None:
    content = content_of(size)
    assert both_ways(stored(content)) == (content, content)


def test_a_stored_block_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored(content_of(100_000))
    monkeypatch.setattr(block, "_inflate", None)
    assert bytes(block.read_stored_block(memoryview(data), 0, "file", GZ, (block.META,))) == content_of(100_000)


def test_compressed_blocks_and_members_with_names_are_read() -> None:
    content = bytes(300_000)
    assert both_ways(block.write_block(block.META, content, -1, "GZ")) == (content, content)
    stream = zlib.compressobj(0, zlib.DEFLATED, 31)
    named = bytearray(stream.compress(content) + stream.flush())
    named[3] = 8  # FNAME
    named[10:10] = b"name\0"
    assert gzip.decompress(named) == content
    plain = block.write_block(block.META, content, -1, "NONE")
    assert both_ways(framed(bytes(named), len(content))) == (content, content)
    arguments = (memoryview(plain), 0, "file", block.CODEC_IDS["NONE"], (block.META,))
    assert bytes(block.read_stored_block(*arguments)) == content


def test_every_damage_is_noticed() -> None:
    """One bit changed anywhere in the member: of the content, a piece's length, the CRC or the size."""
    content = content_of(70_000)
    data = stored(content)
    member = range(block.HEADER_SIZE, block.HEADER_SIZE + len(content) + 28)
    places = [*member[:40], *member[40:-40:997], *range(block.HEADER_SIZE + 65_530, block.HEADER_SIZE + 65_570)]
    places += [*member[-40:]]
    unnoticed = []
    for place in places:
        for bit in (0, 7):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            try:
                if both_ways(bytes(broken)) != (content, content):
                    unnoticed.append((place, bit))
            except CorruptFileError:
                continue
    assert not unnoticed


def test_a_member_that_is_cut_off_is_refused() -> None:
    content = content_of(70_000)
    stream = zlib.compressobj(0, zlib.DEFLATED, 31)
    member = stream.compress(content) + stream.flush()
    for size in (5, 12, 20, 60_000, len(member) - 1):
        data = framed(member[:size], len(content))
        with pytest.raises(CorruptFileError, match="decompress"):
            block.read_stored_block(memoryview(data), 0, "file", GZ, (block.META,))
