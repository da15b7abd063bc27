"""CRC-32C (Castagnoli) over many chunks at once, by numpy.

HBase's writer stores one checksum per 16 KiB. The register of a CRC that starts at zero is linear over XOR, so a
chunk's checksum is the XOR of one table look-up per byte, with a table for each distance of the byte from the
chunk's end. Two levels keep these tables small: pieces of 64 bytes first, then the pieces' registers, which are
moved to their distance from the end.
"""

import functools

import numpy as np
from numpy.typing import NDArray

CHUNK = 16384
_PIECE = 64
_PIECES = CHUNK // _PIECE
_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF

Table = NDArray[np.uint32]


@functools.cache
def _byte_table() -> Table:
    """The register after one byte, starting from zero."""
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = (register >> np.uint32(1)) ^ np.where(register & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return register


def _advance(register: Table) -> Table:
    """The register one zero byte further."""
    moved: Table = _byte_table()[register & 0xFF] ^ (register >> np.uint32(8))
    return moved


@functools.cache
def _piece_tables() -> Table:
    """[position in the piece, byte]: the register at the piece's end."""
    tables = np.empty((_PIECE, 256), dtype=np.uint32)
    tables[-1] = _byte_table()
    for position in range(_PIECE - 2, -1, -1):
        tables[position] = _advance(tables[position + 1])
    return tables


@functools.cache
def _chunk_tables() -> Table:
    """[piece in the chunk, byte of its register, value of that byte]: the register at the chunk's end."""
    tables = np.empty((_PIECES, 4, 256), dtype=np.uint32)
    for byte in range(4):
        tables[-1, byte] = np.arange(256, dtype=np.uint32) << np.uint32(8 * byte)
    step = tables[-1]
    for piece in range(_PIECES - 2, -1, -1):
        for _ in range(_PIECE):
            step = _advance(step)
        tables[piece] = step
    return tables


def _small(data: NDArray[np.uint8]) -> int:
    table = _byte_table()
    register = _ONES
    for byte in data.tolist():
        register = int(table[(register ^ byte) & 0xFF]) ^ (register >> 8)
    return register ^ _ONES


def crc32c_chunks(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The CRC-32C of each started 16,384-byte chunk of a buffer."""
    whole, rest = divmod(len(data), CHUNK)
    sums = np.empty(whole + (rest > 0), dtype=np.uint32)
    if whole:
        sums[:whole] = _many(data[: whole * CHUNK].reshape(whole, CHUNK).copy())
    if 0 < rest < _PIECE:
        sums[-1] = _small(data[-rest:])
    elif rest:
        # The bits that start the register are the same as these bits over the first four bytes; zeros before them
        # leave the register at zero.
        pieces = -(-rest // _PIECE)
        padded = np.zeros((1, pieces * _PIECE), dtype=np.uint8)
        padded[0, -rest:] = data[-rest:]
        sums[-1] = _many(padded, padded.shape[1] - rest)[0]
    return sums


def crc32c(data: bytes) -> int:
    """The CRC-32C of at most one chunk (16,384 bytes); 0 for none."""
    sums = crc32c_chunks(np.frombuffer(data, dtype=np.uint8))
    if len(sums) > 1:
        raise ValueError("more than one chunk")
    return int(sums[0]) if len(sums) else 0


def _many(chunks: NDArray[np.uint8], start: int = 0) -> NDArray[np.uint32]:
    """Checksums of equally long chunks (rows), which begin at column `start`; the rows are overwritten."""
    chunks[:, start : start + 4] ^= 0xFF
    rows, width = chunks.shape
    pieces = width // _PIECE
    columns = chunks.reshape(rows * pieces, _PIECE).T
    registers = np.zeros(rows * pieces, dtype=np.uint32)
    for position, table in enumerate(_piece_tables()):
        registers ^= table[columns[position]]
    of_row = registers.reshape(rows, pieces)
    tables = _chunk_tables()[-pieces:]
    index = np.arange(pieces)[None, :]
    total = np.zeros(rows, dtype=np.uint32)
    for byte in range(4):
        values = (of_row >> np.uint32(8 * byte)) & np.uint32(0xFF)
        total ^= np.bitwise_xor.reduce(tables[index, byte, values], axis=1)
    return total ^ np.uint32(_ONES)
