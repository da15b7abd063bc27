"""The bucket stage: the bucket of a record is a hash of its key, so a filter that names keys names buckets.

Any doubt about which bucket that is keeps all buckets. Three layouts are known: one count of buckets for all
partitions, counts that differ between partitions, and consistent hashing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catalog.scan_options import BUCKET_COUNT
from catalog.snapshot import Snapshot
from catalog.stages.consistent import HashRings, load_hash_rings
from catalog.stages.hash_keys import HashedKeys, HashFields, HashParts, hash_fields, hashed_keys, parts_of_key
from catalog.stages.kept import kept
from catalog.stages.stage import StageInput
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.arrow_numpy import valid_mask
from table_format.base_file import footer
from table_format.errors import CorruptFileError, MissingFileError, UnsupportedTableError
from table_format.java_hash import bucket_id_one
from table_format.partition_bucket_counts import BucketCounts, load_bucket_counts

_CHECKED_FILES = 4
# Line ends, at which Java's and Python's regular expressions differ.
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")

_Counts: TypeAlias = "tuple[frozenset[int], ...]"


def prune_by_bucket(given: StageInput) -> Verdict:
    """Keep the files of the buckets in which the keys that the filter names can lie (RFC-29 hash index).

    Args:
        given: what came in.

    Returns:
        The files kept, or why the filter or the table does not tell buckets.
    """
    fields = hash_fields(given)
    if isinstance(fields, CannotPrune):
        return fields
    keys = hashed_keys(given, fields)
    if isinstance(keys, CannotPrune):
        return keys
    snapshot = given.snapshot
    rings = kept(snapshot, "hash rings", lambda: load_hash_rings(snapshot, given.options.threads))
    if isinstance(rings, CannotPrune):
        return rings
    if rings is not None:
        return _by_rings(given, fields, keys, rings)
    return _by_counts(given, fields, keys)


def _by_rings(given: StageInput, fields: HashFields, keys: HashedKeys, rings: HashRings) -> Verdict:
    snapshot = given.snapshot

    def fits(row: int, parts: set[HashParts]) -> bool:
        return bool(rings.may_hold(snapshot, np.array([row]), parts)[0])

    doubt = kept(snapshot, ("checked rings", fields), lambda: _contradiction(snapshot, fields, fits))
    if doubt is not None:
        return CannotPrune(doubt)
    keep = rings.may_hold(snapshot, given.rows, keys.parts)
    reason = f"consistent hashing leaves {int(keep.sum()):,} file groups to the keys named by {keys.named_by}"
    return Candidates(keep, reason)


def _by_counts(given: StageInput, fields: HashFields, keys: HashedKeys) -> Verdict:
    snapshot = given.snapshot
    counts = _bucket_counts(given)
    if isinstance(counts, CannotPrune):
        return counts
    buckets = snapshot.bucket_numbers()
    if buckets is None:
        return CannotPrune("a file group's id does not begin with a bucket number: there is no simple bucket index")

    def fits(row: int, parts: set[HashParts]) -> bool:
        of_partition = counts[snapshot.partition_index[row]]
        return not of_partition or int(buckets[row]) in {bucket_id_one(p, n) for p in parts for n in of_partition}

    doubt = kept(
        snapshot,
        ("checked buckets", fields, tuple(dict.fromkeys(counts))),
        lambda: _too_large(snapshot, counts, buckets) or _contradiction(snapshot, fields, fits),
    )
    if doubt is not None:
        return CannotPrune(doubt)
    keep = np.ones(len(given.rows), np.bool_)
    of_files, here = snapshot.partition_index[given.rows], buckets[given.rows]
    shown = []
    for distinct in dict.fromkeys(counts):
        if not distinct:
            continue
        found = {bucket_id_one(parts, count) for parts in keys.parts for count in distinct}
        alike = np.fromiter((count == distinct for count in counts), np.bool_, len(counts))[of_files]
        keep &= ~alike | np.isin(here, np.fromiter(found, np.int64, len(found)))
        shown.append(f"{len(found):,} of {' or '.join(f'{count:,}' for count in sorted(distinct))}")
    return Candidates(keep, f"{'; '.join(shown) or 'all'} buckets can hold the keys named by {keys.named_by}")


def _bucket_counts(given: StageInput) -> _Counts | CannotPrune:
    """How many buckets each partition may have; an empty set where there is no telling."""
    snapshot, config, options = given.snapshot, given.snapshot.config, given.options
    rules = kept(snapshot, "bucket counts", lambda: _load_rules(snapshot))
    if isinstance(rules, CannotPrune):
        return rules
    if rules:
        # Rules say nothing of partitions that were or will be written by others, not even that there were none.
        if not snapshot.is_latest or not all(snapshot.timeline.is_committed(version.instant) for version in rules):
            return CannotPrune("bucket counts differ between partitions, and are not known for this instant")
        return kept(snapshot, "counts of partitions", lambda: tuple(_of_rules(p, rules) for p in snapshot.partitions))
    count = config.bucket_count or options.bucket_count
    if count is None:
        return CannotPrune(f"how many buckets there are is not in hoodie.properties; {BUCKET_COUNT} can say it")
    if config.bucket_count and options.bucket_count and config.bucket_count != options.bucket_count:
        return CannotPrune(f"hoodie.properties say {config.bucket_count} buckets, the options {options.bucket_count}")
    return (frozenset({count}),) * len(snapshot.partitions)


def _load_rules(snapshot: Snapshot) -> list[BucketCounts] | CannotPrune:
    try:
        return load_bucket_counts(snapshot.client.storage)
    except (CorruptFileError, UnsupportedTableError) as error:
        return CannotPrune(f"bucket counts differ between partitions, and by which rule is not known: {error}")


def _of_rules(partition: str, rules: list[BucketCounts]) -> frozenset[int]:
    if not _LINE_ENDS.isdisjoint(partition):
        return frozenset()
    return frozenset(version.count(partition) for version in rules)


def _too_large(snapshot: Snapshot, counts: _Counts, buckets: NDArray[np.int64]) -> str | None:
    """Whether a file group's number is beyond its partition's count, which then is another."""
    most = np.fromiter((max(count, default=2**31) for count in counts), np.int64, len(counts))
    beyond = np.flatnonzero(buckets >= most[snapshot.partition_index])
    if not len(beyond):
        return None
    row = int(beyond[np.argmax(buckets[beyond])])
    said = int(most[snapshot.partition_index[row]])
    return f"there is a bucket {int(buckets[row])}, although the bucket count is said to be {said}"


def _contradiction(snapshot: Snapshot, fields: HashFields, fits: Callable[[int, set[HashParts]], bool]) -> str | None:
    """What in a few footers speaks against the layout; None for nothing.

    Apache's writers do not read a bucket count from the table: who gave another one has made other buckets.
    """
    rows = np.flatnonzero(valid_mask(snapshot.files.column("path").combine_chunks()))
    for at in np.unique(np.linspace(0, max(len(rows) - 1, 0), _CHECKED_FILES).astype(np.int64))[: len(rows)]:
        row = int(rows[at])
        path = str(snapshot.files.column("path")[row].as_py())
        try:
            found = footer(snapshot.client.storage, path)
        except (MissingFileError, CorruptFileError):
            continue
        for key in (found.min_key, found.max_key):
            if key and not fits(row, parts_of_key(key, fields)):
                hashed = ", ".join(fields.hashed)
                return f"buckets hashed by {hashed} in this way cannot be: key {key!r} is in {path}"
    return None
