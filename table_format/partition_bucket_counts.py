"""Bucket counts that differ between partitions (partition-level bucket index, releases from 1.1 on).

A table says by regular expressions over partition paths how many buckets each partition has. Each version of these
rules is a file; a rescale adds one and rewrites partitions. Which version a partition has been written by is not
recorded with it, so all of them are read here.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.storage import Storage

CONFIG_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
ARCHIVE_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta/archive"
_SUFFIX = ".hashing_config"
# What Java and Python understand alike: letters, classes without classes inside, groups that only group, repetition.
_ALIKE = re.compile(
    r"(?:[^\\\[\](){}&]|\\[dDwWsS.\-/=+*?^$|()\[\]{}_]|\[\^?(?:[^\\\[\]&^]|\\[dDwWsS.\-/])+\]|\((?!\?)|\(\?:|\)|\{\d+(?:,\d*)?\})*"
)


@dataclass(frozen=True)
class BucketCounts:
    """One version of the rules.

    Attributes:
        instant: of the rescale that made it, all zeros for the first; partitions are rewritten by then.
        rules: patterns to be found in a partition's path, and the count of those in which each is found; the first
            that is found counts.
        default: the count of all other partitions.
    """

    instant: str
    rules: tuple[tuple[re.Pattern[str], int], ...]
    default: int

    def count(self, partition: str) -> int:
        """How many buckets a partition has."""
        return next((count for pattern, count in self.rules if pattern.search(partition)), self.default)


def load_bucket_counts(storage: Storage) -> list[BucketCounts]:
    """All versions of a table's rules, archived ones too; empty for a table with one count for all partitions.

    Args:
        storage: rooted at the table's folder.

    Raises:
        CorruptFileError: rules that are not understood.
        UnsupportedTableError: rules that Java may understand in another way.
    """
    active = storage.list(CONFIG_FOLDER)
    if not active:
        return []
    entries = [entry for entry in (*active, *storage.list(ARCHIVE_FOLDER)) if entry.name.endswith(_SUFFIX)]
    if not entries:
        raise CorruptFileError(CONFIG_FOLDER, 0, f"there is no {_SUFFIX} file among its files")
    return [parse_bucket_counts(storage.read(entry.path), entry.path) for entry in entries]


def parse_bucket_counts(data: bytes, path: str) -> BucketCounts:
    """One version of the rules, from the JSON of a `.hashing_config` file.

    Raises:
        CorruptFileError: it is not such a file.
        UnsupportedTableError: another kind of rule, or a regular expression that Java may understand in another way.
    """
    try:
        stored: Any = json.loads(data)
        kind, default = str(stored["rule"]), int(stored["defaultBucketNumber"])
        pieces = [piece.strip().split(",") for piece in str(stored["expressions"]).split(";") if piece.strip()]
        written = [(pattern.strip(), int(count)) for pattern, count in pieces]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(path, 0, f"not the rules of a partition-level bucket index: {error!r}") from error
    if kind.lower() != "regex":
        raise UnsupportedTableError(f"{path}: rules of kind {kind!r} are not known; regex is")
    if default <= 0 or any(count <= 0 for _, count in written):
        raise CorruptFileError(path, 0, "a bucket count that is not positive")
    instant = posixpath.basename(path).removesuffix(_SUFFIX)
    return BucketCounts(instant, tuple((_compiled(text, path), count) for text, count in written), default)


def _compiled(text: str, path: str) -> re.Pattern[str]:
    try:
        if _ALIKE.fullmatch(text):
            return re.compile(text, re.ASCII)
    except re.error:
        pass
    raise UnsupportedTableError(f"{path}: regular expression {text!r} may mean something else in Java")
