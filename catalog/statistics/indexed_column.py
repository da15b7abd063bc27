"""One column's statistics in each file slice of a snapshot, as columns."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pushdown.evaluation.statistics import ColumnStatistics
from table_format.codecs.arrow_numpy import from_numpy


@dataclass(frozen=True, eq=False)
class ColumnPart:
    """One column in some of the slices.

    Attributes:
        statistics: one entry for each slice; null where nothing is known.
        present: for each slice, whether all its files have an entry.
        row_count: rows of each slice, null where not known.
    """

    statistics: ColumnStatistics
    present: NDArray[np.bool_]
    row_count: pa.Array[Any]

    def __len__(self) -> int:
        return len(self.present)

    @classmethod
    def unknown(cls, kind: pa.DataType, count: int) -> ColumnPart:
        """A part of `count` slices in which nothing is known of a column of this type."""
        statistics = ColumnStatistics.unknown(kind, count)
        return cls(statistics, np.zeros(count, np.bool_), statistics.row_count)

    def take(self, rows: NDArray[np.int64]) -> ColumnPart:
        """Some of the slices."""
        return ColumnPart(self.statistics.take(rows), self.present[rows], self.row_count.take(from_numpy(rows)))

    @classmethod
    def joined(cls, parts: Sequence[ColumnPart]) -> ColumnPart:
        """The slices of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns: list[Any] = [
            pa.concat_arrays([getattr(part.statistics, name) for part in parts])
            for name in ("lower", "upper", "null_count", "row_count")
        ]
        # If the bounds of one part may leave NaN out, so may those of the whole.
        cover = all(part.statistics.bounds_cover_nan for part in parts)
        certain = all(part.statistics.all_null_is_certain for part in parts)
        return cls(
            ColumnStatistics(
                columns[0], columns[1], columns[2], columns[3], bounds_cover_nan=cover, all_null_is_certain=certain
            ),
            np.concatenate([part.present for part in parts]),
            pa.concat_arrays([part.row_count for part in parts]),
        )


class IndexedColumn:
    """One column in all slices: one part for those that the table was loaded with, one for those of later commits.

    The first part, which is large, is shared by the snapshots of a table that is held open, with the results that are
    memoized for it.
    """

    def __init__(self, main: ColumnPart, tail: ColumnPart | None = None) -> None:
        self.parts = (main,) if tail is None or not len(tail) else (main, tail)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @functools.cached_property
    def _whole(self) -> ColumnPart:
        return ColumnPart.joined(self.parts)

    @property
    def statistics(self) -> ColumnStatistics:
        """One entry for each slice; null where nothing is known."""
        return self._whole.statistics

    @functools.cached_property
    def present(self) -> NDArray[np.bool_]:
        """For each slice, whether all its files have an entry."""
        return np.concatenate([part.present for part in self.parts])

    @functools.cached_property
    def all_present(self) -> bool:
        """Whether all files of all slices have an entry."""
        return all(bool(part.present.all()) for part in self.parts)

    @functools.cached_property
    def row_count(self) -> pa.Array[Any]:
        """Rows of each slice, null where not known."""
        return pa.concat_arrays([part.row_count for part in self.parts])

    def take(self, rows: NDArray[np.int64]) -> ColumnPart:
        """Some of the slices, by their positions in ascending order."""
        if len(self.parts) == 1:
            return self.parts[0].take(rows)
        main, tail = self.parts
        split = int(np.searchsorted(rows, len(main)))
        return ColumnPart.joined([main.take(rows[:split]), tail.take(rows[split:] - len(main))])

    def with_part(self, part: ColumnPart) -> IndexedColumn:
        """The column with some slices more."""
        main, *tail = self.parts
        return IndexedColumn(main, ColumnPart.joined([*tail, part]))

    @property
    def nbytes(self) -> int:
        """Bytes of memory, with those of the comparable form that planning makes of it."""
        return sum(_bytes_of(part) for part in self.parts)


def _bytes_of(part: ColumnPart) -> int:
    stats = part.statistics
    stored = sum(int(array.nbytes) for array in (stats.lower, stats.upper, stats.null_count, stats.row_count))
    # The bounds once more in comparable form, six masks, and the order of the files.
    return stored + int(stats.lower.nbytes + stats.upper.nbytes) + 11 * len(part)


def concat_statistics(parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """The entries of several statistics of one column, one after the other."""
    every = [ColumnPart(part, np.ones(len(part), np.bool_), part.row_count) for part in parts]
    return ColumnPart.joined(every).statistics
