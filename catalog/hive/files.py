"""The files that Hive reads of the slices of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.hive.options import HiveOptions
from catalog.snapshot import Snapshot
from table_format.errors import UnsupportedTableError


@dataclass(frozen=True, slots=True)
class HiveFile:
    """A Parquet file that Hive reads.

    Attributes:
        path: inside the table's folder.
        size: bytes.
        materialized: whether it was written for Hive, with the columns and types that the table has.
    """

    path: str
    size: int
    materialized: bool = False


class HiveFiles:
    """Finds the files to read.

    Args:
        options: of the service.
    """

    def __init__(self, options: HiveOptions) -> None:
        self._options = options

    def files(
        self,
        snapshot: Snapshot,
        rows: NDArray[np.int64],
        *,
        columns: Sequence[str] | None,  # noqa: ARG002
        materialize: bool,  # noqa: ARG002
    ) -> list[HiveFile]:
        """The files of some slices, in their order; slices without rows may have none.

        Args:
            snapshot: of the table.
            rows: positions of slices in it.
            columns: names of the columns that are read, in lower case; None for all.
            materialize: whether a file may be written where Hive cannot read what is there.

        Raises:
            UnsupportedTableError: Hive cannot read a slice's files, and none may be written.
        """
        if snapshot.has_logs[rows].any():
            raise UnsupportedTableError(f"{snapshot.config.name}: log files change its base files")
        taken = snapshot.take_files(rows)
        paths, sizes = taken.column("path").to_pylist(), taken.column("size").to_pylist()
        return [HiveFile(str(path), int(size or 0)) for path, size in zip(paths, sizes, strict=True)]
