"""HFiles and delete blocks of one partition of the metadata table, opened once and searched by key."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Column, from_numpy, to_numpy
from table_format.codecs.avro_schema_tree import Node, parse_text
from table_format.errors import CorruptFileError
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import BlockType, LogBlock
from table_format.log.deletes import read_deleted_keys
from table_format.metadata_table.keys import shards_of_keys
from table_format.metadata_table.layout import (
    FILES,
    RECORD_INDEX,
    BaseFile,
    FileGroup,
    list_file_groups,
    names_of_files,
)
from table_format.metadata_table.records import SourceRecords
from table_format.metadata_table.slices import LogBlocks, MetadataSlice, ValidInstants, read_slices
from table_format.storage import Storage
from table_format.threads import in_threads

_WORKERS = 4
# Entries of HFiles that are searched in the time that threads take to start.
_FEW_ENTRIES = 10_000

# Partitions whose missing content does not exist; in others it is unknown.
_COMPLETE = frozenset({FILES, RECORD_INDEX})
T = TypeVar("T")
R = TypeVar("R")
Select = Callable[[HFileReader], HFileEntries]


Origin = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """An HFile, a data block or a delete block.

    Attributes:
        name: for messages.
        origin: the file, its modification time, and the block's offset in it; -1 for a base file.
        reader: of the entries; None for deletes.
        schema: of the records; None for deletes.
        deleted_keys: keys that a delete block removes.
    """

    name: str
    origin: Origin
    reader: HFileReader | None
    schema: Node | None
    deleted_keys: tuple[bytes, ...] = ()

    def select(self, select: Select, wanted: Callable[[bytes], bool]) -> SourceRecords:
        """Selected part of the content."""
        if self.reader is not None:
            return SourceRecords(self.name, select(self.reader), self.schema)
        deleted = tuple(key for key in self.deleted_keys if wanted(key))
        return SourceRecords(self.name, HFileEntries.empty(), None, deleted)


Known = tuple[LogBlocks, dict[Origin, Source]]
"""Log files with their blocks, and sources by origin, that were read already."""


_NO_SOURCE = Source("", ("", 0, -1), None, None)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some records of the first source of a shard.

    Attributes:
        shard: its number.
        source: the first one of the shard.
        read: returns the entries.
        later: keys of the shard's later sources; None if there are none.
    """

    shard: int
    source: Source
    read: Callable[[], HFileEntries]
    later: Any

    def decoded(self, decode: Callable[[SourceRecords], T]) -> tuple[int, T | None, HFileEntries]:
        """How many entries there are; those decoded that later sources don't have; and the others."""
        entries = self.read()
        settled, disputed = entries, HFileEntries.empty()
        if self.later is not None:
            again = to_numpy(pc.is_in(entries.keys(), self.later)).astype(np.bool_)
            if again.any():
                settled, disputed = entries.take(~again), entries.take(again)
        records = SourceRecords(self.source.name, settled, self.source.schema)
        return len(entries), decode(records) if len(settled) else None, disputed


