"""Options of the record index: scope, hash, number of file groups, and how its base files are written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import pyarrow as pa

from table_format.config.option_values import alias, choice, flag, number, whole_number
from table_format.errors import OptionError
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index_layout import (
    GLOBAL,
    JAVA,
    PARTITION,
    IndexLayout,
    partition_family,
    sharding,
)
from table_format.metadata_table.record_index_shard import BLOOM_KEY
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.metadata_records import SCHEMA_JSON

CODEC_KEY: Final = "hoodie.hfile.compression.algorithm"

PACKED_KEY: Final = "hoodie.catalog.record.index.packed.keys"


@dataclass(frozen=True, slots=True)
class IndexFileOptions:
    """How files of the index are written.

    Attributes:
        codec: `GZ` or `NONE`.
        bloom: base files get bloom filters of their keys.
        packed_keys: base files get a copy of their keys for look-ups of many; see `hfile.packed_keys`.
    """

    codec: str = "GZ"
    bloom: bool = False
    packed_keys: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read Apache's options, and ours.

        Raises:
            OptionError: a value that cannot be used; the message names its key.
        """
        return cls(
            codec=choice(options, CODEC_KEY, "GZ", ("GZ", "NONE")),
            bloom=flag(options, BLOOM_KEY),
            packed_keys=flag(options, PACKED_KEY, default=True),
        )

    def base_file(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> bytes:
        """A base file.

        Args:
            keys: ascending by their bytes, each once, at least one.
            values: Avro bytes, one for each key.
        """
        return write_hfile(
            keys,
            values,
            schema_json=SCHEMA_JSON,
            codec=self.codec,
            bloom=self.bloom,
            packed_keys=self.packed_keys,
        )


GROWTH_KEY: Final = "hoodie.catalog.record.index.growth"

HASH_KEY: Final = "hoodie.catalog.record.index.hash"

MAX_SIZE_KEY: Final = "hoodie.metadata.record.index.max.filegroup.size"

GROWTH_FACTOR_KEY: Final = "hoodie.metadata.record.index.growth.factor"

_ENTRY_BYTES = 48

"""Apache's estimate of the bytes of an entry (`HoodieBackedTableMetadataWriter.RECORD_INDEX_AVERAGE_RECORD_SIZE`)."""

_ENTRIES_PER_GROUP = 1_000_000

_RESERVE = 1.3

_INDEX_TYPES: Final = {
    "RECORD_INDEX": GLOBAL,
    "GLOBAL_RECORD_LEVEL_INDEX": GLOBAL,
    "RECORD_LEVEL_INDEX": PARTITION,
}

_ENABLE_KEYS: Final = {
    "hoodie.metadata.record.index.enable": GLOBAL,
    "hoodie.metadata.global.record.level.index.enable": GLOBAL,
    "hoodie.metadata.record.level.index.enable": PARTITION,
}

_LIMIT_KEYS: Final = {
    GLOBAL: (
        "hoodie.metadata.record.index.{}.filegroup.count",
        "hoodie.metadata.global.record.level.index.{}.filegroup.count",
    ),
    PARTITION: (
        "hoodie.metadata.record.level.index.{}.filegroup.count",
        "hoodie.metadata.partitioned.record.index.{}.filegroup.count",
    ),
}

_LIMITS: Final = {GLOBAL: (10, 10_000), PARTITION: (1, 10)}


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Options of a record index.

    Attributes:
        scope: `global` or `partition`; None for no index.
        hash_name: spreads keys over file groups; see `hashes`.
        limits: fewest and most file groups of a global index, and of each data partition in one by partition.
        entries_per_group: entries of a full file group.
        growth: expected growth, as a multiple of the entries.
        files: how base files are written.
        grows_by_groups: whether resizing adds file groups beside the old ones, rather than redistributing entries.
    """

    scope: str | None = None
    hash_name: str = JAVA
    limits: tuple[tuple[int, int], tuple[int, int]] = (_LIMITS[GLOBAL], _LIMITS[PARTITION])
    entries_per_group: int = _ENTRIES_PER_GROUP
    growth: float = _RESERVE
    files: IndexFileOptions = field(default_factory=IndexFileOptions)
    grows_by_groups: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> IndexOptions:
        """Read Apache's options, and ours.

        Raises:
            OptionError: a value that cannot be used; the message names its key.
            RecordIndexError: an unknown hash function.
        """
        hash_name = options.get(HASH_KEY, JAVA).strip().lower()
        sharding(hash_name)
        size = whole_number(options, MAX_SIZE_KEY, _ENTRIES_PER_GROUP * _ENTRY_BYTES, 1)
        return cls(
            scope=_scope(options),
            hash_name=hash_name,
            limits=(_limits(options, GLOBAL), _limits(options, PARTITION)),
            entries_per_group=max(1, size // _ENTRY_BYTES),
            growth=number(options, GROWTH_FACTOR_KEY, _RESERVE, 1),
            files=IndexFileOptions.parse(options),
            grows_by_groups=choice(options, GROWTH_KEY, "REHASH", ("REHASH", "GROUPS")) == "GROUPS",
        )

    def group_count(self, entries: int, scope: str = GLOBAL) -> int:
        """Number of file groups for a number of entries, with room for more."""
        return max(self.limits[scope == PARTITION][0], self.needed_groups(entries, scope))

    def needed_groups(self, entries: int, scope: str = GLOBAL) -> int:
        """The same, without the minimum."""
        most = self.limits[scope == PARTITION][1]
        return min(most, math.ceil(entries * self.growth / self.entries_per_group))


def scope_of_type(index_type: str | None) -> str | None:
    """The scope of the record index that a `hoodie.index.type` asks for; None for other indexes."""
    return _INDEX_TYPES.get((index_type or "").strip().upper())


def group_count(entries: int, options: Mapping[str, str]) -> int:
    """Number of file groups of a global index; see `IndexOptions`."""
    return IndexOptions.parse(options).group_count(entries)


def layout_of(
    options: IndexOptions, entries: int = 0, partitions: Sequence[str] = (), groups: int | None = None
) -> IndexLayout:
    """The layout of a new index; see `new_layout`."""
    if options.scope == PARTITION and options.hash_name != JAVA:
        raise OptionError(f"{HASH_KEY}={options.hash_name}: an index that is kept by partition has Apache's hash, java")
    if options.scope != PARTITION:
        count = groups or options.group_count(entries)
        return IndexLayout(((names.FILE_ID_PREFIXES[names.RECORD_INDEX], count),), GLOBAL, options.hash_name)
    count = groups or options.group_count(math.ceil(entries / max(1, len(partitions))), PARTITION)
    empty = IndexLayout((), PARTITION, options.hash_name)
    return _with_families(empty, partitions, count)


def new_layout(
    options: Mapping[str, str], entries: int = 0, partitions: Sequence[str] = (), *, groups: int | None = None
) -> IndexLayout:
    """The layout of a new index.

    Args:
        options: the table's properties and the caller's options together.
        entries: estimate of its first entries.
        partitions: of the data; an index by partition gets file groups for each.
        groups: number of file groups (of each partition in an index by partition); None for one by the estimate.

    Raises:
        OptionError: an option that cannot be used.
        RecordIndexError: an unknown hash function.
    """
    return layout_of(IndexOptions.parse(options), entries, partitions, groups)


def with_partitions(layout: IndexLayout, partitions: Sequence[str], options: Mapping[str, str]) -> IndexLayout:
    """A layout by partition with file groups for further partitions, which the next commit creates.

    Args:
        layout: of the index; a global one is returned unchanged.
        partitions: partition paths, known ones included.
        options: `hoodie.metadata.record.level.index.min.filegroup.count`.
    """
    if layout.scope != PARTITION:
        return layout
    return _with_families(layout, partitions, IndexOptions.parse(options).group_count(0, PARTITION))


def _with_families(layout: IndexLayout, partitions: Sequence[str], count: int) -> IndexLayout:
    known = {prefix for prefix, _ in layout.families}
    new = [prefix for prefix in map(partition_family, dict.fromkeys(partitions)) if prefix not in known]
    return dataclasses.replace(layout, families=(*layout.families, *((prefix, count) for prefix in new)))


def _scope(options: Mapping[str, str]) -> str | None:
    by_type = scope_of_type(options.get("hoodie.index.type"))
    if by_type is not None:
        return by_type
    for key, scope in _ENABLE_KEYS.items():
        if flag(options, key):
            return scope
    return None


def _limits(options: Mapping[str, str], scope: str) -> tuple[int, int]:
    bounds = []
    for word, default in zip(("min", "max"), _LIMITS[scope], strict=True):
        newest, *older = (key.format(word) for key in reversed(_LIMIT_KEYS[scope]))
        bounds.append(whole_number(options, alias(options, newest, *older), default, 1))
    least, most = bounds
    if least > most:
        raise OptionError(f"{_LIMIT_KEYS[scope][0].format('min')}={least} is more than the maximum of {most}")
    return least, most
