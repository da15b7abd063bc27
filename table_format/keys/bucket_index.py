"""The bucket index: bucket of a record key (RFC-29, simple engine), and hash rings of consistent hashing.

Hudi's writers take the hash fields' values out of the record key's *text*, and two generations of releases differ in
how they split it. They agree on plain keys, and on composite keys whose values hold no comma and no colon.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from table_format.errors import CorruptFileError
from table_format.keys.java_hash import Int32Array, bucket_id_one, bucket_ids, buckets_of_hashes, java_string_hash
from table_format.storage import Storage

MOST_BUCKETS = 99_999_999
"""A bucket's number has eight digits in file ids."""

NULL_KEY_PART = "__null__"
EMPTY_KEY_PART = "__empty__"

#: Folder of rules for bucket counts by partition, from release 1.1 on.
RULES_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta"


def partition_bucket_rules(storage: Storage) -> str | None:
    """Newest file of rules for bucket counts by partition, which are not supported here; None if there is none.

    A rescale adds a file and moves older ones away; a folder without such a file counts as a rule.

    Args:
        storage: rooted at the table's folder.
    """
    entries = storage.list(RULES_FOLDER, recursive=True)
    files = [entry.path for entry in entries if not entry.is_dir]
    return max(files, key=posixpath.basename) if files else RULES_FOLDER if entries else None


class BucketHashRule(StrEnum):
    """How hash parts are parsed from a record key.

    Attributes:
        SPLIT: releases up to 1.0: a key with a colon is split at every comma, and each piece at its first colon;
            pieces named other than the hash fields are dropped, pieces without a name kept.
        NAMED: releases from 1.1 on: only a key with both a comma and a colon is split, at the last comma before the
            next colon.
    """

    SPLIT = "split"
    NAMED = "named"

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> BucketHashRule:
        """Rule of the release that created a table: from 1.0 on the properties have a generator type."""
        return cls.NAMED if properties.get("hoodie.table.keygenerator.type") else cls.SPLIT


def hash_parts(record_key: str, hash_fields: Sequence[str], rule: BucketHashRule) -> list[str | None]:
    """Hash parts of one record key.

    >>> hash_parts("a:1,b:x,y", ["b"], BucketHashRule.SPLIT), hash_parts("a:1,b:x,y", ["b"], BucketHashRule.NAMED)
    (['x', 'y'], ['x,y'])
    """
    if _is_whole(record_key, rule):  # the words for null and empty are of pieces only
        return [record_key]
    split = _split_parts if rule is BucketHashRule.SPLIT else _named_parts
    return [_value(part) for part in split(record_key, hash_fields)]


def bucket_ids_of_keys(
    keys: pa.Array[Any], hash_fields: Sequence[str], bucket_count: int, rule: BucketHashRule = BucketHashRule.SPLIT
) -> Int32Array:
    """Bucket of each record key, as computed by Apache's writers of a generation.

    Args:
        keys: record keys, `string`.
        hash_fields: `hoodie.bucket.index.hash.field`, by default the record key fields.
        bucket_count: `hoodie.bucket.index.num.buckets`.
        rule: generation of the table's writers.

    Keys without colons (plain keys) and composite keys with plain values go through Arrow; a key whose values hold
    commas or colons is split one by one.
    """
    colons = pc.count_substring(keys, ":").to_numpy(zero_copy_only=False)
    commas = pc.count_substring(keys, ",").to_numpy(zero_copy_only=False)
    whole = colons == 0 if rule is BucketHashRule.SPLIT else (colons == 0) | (commas == 0)
    result = np.empty(len(keys), np.int32)
    if whole.any():
        result[whole] = bucket_ids([keys.filter(pa.array(whole))], bucket_count)
    rest = np.flatnonzero(~whole)
    if len(rest):
        result[rest] = _composite_buckets(pc.take(keys, pa.array(rest)), hash_fields, bucket_count, rule)
    return result


def possible_buckets(record_key: str, hash_fields: Sequence[str], bucket_count: int) -> set[int]:
    """Possible buckets of a record key, for any generation of writers."""
    return {bucket_id_one(hash_parts(record_key, hash_fields, rule), bucket_count) for rule in BucketHashRule}


