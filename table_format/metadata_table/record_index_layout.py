"""Layout of a record index: its hash function, and the file groups over which it distributes record keys.

Apache Hudi supports the hash `java` only. An index with another hash is read and written by this project only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import one_chunk, spans_of, to_numpy
from table_format.config.index_definitions import IndexDefinition, define_index, load_index_definitions
from table_format.errors import CorruptFileError, RecordIndexError
from table_format.instant import Action
from table_format.keys.partition_values import escape_path_name, unescape_path_name
from table_format.metadata_table import layout as names
from table_format.metadata_table.keys import shards_of_keys
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

JAVA: Final = "java"
XXHASH64: Final = "xxhash64"
Shards: TypeAlias = NDArray[np.int32]
Sharding: TypeAlias = Callable[[Any, int], Shards]
"""Maps keys (strings or their UTF-8 bytes, without nulls) and a number of shards to the shard of each key."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def sharding(name: str) -> Sharding:
    """Look up a hash function by name.

    Raises:
        RecordIndexError: the name is not registered in this process.
    """
    try:
        return _KNOWN[name]
    except KeyError as error:
        known = ", ".join(sorted(_KNOWN))
        raise RecordIndexError(
            f"the record index places its keys by the hash {name!r}, which is not registered here (known: {known}); "
            "call table_format.metadata_table.record_index_layout.register_hash in every process and Spark worker"
        ) from error


def register_hash(name: str, function: Sharding) -> None:
    """Register a hash function in this process.

    Args:
        name: its name in table properties; never reuse it for another function.
        function: must never change, or keys are lost.

    Raises:
        RecordIndexError: the name belongs to another function.
    """
    if _KNOWN.setdefault(name, function) is not function:
        raise RecordIndexError(f"the hash {name!r} is registered already; give yours another name")


