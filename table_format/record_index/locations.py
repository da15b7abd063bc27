"""The columns in which locations of records are handed about."""

from __future__ import annotations

import pyarrow as pa

_LOCATIONS: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "instant_ms": pa.int64(),
    "position": pa.int64(),
}
LOCATIONS_SCHEMA = pa.schema(_LOCATIONS)
"""A location: record key, partition path, file id, the instant that put the record there (epoch milliseconds of the
instant in the writer's zone, as the index stores it), and the record's row in the base file where the index says so."""

_CHANGES: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "deleted": pa.bool_(),
}
CHANGES_SCHEMA = pa.schema(_CHANGES)
"""What a write does to the index: keys with their new place, or deleted keys (file id null; the partition matters in a
partition-scoped index only). Where one write does both to a key, as in a move between partitions, the place counts."""
