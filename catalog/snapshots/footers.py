"""Column statistics and bloom filters of record keys from Parquet footers, for files that no index describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.row_groups import column_statistics
from pushdown.evaluation.statistics import ColumnStatistics
from table_format.base_file.bloom import BloomFilter
from table_format.base_file.footer import BaseFileFooter, FooterStatistics, footer, footer_statistics
from table_format.errors import CorruptFileError, MissingFileError


def read_footer_statistics(
    snapshot: Snapshot, rows: NDArray[np.int64], columns: Mapping[str, pa.DataType], threads: int
) -> dict[str, ColumnStatistics]:
    """Statistics of some columns in some files; each footer is read once in the life of the snapshot.

    Args:
        snapshot: whose files they are.
        rows: positions of the files in the snapshot.
        columns: the columns' types in the snapshot's schema, by name.
        threads: footers read at once.

    Returns:
        By column, one entry for each of `rows`; null where the footer has none, or the file cannot be read (reading
        its rows reports that).
    """
    cache = snapshot.footers
    stored = {column: kind for column, kind in columns.items() if column not in snapshot.path_columns}
    # a base file's footer says nothing of its log files, nor under which name it holds a column
    readable = [int(row) for row in rows if not snapshot.has_logs[row] and snapshot.schema_history is None]
    unread = [row for row in readable if any((row, column) not in cache for column in stored)]
    statistics = {(row, column): cache.get((row, column)) for row in readable for column in stored}
    with ThreadPoolExecutor(threads, thread_name_prefix="hudi-footer") as pool:
        by_row = pool.map(lambda row: _read(snapshot, str(snapshot.path(row)), stored), unread)
        for row, of_file in zip(unread, by_row, strict=True):
            for column, of_column in of_file.items():
                cache.put((row, column), of_column)
                statistics[row, column] = of_column
    return {
        column: column_statistics([statistics.get((int(row), column)) for row in rows], kind)
        for column, kind in columns.items()
    }


def read_key_filters(snapshot: Snapshot, rows: Iterable[int], threads: int) -> dict[int, BloomFilter]:
    """Bloom filters of the record keys in some files; each footer is read once in the life of the snapshot.

    Args:
        snapshot: whose files they are.
        rows: positions of files with a base file and without log files.
        threads: footers read at once.

    Returns:
        By position, the filters of the files whose footer has one of all their keys.
    """
    cache = snapshot.key_filters
    filters = {row: cache.get(row) for row in rows}
    unread = [row for row, bloom in filters.items() if bloom is None and row not in cache]
    with ThreadPoolExecutor(threads, thread_name_prefix="hudi-footer") as pool:
        for row, bloom in zip(unread, pool.map(lambda row: _key_filter(snapshot, row), unread), strict=True):
            cache.put(row, bloom)
            filters[row] = bloom
    return {row: bloom for row, bloom in filters.items() if bloom is not None}


def _key_filter(snapshot: Snapshot, row: int) -> BloomFilter | None:
    try:
        return footer(snapshot.client.storage, str(snapshot.path(row))).bloom
    except (MissingFileError, CorruptFileError):
        return None


def _read(snapshot: Snapshot, path: str, columns: Mapping[str, pa.DataType]) -> dict[str, FooterStatistics | None]:
    try:
        file_footer = footer(snapshot.client.storage, path)
    except (MissingFileError, CorruptFileError):
        return dict.fromkeys(columns)
    return {column: _of_footer(file_footer, column, kind) for column, kind in columns.items()}


def _of_footer(whole: BaseFileFooter, column: str, kind: pa.DataType) -> FooterStatistics | None:
    names = whole.schema.names
    if column not in names and any(column.startswith(f"{name}.") for name in names):
        return None  # a field of a struct, whose nulls are not counted apart from the struct's
    try:
        return footer_statistics(whole, column, kind)
    except (ValueError, OverflowError, pa.ArrowException):  # bounds beyond what Python's types hold
        return None
