"""How well files are laid out for filters on a column: the share of them that a short range of its values keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.indexed_column import IndexedColumn
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import to_numpy
from table_format.errors import ArgumentError, SchemaError, did_you_mean

#: Ranges over which the share is averaged.
_RANGES: Final = 1000
_INT: Final = 32
_HUGE: Final = 1e300
_LEAST_WIDTH: Final = 1e-12

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """How well one column prunes.

    Attributes:
        column: its name.
        files: number of file groups.
        unknown: number of those whose range of values is not known, and which every filter keeps.
        kept: share of the files that a random range with `share` of the rows keeps, from 0 to 1; 1 where no range is
            known.
        reason: why no range is known; empty otherwise.
    """

    column: str
    files: int
    unknown: int
    kept: float
    reason: str = ""


def column_layouts(
    snapshot: Snapshot, columns: Sequence[str] | None = None, *, share: float = 0.01
) -> list[ColumnLayout]:
    """How well columns of a table prune, from the ranges of values that the metadata table has of each file.

    Between the bounds of files, rows are taken to be spread evenly.

    Args:
        snapshot: of the table.
        columns: their names; None for all that have ranges.
        share: of the rows that a range holds.

    Raises:
        SchemaError: there is no such column.
        ArgumentError: `share` is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ArgumentError(f"share={share}: give a number between 0 and 1")
    fields = {field.name: field.type for field in snapshot.schema}
    for name in columns or ():
        if name not in fields:
            raise SchemaError(
                f"no column {name!r}{did_you_mean(name, fields)}; columns are {snapshot.data_schema.names}"
            )
    names = columns if columns is not None else snapshot.data_schema.names
    by_kind: dict[pa.DataType, list[str]] = {}
    for name in dict.fromkeys(names):
        by_kind.setdefault(fields[name], []).append(name)
    layout_of = {
        name: _layout(snapshot, name, kind, indexed, share)
        for kind, some in by_kind.items()
        for name, indexed in _indexed(snapshot, some, kind)
    }
    layouts = [layout_of[name] for name in names]
    return layouts if columns is not None else [layout for layout in layouts if not layout.reason]


def _indexed(
    snapshot: Snapshot, names: Sequence[str], kind: pa.DataType
) -> Iterable[tuple[str, IndexedColumn | CannotPrune]]:
    if pa.types.is_nested(kind):
        return [(name, CannotPrune(f"{kind} has no order")) for name in names]
    return snapshot.indexed_columns(names, kind)


def _layout(
    snapshot: Snapshot, name: str, kind: pa.DataType, indexed: IndexedColumn | CannotPrune, share: float
) -> ColumnLayout:
    rows = snapshot.live_rows
    if isinstance(indexed, CannotPrune):
        return ColumnLayout(name, len(rows), len(rows), 1.0, indexed.reason)
    part = indexed.take(rows)
    believed = part.statistics.believed(kind)
    empty = ~believed.may_value & ~believed.may_nan
    unknown = (believed.no_lower | believed.no_upper | believed.may_nan | ~part.present) & ~(empty & part.present)
    known = np.flatnonzero(~unknown & ~empty)
    if unknown.all() and len(rows):
        return ColumnLayout(name, len(rows), len(rows), 1.0, "no file's range of values is known")
    counts = to_numpy(pc.fill_null(part.row_count, 1)).astype(np.float64)[known]
    lower, upper = (_at(bounds, known) for bounds in (part.statistics.lower, part.statistics.upper))
    kept = _kept(lower, upper, counts, share) + int(unknown.sum())
    return ColumnLayout(name, len(rows), int(unknown.sum()), kept / max(1, len(rows)))


def _at(column: Any, rows: npt.NDArray[np.int64]) -> Any:
    return column.take(pa.array(rows))


def _kept(lower: Any, upper: Any, counts: Numbers, share: float) -> float:
    """Average number of files that overlap a range with a share of the rows.

    Args:
        lower: least value of each file.
        upper: greatest value of each file.
        counts: rows of each file.
        share: of all rows.
    """
    if not len(counts):
        return 0.0
    coded = pa.concat_arrays([lower, upper]).dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[to_numpy(order)] = np.arange(len(ranks))
    places = ranks[to_numpy(coded.indices)]
    first, last = places[: len(counts)], places[len(counts) :]
    # even cells are bounds, odd ones what is between two of them
    below = np.cumsum(_masses(first, last, np.maximum(counts, 1), _widths(coded.dictionary.take(order))))
    starts = np.linspace(0, (1 - share) * below[-1], _RANGES)
    begin = np.searchsorted(below, starts, "right")
    end = np.searchsorted(below, starts + share * below[-1], "left")
    reached = np.searchsorted(np.sort(2 * first), end, "right")
    return float((reached - np.searchsorted(np.sort(2 * last), begin, "left")).mean())


def _masses(first: Places, last: Places, counts: Numbers, widths: Numbers) -> Numbers:
    """Rows in each cell: those of a file are spread evenly over its range."""
    points = np.bincount(first, np.where(first == last, counts, 0.0), len(widths) + 1)
    ends = np.concatenate([[0.0], np.cumsum(widths)])
    spread = np.flatnonzero(first < last)
    density = counts[spread] / (ends[last[spread]] - ends[first[spread]])
    steps = np.bincount(first[spread], density, len(points)) - np.bincount(last[spread], density, len(points))
    masses = np.empty(2 * len(points) - 1)
    masses[::2] = points
    masses[1::2] = np.maximum(np.cumsum(steps)[:-1], 0) * widths
    return masses


def _widths(bounds: Any) -> Numbers:
    """Distances between ascending different values, as numbers; greater than 0."""
    kind = bounds.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        texts: list[bytes] = pc.cast(bounds, pa.binary()).to_pylist()
        ends = (texts[0], texts[-1])
        differing = (at for at, (low, high) in enumerate(zip(*ends, strict=False)) if low != high)
        shared = next(differing, min(map(len, ends)))
        numbers = np.array([int.from_bytes(text[shared : shared + 8].ljust(8, b"\0")) for text in texts], np.float64)
    elif pa.types.is_temporal(kind):
        numbers = to_numpy(bounds.view(pa.int32() if kind.bit_width == _INT else pa.int64())).astype(np.float64)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = to_numpy(pc.cast(bounds, pa.float64(), safe=False))
    else:
        numbers = np.arange(len(bounds), dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        widths = np.nan_to_num(np.diff(numbers), nan=0.0, posinf=_HUGE)
        whole = float(widths.sum())
        return np.maximum(widths / whole if 0 < whole < np.inf else widths, _LEAST_WIDTH)
