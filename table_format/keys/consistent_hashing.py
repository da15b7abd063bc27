"""Consistent hashing (RFC-29, the bucket index's other engine): which file group a record key's hash falls into.

A partition's file groups are nodes on a ring of hash values. Each version of the ring is a file of its own, and a
resize adds one. Which of them counts while a resize is under way depends on who looks, so all of them are read here:
a key may be in any group that any version gives for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from table_format.errors import CorruptFileError
from table_format.storage import Storage

METADATA_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
_SUFFIX = ".hashing_meta"
_LARGEST = 2**31 - 1
_VERSION = 0


@dataclass(frozen=True, eq=False)
class HashRing:
    """The nodes of one partition.

    Attributes:
        values: each node's hash value, rising; it takes the values above the node before it, up to its own.
        prefixes: each node's file group: its file id without the number at the end.
    """

    values: NDArray[np.int64]
    prefixes: tuple[str, ...]

    @classmethod
    def of_nodes(cls, nodes: Iterable[tuple[int, str]]) -> HashRing:
        """A ring of `(hash value, file id prefix)`; of two nodes with one value the later counts."""
        found = sorted(dict(nodes).items())
        return cls(np.array([value for value, _ in found], np.int64), tuple(prefix for _, prefix in found))

    def prefixes_of(self, hashes: NDArray[np.int64]) -> set[str]:
        """The file groups into which some hash values fall; beyond the last node comes the first."""
        nodes = np.unique(np.searchsorted(self.values, hashes, side="left") % len(self.values))
        return {self.prefixes[node] for node in nodes}


def hash_on_ring(parts: Sequence[str | None]) -> int:
    """The hash value of a record's key parts.

    >>> hash_on_ring(["k1"]) <= 536870912
    True
    """
    # Java joins a null as the word.
    text = "".join("null" if part is None else part for part in parts)
    return xxhash.xxh32_intdigest(text.encode("utf-8", "replace"), seed=0) & _LARGEST


def load_rings(storage: Storage, partition: str) -> list[HashRing]:
    """All versions of a partition's ring; empty when none is stored.

    Args:
        storage: rooted at the table's folder.
        partition: its path.

    Raises:
        CorruptFileError: a version that is not understood.
    """
    folder = f"{METADATA_FOLDER}/{partition}" if partition else METADATA_FOLDER
    entries = [entry for entry in storage.list(folder) if entry.name.endswith(_SUFFIX)]
    return [parse_ring(storage.read(entry.path), entry.path) for entry in entries]


def parse_ring(data: bytes, path: str) -> HashRing:
    """One version of a ring, from the JSON of a `.hashing_meta` file.

    Raises:
        CorruptFileError: it is not such a file, or says more than is understood.
    """
    try:
        stored: Any = json.loads(data)
        nodes = [(int(node["value"]), str(node["fileIdPrefix"]), node.get("tag", "NORMAL")) for node in stored["nodes"]]
        version = stored.get("version", _VERSION)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(path, 0, f"not the metadata of consistent hashing: {error!r}") from error
    if version != _VERSION:
        raise CorruptFileError(path, 0, f"version {version} of consistent hashing metadata is not known")
    if not nodes or any(tag != "NORMAL" or not 0 <= value <= _LARGEST for value, _, tag in nodes):
        raise CorruptFileError(path, 0, "consistent hashing metadata without nodes, or with nodes that are in change")
    return HashRing.of_nodes((value, prefix) for value, prefix, _ in nodes)
