"""Column statistics by file, and the rules by which they are believed.

A statistic may narrow a plan only if it is known to be sound; everything else counts as unknown. Each rule is for a way
in which rows were lost in Apache Hudi:

* bounds that contradict each other or the counts, or are NaN: unknown;
* ``[0.0, 0.0]`` on a floating-point column: unknown, for Parquet's Java writer leaves that where a chunk holds NaN;
* infinite or unknown floating-point bounds: the file may hold NaN, whatever its bounds;
* "all rows are null" on text and binary columns: unknown, for Apache Hudi records the same when Parquet left the
  statistics out because a value is long (unless the counts were cleared of that before);
* a null count that is absent: there may be nulls.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.functions import Function
from pushdown.images.chains import image_of
from pushdown.images.image import Bounds, Image, no_bounds
from pushdown.kinds import VARIABLE_WIDTH, Kind, kind_of
from pushdown.ordering import Mask, comparable, less

_MOST_DERIVED = 8


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """One column's statistics, one entry a file.

    Attributes:
        lower: no value of the column in the file is less; null is unknown. In the column's own type.
        upper: no value is greater; null is unknown. Need not be tight, for either bound.
        null_count: how many rows are null; null is unknown.
        row_count: how many rows there are, nulls included; null is unknown.
        bounds_cover_nan: whether finite bounds prove that there is no NaN. True for what Hudi's metadata table holds
            (a writer stores infinite bounds or none when there is a NaN); False for bounds of Parquet footers, which
            leave NaN out.
        all_null_is_certain: whether a null count as large as the row count is sound for text and binary columns too.
            False for what Apache Hudi's metadata table holds as it is, see above; True where the counts that may
            stand for missing statistics were made null already.
    """

    lower: pa.Array[Any]
    upper: pa.Array[Any]
    null_count: pa.Array[Any]
    row_count: pa.Array[Any]
    bounds_cover_nan: bool = True
    all_null_is_certain: bool = False
    _believed: dict[str, Believed] = field(default_factory=dict, init=False, repr=False)
    _derived: dict[Hashable, Believed] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "null_count", "row_count"):
            column: Any = getattr(self, name)
            if isinstance(column, pa.ChunkedArray):
                object.__setattr__(self, name, column.combine_chunks())
        lengths = {len(self.lower), len(self.upper), len(self.null_count), len(self.row_count)}
        if len(lengths) != 1:
            raise ValueError(f"statistics of one column have different lengths: {sorted(lengths)}")
        if self.lower.type != self.upper.type:
            raise ValueError(f"bounds of one column have different types: {self.lower.type} and {self.upper.type}")

    @classmethod
    def unknown(cls, kind: pa.DataType, count: int) -> ColumnStatistics:
        """Statistics of `count` files in which nothing is known of a column of this type."""
        nulls: Any = pa.nulls  # its stubs take one type at a time
        bounds, counts = nulls(count, kind), nulls(count, pa.int64())
        return cls(bounds, bounds, counts, counts, all_null_is_certain=True)

    def __len__(self) -> int:
        return len(self.lower)

    def take(self, indices: NDArray[np.int64]) -> ColumnStatistics:
        """The statistics of some of the files, in that order."""
        at: Any = pa.array(indices, pa.int64())
        return ColumnStatistics(
            self.lower.take(at),
            self.upper.take(at),
            self.null_count.take(at),
            self.row_count.take(at),
            bounds_cover_nan=self.bounds_cover_nan,
            all_null_is_certain=self.all_null_is_certain,
        )

    def of_function(self, function: Function, column_type: pa.DataType, time_zone: str) -> Believed:
        """The statistics that can be relied on for the results of a function of the column.

        Computed once for each of the last few functions.

        Args:
            function: one that `pushdown.images.chains.image_of` knows for the type.
            column_type: the column's.
            time_zone: the session's.
        """
        key = function, str(column_type), time_zone
        cached = self._derived.get(key)
        if cached is None:
            image = image_of(function, column_type, time_zone)
            if image is None:
                raise ValueError(f"{function.name} has no image for a column of type {column_type}")
            cached = _through(image, self.believed(column_type))
            for oldest in list(self._derived)[: -_MOST_DERIVED + 1]:
                self._derived.pop(oldest, None)
            self._derived[key] = cached
        return cached

    def believed(self, column_type: pa.DataType) -> Believed:
        """The statistics that can be relied on for a column of this type, computed once."""
        key = str(column_type)
        cached = self._believed.get(key)
        if cached is None:
            cached = _believe(self, column_type)
            self._believed[key] = cached
        return cached


@dataclass(frozen=True, eq=False)
class Believed:
    """Statistics that passed the rules, in comparable form; one entry a file.

    Attributes:
        lower: lower bounds, without meaning where `no_lower` is true; None if no file has a bound.
        upper: upper bounds, likewise with `no_upper`.
        no_lower: the lower bound is not known.
        no_upper: the upper bound is not known.
        may_null: a row may be null.
        may_value: a row may have a value.
        may_nan: a row may be NaN; only for floating-point columns, else all false.
    """

    lower: Any  # Comparable | None
    upper: Any  # Comparable | None
    no_lower: Mask
    no_upper: Mask
    may_null: Mask
    may_value: Mask
    may_nan: Mask


def _through(image: Image, believed: Believed) -> Believed:
    """Statistics of a function's results, of which as many are null and NaN as of its arguments."""
    if believed.lower is None:
        bounds = image.of(no_bounds(len(believed.may_null)))
    else:
        known = ~(believed.no_lower | believed.no_upper)
        bounds = image.of(Bounds(believed.lower, believed.upper, known))
    nulls, values, nan = believed.may_null, believed.may_value, believed.may_nan
    return Believed(bounds.lower, bounds.upper, ~bounds.known, ~bounds.known, nulls, values, nan)


