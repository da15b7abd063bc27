"""The bucket stage: the bucket of a record is a hash of its key, so a filter that names keys names buckets.

Where the bucket is in doubt, all buckets are kept. Two layouts are supported: counts of buckets, one for all partitions
or by rules for partitions (releases from 1.1 on), and consistent hashing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize
from catalog.slices.path_values import MISPLACED
from catalog.snapshots.scan_options import BUCKET_COUNT, SAMPLE, Sample, ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.named_keys import HashedKeys, HashFields, HashParts, hash_fields, hashed_keys, parts_of_key
from catalog.stages.stage import FileRows, StageInput
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.base_file.some_keys import some_keys
from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.errors import CorruptFileError, MissingFileError, OptionError, UnsupportedTableError
from table_format.keys.bucket_index import METADATA_FOLDER, HashRing, hash_on_ring, load_rings, partition_bucket_rules
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.partition_buckets import EXPRESSIONS, INITIAL, BucketRules, StoredRules, claimed_rules
from table_format.table.bucket_counts import announced_rules, bucket_count_as_of, was_resized

_CHECKED_FILES = 4
_CHECKED_PARTITIONS = 64
_CHECKED_KEYS = 64
_MOST_PARTITIONS = 10_000


def prune_by_bucket(stage_input: StageInput) -> Verdict:
    """Keep the files of the buckets in which the keys that the filter names can lie (RFC-29 hash index).

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, or why the filter or the table does not name buckets.
    """
    snapshot, options = stage_input.snapshot, stage_input.options
    fields = hash_fields(snapshot.config, options)
    if isinstance(fields, CannotPrune):
        return fields
    keys = hashed_keys(stage_input, fields)
    if isinstance(keys, CannotPrune):
        return keys
    rings = memoize(snapshot, "hash rings", lambda: _load_hash_rings(snapshot, options.threads))
    if isinstance(rings, CannotPrune):
        return rings
    if rings is not None:
        return _by_rings(stage_input, fields, keys, rings)
    return _by_counts(stage_input, fields, keys)


def keep_sample(stage_input: StageInput, sample: Sample) -> Candidates:
    """Keep the files of a sample's buckets, whatever the filter.

    Args:
        stage_input: the snapshot, the files left by earlier stages, and the options.
        sample: of the buckets.

    Raises:
        OptionError: the table has no simple bucket index, its bucket count is not certain, or the sample's denominator
            does not divide it.
    """
    snapshot = stage_input.snapshot
    place = snapshot.client.storage.uri
    hashed = simple_buckets(snapshot, stage_input.options, by_partition=True)
    if isinstance(hashed, CannotPrune):
        raise OptionError(f"{place}: {SAMPLE}={sample} needs a table of simple buckets: {hashed.reason}")
    layout = hashed[1]
    if layout.count % sample.of:
        divisors = [number for number in range(1, layout.count + 1) if layout.count % number == 0]
        counts = "numbers of buckets" if layout.by_partition else f"{layout.count} buckets"
        raise OptionError(
            f"{place}: {SAMPLE}={sample} names whole buckets, and {sample.of} does not divide the table's {counts}; "
            f"give one of {', '.join(map(str, divisors))} after the slash"
        )
    keep = layout.numbers[stage_input.rows] % sample.of < sample.buckets
    text = f"{sample.buckets} of every {sample.of} buckets"
    if not layout.by_partition:
        text += f": {layout.count // sample.of * sample.buckets:,} of {layout.count:,}"
    return Candidates(keep, text)


def _by_rings(stage_input: StageInput, fields: HashFields, keys: HashedKeys, rings: HashRings) -> Verdict:
    snapshot = stage_input.snapshot

    def fits(row: int, parts: set[HashParts]) -> bool:
        return bool(rings.may_hold(np.array([row]), parts)[0])

    doubt = memoize(
        snapshot, ("checked rings", fields), lambda: _contradiction(snapshot, stage_input.options, fields, fits)
    )
    if doubt is not None:
        return CannotPrune(doubt)
    keep = rings.may_hold(stage_input.rows, keys.parts)
    reason = f"consistent hashing leaves {int(keep.sum()):,} file groups to the keys named by {keys.named_by}"
    return Candidates(keep, reason)


def _by_counts(stage_input: StageInput, fields: HashFields, keys: HashedKeys) -> Verdict:
    layout = _counted_buckets(stage_input.snapshot, fields, stage_input.options, by_partition=True)
    if isinstance(layout, CannotPrune):
        return layout
    rows = stage_input.rows
    keep = np.zeros(len(rows), np.bool_)
    texts = []
    for count in np.unique(layout.counts[rows]).tolist() or [layout.count]:
        wanted = {bucket_id_one(parts, count) for parts in keys.parts}
        here = layout.counts[rows] == count
        keep |= here & np.isin(layout.numbers[rows], np.fromiter(wanted, np.int64, len(wanted)))
        texts.append(f"{len(wanted):,} of {count:,}")
    return Candidates(keep, f"{', '.join(texts)} buckets can hold the keys named by {keys.named_by}")


@dataclass(frozen=True, eq=False)
class CountedBuckets:
    """Counts of buckets.

    Attributes:
        count: of the buckets of each partition; where partitions have several counts, the greatest that divides all.
        counts: of the buckets of the partition of the file at each position.
        numbers: the bucket of the file at each position.
        by_partition: partitions may have different counts.
    """

    count: int
    counts: NDArray[np.int64]
    numbers: NDArray[np.int64]
    by_partition: bool


def simple_buckets(
    snapshot: Snapshot, options: ScanOptions, most: int = _CHECKED_FILES, *, by_partition: bool = False
) -> tuple[HashFields, CountedBuckets] | CannotPrune:
    """What a table hashes, and its buckets; or why it has no simple buckets for certain.

    Args:
        snapshot: the table.
        options: of the scan.
        most: as for `_counted_buckets`.
        by_partition: likewise.
    """
    fields = hash_fields(snapshot.config, options)
    if isinstance(fields, CannotPrune):
        return fields
    if _is_consistent(snapshot):
        return CannotPrune("buckets of consistent hashing are ranges of hashes, which differ by partition")
    buckets = _counted_buckets(snapshot, fields, options, most, by_partition=by_partition)
    return buckets if isinstance(buckets, CannotPrune) else (fields, buckets)


def _counted_buckets(
    snapshot: Snapshot,
    fields: HashFields,
    options: ScanOptions,
    most: int = _CHECKED_FILES,
    *,
    by_partition: bool = False,
) -> CountedBuckets | CannotPrune:
    """The buckets of a table without consistent hashing, or what is doubtful about them.

    Args:
        snapshot: the table.
        fields: what it hashes.
        options: of the scan.
        most: files whose footers are compared with the buckets.
        by_partition: whether the caller can do with counts that differ between partitions.
    """
    rule = _bucket_count(snapshot, options)
    if isinstance(rule, CannotPrune):
        return rule
    if isinstance(rule, BucketRules) and not by_partition:
        return CannotPrune("bucket counts differ between partitions")
    buckets = snapshot.bucket_numbers()
    if buckets is None:
        return CannotPrune("a file group's id does not begin with a bucket number: there is no simple bucket index")

    try:
        count, counts = memoize(snapshot, ("counts of buckets", rule), lambda: _counts(snapshot, rule))
    except UnsupportedTableError as error:
        return CannotPrune(str(error))

    def fits(row: int, parts: set[HashParts]) -> bool:
        return int(buckets[row]) in {bucket_id_one(p, int(counts[row])) for p in parts}

    doubt = memoize(
        snapshot,
        ("checked buckets", fields, rule, most),
        lambda: (
            _too_large(counts, buckets)
            or _contradiction(snapshot, options, fields, fits, most, confirm=_is_doubtful(snapshot))
        ),
    )
    several = isinstance(rule, BucketRules)
    return CountedBuckets(count, counts, buckets, several) if doubt is None else CannotPrune(doubt)


def _counts(snapshot: Snapshot, rule: int | BucketRules) -> tuple[int, NDArray[np.int64]]:
    """A count that divides those of all partitions, and the count of the partition of each file."""
    if isinstance(rule, int):
        return rule, np.full(len(snapshot), rule, np.int64)
    counts = np.array(rule.counts_of(snapshot.partitions), np.int64)
    return int(np.gcd.reduce(counts)) if len(counts) else rule.default, counts[snapshot.partition_index]


def _bucket_count(snapshot: Snapshot, options: ScanOptions) -> int | BucketRules | CannotPrune:
    """How many buckets each partition has, where that is certain."""
    folder = memoize(snapshot, "bucket rules", lambda: partition_bucket_rules(snapshot.client.storage))
    if folder is not None:
        rules = _partition_rules(snapshot, options)
        if isinstance(rules, BucketRules):
            return rules
        return CannotPrune(f"bucket counts differ between partitions, by the rules in {folder}: {rules}")
    if options.bucket_rules is not None or snapshot.config.raw.get(EXPRESSIONS):
        return CannotPrune(f"the table has no file of the rules that {EXPRESSIONS} names")
    return _one_count(snapshot, options)


def _one_count(snapshot: Snapshot, options: ScanOptions) -> int | CannotPrune:
    """How many buckets all partitions had at the time of the snapshot."""
    try:
        recorded = bucket_count_as_of(snapshot.config, snapshot.timeline, snapshot.as_of)
    except (CorruptFileError, MissingFileError) as error:
        recorded = str(error)
    if isinstance(recorded, str):
        return CannotPrune(recorded)
    count = recorded or options.bucket_count
    if count is None:
        return CannotPrune(f"the bucket count is not in hoodie.properties; give the scan {BUCKET_COUNT}")
    if recorded and options.bucket_count and recorded != options.bucket_count:
        return CannotPrune(f"the table has {recorded} buckets, the options say {options.bucket_count}")
    return count


def _partition_rules(snapshot: Snapshot, options: ScanOptions) -> BucketRules | str:
    """The rules that a table's newest file has and its properties, or the options, name; or what is doubtful.

    The file alone does not say which partitions are older than it, nor by which of its versions they were written.
    """
    try:
        stored = StoredRules.load(
            snapshot.client.storage, snapshot.timeline.is_committed, lambda: announced_rules(snapshot.config)
        )
        claimed = claimed_rules(snapshot.config.raw, snapshot.config.bucket_count) or options.bucket_rules
    except (CorruptFileError, MissingFileError, OptionError) as error:
        return str(error)
    if stored is None or claimed is None:
        return f"neither hoodie.properties nor the options name them by {EXPRESSIONS}"
    if claimed != stored.rules:
        return f"they are not {claimed.expressions!r} and {claimed.default} buckets elsewhere, which are named"
    if not (snapshot.is_latest or _is_since(snapshot, stored)):
        return "they changed, and this is an earlier state"
    return claimed


def _is_since(snapshot: Snapshot, stored: StoredRules) -> bool:
    """Whether a state is one of those since the rules last changed; told by instants, which layout 1 orders."""
    if snapshot.timeline.layout != 1:
        return stored.versions == 1 and stored.instant == INITIAL
    return snapshot.instant is not None and snapshot.instant >= stored.instant


def _too_large(counts: NDArray[np.int64], buckets: NDArray[np.int64]) -> str | None:
    """The contradiction of a file group numbered beyond the bucket count; None if there is none."""
    strange = np.flatnonzero(buckets >= counts)
    if not len(strange):
        return None
    worst = strange[np.argmax(buckets[strange])]
    return f"there is a bucket {int(buckets[worst])}, although the bucket count is {int(counts[worst])}"


def _contradiction(
    snapshot: Snapshot,
    options: ScanOptions,
    fields: HashFields,
    fits: Callable[[int, set[HashParts]], bool],
    most: int = _CHECKED_FILES,
    *,
    confirm: bool = False,
) -> str | None:
    """The contradiction between record keys of some files and the bucket layout; None if there is none.

    With `confirm` more keys are looked at, and that there are none is a reason as well.

    Apache's writers do not read a bucket count from the table, so a job with another count made other buckets. Rules by
    partition that were in a job's options alone show in these keys only.
    """
    rows = _checked(snapshot, most)
    # the two keys of a single footer fit a wrong count by chance
    keys_each = _CHECKED_KEYS // max(1, len(rows)) if confirm else 0

    def keys_of(row: int) -> list[str]:
        try:
            return some_keys(snapshot.client.storage, str(snapshot.path(row)), keys_each)
        except (MissingFileError, CorruptFileError):
            return []

    with ThreadPoolExecutor(options.threads, thread_name_prefix="hudi-buckets") as pool:
        keys = dict(zip(rows, pool.map(keys_of, rows), strict=True))
    for row, of_file in keys.items():
        for key in of_file:
            if not fits(row, parts_of_key(key, fields)):
                path = snapshot.path(row)
                return f"key {key!r} is in {path}, which contradicts buckets hashed by {', '.join(fields.hashed)}"
    if confirm and len(snapshot) and not any(keys.values()):
        return "the bucket count is not in hoodie.properties, and no base file has record keys that confirm it"
    return None


def _is_doubtful(snapshot: Snapshot) -> bool:
    """Whether a count may not be everybody's: it is not recorded, or a resize left jobs of Apache's at the old one."""
    return snapshot.config.bucket_count is None or was_resized(snapshot.config)


def _checked(snapshot: Snapshot, most: int) -> list[int]:
    """The files whose keys are checked: a few overall, and one per partition if the count may not be everybody's."""
    rows = np.flatnonzero(valid_mask(one_chunk(snapshot.slices.listed.column("file_name"))))
    chosen = _spread(rows, most)
    if _is_doubtful(snapshot):
        _, first = np.unique(snapshot.partition_index[rows], return_index=True)
        chosen = np.union1d(chosen, _spread(rows[first], _CHECKED_PARTITIONS))
    return [int(row) for row in chosen]


