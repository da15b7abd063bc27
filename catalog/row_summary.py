"""What statistics say of many files together: rows, and each column's nulls, bounds and distinct values.

Optimisers of engines take them. Bounds are believed as for pruning; where they rest on an estimate, that is said.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import LruCache, memoize
from catalog.distinct_values import draws, in_part
from catalog.slices.slice_set import Rows
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.indexed_column import ColumnPart
from pushdown.verdict import CannotPrune
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import CorruptFileError, MissingFileError
from table_format.meta_columns import META_COLUMNS

types = pa.types
UNKNOWN_ROWS = -1
_SAMPLED_FILES = 4
_MOST_COUNTED_BY = 8
#: Of numbers that lie in so wide a range many may be missing, as of order numbers that have gaps.
_MANY_BETWEEN_BOUNDS = 10_000
_MOST_COLUMNS = 200
_MOST_KEPT = 64


@dataclass(frozen=True)
class RowSummary:
    """Statistics of some file slices.

    Attributes:
        rows: how many they have; None where the metadata table does not count each.
        estimated_rows: `rows`, else an estimate; None only where no file could be opened.
        columns: by the name that the caller gave, each with what is known of `nulls` (a fraction), `low` and `high`
            (days of dates, microseconds of times), `distinct`, `bytes` (of texts, all together), and `spread`: which
            part of the table's range a file has on average, 1 where each has all of it.
    """

    rows: int | None
    estimated_rows: int | None
    columns: dict[str, dict[str, float]]


def summarize(
    snapshot: Snapshot, rows: Rows, columns: Mapping[str, tuple[str, Any, Any]], *, draw: bool = True
) -> RowSummary:
    """Statistics of some slices.

    Distinct values are those of partitions and of a single record key; of whole numbers and dates as many as lie
    between the bounds of the files, which is how days and numbers of things mostly are. Where these are many, and of
    other columns, rows of two files tell.

    Args:
        snapshot: of the table.
        rows: positions of the slices, ascending.
        columns: by the caller's name, the name in the table, the type there, and the type without Arrow's variants.
        draw: read rows for estimates.

    Returns:
        Kept with the snapshot and given again: engines ask for the same files several times a query.
    """
    if not len(rows):
        return RowSummary(0, 0, {})
    kept: LruCache[Any, RowSummary] = memoize(snapshot, "row summaries", lambda: LruCache(_MOST_KEPT))
    slices = hashlib.blake2b(rows.tobytes()).digest()
    key = (slices, tuple(columns.items()), draw)
    known = kept.get(key)
    return kept.setdefault(key, _summary(snapshot, rows, columns, draw=draw)) if known is None else known


def _summary(snapshot: Snapshot, rows: Rows, columns: Mapping[str, tuple[str, Any, Any]], *, draw: bool) -> RowSummary:
    simple = {name: column for name, column in columns.items() if not types.is_nested(column[2])}
    known, counts = _indexed(snapshot, rows, simple)
    exact = None if counts is None or counts.null_count else int(pc.sum(counts).as_py() or 0)
    estimate = exact if exact is not None else _estimated_rows(snapshot, rows, counts)
    for name, distinct in _partition_values(snapshot, rows).items():
        known.setdefault(name.lower(), {}).update({"distinct": distinct, "spread": 1 / max(distinct, 1)})
        simple.pop(name.lower(), None)
    if estimate is not None:
        keys = [name.lower() for name in snapshot.config.record_key_fields]
        if len(keys) == 1 and keys[0] in known:
            known[keys[0]]["distinct"] = estimate
            simple.pop(keys[0], None)
        for name, values in _estimated_distinct(snapshot, rows, simple, known, estimate).items() if draw else ():
            known.setdefault(name, {})["distinct"] = values
        for one in known.values():
            _complete(one, estimate)
    return RowSummary(exact, estimate, known)


def _indexed(
    snapshot: Snapshot, rows: Rows, columns: Mapping[str, tuple[str, Any, Any]]
) -> tuple[dict[str, dict[str, float]], Any]:
    """What the metadata table's statistics tell of each column, and the rows of each file; None if nothing does."""
    known: dict[str, dict[str, float]] = {}
    counts: Any = None
    for name, (source, kind, plain) in columns.items():
        indexed = snapshot.indexed_column(source, kind)
        if isinstance(indexed, CannotPrune):
            continue
        part = indexed.take(rows)
        if counts is None or part.row_count.null_count < counts.null_count:
            counts = part.row_count
        known[name] = _of_column(part, kind, plain)
    return known, counts


