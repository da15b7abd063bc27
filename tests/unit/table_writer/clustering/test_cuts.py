"""Bounds between files: even ones, and those of boxes along a curve."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_writer.clustering.curves import axis_bits, z_order
from table_writer.clustering.cuts import Boxes, Cuts
from table_writer.clustering.order import Layout, RowOrder

RANDOM = np.random.default_rng(5)
GRIDS = [(2, 2), (3, 2), (5, 3), (6, 3), (7, 2), (12, 4), (20, 3), (37, 2), (64, 3)]


def test_bounds_divide_rows_evenly_also_within_equal_codes() -> None:
    codes = np.array([5] * 700 + [1] * 100 + [9] * 200, np.uint64)
    keys = pa.array([f"k{n:04d}" for n in RANDOM.permutation(1000)])
    cuts = Cuts.of(codes, keys, 10)
    parts = cuts.numbers(codes, keys)
    assert cuts.parts == 10
    assert np.bincount(parts).tolist() == [100] * 10
    rows = sorted(zip(codes.tolist(), keys.to_pylist(), strict=True))
    of = dict(zip(keys.to_pylist(), parts.tolist(), strict=True))
    assert [of[key] for _, key in rows] == sorted(of.values())


def test_bounds_of_few_rows() -> None:
    for count in range(4):
        codes, keys = np.arange(count).astype(np.uint64), pa.array([str(n) for n in range(count)], pa.string())
        cuts = Cuts.of(codes, keys, 3)
        assert cuts.parts <= max(1, count)
        assert len(cuts.numbers(codes, keys)) == count


def even(count: int, axes: int) -> pa.Table:
    """Rows whose columns are spread evenly and independently."""
    columns = {f"c{axis}": pa.array(RANDOM.permutation(count)) for axis in range(axes)}
    return pa.table({**columns, "_hoodie_record_key": pa.array([f"{n:06d}" for n in range(count)])})


def kept(rows: pa.Table, parts: Any, column: str) -> float:
    """How many files a range of a hundredth of the column's values keeps, on average."""
    values = rows[column].to_numpy()
    spans = [(values[parts == part].min(), values[parts == part].max()) for part in np.unique(parts)]
    width = len(values) // 100
    starts = range(0, len(values) - width, width // 2)
    return sum(low <= start + width and high >= start for start in starts for low, high in spans) / len(starts)


@pytest.mark.parametrize("layout", [Layout.Z_ORDER, Layout.HILBERT])
@pytest.mark.parametrize(
    ("files", "axes"), [(2, 2), (3, 2), (5, 3), (6, 3), (7, 2), (12, 4), (20, 3), (37, 2), (64, 3)]
)
def test_each_file_along_a_curve_is_a_box(files: int, axes: int, layout: Layout) -> None:
    rows = even(16_000, axes)
    columns = rows.column_names[:axes]
    keys = rows["_hoodie_record_key"].combine_chunks()
    order, cuts = RowOrder.of(columns, layout, rows).divided(rows, files)
    parts = cuts.numbers(order.codes(rows), keys)
    counts = np.bincount(parts)
    assert len(counts) == cuts.parts == files
    assert counts.max() <= 1.05 * len(rows) / files
    boxes = [
        [(values.min(), values.max()) for values in (rows[name].to_numpy()[parts == part] for name in columns)]
        for part in range(files)
    ]
    for one, other in itertools.combinations(boxes, 2):
        assert any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, other, strict=True))
    # along the curve alone, an even division keeps more
    curve = RowOrder.of(columns, layout, rows)
    divided = Cuts.of(curve.codes(rows), keys, files).numbers(curve.codes(rows), keys)
    by_boxes, by_curve = (sum(kept(rows, of, name) for name in columns) for of in (parts, divided))
    assert by_boxes <= by_curve * 1.01
    if files == 20 and layout is Layout.Z_ORDER:
        assert by_boxes < by_curve * 0.85


@given(
    files=st.integers(1, 40),
    values=st.lists(st.integers(1, 250), min_size=1, max_size=8),
    rows=st.integers(0, 1500),
    seed=st.integers(0, 2**32 - 1),
)
def test_boxes_of_rows_that_are_often_equal(files: int, values: list[int], rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    bits = axis_bits(len(values))
    # many rows with the first value
    axes = [np.minimum(random.geometric(1 / (1 + many), rows) - 1, many).astype(np.uint16) for many in values]
    keys = pa.array([f"{n:05d}" for n in random.permutation(rows)], pa.string())
    boxes = Boxes.of(axes, files)
    codes = boxes.codes(axes, z_order(axes, bits), bits * len(axes))
    cuts = boxes.cuts(codes, keys)
    assert sum(boxes.files) == files
    assert (np.diff(cuts.codes.astype(object)) >= 0).all()
    parts = cuts.numbers(codes, keys)
    assert (np.diff(parts[np.lexsort((np.argsort(np.argsort(keys.to_numpy(zero_copy_only=False))), codes))]) >= 0).all()
    if rows >= files:
        assert cuts.parts == files
        # a file has at most the rows of an even division and the tolerance, and one where that is no whole number
        assert np.bincount(parts).max() <= 1.05 * rows / files + 1


def test_equal_rows_are_divided_by_their_keys() -> None:
    axes = [np.zeros(100, np.uint16), np.repeat(np.array([0, 1], np.uint16), [80, 20])]
    boxes = Boxes.of(axes, 5)
    assert boxes.files == (4, 1)
    keys = pa.array([f"{n:02d}" for n in range(100)])
    parts = boxes.cuts(codes := boxes.codes(axes, z_order(axes, 16), 32), keys).numbers(codes, keys)
    assert parts.tolist() == [0] * 20 + [1] * 20 + [2] * 20 + [3] * 20 + [4] * 20


def test_rows_that_were_not_in_the_sample_go_to_the_box_around_them() -> None:
    rows = even(8000, 2)
    order, cuts = RowOrder.of(["c0", "c1"], Layout.Z_ORDER, rows).divided(rows.slice(0, 2000), 10)
    parts = cuts.numbers(order.codes(rows), rows["_hoodie_record_key"].combine_chunks())
    assert np.bincount(parts).max() < 1.2 * 800
    assert kept(rows, parts, "c0") + kept(rows, parts, "c1") < 8