def _spread(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), most).astype(np.int64))[: len(rows)]]


@dataclass(frozen=True, eq=False)
class HashRings:
    """All versions of the hash rings of a snapshot's partitions.

    A node is one file group of a partition, whatever the versions of the ring that have it.

    Attributes:
        versions: by the partition's position: each version, and which nodes those of the ring are.
        nodes: how many there are in all partitions.
        partition_of: the partition of the file at each position.
        node_of: the node of the file at each position; -1 for a group that no version of its partition's ring knows.
    """

    versions: Sequence[Sequence[tuple[HashRing, NDArray[np.int64]]]]
    nodes: int
    partition_of: NDArray[np.int64]
    node_of: NDArray[np.int64]

    @classmethod
    def of_files(
        cls, rings: Sequence[Sequence[HashRing]], partition_of: NDArray[np.int64], file_ids: pa.Array[Any]
    ) -> HashRings:
        """The rings of each partition, and the partition and the id of each file."""
        versions, prefixes, owners = [], list[str](), list[int]()
        for partition, of_partition in enumerate(rings):
            every = dict.fromkeys(prefix for ring in of_partition for prefix in ring.prefixes)
            number = {prefix: len(prefixes) + at for at, prefix in enumerate(every)}
            versions.append(
                [(ring, np.array([number[one] for one in ring.prefixes], np.int64)) for ring in of_partition]
            )
            prefixes.extend(every)
            owners.extend([partition] * len(every))
        node_of = np.full(len(partition_of), -1, np.int64)
        if prefixes:
            texts = pa.array(prefixes, pa.string())
            distinct = texts.unique()
            keys = np.array(owners, np.int64) * len(distinct) + _places(texts, distinct)
            order = np.argsort(keys)
            places = _places(pc.replace_substring_regex(file_ids, r"-[0-9]+$", ""), distinct)
            of_files = np.asarray(partition_of, np.int64) * len(distinct) + places
            nearest = order[np.minimum(np.searchsorted(keys, of_files, sorter=order), len(keys) - 1)]
            known = (places >= 0) & (keys[nearest] == of_files)
            node_of[known] = nearest[known]
        return cls(versions, len(prefixes), partition_of, node_of)

    def may_hold(self, rows: FileRows, parts: Collection[tuple[str | None, ...]]) -> NDArray[np.bool_]:
        """For each file, whether its group can hold a record that hashes one of these key parts.

        A group that no version of its partition's ring knows can hold any.
        """
        hashes = np.fromiter((hash_on_ring(part) for part in parts), np.int64, len(parts))
        wanted = np.zeros(self.nodes + 1, np.bool_)
        wanted[-1] = True  # of the groups that are not known
        for partition in np.unique(self.partition_of[rows]):
            for ring, nodes in self.versions[partition]:
                wanted[nodes[ring.nodes_of(hashes)]] = True
        return wanted[self.node_of[rows]]