@dataclass(frozen=True)
class SnapshotSummary:
    """Statistics of a snapshot, or of some of its files, as optimisers of engines take them.

    Attributes:
        files: number of its file slices.
        bytes: of its files.
        rows: or an estimate of them; None if no file could be opened.
        exact: whether `rows` is what ``count(*)`` gives.
        columns: as in `RowSummary`, by lower-case name.
    """

    files: int
    bytes: int
    rows: int | None
    exact: bool
    columns: dict[str, dict[str, float]]


def summarize_snapshot(snapshot: Snapshot, rows: Rows | None = None, *, with_columns: bool = True) -> SnapshotSummary:
    """Statistics of files of a snapshot; rows are estimated where the metadata table does not count them.

    Args:
        snapshot: of the table; whether its log files count is its query type's.
        rows: positions of the slices, ascending; None for all.
        with_columns: load the statistics of all columns, not only of the one that tells the rows.
    """
    size = snapshot.live_bytes if rows is None else int(snapshot.sizes[rows].sum())
    rows = snapshot.live_rows if rows is None else rows
    shown = [field for field in snapshot.schema if field.name not in META_COLUMNS][:_MOST_COLUMNS]
    if not with_columns:
        shown = [field for field in shown if field.name in snapshot.config.record_key_fields[:1]]
    columns = {field.name.lower(): (field.name, field.type, field.type) for field in shown}
    summary = summarize(snapshot, rows, columns, draw=with_columns)
    counts = exact_row_counts(snapshot, rows)
    exact = bool((counts != UNKNOWN_ROWS).all())
    total = int(counts.sum()) if exact else summary.estimated_rows
    return SnapshotSummary(len(rows), size, total, exact, summary.columns)


def exact_row_counts(snapshot: Snapshot, rows: Rows) -> Any:
    """Rows of each of some slices as a query sees them; `UNKNOWN_ROWS` where not known for certain.

    Args:
        snapshot: of the table.
        rows: positions of the slices, ascending.
    """
    names = [*snapshot.config.record_key_fields, *snapshot.schema.names][:_MOST_COUNTED_BY]
    for name in names:
        if name not in snapshot.schema.names:
            continue
        indexed = snapshot.indexed_column(name, snapshot.schema.field(name).type)
        if not isinstance(indexed, CannotPrune):
            return without_logs(snapshot, rows, indexed.take(rows).row_count)
    return np.full(len(rows), UNKNOWN_ROWS, np.int64)


def without_logs(snapshot: Snapshot, rows: Rows, row_count: Any) -> Any:
    """Counts of slices as whole numbers, `UNKNOWN_ROWS` where log files may add, change or delete rows."""
    counts = pc.fill_null(row_count.cast(pa.int64()), UNKNOWN_ROWS).to_numpy(zero_copy_only=False)
    return np.where(snapshot.has_logs[rows] | (counts < 0), UNKNOWN_ROWS, counts)


def _estimated_distinct(
    snapshot: Snapshot,
    rows: Rows,
    columns: Mapping[str, tuple[str, Any, Any]],
    known: Mapping[str, Mapping[str, float]],
    count: int,
) -> dict[str, float]:
    """Estimates of how many distinct values columns have in some rows, where bounds and partitions do not tell.

    Args:
        snapshot: of the table.
        rows: positions of the slices.
        columns: as for `summarize`.
        known: of each column, without estimates.
        count: of the rows.
    """
    part = min(1.0, int(snapshot.sizes[rows].sum()) / max(1, snapshot.live_bytes))
    filled = {name: count * (1 - known.get(name, {}).get("nulls", 0.0)) for name in columns}
    bounded = {name: known.get(name, {}).get("distinct", math.inf) for name in columns}
    unclear = {
        name: column for name, column in columns.items() if bounded[name] >= min(filled[name], _MANY_BETWEEN_BOUNDS)
    }
    if not unclear or not part:
        return {}
    drawn = draws(snapshot, {source: kind for source, kind, _ in unclear.values()})
    estimates = {}
    for name, (source, _, _) in unclear.items():
        if source in drawn:
            values = filled[name] / part
            estimates[name] = min(bounded[name], in_part(drawn[source].among(values), values, part))
    return estimates


def _complete(column: dict[str, float], rows: int) -> None:
    """Limit distinct values by the rows that are not null, and take the bytes of texts times these."""
    filled = rows * (1 - column.get("nulls", 0.0))
    if "distinct" in column:
        column["distinct"] = min(column["distinct"], filled)
    if "text_bytes" in column:
        column["bytes"] = column.pop("text_bytes") * filled