class ShardSources:
    """Sources of some shards, each shard's in the order in which they apply."""

    def __init__(self, shards: Sequence[Sequence[Source]]) -> None:
        self.shards = shards

    def everything(self) -> list[list[SourceRecords]]:
        """All records, by shard."""
        return self._select(lambda _: (HFileReader.entries, _always))

    def prefix(self, prefix: bytes) -> list[list[SourceRecords]]:
        """Records whose keys start with a prefix, by shard; reads only HFile blocks that can contain them."""
        return self._select(lambda _: (lambda reader: reader.prefix(prefix), lambda key: key.startswith(prefix)))

    def decoded(
        self, decode: Callable[[SourceRecords], T], prefix: bytes = b""
    ) -> tuple[list[T], list[list[SourceRecords]]]:
        """Decode records whose keys start with a prefix, chunk by chunk in several threads, unless they need merging.

        Args:
            decode: is applied to some records at a time, each the only version of its key.
            prefix: empty for all records.

        Returns:
            What was decoded, in order; and the records with several versions, by shard, those of the first source
            as one piece.
        """
        whole = not prefix
        work: list[_Chunk] = []
        disputed: list[list[SourceRecords]] = []
        for number, sources in enumerate(self.shards):
            first, *rest = sources or [_NO_SOURCE]
            select = (lambda reader: reader.prefix(prefix)), (lambda key: key.startswith(prefix))
            later = [piece for piece in (source.select(*select) for source in rest) if not piece.is_empty]
            if first.reader is None:
                later.insert(0, first.select(*select))
            else:
                keys = pa.concat_arrays([piece.keys() for piece in later]) if later else None
                work += [_Chunk(number, first, read, keys) for read in first.reader.chunks(prefix)]
            disputed.append([piece for piece in later if not piece.is_empty])
        entries = sum(source.reader.entry_count for sources in self.shards for source in sources if source.reader)
        run = in_threads if entries > _FEW_ENTRIES else _one_by_one
        chunks = run(lambda chunk: chunk.decoded(decode), work)
        for number, sources in enumerate(self.shards):
            of_shard = [done for chunk, done in zip(work, chunks, strict=True) if chunk.shard == number]
            reader = sources[0].reader if sources else None
            if whole and reader is not None:
                reader.check_count(sum(count for count, _, _ in of_shard))
            again = [entries for _, _, entries in of_shard if len(entries)]
            if again:
                oldest = SourceRecords(sources[0].name, HFileEntries.joined(again), sources[0].schema)
                disputed[number].insert(0, oldest)
        return [value for _, value, _ in chunks if value is not None], [pieces for pieces in disputed if pieces]

    def get(self, keys: Sequence[Sequence[bytes]]) -> list[list[SourceRecords]]:
        """Records of some keys, by shard; each shard is searched for its own keys."""

        def by_keys(shard: int) -> tuple[Select, Callable[[bytes], bool]]:
            wanted = frozenset(keys[shard])
            return lambda reader: reader.get(keys[shard]), lambda key: key in wanted

        return self._select(by_keys)

    def appended_since(self, older: ShardSources) -> ShardSources | None:
        """Sources appended since an earlier instance; None if more than that changed."""
        if len(self.shards) != len(older.shards):
            return None
        tails = []
        for now, then in zip(self.shards, older.shards, strict=True):
            if [source.origin for source in now[: len(then)]] != [source.origin for source in then]:
                return None
            tails.append(now[len(then) :])
        return ShardSources(tails)

    def _select(self, of_shard: Callable[[int], tuple[Select, Callable[[bytes], bool]]]) -> list[list[SourceRecords]]:
        def shard(number: int) -> list[SourceRecords]:
            select, wanted = of_shard(number)
            pieces = [source.select(select, wanted) for source in self.shards[number]]
            return [piece for piece in pieces if not piece.is_empty]

        entries = sum(source.reader.entry_count for sources in self.shards for source in sources if source.reader)
        return _map(shard, range(len(self.shards)), threads=entries > _FEW_ENTRIES)


