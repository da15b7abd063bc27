"""Positions of log records: rows of the base file that they were written for."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from table_format.codecs.arrow_numpy import Positions
from table_format.codecs.roaring import read_roaring
from table_format.errors import CorruptFileError
from table_format.log.blocks import HeaderKey, LogBlock


def record_positions(blocks: Sequence[LogBlock], counts: Sequence[int], base_instant: str) -> Positions | None:
    """The base file's row of each record of these blocks.

    Writers from Hudi 1.0 on give each block a bitmap of rows, and the instant of the base file that has them; the
    records of the block are in the order of the rows. Of a block with records of new keys, or of several records for
    one row, they leave it out. Readers use positions if every block has them.

    Args:
        blocks: data and delete blocks, in merge order.
        counts: the number of records of each.
        base_instant: instant of the slice's base file.

    Returns:
        None if a block has no positions, or has those of another base file.

    Raises:
        CorruptFileError: a block's positions are damaged.
    """
    if any(_encoded(block, base_instant) is None for block in blocks):
        return None
    return np.concatenate([np.empty(0, np.int64), *map(_positions, blocks, counts)])


def _encoded(block: LogBlock, base_instant: str) -> str | None:
    if block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) != base_instant:
        return None
    return block.header.get(HeaderKey.RECORD_POSITIONS) or None


def _positions(block: LogBlock, count: int) -> Positions:
    try:
        return read_roaring(base64.b64decode(block.header[HeaderKey.RECORD_POSITIONS], validate=True), count)
    except ValueError as error:
        reason = f"damaged record positions of a log block of {count} records: {error}; restore the file"
        raise CorruptFileError(block.path, block.offset, reason) from error
