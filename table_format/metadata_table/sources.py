"""The HFiles and delete blocks of one partition of the metadata table, opened once and looked into by key."""

from __future__ import annotations

import concurrent.futures
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from table_format.arrow_numpy import to_numpy
from table_format.avro_schema_tree import Node, parse
from table_format.errors import CorruptFileError
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.log.deletes import read_deletes
from table_format.log.format import BlockType, LogBlock
from table_format.metadata_table.arrow import Column, one_chunk
from table_format.metadata_table.layout import BaseFile, list_file_groups
from table_format.metadata_table.slices import FileSlice, ValidInstants, read_slices
from table_format.storage import Storage

_WORKERS = 4

Select = Callable[[HFileReader], HFileEntries]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one source says: records, or deleted keys. Pieces of a shard are in the order in which they apply.

    Attributes:
        name: the source, for messages.
        entries: the records found; empty for deletes.
        schema: of the records; None for deletes.
        deleted_keys: keys that a delete block removes.
    """

    name: str
    entries: HFileEntries
    schema: Node | None
    deleted_keys: tuple[bytes, ...] = ()


class PartitionSources:
    """All shards of one partition of the metadata table, as of the moment of opening.

    Args:
        storage: of the data table.
        partition: name of the metadata partition.
        valid: which blocks count.
        before: only file slices older than this instant, the one of a compaction that reads them.

    Raises:
        CorruptFileError: a log file or HFile breaks the format, or the partition has no file group.
    """

    def __init__(self, storage: Storage, partition: str, valid: ValidInstants, before: str | None = None) -> None:
        self.partition = partition
        self.groups = list_file_groups(storage, partition)
        if not self.groups:
            raise CorruptFileError(
                f".hoodie/metadata/{partition}", 0, "the metadata table has no file group there; drop and rebuild it"
            )
        self.slices = read_slices(storage, self.groups, valid, before)
        with concurrent.futures.ThreadPoolExecutor(_WORKERS) as pool:
            self._shards = list(pool.map(functools.partial(_open_sources, storage), self.slices))

    @property
    def shard_count(self) -> int:
        """Number of file groups, by which keys are spread."""
        return len(self.groups)

    def everything(self) -> list[list[Piece]]:
        """All records, by shard."""
        return self._select(HFileReader.entries, lambda _: True)

    def prefix(self, prefix: bytes) -> list[list[Piece]]:
        """The records whose keys start with a prefix, by shard; only the HFile blocks that can hold them are read."""
        return self._select(lambda reader: reader.prefix(prefix), lambda key: key.startswith(prefix))

    def get(self, keys: Sequence[bytes]) -> list[list[Piece]]:
        """The records of some keys, by shard."""
        wanted = frozenset(keys)
        return self._select(lambda reader: reader.get(keys), lambda key: key in wanted)

    def _select(self, select: Select, wanted: Callable[[bytes], bool]) -> list[list[Piece]]:
        def shard(sources: list[_Source]) -> list[Piece]:
            found = [source.select(select, wanted) for source in sources]
            return [piece for piece in found if len(piece.entries) or piece.deleted_keys]

        with concurrent.futures.ThreadPoolExecutor(_WORKERS) as pool:
            return list(pool.map(shard, self._shards))


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    reader: HFileReader | None
    schema: Node | None
    deleted_keys: tuple[bytes, ...] = ()

    def select(self, select: Select, wanted: Callable[[bytes], bool]) -> Piece:
        if self.reader is not None:
            return Piece(self.name, select(self.reader), self.schema)
        deleted = tuple(key for key in self.deleted_keys if wanted(key))
        return Piece(self.name, HFileEntries.empty(), None, deleted)


def _open_sources(storage: Storage, file_slice: FileSlice) -> list[_Source]:
    base = [] if file_slice.base is None else [_open_base(storage, file_slice.base)]
    return [*base, *(_open_block(block) for block in file_slice.blocks)]


def _open_base(storage: Storage, base: BaseFile) -> _Source:
    def read_range(offset: int, length: int) -> bytes:
        return storage.read_range(base.path, offset, length)

    reader = HFileReader.open(read_range, base.size, base.path)
    return _Source(base.path, reader, _schema(reader.schema_json, base.path))


def _open_block(block: LogBlock) -> _Source:
    name = f"{block.path} (log block at byte {block.offset})"
    if block.type is BlockType.DELETE:
        keys = tuple(record.key.encode() for record in read_deletes(block) if record.key is not None)
        return _Source(name, None, None, keys)
    reader = HFileReader(block.content, name)
    return _Source(name, reader, _schema(block.schema_json or reader.schema_json, name))


def _schema(text: str | None, name: str) -> Node:
    if text is None:
        raise CorruptFileError(name, 0, "there is no Avro schema with the records")
    try:
        return _parsed(text)
    except ValueError as error:
        raise CorruptFileError(name, 0, f"the Avro schema of the records cannot be used: {error}") from error


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> Node:
    return parse(json.loads(text))


@dataclass(frozen=True, slots=True)
class Versions:
    """Which rows of several versions of keyed records make up the newest state.

    Attributes:
        live: row numbers of surviving versions, ascending; all rows newer than their key's last deletion.
        codes: for each live row, the number of its key.
        unique: whether no key has more than one live row.
    """

    live: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    unique: bool


def newest_versions(keys: Column, deleted: npt.NDArray[np.bool_]) -> Versions:
    """Drop what deletions took away.

    Args:
        keys: the key of each version, in the order in which the versions apply.
        deleted: whether the version is a deletion.
    """
    encoded = one_chunk(keys).dictionary_encode()
    codes = to_numpy(encoded.indices).astype(np.int64)
    distinct = len(encoded.dictionary)
    rows = np.arange(len(codes), dtype=np.int64)
    alive = ~deleted
    if deleted.any():
        last = np.full(distinct, -1, dtype=np.int64)
        np.maximum.at(last, codes[deleted], rows[deleted])
        alive &= rows > last[codes]
    live = rows[alive]
    live_codes = codes[alive]
    unique = distinct == len(codes) or len(np.unique(live_codes)) == len(live_codes)
    return Versions(live, live_codes, unique)
