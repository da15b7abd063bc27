"""Gzip by ISA-L (the package `isal`), whose calls leave the vector registers as other libraries want to find them.

ISA-L's routines for AVX-512 return with the upper halves of these registers in use. On Intel's processors each SSE
instruction then waits for the one before it, until something clears the halves, and threads are born in the state of
the thread that starts them. Much of Arrow and NumPy is built for SSE: encoding 250,000 record keys took 64 ms after a
checksum by ISA-L, and 22 ms before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np
from isal import igzip_lib, isal_zlib

BROKEN_STREAM: type[Exception] = cast("Any", igzip_lib.IsalError)  # an instance in the stubs
_GZIP: Final = 31
# Ten times as fast as zlib's own sixth level, for files of the record index that are 7 % larger.
_LEVEL: Final = 1
#: NumPy adds numbers by AVX, and clears the halves as compilers do. Fewer numbers than 16 are added by SSE.
_NUMBERS: Final = np.zeros(64)


@contextlib.contextmanager
def registers_released() -> Iterator[None]:
    """Clear the upper halves of this thread's vector registers at the end, in half a microsecond."""
    try:
        yield
    finally:
        np.add(_NUMBERS, _NUMBERS, out=_NUMBERS)


def crc32(content: bytes | memoryview) -> int:
    """The CRC-32 of some bytes."""
    with registers_released():
        return isal_zlib.crc32(content)


def compress(content: bytes) -> bytes:
    """A gzip member of some bytes."""
    with registers_released():
        return isal_zlib.compress(content, _LEVEL, _GZIP)


def decompress(body: memoryview, size: int) -> bytes | None:
    """The content of a gzip member, whose own CRC-32 and length are verified; None unless it has `size` bytes.

    Args:
        body: the member, and nothing after it.
        size: bytes of the content; hardly more are decompressed.

    Raises:
        BROKEN_STREAM: it does not decompress.
    """
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
    with registers_released():
        content = inflater.decompress(body, size + 1)
        if not inflater.eof and len(content) == size:
            content += inflater.decompress(b"", 1)
    return content if len(content) == size and inflater.eof and not inflater.unused_data else None
