"""Record keys of the metadata table and the file group that holds each (RFC-15, RFC-27, RFC-37).

A key of the `column_stats` partition is three concatenated hashes, each in base64: of the column, of the
partition, of the file name. The first two are xxHash64 with a seed of Hudi's own, the last is MD5. All statistics of
one column are therefore adjacent in a sorted file, and so are those of one column and partition.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from table_format.codecs.arrow_numpy import fixed_rows, one_chunk, to_numpy
from table_format.keys.java_hash import java_string_hash, java_string_hash_one

ALL_PARTITIONS_KEY = "__all_partitions__"
NON_PARTITIONED_ID = "."
_SEED = 0xFFFFFFFFDABADABA
_SHORT_WIDTH = 12
_FILE_WIDTH = 24
_INT_MIN = -(1 << 31)
StringColumn: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


def column_id(column: str) -> bytes:
    """The first 12 bytes of the keys of a column's statistics; nested columns have a dotted path.

    >>> column_id("id")
    b'sLZoasJosec='
    """
    return base64.b64encode(xxhash.xxh64_digest(column.encode(), seed=_SEED))


def partition_identifier(partition: str) -> str:
    """A partition path's name in the metadata table; `.` for the root of the table."""
    return partition or NON_PARTITIONED_ID


def partition_of_identifier(identifier: str) -> str:
    """Inverse of `partition_identifier`."""
    return "" if identifier == NON_PARTITIONED_ID else identifier


def partition_hash(partition: str) -> bytes:
    """The 12 bytes of a partition path inside a key.

    >>> partition_hash(""), partition_hash("p=a")
    (b'FXThHwelITM=', b's2AMmwSBZPw=')
    """
    return column_id(partition_identifier(partition))


def file_hash(file_name: str) -> bytes:
    """The 24 bytes of a file name inside a key.

    >>> file_hash("abc.parquet")
    b'gI13NiIQPBkg4GpAYhC5Fw=='
    """
    return base64.b64encode(hashlib.md5(file_name.encode(), usedforsecurity=False).digest())


def column_stats_key(column: str, partition: str, file_name: str) -> bytes:
    """Key of the statistics of one column of one file."""
    return column_id(column) + partition_hash(partition) + file_hash(file_name)


def bloom_filter_key(partition: str, file_name: str) -> bytes:
    """Key of the bloom filter of one file."""
    return partition_hash(partition) + file_hash(file_name)


def column_stats_keys(columns: StringColumn, partitions: StringColumn, file_names: StringColumn) -> pa.BinaryArray:
    """Keys of many statistics records, from three columns of one length; each distinct text is hashed once."""
    rows = np.empty((len(columns), 2 * _SHORT_WIDTH + _FILE_WIDTH), dtype=np.uint8)
    column_rows, column_values = _encoded(columns)
    partition_rows, partition_values = _encoded(partitions)
    file_rows, file_values = _encoded(file_names)
    rows[:, :_SHORT_WIDTH] = _matrix(map(column_id, column_values), _SHORT_WIDTH)[column_rows]
    rows[:, _SHORT_WIDTH : 2 * _SHORT_WIDTH] = _matrix(map(partition_hash, partition_values), _SHORT_WIDTH)[
        partition_rows
    ]
    rows[:, 2 * _SHORT_WIDTH :] = _matrix(map(file_hash, file_values), _FILE_WIDTH)[file_rows]
    return fixed_rows(rows)


def shard_of_key(key: str, shards: int) -> int:
    """Shard (file group number) of a key: `abs(abs(hash) % n)` in Java's 32-bit arithmetic.

    >>> shard_of_key("polygenelubricants", 7), shard_of_key("日本", 10)
    (2, 7)
    """
    return _reduced(java_string_hash_one(key), shards)


def shards_of_keys(keys: StringColumn, shards: int) -> npt.NDArray[np.int32]:
    """Shard of each key; `keys` are strings or their UTF-8 bytes."""
    if shards == 1:
        return np.zeros(len(keys), np.int32)
    hashes = java_string_hash(keys).astype(np.int64)
    lowest = hashes == _INT_MIN
    reduced = np.abs(hashes) % shards
    # abs(MIN_VALUE) stays negative in Java; the remainder of a negative number is negative, and its sign goes last.
    reduced[lowest] = _reduced(_INT_MIN, shards)
    return reduced.astype(np.int32)


def _reduced(hash_value: int, shards: int) -> int:
    if hash_value == _INT_MIN:
        return (1 << 31) % shards
    return abs(hash_value) % shards


def _encoded(column: StringColumn) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A column's distinct values, and the index of each row's value."""
    merged: Any = one_chunk(column)
    encoded: Any = merged if isinstance(merged, pa.DictionaryArray) else merged.dictionary_encode()
    indices = to_numpy(encoded.indices).astype(np.int64)
    return indices, encoded.dictionary.to_pylist()


def _matrix(hashes: Iterable[bytes], width: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, width)
