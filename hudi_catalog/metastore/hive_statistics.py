"""Statistics of a table as Hive's optimizer takes them: by the sync for its metastore, by the service for a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.summary import UNKNOWN_ROWS, exact_row_counts, summarize
from table_format.meta_columns import META_COLUMNS

_MOST_COLUMNS: Final = 200
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True)
class HiveColumnStatistics:
    """Statistics of one column, None where not known.

    Attributes:
        name: in lower case.
        kind: the column's type.
        nulls: values that are null.
        low: least value: days of dates, seconds of timestamps, else the number.
        high: greatest value.
        distinct: an estimate of the number of distinct values.
        length: an estimate of the mean length of texts in bytes.
    """

    name: str
    kind: pa.DataType
    nulls: int | None = None
    low: float | None = None
    high: float | None = None
    distinct: int | None = None
    length: float | None = None


@dataclass(frozen=True)
class HiveStatistics:
    """Statistics of a snapshot.

    Attributes:
        files: number of its base files.
        bytes: of its files.
        rows: or an estimate of them; None if no file could be opened.
        exact: whether `rows` is what ``count(*)`` gives.
        columns: those of which something is known.
    """

    files: int
    bytes: int
    rows: int | None
    exact: bool
    columns: tuple[HiveColumnStatistics, ...]


def hive_statistics(snapshot: Snapshot) -> HiveStatistics:
    """Statistics of a snapshot, by its metadata table; rows are estimated where that has no counts.

    Args:
        snapshot: of the table; whether log files count is its query type's.
    """
    rows = snapshot.live_rows
    shown = [field for field in snapshot.schema if field.name not in META_COLUMNS][:_MOST_COLUMNS]
    kinds = {field.name.lower(): field.type for field in shown}
    summary = summarize(snapshot, rows, {field.name.lower(): (field.name, field.type, field.type) for field in shown})
    counts = exact_row_counts(snapshot, rows)
    exact = bool((counts != UNKNOWN_ROWS).all())
    total = int(counts.sum()) if exact else summary.estimated_rows
    columns = (
        _column(name, kinds[name], known, total) for name, known in summary.columns.items() if name in kinds and known
    )
    return HiveStatistics(len(rows), snapshot.live_bytes, total, exact, tuple(columns))


def _column(name: str, kind: Any, known: dict[str, float], rows: int | None) -> HiveColumnStatistics:
    scale = _MICROSECONDS if pa.types.is_timestamp(kind) else 1
    nulls = None if rows is None or "nulls" not in known else round(known["nulls"] * rows)
    filled = None if rows is None else rows - (nulls or 0)
    return HiveColumnStatistics(
        name,
        kind,
        nulls,
        known["low"] / scale if "low" in known else None,
        known["high"] / scale if "high" in known else None,
        round(known["distinct"]) if "distinct" in known else None,
        known["bytes"] / filled if "bytes" in known and filled else None,
    )
