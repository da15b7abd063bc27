"""Limits on the length of names and paths, and refusal of longer partition paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from table_format.errors import RecordError
from table_format.metadata_table.record_index_layout import family_partition
from table_format.storage import Storage

_OBJECT_KEY: Final = 1024
"""Bytes of an object's key in S3 and Google Cloud Storage."""
_AROUND: Final = 160
"""Bytes that the longest path of a write has besides base folder and partition path: that of a marker, which is
`.hoodie/.temp/<instant>/<partition>/<file id>_<write token>_<instant>.parquet.marker.CREATE`."""
_BEHIND_FAMILY: Final = 64
"""Bytes of a file's name in a record index by partition besides the partition's own."""
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class PathLimits:
    """The limits of a table's storage.

    Attributes:
        name: bytes of the name of a file or folder; None for no limit.
        path: bytes of a partition path that files can be written to.
    """

    name: int | None
    path: int

    @classmethod
    def of(cls, storage: Storage) -> PathLimits | None:
        """The limits of a table's storage; None if unknown, as for HDFS, whose limits are options of its NameNode."""
        base = len(os.fsencode(storage.base)) + _AROUND
        if storage.is_local:
            try:
                # the limit includes the zero byte at the end
                name, path = os.pathconf(storage.base, "PC_NAME_MAX"), os.pathconf(storage.base, "PC_PATH_MAX") - 1
            except (AttributeError, OSError, ValueError):  # not a POSIX system, or it has no such limit
                return None
            return cls(name, path - base) if name > 0 and path > 0 else None
        if storage.filesystem.type_name in ("s3", "gcs"):
            # the bucket's name is not part of the key
            return cls(None, _OBJECT_KEY - base + len(storage.base.split("/", 1)[0]) + 1)
        return None

    def refuse_long(self, partitions: Any) -> None:
        """Refuse partition paths that no file can be written to.

        Args:
            partitions: partition paths, a string array; few, such as the values of a dictionary.

        Raises:
            RecordError: one is too long, or a folder's name in it.
        """
        least = self.path if self.name is None else min(self.name, self.path)
        lengths = pc.binary_length(partitions)
        for partition in partitions.filter(pc.greater(lengths, least)).to_pylist():
            size = len(partition.encode())
            if size > self.path:
                raise _too_long(partition, f"has {size} bytes, and the table's storage takes at most {self.path}")
            for name in partition.split("/"):
                size = len(name.encode())
                if self.name is not None and size > self.name:
                    what = f"has a folder name of {size} bytes, {_shown(name)}: the file system takes {self.name}"
                    raise _too_long(partition, what)

    def refuse_long_families(self, prefixes: Iterable[str]) -> None:
        """Refuse partition paths after which a record index by partition cannot name its files.

        Args:
            prefixes: file id prefixes of partitions, see `partition_family`.

        Raises:
            RecordError: one is too long.
        """
        for prefix in prefixes:
            size = len(prefix.encode()) + _BEHIND_FAMILY
            if self.name is not None and size > self.name:
                what = f"gives files of the record index names of {size} bytes: the file system takes {self.name}"
                raise _too_long(family_partition(prefix), what, "give the table a global record index")


def _too_long(partition: str, what: str, other: str = "leave these rows out") -> RecordError:
    return RecordError(
        f"partition path {_shown(partition)} {what}. Nothing was written: partition by a shorter value, such as a "
        f"prefix or a hash of it, or {other}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
