"""The file that makes a folder a partition: `.hoodie_partition_metadata`."""

from __future__ import annotations

import contextlib
from typing import Final

from table_format.config.properties import format_properties
from table_format.errors import AlreadyExistsError
from table_format.storage import Storage

NAME: Final = ".hoodie_partition_metadata"
#: Forms that tables with `hoodie.partition.metafile.use.base.format` have instead.
NAMES: Final = frozenset({NAME, f"{NAME}.parquet", f"{NAME}.orc"})


def partition_depth(partition: str) -> int:
    """Folders between the table's base and the partition; 0 for a table without partitions."""
    return len(partition.split("/")) if partition else 0


def ensure_partition_metadata(storage: Storage, partition: str, instant: str) -> bool:
    """Write a partition's metadata file unless it is there; it precedes the partition's first data file.

    Returns:
        Whether the partition is new.
    """
    path = f"{partition}/{NAME}" if partition else NAME
    if storage.exists(path):
        return False
    values = {"commitTime": instant, "partitionDepth": str(partition_depth(partition))}
    # two tasks may both find it missing; the content is the same
    with contextlib.suppress(AlreadyExistsError):
        storage.create(path, format_properties(values, "partition metadata"))
    return True
