"""Curves through the cells of a grid: cells that are close on the curve are close in every dimension.

A point is a whole number per dimension, of up to 16 bits; its place on the curve is a number of 64 bits at most.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from table_format.errors import ArgumentError

Axis = npt.NDArray[np.uint16]
Codes = npt.NDArray[np.uint64]

MOST_AXES: Final = 8
_MOST_BITS: Final = 16
_CODE_BITS: Final = 64
# points that fit into a core's cache
_AT_ONCE: Final = 1 << 14


def axis_bits(axes: int) -> int:
    """Bits of each axis of a grid, so that a place on a curve fits into 64 bits.

    Raises:
        ArgumentError: less than one axis, or more than eight.
    """
    if not 1 <= axes <= MOST_AXES:
        raise ArgumentError(f"{axes} columns: a curve takes 1 to {MOST_AXES}")
    return min(_MOST_BITS, _CODE_BITS // axes)


def z_order(axes: Sequence[Axis], bits: int) -> Codes:
    """Places of points on the Z-order curve (Morton order): the axes' bits in turns, the first axis' bit first.

    Args:
        axes: coordinates of all points on each axis, below `2 ** bits`.
        bits: of an axis; see `axis_bits`.
    """
    spread = _spread(bits, len(axes))
    codes = np.zeros(len(axes[0]), np.uint64)
    for number, axis in enumerate(axes):
        codes |= spread[axis] << np.uint64(len(axes) - 1 - number)
    return codes


def hilbert(axes: Sequence[Axis], bits: int) -> Codes:
    """Places of points on the Hilbert curve: neighbours on the curve are neighbours in the grid.

    J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004), on all points at once.

    Args:
        axes: coordinates of all points on each axis, below `2 ** bits`.
        bits: of an axis; see `axis_bits`.
    """
    codes = np.empty(len(axes[0]), np.uint64)
    for start in range(0, len(codes), _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        codes[block] = z_order(_turned([axis[block] for axis in axes], bits), bits)
    return codes


def _turned(axes: Sequence[Axis], bits: int) -> list[Axis]:
    """Coordinates whose bits in turns are places on the Hilbert curve (Skilling's transpose)."""
    turned: list[npt.NDArray[Any]] = [axis.astype(np.uint16) for axis in axes]
    for bit in range(bits - 1, 0, -1):
        mask, low = np.uint16(1 << bit), np.uint16((1 << bit) - 1)
        for axis in turned:
            is_set = (axis & mask) != 0
            # where the bit is set the first axis is inverted, else its low bits and the axis' change places
            exchanged = ((turned[0] ^ axis) & low) * ~is_set
            turned[0] ^= exchanged + is_set * low
            axis ^= exchanged  # noqa: PLW2901 - in place
    for before, axis in itertools.pairwise(turned):
        axis ^= before  # noqa: PLW2901 - in place
    gray = np.zeros(len(turned[0]), np.uint16)
    for bit in range(bits - 1, 0, -1):
        gray ^= ((turned[-1] >> np.uint16(bit)) & np.uint16(1)) * np.uint16((1 << bit) - 1)
    return [axis ^ gray for axis in turned]


@functools.lru_cache(maxsize=16)
def _spread(bits: int, axes: int) -> Codes:
    """Each number of `bits` bits with `axes - 1` zeros between its bits."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros(len(numbers), np.uint64)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * axes)
    return spread
