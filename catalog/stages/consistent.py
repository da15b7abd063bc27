"""Consistent hashing in the bucket stage: which file groups of each partition can hold some keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.snapshot.snapshot import Snapshot
from catalog.stages.stage import FileRows
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_format.errors import CorruptFileError
from table_format.keys.bucket_index import METADATA_FOLDER, HashRing, hash_on_ring, load_rings

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, eq=False)
class HashRings:
    """All versions of the rings of a snapshot's partitions, by the partition's position."""

    by_partition: Mapping[int, list[HashRing]]

    def may_hold(
        self, snapshot: Snapshot, rows: FileRows, parts: Collection[tuple[str | None, ...]]
    ) -> NDArray[np.bool_]:
        """For each of some files, whether its group can hold a record of which one of these parts is hashed.

        A group that no version of its partition's ring knows can hold any.
        """
        hashes = np.fromiter((hash_on_ring(part) for part in parts), np.int64, len(parts))
        keep = np.ones(len(rows), np.bool_)
        partitions = snapshot.partition_index[rows]
        file_ids = snapshot.files.column("file_id").combine_chunks()
        for partition in np.unique(partitions):
            rings = self.by_partition.get(int(partition), [])
            here = np.flatnonzero(partitions == partition)
            groups = pc.replace_substring_regex(file_ids.take(from_numpy(rows[here])), r"-[0-9]+$", "")
            known = {prefix for ring in rings for prefix in ring.prefixes}
            wanted = set[str]().union(*(ring.prefixes_of(hashes) for ring in rings)) if len(hashes) else set()
            keep[here] = ~_is_in(groups, known - wanted)
        return keep


def load_hash_rings(snapshot: Snapshot, threads: int) -> HashRings | CannotPrune | None:
    """The rings of a table with consistent hashing; None for a table without.

    Args:
        snapshot: the table.
        threads: partitions that are read at once.
    """
    storage = snapshot.client.storage
    if not storage.list(METADATA_FOLDER):
        return None
    if len(snapshot.partitions) > _MOST_PARTITIONS:
        return CannotPrune(f"consistent hashing of {len(snapshot.partitions):,} partitions is too much to read")
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="hudi-rings") as pool:
            found = pool.map(lambda partition: load_rings(storage, partition), snapshot.partitions)
            return HashRings(dict(enumerate(found)))
    except CorruptFileError as error:
        return CannotPrune(str(error))


def _is_in(texts: Any, members: Collection[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = to_numpy(pc.is_in(texts, pa.array(sorted(members), pa.string())))
    return found