def xxhash64(keys: Any, seed: int = 0) -> NDArray[np.uint64]:
    """XXH64 of each key, vectorized over keys of the same length."""
    data, starts, lengths = spans_of(one_chunk(keys))
    hashes = np.empty(len(starts), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            hashes[rows] = _hash_equally_long(data, starts[rows], length, np.uint64(seed))
    return hashes


def _hash_equally_long(
    data: NDArray[np.uint8], starts: NDArray[np.int64], length: int, seed: np.uint64
) -> NDArray[np.uint64]:
    at = 0
    if length >= 32:
        lanes = [np.full(len(starts), seed + start, np.uint64) for start in (_P1 + _P2, _P2, np.uint64(0), -_P1)]
        while at + 32 <= length:
            lanes = [_round(lane, _word(data, starts + (at + 8 * n), 8)) for n, lane in enumerate(lanes)]
            at += 32
        total = sum((_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
        for lane in lanes:
            total = (total ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    else:
        total = np.full(len(starts), seed + _P5, np.uint64)
    total = total + np.uint64(length)
    while at + 8 <= length:
        word = _word(data, starts + at, 8)
        total = _left(total ^ _round(np.zeros_like(word), word), 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        total = _left(total ^ _word(data, starts + at, 4) * _P1, 23) * _P2 + _P3
        at += 4
    for place in range(at, length):
        total = _left(total ^ data[starts + place].astype(np.uint64) * _P5, 11) * _P1
    for bits, prime in ((33, _P2), (29, _P3)):
        total = (total ^ total >> np.uint64(bits)) * prime
    return np.asarray(total ^ total >> np.uint64(32), dtype=np.uint64)


def _word(data: NDArray[np.uint8], places: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
    words: NDArray[Any] = np.ndarray((len(data) - width + 1,), dtype=f"<u{width}", buffer=data, strides=(1,))
    return words[places].astype(np.uint64)


def _left(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return np.asarray(values << np.uint64(bits) | values >> np.uint64(64 - bits), dtype=np.uint64)


def _round(lane: NDArray[np.uint64], word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _left(lane + word * _P2, 31) * _P1


def _by_xxhash64(keys: Any, shards: int) -> Shards:
    return (xxhash64(keys) % np.uint64(shards)).astype(np.int32)


_KNOWN: dict[str, Sharding] = {JAVA: shards_of_keys, XXHASH64: _by_xxhash64}
GLOBAL: Final = "global"
PARTITION: Final = "partition"
LAYOUT_KEY: Final = "hoodie.catalog.record.index.layout"
"""Table property with a layout that Apache Hudi does not support."""

MAINTAINED_KEY: Final = "hoodie.catalog.record.index"
MAINTAINED: Final = "maintained"
"""Extra metadata of the commits that keep such an index up to date."""

_IS_PARTITIONED: Final = "isPartitioned"
_PREFIX = names.FILE_ID_PREFIXES[names.RECORD_INDEX]
Groups = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """Distribution of keys over file groups; fixed for the life of the index, except for families added at the end.

    Attributes:
        families: file id prefix and number of file groups of each set of file groups over which keys are distributed by
            hash, oldest first. In an index of global scope a key may be in any family, and new keys go to the
            newest one; in one of partition scope each partition of the data table has a family of its own.
        scope: `global`: a key has one location in the table; `partition`: it may have one in each partition.
        hash_name: name of the hash function, see `sharding`.
    """

    families: tuple[tuple[str, int], ...]
    scope: str = GLOBAL
    hash_name: str = JAVA

    @classmethod
    def of(
        cls, client: TableClient, timeline: Timeline | None = None, groups: Sequence[names.FileGroup] | None = None
    ) -> IndexLayout | None:
        """Load the layout of a table's record index.

        Args:
            client: the table.
            timeline: its timeline, if loaded already.
            groups: file groups of the index, if listed already.

        Returns:
            None if the table has no record index, or one that a writer left stale.

        Raises:
            CorruptFileError: file groups are missing.
            RecordIndexError: a layout that this release does not support.
        """
        # A listed index is Apache's, whatever an older property says.
        if names.RECORD_INDEX in client.config.metadata_partitions:
            if groups is None:
                groups = names.list_file_groups(client.storage, names.RECORD_INDEX)
            return cls.of_groups(groups) if groups or not _by_partition(client) else cls((), PARTITION)
        text = client.config.raw.get(LAYOUT_KEY, "").strip()
        if not text:
            return None
        layout, since = cls.from_json(text)
        return None if _neglected_by(timeline or client.timeline(), since) else layout

    @classmethod
    def of_groups(cls, groups: Sequence[names.FileGroup]) -> IndexLayout:
        """Derive the layout of an index that Apache Hudi reads from the names of its file groups.

        Raises:
            CorruptFileError: file groups are missing.
        """
        shards: dict[str, list[str]] = {}
        for group in groups:
            shards.setdefault(group.family, []).append(group.file_id)
        families = tuple((prefix, len(ids)) for prefix, ids in shards.items())
        scope = PARTITION if any(prefix != _PREFIX for prefix, _ in families) else GLOBAL
        layout = cls(families, scope)
        listed = [file_id for ids in shards.values() for file_id in ids]
        if not listed or list(layout.groups) != listed:
            place = f"{names.FOLDER}/{names.RECORD_INDEX}"
            raise CorruptFileError(
                place, 0, "file groups of the record index are missing; `hudi-catalog index bootstrap` builds it anew"
            )
        return layout

    @classmethod
    def from_json(cls, text: str) -> tuple[IndexLayout, str]:
        """Parse the layout in a table property, and the instant since which commits update the index.

        Raises:
            RecordIndexError: the text is not such a layout.
        """
        try:
            content: Mapping[str, Any] = json.loads(text)
            families = tuple((str(prefix), int(count)) for prefix, count in content["families"])
            layout = cls(families, str(content["scope"]), str(content["hash"]))
            since = str(content.get("since", ""))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise RecordIndexError(f"{LAYOUT_KEY}={text!r} is not a layout of a record index: {error!r}") from error
        if layout.scope not in (GLOBAL, PARTITION) or not families or any(count < 1 for _, count in families):
            raise RecordIndexError(f"{LAYOUT_KEY}={text!r} is of a newer release of this project; upgrade to use it")
        return layout, since

    def to_json(self, since: str) -> str:
        """The text for the table property `LAYOUT_KEY`.

        Args:
            since: the instant from which on all commits update the index.
        """
        content = {"families": self.families, "scope": self.scope, "hash": self.hash_name, "since": since}
        return json.dumps(content, separators=(",", ":"))

    @property
    def is_private(self) -> bool:
        """Whether Apache Hudi 1.2.0 would look for keys in the wrong places (0.15.0 knows no partition scope)."""
        return self.hash_name != JAVA or (self.scope == GLOBAL and len(self.families) != 1)

    @property
    def count(self) -> int:
        """Number of file groups."""
        return sum(count for _, count in self.families)

    @property
    def groups(self) -> tuple[str, ...]:
        """File ids of all file groups, by ordinal."""
        return tuple(file_id(prefix, shard) for prefix, count in self.families for shard in range(count))

    def family_of(self, group: int) -> int:
        """The family of a file group, by its ordinal."""
        return int(np.searchsorted(np.cumsum([count for _, count in self.families]), group, side="right"))

    def partition_of(self, family: int) -> str | None:
        """The data partition of a family; None in an index of global scope."""
        return family_partition(self.families[family][0]) if self.scope == PARTITION else None

    def shards_of(self, keys: Any) -> tuple[Groups, ...]:
        """For each family, the shard (within the family) of each key.

        Args:
            keys: strings or their UTF-8 bytes, without nulls.
        """
        shards = sharding(self.hash_name)
        by_count = {count: shards(keys, count) for count in {count for _, count in self.families}}
        return tuple(by_count[count] for _, count in self.families)

    def groups_of(self, keys: Any, partitions: Any = None) -> tuple[Groups, ...]:
        """For each family, the ordinal of the file group of each key.

        Args:
            keys: strings or their UTF-8 bytes, without nulls.
            partitions: the data partition of each key, for an index of partition scope; None for all partitions.

        Returns:
            -1 for keys of another partition than the family's.
        """
        firsts = np.cumsum([0, *(count for _, count in self.families)]).astype(np.int32)
        ordinals = tuple(shards + first for shards, first in zip(self.shards_of(keys), firsts[:-1], strict=True))
        if self.scope == GLOBAL or partitions is None:
            return ordinals
        owners = self._owners(partitions)
        return tuple(np.where(owners == family, groups, np.int32(-1)) for family, groups in enumerate(ordinals))

    def group_of(self, keys: Any, partitions: Any = None) -> Groups:
        """Ordinal of the file group into which each key is written, in the newest family.

        Args:
            keys: strings or their UTF-8 bytes, without nulls.
            partitions: the data partition of each key; required for an index of partition scope.

        Returns:
            -1 for keys of a partition that has no family yet.

        Raises:
            RecordIndexError: partitions are required.
        """
        firsts = np.cumsum([0, *(count for _, count in self.families)]).astype(np.int32)
        if self.scope == GLOBAL:
            count = self.families[-1][1]
            return np.asarray(sharding(self.hash_name)(keys, count) + firsts[-2], dtype=np.int32)
        if partitions is None:
            raise RecordIndexError("the record index has partition scope; give the partition of each key")
        owners = self._owners(partitions)
        groups = np.full(len(owners), -1, dtype=np.int32)
        for family in np.unique(owners[owners >= 0]).tolist():
            rows = np.flatnonzero(owners == family)
            picked = one_chunk(keys).take(pa.array(rows.tolist(), pa.int64()))
            groups[rows] = sharding(self.hash_name)(picked, self.families[family][1]) + firsts[family]
        return groups

    def _owners(self, partitions: Any) -> Groups:
        """The family of each data partition, -1 for none."""
        numbers: dict[str | None, int] = {
            family_partition(prefix): number for number, (prefix, _) in enumerate(self.families)
        }
        column: Any = one_chunk(partitions)
        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        of_value = np.array([*(numbers.get(text, -1) for text in encoded.dictionary.to_pylist()), -1], dtype=np.int32)
        codes = to_numpy(pc.fill_null(encoded.indices, -1)).astype(np.int64)
        return of_value[codes]


def file_id(prefix: str, shard: int) -> str:
    """The id of a file group of a family."""
    return f"{prefix}{shard:04d}-0"


def partition_family(partition: str) -> str:
    """The file id prefix of a data partition's family, in an index of partition scope.

    As `HoodieTableMetadataUtil.getFileIDForFileGroup` of 1.2.0 makes it.
    """
    return f"{_PREFIX}{escape_path_name(partition).replace('-', '%2D').replace('_', '%5F')}-"


def family_partition(prefix: str) -> str:
    """The data partition of such a prefix."""
    return unescape_path_name(prefix.removeprefix(_PREFIX).removesuffix("-"))


def define_layout(client: TableClient, layout: IndexLayout) -> dict[str, str]:
    """Record the scope of the index in the table's index definitions, as read by Apache 1.1 and later.

    Callers hold the table's lock.

    Returns:
        Table properties to set for it.

    Raises:
        CorruptFileError: the definitions cannot be read.
    """
    storage, config = client.storage, client.config
    # readers assume global scope for an index without a definition
    if layout.scope != PARTITION and not load_index_definitions(storage, config):
        return {}
    options = {_IS_PARTITIONED: "true" if layout.scope == PARTITION else "false"}
    definition = IndexDefinition(names.RECORD_INDEX, names.RECORD_INDEX, options=options)
    return define_index(storage, config, definition)


def _by_partition(client: TableClient) -> bool:
    """Whether the record index has partition scope by the table's index definitions."""
    defined = load_index_definitions(client.storage, client.config).get(names.RECORD_INDEX)
    return defined is not None and defined.options.get(_IS_PARTITIONED, "").lower() == "true"


def _neglected_by(timeline: Timeline, since: str) -> str | None:
    """A completed write that did not update a private index, or a restore, which undoes writes; None if none."""
    for instant in timeline.completed:
        if instant.action == Action.RESTORE and instant.time > since:
            return instant.time
    for instant in timeline.writes:
        if instant.time > since and timeline.extra_metadata(instant).get(MAINTAINED_KEY) != MAINTAINED:
            return instant.time
    return None
