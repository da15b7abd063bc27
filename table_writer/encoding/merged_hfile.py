"""HFiles that differ from an older one in a few data blocks: the others are copied without decompression."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import CorruptFileError, RecordError
from table_format.hfile import block
from table_format.hfile.entries import ENTRY_OVERHEAD, KEY_OVERHEAD, HFileEntries
from table_format.hfile.reader import HFileReader
from table_writer.encoding import hfile
from table_writer.encoding.hfile import (
    AVERAGE_KEY,
    LAST_KEY,
    DataBlock,
    assemble,
    check_entries,
    data_blocks,
    file_info,
)

# A block that is smaller than this part of the usual size is joined with a neighbour that is written anew.
_SMALL: Final = 4


class BlockwiseHFile:
    """An HFile of `write_hfile`'s, in which the entries of some data blocks are replaced.

    Args:
        data: the whole file.
        reader: of it.
        block_size: of new data blocks, see `write_hfile`.

    Attributes:
        blocks: the data blocks.
    """

    def __init__(self, data: bytes, reader: HFileReader, block_size: int | None = None) -> None:
        self._reader = reader
        self._block_size = block_size or hfile.DEFAULT_BLOCK_SIZE
        index, view = reader.block_index, memoryview(data)
        self.blocks = [
            _block(key, view[offset : offset + size], offset, reader.name)
            for key, offset, size in zip(index.first_keys, index.offsets, index.sizes, strict=True)
        ]

    @classmethod
    def open(cls, data: bytes, name: str, schema_json: str, block_size: int | None = None) -> BlockwiseHFile | None:
        """Open a file; None where its blocks cannot be copied, because another writer or another schema made it.

        Args:
            data: the whole file.
            name: the file, for messages.
            schema_json: the Avro schema that the new file has.
            block_size: of new data blocks, see `write_hfile`.

        Raises:
            CorruptFileError: the bytes are not a whole HFile.
        """
        reader = HFileReader(data, name)
        end, index = reader.trailer, reader.block_index
        ours = file_info(b"", 0, 0, schema_json)
        if reader.file_info.keys() != ours.keys() or reader.file_info[b"schema"] != ours[b"schema"]:
            return None
        ends = [offset + size for offset, size in zip(index.offsets, index.sizes, strict=True)]
        gapless = [0, *ends] == [*index.offsets, end.root_index_offset]
        rising = all(one < other for one, other in itertools.pairwise(index.first_keys))
        if end.codec != block.CODEC_IDS["GZ"] or end.index_levels != 1 or not gapless or not rising:
            return None
        try:
            return cls(data, reader, block_size)
        except CorruptFileError:
            return None  # whoever reads its entries says what is wrong

    def touched(self, keys: Sequence[bytes]) -> list[int]:
        """Numbers of the data blocks into which some keys fall, and of small ones beside these; rising."""
        index = self._reader.block_index
        numbers = {max(index.block_of(key), 0) for key in keys}
        beside = {number + step for number in numbers for step in (-1, 1)} & set(range(len(self.blocks)))
        small = {number for number in beside if self.blocks[number].content_size * _SMALL < self._block_size}
        return sorted(numbers | small)

    def entries(self, numbers: Sequence[int]) -> HFileEntries:
        """Entries of some data blocks.

        Raises:
            CorruptFileError: one of them is broken.
        """
        return self._reader.entries_of(numbers)

    def with_entries(self, numbers: Sequence[int], replaced: int, keys: Any, values: Any) -> tuple[bytes, int] | None:
        """The file with other entries in some data blocks, and its number of entries; None without any.

        Args:
            numbers: of the blocks, rising.
            replaced: how many entries they have.
            keys: of the new entries, rising and unique; each falls into one of these blocks.
            values: of the new entries.

        Raises:
            RecordError: keys out of order, too long, or in other blocks.
        """
        if len(keys):
            check_entries(keys, values)
        blocks: list[DataBlock] = []
        done = first = 0
        for run in _runs(numbers):
            blocks += self.blocks[done : run.start]
            bound = None if run.stop == len(self.blocks) else self.blocks[run.stop].first_key
            after = len(keys) if bound is None else int(pc.sum(pc.less(keys, bound)).as_py() or 0)
            if run.start and after > first and keys[first].as_py() < self.blocks[run.start].first_key:
                raise RecordError(f"key {keys[first].as_py()!r} falls into a data block that is copied")
            made = self._new_blocks(keys[first:after], values[first:after])
            if run.start and made:  # keys before its first entry stay those of this block
                made[0] = dataclasses.replace(made[0], first_key=self.blocks[run.start].first_key)
            blocks += made
            done, first = run.stop, after
        if first < len(keys):
            raise RecordError(f"key {keys[first].as_py()!r} falls into a data block that is copied")
        blocks += self.blocks[done:]
        count = self._reader.entry_count - replaced + len(keys)
        if not blocks:
            return None
        return assemble(blocks, count, self._info(blocks, count, replaced, keys)), count

    def _new_blocks(self, keys: Any, values: Any) -> list[DataBlock]:
        """Blocks of about equal size, so that no crumbs are left each time that a full block grows."""
        if not len(keys):
            return []
        size = _bytes_of(keys, values)
        return data_blocks(keys, values, -(-size // max(1, round(size / self._block_size))))

    def _info(self, blocks: Sequence[DataBlock], count: int, replaced: int, keys: Any) -> dict[bytes, bytes]:
        info = self._reader.file_info
        # averages are rounded down: that of the copied blocks is taken to be so by a half
        average = int.from_bytes(info[AVERAGE_KEY], "big")
        copied = self._reader.entry_count - replaced
        new_bytes = int(pc.sum(pc.binary_length(keys)).as_py() or 0) + len(keys) * KEY_OVERHEAD
        key_length = (average * copied + copied // 2 + new_bytes) // count
        payload = sum(one.content_size for one in blocks) - count * ENTRY_OVERHEAD
        return file_info(
            self._last_key(blocks, keys), key_length, max(0, payload // count - key_length), info[b"schema"].decode()
        )

    def _last_key(self, blocks: Sequence[DataBlock], keys: Any) -> bytes:
        last = blocks[-1]
        if last is self.blocks[-1]:
            stored = self._reader.file_info[LAST_KEY]
            return stored[2 : 2 + int.from_bytes(stored[:2], "big")]
        if len(keys) and keys[-1].as_py() >= last.first_key:
            key: bytes = keys[-1].as_py()
            return key
        number = next(number for number, one in enumerate(self.blocks) if one is last)
        final: bytes = self.entries([number]).keys()[-1].as_py()
        return final


def _block(first_key: bytes, data: memoryview, offset: int, name: str) -> DataBlock:
    """A block to copy.

    Raises:
        CorruptFileError: its header is not that of a data block of ours.
    """
    header = block.read_header(data, offset, name)
    if header.magic != block.DATA or header.size != len(data) or header.checksum_type:
        raise CorruptFileError(name, offset, "not a data block without checksums")
    return DataBlock(first_key, data, header.uncompressed_size)


def _runs(numbers: Sequence[int]) -> list[range]:
    """Runs of consecutive numbers."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs


def _bytes_of(keys: Any, values: Any) -> int:
    lengths = [pc.sum(pc.binary_length(column)).as_py() or 0 for column in (keys, pa.array(values, pa.binary()))]
    return int(sum(lengths)) + len(keys) * (ENTRY_OVERHEAD + KEY_OVERHEAD)