def _composite_buckets(
    keys: pa.Array[Any], hash_fields: Sequence[str], bucket_count: int, rule: BucketHashRule
) -> Int32Array:
    """Buckets of composite keys; those of the same form as the first are split by columns."""
    names = [piece.partition(":")[0] for piece in keys[0].as_py().split(",")]
    plain = pc.and_(
        pc.equal(pc.count_substring(keys, ":"), len(names)), pc.equal(pc.count_substring(keys, ","), len(names) - 1)
    )
    pieces = pc.list_flatten(pc.split_pattern(keys.filter(plain), ","))
    hashes = np.ones(len(pieces) // len(names), np.uint32)
    # A key without any hash field is hashed as a whole by the newer rule.
    named = np.full(len(hashes), any(name in hash_fields for name in names))
    for position, name in enumerate(names):
        piece = pieces.take(pa.array(np.arange(position, len(pieces), len(names))))
        named &= pc.starts_with(piece, f"{name}:").to_numpy(zero_copy_only=False)
        if name not in hash_fields:
            continue
        values = pc.utf8_slice_codeunits(piece, start=len(name) + 1)
        values = pc.if_else(pc.is_in(values, pa.array([EMPTY_KEY_PART])), "", values)
        part = java_string_hash(values).view(np.uint32)
        part = np.where(pc.equal(values, NULL_KEY_PART).to_numpy(zero_copy_only=False), np.uint32(0), part)
        hashes = hashes * np.uint32(31) + part
    plain_rows = np.flatnonzero(plain.to_numpy(zero_copy_only=False))[named]
    result = np.full(len(keys), -1, np.int32)
    result[plain_rows] = buckets_of_hashes(hashes[named].view(np.int32), bucket_count)
    for row in np.flatnonzero(result < 0):
        result[row] = bucket_id_one(hash_parts(keys[int(row)].as_py(), hash_fields, rule), bucket_count)
    return result


def _is_whole(key: str, rule: BucketHashRule) -> bool:
    """Whether a key is hashed as it is."""
    return ":" not in key or (rule is BucketHashRule.NAMED and "," not in key)


def _value(part: str) -> str | None:
    if part == NULL_KEY_PART:
        return None
    return "" if part == EMPTY_KEY_PART else part


def _split_parts(key: str, fields: Sequence[str]) -> list[str]:
    pieces = key.split(",")
    while pieces and not pieces[-1]:  # Java's split drops empty strings at the end
        pieces.pop()
    named = [piece.split(":", 1) for piece in pieces]
    return [piece[-1] for piece in named if len(piece) == 1 or piece[0] in fields]


def _named_parts(key: str, fields: Sequence[str]) -> list[str]:
    values = []
    start = 0
    while start < len(key):
        colon = key.find(":", start)
        name = key[start:colon]
        following, comma = _next_boundary(key, colon)
        end = comma if following >= 0 and comma > 0 else len(key)
        if name in fields:
            values.append(key[colon + 1 : end])
        start = end + 1
    return values or [key]


def _next_boundary(key: str, colon: int) -> tuple[int, int]:
    """The next colon after a comma after `colon`, and that comma; (-1, -1) if there is none."""
    following = key.find(":", colon + 1)
    while following >= 0:
        comma = key.rfind(",", 0, following)
        if comma > colon:
            return following, comma
        following = key.find(":", following + 1)
    return -1, -1


METADATA_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
_SUFFIX = ".hashing_meta"
_LARGEST = 2**31 - 1
_VERSION = 0


@dataclass(frozen=True, eq=False)
class HashRing:
    """Hash ring of one partition (consistent hashing).

    A partition's file groups are nodes on a ring of hash values. Each version of the ring is a file; a resizing splits
    or merges nodes.

    Attributes:
        values: each node's hash value, ascending; a node has the hash values above the previous node's, up to its own.
        prefixes: each node's file id without the number at the end.
    """

    values: NDArray[np.int64]
    prefixes: tuple[str, ...]

    @classmethod
    def of_nodes(cls, nodes: Iterable[tuple[int, str]]) -> HashRing:
        """A ring of `(hash value, file id prefix)`; of two nodes with the same value the later wins."""
        ring = sorted(dict(nodes).items())
        return cls(np.array([value for value, _ in ring], np.int64), tuple(prefix for _, prefix in ring))

    def nodes_of(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the nodes of hash values; values beyond the last node belong to the first."""
        nodes: NDArray[np.int64] = np.searchsorted(self.values, hashes, side="left") % len(self.values)
        return nodes


def hash_on_ring(parts: Sequence[str | None]) -> int:
    """Hash value of a record's hash parts.

    >>> hash_on_ring(["k1"]) <= 536870912
    True
    """
    # Java joins a null as the word "null".
    text = "".join("null" if part is None else part for part in parts)
    return xxhash.xxh32_intdigest(text.encode("utf-8", "replace"), seed=0) & _LARGEST


def load_rings(storage: Storage, partition: str) -> list[HashRing]:
    """Load all versions of a partition's ring; empty if there is none.

    Args:
        storage: rooted at the table's folder.
        partition: its path.

    Raises:
        CorruptFileError: a malformed version.
    """
    folder = f"{METADATA_FOLDER}/{partition}" if partition else METADATA_FOLDER
    entries = [entry for entry in storage.list(folder) if entry.name.endswith(_SUFFIX)]
    return [parse_ring(storage.read(entry.path), entry.path) for entry in entries]


def parse_ring(data: bytes, path: str) -> HashRing:
    """Parse a version of a ring, the JSON of a `.hashing_meta` file.

    Raises:
        CorruptFileError: it is malformed, or of an unknown version.
    """
    try:
        stored: Any = json.loads(data)
        nodes = [(int(node["value"]), str(node["fileIdPrefix"]), node.get("tag", "NORMAL")) for node in stored["nodes"]]
        version = stored.get("version", _VERSION)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(path, 0, f"not metadata of consistent hashing: {error!r}") from error
    if version != _VERSION:
        raise CorruptFileError(path, 0, f"unknown version {version} of consistent hashing metadata")
    if not nodes or any(tag != "NORMAL" or not 0 <= value <= _LARGEST for value, _, tag in nodes):
        raise CorruptFileError(path, 0, "consistent hashing metadata without nodes, or in the middle of a resizing")
    return HashRing.of_nodes((value, prefix) for value, prefix, _ in nodes)
