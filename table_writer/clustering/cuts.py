"""Where ordered rows are divided among files: evenly, and along a curve so that each file is a box.

A curve halves its columns by itself, but an even division into files meets its halves only if the files are a power of
two; a file on both sides of one is as wide as both. So rows are halved file by file first, and then follow the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_format.keys.key_order import sorted_order
from table_writer.clustering.curves import Axis, Codes
from table_writer.rows.merge import positions_after

Rows = npt.NDArray[np.int64]

CODE_BITS: Final = 64
#: How many of the rows of an even division a file may have, since rows of one value stay together.
_MOST: Final = 1.05


@dataclass(frozen=True)
class Cuts:
    """Bounds between consecutive parts of ordered rows.

    Attributes:
        codes: of the first row of each part but the first, ascending.
        keys: the record key of that row, which decides among rows of that code.
    """

    codes: Codes
    keys: Any

    @classmethod
    def of(cls, codes: Codes, keys: Any, parts: int) -> Self:
        """Bounds that divide a sample of rows evenly.

        Args:
            codes: of the sample.
            keys: its record keys.
            parts: how many; fewer if the sample has not as many different rows.
        """
        by_key = np.empty(len(codes), np.int64)
        by_key[sorted_order(keys)] = np.arange(len(codes))
        order = np.lexsort((by_key, codes))
        places = np.unique(np.linspace(0, len(order), parts + 1).astype(np.int64)[1:-1])
        rows = order[places[(places > 0) & (places < len(order))]]
        return cls(codes[rows], keys.take(from_numpy(rows)))

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self.codes) + 1

    def numbers(self, codes: Codes, keys: Any) -> Rows:
        """The part of each row.

        Args:
            codes: of the rows.
            keys: their record keys.
        """
        if not len(self.codes):
            return np.zeros(len(codes), np.int64)
        first = np.searchsorted(self.codes, codes, "left")
        last = np.searchsorted(self.codes, codes, "right")
        parts: Rows = last.astype(np.int64)
        for code in np.unique(codes[first < last]).tolist():
            rows = np.flatnonzero(codes == np.uint64(code))
            start, end = int(first[rows[0]]), int(last[rows[0]])
            bounds = self.keys.slice(start, end - start)
            parts[rows] = start + positions_after(bounds, keys.take(from_numpy(rows)))
        return parts


@dataclass(frozen=True)
class Boxes:
    """Rows halved by one column after the other, in turns, until there are as many boxes as files.

    A tree: its nodes are numbered, the first one is the root, and a leaf is its own child.

    Attributes:
        axes: of each node, the axis by which it is divided.
        bounds: of each node, the coordinate at which its upper half begins.
        children: of each node, the one below its bound and the one from it on.
        numbers: of each node that is a leaf, its place among the leaves from the lowest to the highest.
        files: of each leaf in this order; more than one where too many rows are equal in all columns to be halved.
        depth: of the tree.
    """

    axes: npt.NDArray[np.int64]
    bounds: Axis
    children: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint64]
    files: tuple[int, ...]
    depth: int

    @classmethod
    def of(cls, axes: Sequence[Axis], files: int) -> Self:
        """Boxes with about as many rows of a sample for each file.

        Args:
            axes: coordinates of the sample's rows.
            files: how many.
        """
        tree = _Tree(np.stack(axes), _MOST * len(axes[0]) / files)
        tree.grow(np.arange(len(axes[0])), files, 0)
        nodes = np.array(tree.nodes, np.int64)
        bounds, numbers = nodes[:, 1].astype(np.uint16), nodes[:, 4].astype(np.uint64)
        return cls(nodes[:, 0], bounds, nodes[:, 2:4], numbers, tuple(tree.files), tree.depth)

    @property
    def _shift(self) -> np.uint64:
        return np.uint64(CODE_BITS - max(1, (len(self.files) - 1).bit_length()))

    def codes(self, axes: Sequence[Axis], places: Codes, width: int) -> Codes:
        """Numbers of rows by their box, then by their place on a curve.

        Args:
            axes: coordinates of the rows.
            places: on the curve.
            width: bits of a place.
        """
        points, rows = np.stack(axes), np.arange(len(places))
        nodes = np.zeros(len(places), np.int64)
        for _ in range(self.depth):
            upper = points[self.axes[nodes], rows] >= self.bounds[nodes]
            nodes = self.children[nodes, upper.astype(np.int64)]
        lost = np.uint64(max(0, width - int(self._shift)))
        return (self.numbers[nodes] << self._shift) | (places >> lost)

    def cuts(self, codes: Codes, keys: Any) -> Cuts:
        """Bounds between the boxes, and even ones inside those of several files.

        Args:
            codes: of a sample.
            keys: its record keys.
        """
        least = pa.array([""], keys.type)
        of_rows = codes >> self._shift
        bounds = [Cuts(codes[:0], keys.slice(0, 0))]
        for number, files in enumerate(self.files):
            if number:
                bounds.append(Cuts(np.array([number], np.uint64) << self._shift, least))
            if files > 1:
                rows = np.flatnonzero(of_rows == np.uint64(number))
                bounds.append(Cuts.of(codes[rows], keys.take(from_numpy(rows)), files))
        return Cuts(np.concatenate([one.codes for one in bounds]), pa.concat_arrays([one.keys for one in bounds]))


class _Tree:
    """A tree of boxes that grows.

    Attributes:
        nodes: axis, bound, the two children and the number of each node.
        files: of each leaf.
        depth: of the deepest one.
    """

    def __init__(self, points: npt.NDArray[np.uint16], most: float) -> None:
        """Args: points: coordinates, a row for each axis; most: rows for a file."""
        self._points = points
        self._most = most
        self.nodes: list[list[int]] = []
        self.files: list[int] = []
        self.depth = 0

    def grow(self, rows: Rows, files: int, depth: int) -> int:
        """Add the node of some rows, and those below it; returns its number."""
        node = len(self.nodes)
        self.nodes.append([0, 0, node, node, 0])
        self.depth = max(self.depth, depth)
        for turn in range(len(self._points) if files > 1 else 0):
            axis = (depth + turn) % len(self._points)
            half = self._half(self._points[axis, rows], files)
            if half is not None:
                bound, lower_files = half
                upper = self._points[axis, rows] >= bound
                lower_node = self.grow(rows[~upper], lower_files, depth + 1)
                self.nodes[node] = [axis, bound, lower_node, self.grow(rows[upper], files - lower_files, depth + 1), 0]
                return node
        self.nodes[node][4] = len(self.files)
        self.files.append(files)
        return node

    def _half(self, coordinates: Axis, files: int) -> tuple[int, int] | None:
        """The bound next to the middle, and the files below it; None if a file would get too many rows."""
        values, count = np.sort(coordinates), len(coordinates)
        middle = count * (files // 2) // files
        if not count:
            return None
        places = [int(np.searchsorted(values, values[middle], side)) for side in ("left", "right")]
        for place in sorted(places, key=lambda place: abs(place - middle)):
            lower = round(place * files / count)
            if 0 < lower < files and place <= self._most * lower and count - place <= self._most * (files - lower):
                return int(values[place]), lower
        return None
