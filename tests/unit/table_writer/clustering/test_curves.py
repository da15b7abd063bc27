"""Curves through a grid, by the properties that define them."""

import itertools

import numpy as np
import pytest

from table_format.errors import ArgumentError
from table_writer.clustering.curves import axis_bits, hilbert, z_order

GRIDS = [(1, 6), (2, 1), (2, 5), (3, 1), (3, 4), (4, 3), (5, 2), (8, 1)]


def grid(axes: int, bits: int) -> np.ndarray:
    """All points of a grid, a row each."""
    return np.array(list(itertools.product(range(1 << bits), repeat=axes)), np.uint16)


@pytest.mark.parametrize(("axes", "bits"), GRIDS)
def test_consecutive_places_of_the_hilbert_curve_are_adjacent_cells(axes: int, bits: int) -> None:
    points = grid(axes, bits)
    codes = hilbert(list(points.T), bits)
    assert sorted(codes.tolist()) == list(range(len(points)))
    steps = np.abs(np.diff(points[np.argsort(codes)].astype(int), axis=0)).sum(axis=1)
    assert (steps == 1).all()


@pytest.mark.parametrize(("axes", "bits"), GRIDS)
def test_z_order_takes_bits_in_turns(axes: int, bits: int) -> None:
    points = grid(axes, bits)
    wanted = [
        int("".join(f"{value:0{bits}b}"[bit] for bit in range(bits) for value in point), 2) for point in points.tolist()
    ]
    assert z_order(list(points.T), bits).tolist() == wanted


@pytest.mark.parametrize(("axes", "bits"), [(2, 16), (3, 16), (4, 16), (5, 12), (8, 8)])
def test_curves_in_grids_of_full_size(axes: int, bits: int) -> None:
    assert axis_bits(axes) == bits
    random = np.random.default_rng(axes)
    points = random.integers(0, 1 << bits, (40_000, axes)).astype(np.uint16)
    distinct = len(np.unique(points, axis=0))
    for curve in (z_order, hilbert):
        codes = curve(list(points.T), bits)
        assert len(np.unique(codes)) == distinct
        # an aligned block of a curve is a cube: the first bits of codes give those of the points
        same = codes >> np.uint64(axes * (bits - 2))
        for code in np.unique(same)[:50]:
            assert len(np.unique(points[same == code] >> np.uint16(bits - 2), axis=0)) == 1


def test_more_axes_than_a_curve_takes() -> None:
    with pytest.raises(ArgumentError, match="9 columns"):
        axis_bits(9)
