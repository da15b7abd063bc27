"""Which bucket a record key belongs to (RFC-29 hash index, simple engine).

Hudi's writers take the hash fields' values out of the record key's *text*, and two generations of releases differ in
how they split it. They agree on plain keys, and on composite keys whose values hold no comma and no colon.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.keys.java_hash import Int32Array, bucket_id_one, bucket_ids, buckets_of_hashes, java_string_hash
from table_format.storage import Storage

pc: Any = compute  # the stubs lag behind the functions

NULL_KEY_PART = "__null__"
EMPTY_KEY_PART = "__empty__"
#: Where releases from 1.1 on keep rules by which bucket counts differ between partitions.
RULES_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta"


def partition_bucket_rules(storage: Storage) -> str | None:
    """The newest file of rules for bucket counts by partition, which are not obeyed here; None without any.

    A rescale adds a file and moves older ones away; a folder without a file of rules counts as one of them.

    Args:
        storage: rooted at the table's folder.
    """
    entries = storage.list(RULES_FOLDER, recursive=True)
    files = [entry.path for entry in entries if not entry.is_dir]
    return max(files, key=posixpath.basename) if files else RULES_FOLDER if entries else None


class BucketHashRule(StrEnum):
    """How the parts to be hashed are taken out of a record key.

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
        """The rule of the releases that made a table: those from 1.0 on name a generator type in its properties."""
        return cls.NAMED if properties.get("hoodie.table.keygenerator.type") else cls.SPLIT


def hash_parts(record_key: str, hash_fields: Sequence[str], rule: BucketHashRule) -> list[str | None]:
    """The parts of one record key that are hashed.

    >>> hash_parts("a:1,b:x,y", ["b"], BucketHashRule.SPLIT), hash_parts("a:1,b:x,y", ["b"], BucketHashRule.NAMED)
    (['x', 'y'], ['x,y'])
    """
    split = _split_parts if rule is BucketHashRule.SPLIT else _named_parts
    return [_value(part) for part in split(record_key, hash_fields)]


def bucket_ids_of_keys(
    keys: pa.Array[Any], hash_fields: Sequence[str], bucket_count: int, rule: BucketHashRule = BucketHashRule.SPLIT
) -> Int32Array:
    """The bucket of each record key, exactly as Apache's writers of the given generation compute it.

    Args:
        keys: record keys, `string`.
        hash_fields: `hoodie.bucket.index.hash.field`, by default the record key fields.
        bucket_count: `hoodie.bucket.index.num.buckets`.
        rule: generation of the writers of this table.

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
    """The buckets that a record key may lie in, whichever generation of writers made the table."""
    return {bucket_id_one(hash_parts(record_key, hash_fields, rule), bucket_count) for rule in BucketHashRule}


def _composite_buckets(
    keys: pa.Array[Any], hash_fields: Sequence[str], bucket_count: int, rule: BucketHashRule
) -> Int32Array:
    """Buckets of keys that are split; those shaped like the first one are split by columns."""
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


def _value(part: str) -> str | None:
    if part == NULL_KEY_PART:
        return None
    return "" if part == EMPTY_KEY_PART else part


def _split_parts(key: str, fields: Sequence[str]) -> list[str]:
    if ":" not in key:
        return [key]
    pieces = key.split(",")
    while pieces and not pieces[-1]:  # Java's split drops empty strings at the end
        pieces.pop()
    named = [piece.split(":", 1) for piece in pieces]
    return [piece[-1] for piece in named if len(piece) == 1 or piece[0] in fields]


def _named_parts(key: str, fields: Sequence[str]) -> list[str]:
    if ":" not in key or "," not in key:
        return [key]
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
    """The next colon that has a comma between it and `colon`, and that comma; (-1, -1) when there is none."""
    following = key.find(":", colon + 1)
    while following >= 0:
        comma = key.rfind(",", 0, following)
        if comma > colon:
            return following, comma
        following = key.find(":", following + 1)
    return -1, -1
