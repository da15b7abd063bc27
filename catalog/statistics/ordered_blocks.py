"""Files in the order of a column's lower bounds, in blocks, so that a plan need not look at each of a million files.

A block's statistics are those of its files together, as sound as those of a partition (`aggregate_statistics`): where a
filter cannot be true in the block, it can be true in none of its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize, times_before
from catalog.statistics.aggregate import aggregate_statistics
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression
from pushdown.ordering import Mask
from pushdown.verdict import CannotPrune
from pushdown.walk import column_types, parts_by_columns

_BLOCK = 1_024
_PLANS_BEFORE = 1
"""The order is made for the second plan that can use it: it takes as long as several plans."""


@dataclass(frozen=True, eq=False)
class OrderedBlocks:
    """The order and the blocks.

    Attributes:
        order: positions of the files, by their lower bounds; unknown bounds come first.
        statistics: an entry for each block of that order.
    """

    order: NDArray[np.int32]
    statistics: ColumnStatistics

    def files(self, blocks: Mask) -> NDArray[np.int64]:
        """Positions of the files of some blocks, ascending."""
        pieces = [self.order[start * _BLOCK : (start + 1) * _BLOCK] for start in np.flatnonzero(blocks).tolist()]
        return np.sort(np.concatenate([np.empty(0, np.int32), *pieces])).astype(np.int64)


def files_of_blocks(
    expression: HudiExpression, statistics: Mapping[str, ColumnStatistics], most: int
) -> NDArray[np.int64] | None:
    """The files outside of which some part of a filter cannot be true, by the column that leaves the fewest.

    Args:
        expression: the bound filter.
        statistics: of the files by column.
        most: how many files are worth while.

    Returns:
        Their positions, ascending; None if more are left by each column.
    """
    few: tuple[OrderedBlocks, Mask] | None = None
    kinds = column_types(expression)
    for (column, *others), part in parts_by_columns(expression):
        if others or column not in statistics or column not in kinds:
            continue
        blocks = ordered_blocks(statistics[column], kinds[column])
        if blocks is None:
            continue
        can_true = evaluate(part, {column: blocks.statistics}, len(blocks.statistics)).can_true
        left = int(can_true.sum()) * _BLOCK
        if left < most:
            few, most = (blocks, can_true), left
    return None if few is None else few[0].files(few[1])


def ordered_blocks(statistics: ColumnStatistics, kind: pa.DataType) -> OrderedBlocks | None:
    """The blocks of a column that plans ask for again and again; None the first time, and if its bounds are no numbers.

    Args:
        statistics: of the files.
        kind: the column's type.
    """
    if times_before(statistics, ("plans", str(kind))) < _PLANS_BEFORE:
        return None
    return memoize(statistics, ("ordered blocks", str(kind)), lambda: _made(statistics, kind))


def _made(statistics: ColumnStatistics, kind: pa.DataType) -> OrderedBlocks | None:
    believed = statistics.believed(kind)
    lower = believed.lower
    if not isinstance(lower, np.ndarray) or lower.dtype.kind not in "iuf":
        return None
    least = -np.inf if lower.dtype.kind == "f" else np.iinfo(lower.dtype).min
    order = np.argsort(np.where(believed.no_lower, least, lower), kind="stable").astype(np.int32)
    blocks = np.empty(len(order), np.int64)
    blocks[order] = np.arange(len(order)) // _BLOCK
    of_blocks = aggregate_statistics(statistics, kind, blocks, -(-len(order) // _BLOCK))
    return None if isinstance(of_blocks, CannotPrune) else OrderedBlocks(order, of_blocks)