def _estimated_rows(snapshot: Snapshot, rows: Rows, counts: Any) -> int | None:
    """Rows by the files' bytes, and by what the known ones of them hold; without any, by some footers of the table."""
    files = snapshot.take_files(rows)
    sizes = to_numpy(one_chunk(files.column("size")).fill_null(0)).astype(np.float64)
    sizes = np.where(sizes > 0, sizes, snapshot.sizes[rows])
    has_count = np.zeros(len(sizes), np.bool_) if counts is None else valid_mask(counts)
    total = 0.0 if counts is None else float(pc.sum(counts, min_count=0).as_py())
    per_byte = total / sizes[has_count].sum() if has_count.any() and sizes[has_count].sum() else _sampled(snapshot)
    return None if per_byte is None else int(total + per_byte * sizes[~has_count].sum())


def _sampled(snapshot: Snapshot) -> float | None:
    """Rows per byte of some base files; None if there is none that can be opened."""

    def sample() -> float | None:
        rows = snapshot.live_rows
        chosen = rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), _SAMPLED_FILES).astype(np.int64))[: len(rows)]]
        count = size = 0
        for path in filter(None, (snapshot.path(int(row)) for row in chosen)):
            try:
                one = footer(snapshot.client.storage, path)
            except (MissingFileError, CorruptFileError):
                continue
            count, size = count + one.row_count, size + one.size
        return count / size if size else None

    return memoize(snapshot, "rows per byte", sample)


def _of_column(part: ColumnPart, kind: Any, plain: Any) -> dict[str, float]:
    """Nulls, bounds, and a number of distinct values and bytes of a text, before the count of rows limits them."""
    stats = part.statistics
    known: dict[str, float] = {}
    counted = pc.and_(pc.is_valid(stats.null_count), pc.is_valid(part.row_count))
    rows = pc.sum(part.row_count.filter(counted), min_count=0).as_py()
    # few files tell nothing of the others: all their values may be null
    if (
        rows
        and 2 * pc.sum(counted).as_py() >= len(part)
        and not stats.null_count.filter(pc.is_valid(part.row_count)).null_count
    ):
        known["nulls"] = min(1.0, pc.sum(stats.null_count.filter(counted), min_count=0).as_py() / rows)
    if types.is_string(plain):
        lengths = pc.mean(pc.binary_length(pa.concat_arrays([stats.lower, stats.upper]))).as_py()
        return known if lengths is None else known | {"text_bytes": float(lengths)}
    if not _is_number_like(plain):
        return known
    believed = stats.believed(kind)
    if believed.lower is None or bool(believed.may_nan.any()):
        return known
    if np.any((believed.no_lower | believed.no_upper) & believed.may_value):
        return known
    low, high = _as_double(pc.min(stats.lower)), _as_double(pc.max(stats.upper))
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return known
    known |= {"low": low, "high": high, "spread": _spread(stats, high - low)}
    if types.is_integer(plain) or types.is_date(plain):
        known["distinct"] = min(high - low + 1, _between_bounds(stats, part.row_count))
    return known


def _between_bounds(stats: Any, counts: Any) -> float:
    """How many values the files can hold at most: of each what lies between its bounds, or its rows if that is less."""
    most = pc.min_element_wise(pc.add(_widths(stats), 1.0), counts.cast(pa.float64()))
    return float(pc.sum(most, min_count=0).as_py())


def _spread(stats: Any, width: float) -> float:
    """The mean width of the files' ranges in that of all of them; 1 if there is only one value."""
    mean = pc.mean(_widths(stats)).as_py()
    return 1.0 if mean is None or width <= 0 else min(1.0, mean / width)


def _widths(stats: Any) -> Any:
    """Greatest less least value of each file, as `_as_double` has them."""
    lower, upper = _counted(stats.lower), _counted(stats.upper)
    return pc.subtract(upper.cast(pa.float64(), safe=False), lower.cast(pa.float64(), safe=False))


def _counted(bounds: Any) -> Any:
    """Dates as days, times as microseconds since 1970: Python has no dates beyond the year 9999."""
    if types.is_date(bounds.type):
        return bounds.cast(pa.int32())
    if types.is_timestamp(bounds.type):
        return bounds.cast(pa.timestamp("us", bounds.type.tz), safe=False).cast(pa.int64())
    return bounds


def _is_number_like(kind: Any) -> bool:
    return bool(
        types.is_signed_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal128(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
    )


def _partition_values(snapshot: Snapshot, rows: Rows) -> dict[str, int]:
    """How many values the partition columns have in some slices, where all their paths give them."""
    values = snapshot.path_values()
    if isinstance(values, CannotPrune):
        return {}
    partitions = np.unique(snapshot.partition_index[rows])
    if not values.known[partitions].all():
        return {}
    return {name: len(column.take(from_numpy(partitions)).unique()) for name, column in values.values.items()}


def _as_double(bound: Any) -> float | None:
    """A bound as a number: dates in days, times in microseconds."""
    value = _counted(bound).as_py()
    return None if value is None else float(value)
