"""The order of rows in clustered files: by columns one after the other, or along a curve through all of them.

Rows get codes, numbers that rise with the order of rows. Values of any type become numbers by their rank in a sample,
so that each axis of a curve is divided evenly whatever the distribution of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.keys.key_order import sorted_order
from table_format.meta_columns import RECORD_KEY
from table_writer.clustering.curves import Axis, Codes, axis_bits, hilbert, z_order
from table_writer.clustering.cuts import CODE_BITS, Boxes, Cuts, Rows
from table_writer.rows.ordering import ordering_columns


class Layout(Enum):
    """How columns order rows; the values are Apache's, of `hoodie.layout.optimize.strategy`."""

    LINEAR = "linear"
    Z_ORDER = "z-order"
    HILBERT = "hilbert"


@dataclass(frozen=True)
class Scale:
    """Ranks of a column's values in a sample.

    Attributes:
        values: different values of the sample, ascending, as `ordering_columns` gives them.
        below: for each cell, the number of sampled values below it. Cells are, in order: null; the values below the
            first of `values`, that value, those between it and the next one, and so on.
    """

    values: Any
    below: Rows

    @classmethod
    def of(cls, sample: Any) -> Self:
        """The scale of a sample, an array of `ordering_columns`."""
        present = sample.drop_null()
        counted = present.value_counts()
        order = pc.sort_indices(counted.field("values"))
        counts = to_numpy(counted.field("counts").take(order)).astype(np.int64)
        below = np.full(2 * len(counts) + 2, sample.null_count, np.int64)
        below[0] = 0
        below[3::2] += np.cumsum(counts)
        below[2::2] += np.cumsum(counts) - counts
        return cls(counted.field("values").take(order), below)

    def cells(self, column: Any) -> Rows:
        """The cell of each value; even cells hold a single value, or null."""
        cells: Rows = np.zeros(len(column), np.int64)
        valid = valid_mask(column)
        present = column if valid.all() else column.drop_null()
        bounds, values = _numbers(self.values), _numbers(present)
        if bounds is None or values is None:
            places = _cells(self.values, present)
        else:
            left = np.searchsorted(bounds, values, "left")
            places = 1 + 2 * left + _equal(bounds, left, values)
        cells[valid] = places
        return cells

    def coordinates(self, column: Any, bits: int) -> npt.NDArray[np.uint16]:
        """The share of the sample below each value, as a number of so many bits."""
        most = (1 << bits) - 1
        total = max(1, int(self.below[-1]))
        scaled = np.minimum(self.below * (1 << bits) // total, most).astype(np.uint16)
        return scaled[self.cells(column)]


def _equal(
    bounds: npt.NDArray[np.int64], places: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the bound at each value's place is the value."""
    if not len(bounds):
        return np.zeros(len(values), np.bool_)
    equal: npt.NDArray[np.bool_] = bounds[np.minimum(places, len(bounds) - 1)] == values
    return equal


def _cells(bounds: Any, values: Any) -> Rows:
    """The cells of values of any type that Arrow sorts."""
    coded = values.dictionary_encode()
    distinct = coded.dictionary
    both = pa.concat_arrays([bounds, distinct])
    order = to_numpy(pc.sort_indices(both)).astype(np.int64)  # stable: a bound comes before its equal
    is_bound = order < len(bounds)
    ranks = np.empty(len(both), np.int64)
    ranks[order] = np.cumsum(is_bound)
    exact = valid_mask(pc.index_in(distinct, value_set=bounds))
    cells = 1 + 2 * ranks[len(bounds) :] - exact
    result: Rows = cells[to_numpy(coded.indices)] if len(coded) else np.empty(0, np.int64)
    return result


def _numbers(column: Any) -> npt.NDArray[np.int64] | None:
    """Values that are whole numbers inside; None for other types."""
    kind = column.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return to_numpy(column).astype(np.int64)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width: pa.DataType = pa.int32() if kind.bit_width == 32 else pa.int64()
        return to_numpy(column.view(width)).astype(np.int64)
    return None


@dataclass(frozen=True)
class RowOrder:
    """The order of the rows of one group of files.

    Attributes:
        columns: by which rows are ordered.
        layout: see `Layout`.
        scales: of the columns.
        boxes: into which rows along a curve are divided first; None where they are not.
    """

    columns: tuple[str, ...]
    layout: Layout
    scales: tuple[Scale, ...]
    boxes: Boxes | None = None

    @classmethod
    def of(cls, columns: Sequence[str], layout: Layout, sample: pa.Table) -> Self:
        """The order by some columns, with the scales of a sample.

        Raises:
            SchemaError: a column is not there, or has no order.
            ArgumentError: more than eight columns.
        """
        axis_bits(len(columns))
        scales = tuple(map(Scale.of, ordering_columns(sample, columns)))
        return cls(tuple(columns), layout if len(columns) > 1 else Layout.LINEAR, scales)

    def codes(self, rows: pa.Table) -> Codes:
        """A number for each row that does not fall as rows rise; rows of equal numbers may differ."""
        columns = ordering_columns(rows, self.columns)
        if self.layout is Layout.LINEAR:
            pairs = zip(self.scales, columns, strict=True)
            return _one_after_the_other([(scale.cells(column), len(scale.below)) for scale, column in pairs])
        return self._along(self._axes(columns))

    def _along(self, axes: Sequence[Axis]) -> Codes:
        """The codes of rows on a curve, by their coordinates."""
        bits = axis_bits(len(axes))
        places = hilbert(axes, bits) if self.layout is Layout.HILBERT else z_order(axes, bits)
        return places if self.boxes is None else self.boxes.codes(axes, places, bits * len(axes))

    def _axes(self, columns: Sequence[Any]) -> list[Axis]:
        bits = axis_bits(len(columns))
        return [scale.coordinates(column, bits) for scale, column in zip(self.scales, columns, strict=True)]

    def divided(self, sample: pa.Table, files: int) -> tuple[Self, Cuts]:
        """The order of rows that go to some files, and the bounds between them.

        Args:
            sample: of the rows, with their record keys.
            files: how many; fewer if the sample has not as many different rows.
        """
        keys = one_chunk(sample[RECORD_KEY])
        if self.layout is Layout.LINEAR:
            return self, Cuts.of(self.codes(sample), keys, files)
        axes = self._axes(ordering_columns(sample, self.columns))
        boxes = Boxes.of(axes, files)
        order = replace(self, boxes=boxes)
        return order, boxes.cuts(order._along(axes), keys)  # noqa: SLF001  # of the same class

    def positions(self, rows: pa.Table, codes: Codes) -> Rows:
        """Positions of rows in their order.

        Args:
            rows: with the columns.
            codes: of the rows.
        """
        if self.layout is not Layout.LINEAR:
            return np.argsort(codes, kind="stable")
        if self.columns == (RECORD_KEY,):
            return sorted_order(one_chunk(rows[RECORD_KEY]))
        columns: list[Any] = []
        for column in ordering_columns(rows, self.columns):
            if column.null_count:
                columns.append(pc.cast(column.is_valid(), pa.int8()))  # nulls first
            columns.append(column)
        names = [str(number) for number in range(len(columns))]
        keys: Any = [(name, "ascending") for name in names]
        return to_numpy(pc.sort_indices(pa.table(columns, names=names), sort_keys=keys)).astype(np.int64)


def _one_after_the_other(axes: Sequence[tuple[Rows, int]]) -> Codes:
    """Cells of several columns as one number; a column counts where those before it have equal values for sure."""
    codes = np.zeros(len(axes[0][0]), np.uint64)
    equal = np.ones(len(codes), np.bool_)
    free = CODE_BITS
    for cells, count in axes:
        bits = max(1, (count - 1).bit_length())
        if bits > free:
            break
        free -= bits
        codes = (codes << np.uint64(bits)) | np.where(equal, cells, 0).astype(np.uint64)
        equal &= cells % 2 == 0
    return codes
