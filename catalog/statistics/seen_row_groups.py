"""Row groups that the writers of a table's largest files closed, as the files' footers show.

Nothing in a table says with which `hoodie.parquet.block.size` another tool wrote it, and statistics that may hide a row
group (`merged_ranges`) can only be told by the size at which one is closed. Writers with a small block size show it in
the largest file of a commit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.concurrency.caches import LruCache
from table_format.base_file.footer import BaseFileFooter, footer
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import CorruptFileError, MissingFileError, StorageError
from table_format.slices.file_slices import with_paths
from table_format.storage import Storage

MOST_FOOTERS = 8
"""Footers that are read for one column at most: of the largest files, one a commit."""
_LARGEST = 128
_REMEMBERED = 4_096
_TRAPS = "parquet-mr"


class SeenRowGroups:
    """What the footers of a table's largest files show; threads may share it.

    Args:
        storage: rooted at the table's base folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._least: LruCache[str, int | None] = LruCache(_REMEMBERED)

    def least(self, files: pa.Table) -> int | None:
        """The least size in bytes at which Parquet's Java writer closed a row group of some files' largest.

        Args:
            files: with the columns `partition`, `file_name`, `size` and `instant`, file slices without a base file
                among them.

        Returns:
            None if each file that was looked at has one row group, or is of a writer whose footers hide nothing. 0 if
            the storage does not let one be read.
        """
        paths = _largest(files)
        unread = [path for path in paths if path not in self._least]
        if unread:
            try:
                with ThreadPoolExecutor(len(unread), thread_name_prefix="hudi-footer") as pool:
                    for path, size in zip(unread, pool.map(self._closed, unread), strict=True):
                        self._least.put(path, size)
            except StorageError:  # such as a planner without the right to read data
                return 0
        sizes = [size for size in map(self._least.get, paths) if size is not None]
        return min(sizes, default=None)

    def _closed(self, path: str) -> int | None:
        try:
            return _least_closed(footer(self._storage, path))
        except (MissingFileError, CorruptFileError):  # reading its rows reports it
            return None


def _least_closed(whole: BaseFileFooter) -> int | None:
    """The least row group of a file but its last, which is as small as it happens to be."""
    metadata = whole.metadata
    if not (metadata.created_by or "").startswith(_TRAPS):
        return None
    return min((_compressed(metadata.row_group(at)) for at in range(metadata.num_row_groups - 1)), default=None)


def _compressed(group: pa.parquet.RowGroupMetaData) -> int:
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))


def _largest(files: pa.Table) -> list[str]:
    """Paths of the largest base files, one a commit, the largest first."""
    sizes = np.where(valid_mask(one_chunk(files.column("file_name"))), to_numpy(one_chunk(files.column("size"))), -1)
    rows = np.arange(len(sizes))
    if len(rows) > _LARGEST:
        rows = np.argpartition(sizes, -_LARGEST)[-_LARGEST:]
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    chosen = with_paths(files.select(["partition", "file_name", "instant"]).take(from_numpy(rows[sizes[rows] >= 0])))
    paths: dict[Any, str] = {}
    for instant, path in zip(chosen.column("instant").to_pylist(), chosen.column("path").to_pylist(), strict=True):
        paths.setdefault(instant, str(path))
    return list(paths.values())[:MOST_FOOTERS]