class PartitionSources:
    """One partition of the metadata table, as of opening; shards are opened on first use. Threads may share it.

    Args:
        storage: of the data table.
        partition: name of the metadata partition.
        valid: instants whose blocks are valid.
        before: only file slices older than this instant, that of the compaction that reads them.
        known: content cached by an earlier instance (`read_so_far`).
        groups: its file groups by shard, if listed already.

    Raises:
        CorruptFileError: the partition has no file group.
    """

    def __init__(
        self,
        storage: Storage,
        partition: str,
        valid: ValidInstants,
        before: str | None = None,
        *,
        known: Known | None = None,
        groups: tuple[FileGroup, ...] | None = None,
    ) -> None:
        self.partition = partition
        self.groups = list_file_groups(storage, partition) if groups is None else groups
        if not self.groups and groups is None:
            raise CorruptFileError(
                f".hoodie/metadata/{partition}", 0, "the metadata table has no file group there; drop and rebuild it"
            )
        self._storage = storage
        self._valid = valid
        self._before = before
        self._lock = threading.RLock()  # of what follows
        self._slices: dict[int, MetadataSlice] = {}
        self._opened: dict[int, list[Source]] = {}
        self._known_blocks, self._known_sources = known or ({}, {})

    @property
    def shard_count(self) -> int:
        """Number of file groups over which keys are distributed."""
        return len(self.groups)

    @property
    def file_names(self) -> frozenset[str]:
        """Names of all files of the partition."""
        return names_of_files(self.groups)

    @property
    def slices(self) -> list[MetadataSlice]:
        """The newest file slice of each file group.

        Raises:
            CorruptFileError: a log file is malformed, or a completed instant's block is lost.
        """
        with self._lock:
            return self._read_slices(range(len(self.groups)))

    def read_so_far(self) -> Known:
        """Log files and sources that were read, for a later instance."""
        blocks, sources = dict(self._known_blocks), dict(self._known_sources)
        with self._lock:
            for file_slice in self._slices.values():
                blocks |= file_slice.log_blocks
            for opened in self._opened.values():
                sources |= {source.origin: source for source in opened}
        files = {(base.path, base.modified) for group in self.groups for base in group.base_files}
        files |= {(log.path, log.modified) for group in self.groups for log in group.log_files}
        return (
            {log: contents for log, contents in blocks.items() if (log.path, log.modified) in files},
            {origin: source for origin, source in sources.items() if origin[:2] in files},
        )

    def families(self) -> dict[str, list[int]]:
        """Groups of file groups that share keys: one of all, except in a partitioned record index."""
        ordinals: dict[str, list[int]] = {}
        for number, group in enumerate(self.groups):
            ordinals.setdefault(group.family, []).append(number)
        return ordinals

    def open(self, numbers: Iterable[int] | None = None) -> ShardSources:
        """Open the sources of some shards, or of all.

        Raises:
            CorruptFileError: a log file or HFile is malformed.
        """
        wanted = list(range(len(self.groups)) if numbers is None else numbers)
        with self._lock:
            slices = self._read_slices(wanted)
            closed = {number: of for number, of in zip(wanted, slices, strict=True) if number not in self._opened}
            bases = [of.base for of in closed.values() if of.base is not None]
            unread = any(_base_origin(base) not in self._known_sources for base in bases)
            opened = _map(self._open_slice, list(closed.values()), threads=unread)
            self._opened.update(zip(closed, opened, strict=True))
            return ShardSources([self._opened[number] for number in wanted])

    def appended_since(self, older: ShardSources) -> ShardSources | None:
        """Sources appended since an earlier instance, also where a compaction has put them into a base file since.

        The slices before the compaction are still there as long as no clean has deleted them. Callers check that no
        log file of them is missing.

        Returns:
            None if base files of the earlier instance are gone, or if more than that changed.
        """
        groups = []
        for group, sources in zip(self.groups, older.shards, strict=False):
            origin = next((source.origin for source in sources if source.origin[2] < 0), None)
            bases = tuple(base for base in group.base_files if _base_origin(base) == origin)
            if origin is not None and not bases:
                return None
            groups.append(FileGroup(group.file_id, bases, group.log_files))
        if len(groups) != len(self.groups):
            return None
        blocks, known = self.read_so_far()
        known |= {source.origin: source for sources in older.shards for source in sources}
        slices = read_slices(self._storage, groups, self._valid, self._before, blocks)
        return ShardSources([self._open_slice(one, known) for one in slices]).appended_since(older)

    def of_shards(self, items: Mapping[int, T], function: Callable[[Sequence[Source], T], R]) -> list[R]:
        """Apply a function to some shards, several at a time.

        Args:
            items: by shard number, the function's second argument.
            function: takes a shard's sources in the order in which they apply, and its item.
        """
        shards = self.open(items).shards
        work = list(zip(shards, items.values(), strict=True))
        entries = sum(source.reader.entry_count for sources in shards for source in sources if source.reader)
        threads = entries > _FEW_ENTRIES
        if threads and self._storage.is_local:  # more threads than cores would wait for one another
            return in_threads(lambda part: function(*part), work)
        return _map(lambda part: function(*part), work, threads=threads)

    def everything(self) -> list[list[SourceRecords]]:
        """All records, by shard."""
        return self.open().everything()

    def prefix(self, prefix: bytes) -> list[list[SourceRecords]]:
        """Records whose keys start with a prefix, by shard; see `ShardSources.prefix`."""
        return self.open().prefix(prefix)

    def get(self, keys: Column) -> list[list[SourceRecords]]:
        """Records of some keys (binary or strings), by shard; opens only the shards that can contain them."""
        picked: dict[int, list[bytes]] = {}
        for family in self.families().values():
            shards = shards_of_keys(keys, len(family))
            order = np.argsort(shards, kind="stable")
            values = keys.cast(pa.binary()).take(from_numpy(order)).to_pylist()
            ends = np.searchsorted(shards[order], np.arange(len(family) + 1)).tolist()
            picked |= {
                number: values[ends[shard] : ends[shard + 1]]
                for shard, number in enumerate(family)
                if ends[shard] < ends[shard + 1]
            }
        return self.open(picked).get(list(picked.values()))

    def _read_slices(self, numbers: Sequence[int]) -> list[MetadataSlice]:
        unread = [number for number in numbers if number not in self._slices]
        if unread:
            groups = [self.groups[number] for number in unread]
            complete = self.partition in _COMPLETE
            slices = read_slices(
                self._storage, groups, self._valid, self._before, self._known_blocks, complete=complete
            )
            self._slices.update(zip(unread, slices, strict=True))
        return [self._slices[number] for number in numbers]

    def _open_slice(self, file_slice: MetadataSlice, known: Mapping[Origin, Source] | None = None) -> list[Source]:
        known = known or self._known_sources
        sources = []
        if file_slice.base is not None:
            origin = _base_origin(file_slice.base)
            sources.append(known.get(origin) or _open_base(self._storage, file_slice.base, origin))
        modified = {log.path: log.modified for log in file_slice.log_blocks}
        for block in file_slice.blocks:
            origin = block.path, modified[block.path], block.offset
            sources.append(known.get(origin) or _open_block(block, origin))
        return sources


