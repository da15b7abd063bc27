"""The files that Hive reads for the slices of a snapshot.

Base files as they are; materialized copies of slices with log files, and of base files with a column that Hive would
misread.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache, memoize
from catalog.concurrency.late_tables import LateTables
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.materialization import Materializer
from hudi_catalog.hive.options import MATERIALIZE, QUERY_TYPE, HiveOptions
from hudi_catalog.metastore.stored_columns import HIVE_RULES, StoredTypes, differing_names
from table_format.codecs.arrow_numpy import one_chunk, valid_mask
from table_format.errors import UnsupportedTableError

_MOST_TABLES: Final = 1000


class MisreadColumns:
    """Which columns of base files Hive would misread, by the instant that wrote the files; thread-safe."""

    def __init__(self) -> None:
        self._types: LruCache[str, StoredTypes] = LruCache(_MOST_TABLES)

    def of(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, dict[str, str]]:
        """The columns that Hive would misread in the base files of some slices.

        Args:
            snapshot: of the table.
            rows: positions of slices.

        Returns:
            By the instant that wrote the files: by lower-case column name, what is wrong with it.

        Raises:
            UnsupportedTableError: columns were renamed or dropped and the schema of these files is unknown.
        """
        config = snapshot.config
        absent = config.partition_fields if config.drop_partition_columns else ()
        misread = {}
        for instant, types in self._stored_types(snapshot).misread(snapshot, rows).items():
            if types is None:  # unreadable: materializing reports the error
                misread[instant] = {name.lower(): "cannot be read" for name in snapshot.schema.names}
                continue
            wrong = {name: f"have it as {kind}" for name, kind in types.items()}
            wrong |= dict.fromkeys(
                _differing_names(snapshot, instant), "have it otherwise, or have another of its name"
            )
            wrong |= dict.fromkeys(absent, "lack it, because it is a partition column")
            misread[instant] = {name.lower(): why for name, why in wrong.items()}
        return {instant: wrong for instant, wrong in misread.items() if wrong}

    def _stored_types(self, snapshot: Snapshot) -> StoredTypes:
        uri = snapshot.client.storage.uri
        return self._types.get(uri) or self._types.setdefault(uri, StoredTypes(HIVE_RULES))


def _differing_names(snapshot: Snapshot, instant: str) -> list[str]:
    return memoize(snapshot, ("differing names", instant), lambda: differing_names(snapshot, instant))


_LOGS = f"log files change its base files; {QUERY_TYPE}=read_optimized ignores them"


@dataclass(frozen=True, eq=False)
class HiveSlices:
    """The file slices that Hive reads, each of one Parquet file.

    Attributes:
        slices: with a materialized copy as base file where Hive would misread the slice.
        materialized: for each slice, whether its base file is such a copy, with the table's current columns and types.
    """

    slices: list[FileSlice]
    materialized: NDArray[np.bool_]


class HiveFiles:
    """Finds the files to read, and materializes slices where needed; thread-safe.

    Args:
        options: of the service.
        late: watches for storage that does not answer.
    """

    def __init__(self, options: HiveOptions, late: LateTables | None = None) -> None:
        self._misread = MisreadColumns()
        self._copies = Materializer(options.materialized_retention, options.materialized_threads, late)

    def close(self) -> None:
        """Materialize nothing more; copies in progress are finished."""
        self._copies.close()

    def files(
        self,
        snapshot: Snapshot,
        rows: NDArray[np.int64],
        *,
        columns: Collection[str] | None,
        materialize: bool,
    ) -> HiveSlices:
        """The files of some slices in their order; returns once all of them exist.

        Args:
            snapshot: of the table.
            rows: positions of slices in the snapshot.
            columns: names of the columns to read, including the filter's; None for all.
            materialize: whether copies may be made.

        Raises:
            UnsupportedTableError: Hive would misread files, and no copies may be made.
            StorageError: a copy cannot be written.
            HudiError: a file to be copied cannot be read.
        """
        taken = snapshot.take_files(rows)
        has_base = valid_mask(one_chunk(taken.column("path")))
        copied = snapshot.has_logs[rows] | ~has_base
        why = _LOGS
        wrong = self._wrong(snapshot, rows[~copied], columns)
        if wrong:
            instants: list[Any] = taken.column("instant").to_pylist()
            copied |= np.array([instant in wrong for instant in instants], np.bool_) & has_base
            why = next(iter(wrong.values()))
        slices = snapshot.file_slices(rows)
        places = np.flatnonzero(copied)
        if len(places) and not materialize:
            raise UnsupportedTableError(
                f"{snapshot.config.name}: Hive would misread it: {why}; let the service materialize its files "
                f"({MATERIALIZE}=true), or rewrite them (compaction, clustering)"
            )
        for place, copy in zip(places, self._copies.of(snapshot, rows[places]), strict=True):
            slices[place] = replace(slices[place], base=copy.path, base_size=copy.size, length=copy.size, logs=())
        return HiveSlices(slices, copied)

    def _wrong(self, snapshot: Snapshot, rows: NDArray[np.int64], columns: Collection[str] | None) -> dict[str, str]:
        """For each instant whose base files have a column to read that Hive would misread, the reason."""
        if not len(rows):
            return {}
        read = None if columns is None else {name.lower() for name in columns}
        wrong = {}
        for instant, reasons in self._misread.of(snapshot, rows).items():
            for column, reason in reasons.items():
                if read is None or column in read:
                    wrong[instant] = f"its files of {instant} {reason} (column {column})"
        return wrong