def _places(texts: Any, distinct: Any) -> NDArray[np.int64]:
    """The position of each text among distinct ones; -1 where it is not there."""
    return to_numpy(pc.fill_null(pc.index_in(texts, value_set=distinct), -1)).astype(np.int64)


def _load_hash_rings(snapshot: Snapshot, threads: int) -> HashRings | CannotPrune | None:
    """The hash rings of a table with consistent hashing; None for other tables.

    Args:
        snapshot: the table.
        threads: partitions that are read at once.
    """
    storage = snapshot.client.storage
    if not _is_consistent(snapshot):
        return None
    if not snapshot.config.populate_meta_fields:
        return CannotPrune(MISPLACED)
    if len(snapshot.partitions) > _MOST_PARTITIONS:
        return CannotPrune(f"consistent hashing of {len(snapshot.partitions):,} partitions is too much to read")
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="hudi-rings") as pool:
            rings = list(pool.map(lambda partition: load_rings(storage, partition), snapshot.partitions))
    except (CorruptFileError, MissingFileError) as error:
        return CannotPrune(str(error))
    return HashRings.of_files(rings, snapshot.partition_index, one_chunk(snapshot.slices.listed.column("file_id")))


def _is_consistent(snapshot: Snapshot) -> bool:
    """Whether the table has consistent hashing."""
    return memoize(snapshot, "consistent hashing", lambda: bool(snapshot.client.storage.list(METADATA_FOLDER)))