def nothing_known(count: int) -> Believed:
    """The entry of a column without statistics."""
    yes, no = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    return Believed(None, None, yes, yes, yes, yes, no)


def _believe(stats: ColumnStatistics, column_type: pa.DataType) -> Believed:
    kind = kind_of(column_type)
    count = len(stats)
    if kind is Kind.OTHER:
        # Counts of nested columns are those of a field inside, if they are anything.
        return nothing_known(count)
    no_lower = no_upper = np.ones(count, np.bool_)
    lower, upper = comparable(stats.lower, column_type), comparable(stats.upper, column_type)
    if lower is None or upper is None:
        lower = upper = None
    else:
        no_lower, no_upper = _is_null(stats.lower), _is_null(stats.upper)
        unsound = ~(no_lower | no_upper) & less(upper, lower)
        if kind is Kind.FLOAT:
            unsound |= _doubtful_floats(lower, upper, no_lower, no_upper)
        no_lower, no_upper = no_lower | unsound, no_upper | unsound
    may_null, all_null, contradictory = _counts(stats)
    if kind is Kind.INTEGER and lower is not None and upper is not None:
        # Parquet's Java reader gives zeros for the bounds of a chunk without values, and Hudi stores them.
        empty = all_null & ~(no_lower | no_upper) & (lower == 0) & (upper == 0)
        no_lower, no_upper = no_lower | empty, no_upper | empty
    # A bound is a value's, so not all rows are null.
    contradictory |= all_null & ~(no_lower & no_upper)
    no_lower, no_upper = no_lower | contradictory, no_upper | contradictory
    may_null = may_null | contradictory
    doubted = kind in VARIABLE_WIDTH and not stats.all_null_is_certain
    may_value = np.ones(count, np.bool_) if doubted else ~all_null | contradictory
    may_nan = np.zeros(count, np.bool_)
    if kind is Kind.FLOAT:
        doubtful = no_lower | no_upper | _infinite(lower) | _infinite(upper)
        may_nan = may_value & doubtful if stats.bounds_cover_nan else may_value
    return Believed(lower, upper, no_lower, no_upper, may_null, may_value, may_nan)


def _infinite(bounds: Any) -> Any:
    return False if bounds is None else np.isinf(bounds)


def _doubtful_floats(lower: Any, upper: Any, no_lower: Mask, no_upper: Mask) -> Mask:
    nan = (np.isnan(lower) & ~no_lower) | (np.isnan(upper) & ~no_upper)
    zeros = (lower == 0) & (upper == 0)
    doubtful: Mask = nan | zeros
    return doubtful


def _counts(stats: ColumnStatistics) -> tuple[Mask, Mask, Mask]:
    """Masks: there may be nulls; all rows are null by the counts; the counts contradict each other."""
    no_nulls, no_rows = _is_null(stats.null_count), _is_null(stats.row_count)
    nulls, rows = _integers(stats.null_count), _integers(stats.row_count)
    contradictory = (~no_nulls & (nulls < 0)) | (~no_rows & (rows <= 0)) | (~no_nulls & ~no_rows & (nulls > rows))
    may_null = no_nulls | (nulls > 0) | contradictory
    all_null = ~no_nulls & ~no_rows & (nulls == rows) & ~contradictory
    return may_null, all_null, contradictory


def _is_null(array: pa.Array[Any]) -> Mask:
    mask: Mask = pc.is_null(array).to_numpy(zero_copy_only=False)
    return mask


def _integers(array: pa.Array[Any]) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return numbers