def _one_by_one(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _map(function: Callable[[T], R], items: Sequence[T], *, threads: bool) -> list[R]:
    if not threads or len(items) <= 1:
        return _one_by_one(function, items)
    with concurrent.futures.ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(function, items))


def _base_origin(base: BaseFile) -> Origin:
    return base.path, base.modified, -1


def _always(_: bytes) -> bool:
    return True


def _open_base(storage: Storage, base: BaseFile, origin: Origin) -> Source:
    def read_range(offset: int, length: int) -> memoryview:
        return storage.read_range(base.path, offset, length)

    reader = HFileReader.open(read_range, base.size, base.path)
    return Source(base.path, origin, reader, _schema(reader.schema_json, base.path))


def _open_block(block: LogBlock, origin: Origin) -> Source:
    name = f"{block.path} (log block at byte {block.offset})"
    if block.type is BlockType.DELETE:
        return Source(name, origin, None, None, tuple(read_deleted_keys(block)))
    reader = HFileReader(block.content, name)
    return Source(name, origin, reader, _schema(block.schema_json or reader.schema_json, name))


def _schema(text: str | None, name: str) -> Node:
    if text is None:
        raise CorruptFileError(name, 0, "the records have no Avro schema")
    try:
        return parse_text(text)
    except ValueError as error:
        raise CorruptFileError(name, 0, f"the Avro schema of the records cannot be used: {error}") from error
