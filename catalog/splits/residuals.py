"""The part of a filter that is left to check in a split, once its partition has decided the rest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import Constant, HudiExpression, ImageTest, Predicate
from pushdown.simplify import simplify
from pushdown.walk import fold, leaves, rebuilt

NOTHING = -1
"""The number of the empty residual: every row matches."""
_MOST_WORK = 20_000_000
_TRUTHS: Mapping[int, bool | None] = {1: True, 2: False, 4: None}


class Residuals:
    """The residual filters of a plan, by partition.

    A predicate on partition columns that has one truth value for all rows of a partition becomes that constant there.
    Partitions in which the same predicates come out alike share one residual; it is made at first use.

    Args:
        expression: the bound filter; None for all rows.
        statistics: of columns by partition, from `catalog.slices.path_values`.
        partitions: how many there are.
    """

    def __init__(
        self, expression: HudiExpression | None, statistics: Mapping[str, ColumnStatistics], partitions: int
    ) -> None:
        self._expression = expression
        self._leaves = _foldable(expression, statistics, partitions)
        answers = np.zeros((partitions, len(self._leaves)), np.uint8)
        for position, leaf in enumerate(self._leaves):
            answers[:, position] = _only_outcome(evaluate(leaf, {leaf.column: statistics[leaf.column]}, partitions))
        self._cases, self._case_of = _distinct(answers)
        self._made: dict[int, HudiExpression | None] = {NOTHING: None}

    def numbers(self, partitions: NDArray[np.int64], fully_matching: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The number of each split's residual.

        Args:
            partitions: of the splits.
            fully_matching: where nothing is left to check, whatever the partition says.
        """
        if self._expression is None:
            return np.full(len(partitions), NOTHING, np.int32)
        return np.where(fully_matching, np.int32(NOTHING), self._case_of[partitions])

    def expression(self, number: int) -> HudiExpression | None:
        """The residual filter of a number; None when every row matches."""
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def _make(self, number: int) -> HudiExpression | None:
        if self._expression is None:
            return None
        sure = dict(zip(self._leaves, self._cases[number].tolist(), strict=True)) if self._leaves else {}

        def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
            if children:
                return rebuilt(node, children)
            truth = sure.get(node, 0) if isinstance(node, Predicate | ImageTest) else 0
            return Constant(_TRUTHS[truth]) if truth else node

        left = simplify(fold(self._expression, visit)) if sure else self._expression
        return None if isinstance(left, Constant) and left.value is True else left


def _foldable(
    expression: HudiExpression | None, statistics: Mapping[str, ColumnStatistics], partitions: int
) -> list[Predicate | ImageTest]:
    """The predicates on columns whose values paths give, each once; none if evaluating them costs too much."""
    if expression is None or not statistics or not partitions:
        return []
    predicates = dict.fromkeys(
        leaf for leaf in leaves(expression) if isinstance(leaf, Predicate | ImageTest) and leaf.column in statistics
    )
    return list(predicates) if len(predicates) * partitions <= _MOST_WORK else []


def _distinct(answers: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The distinct rows, and for each row which of them it is."""
    if not answers.size:
        return answers[:1], np.zeros(len(answers), np.int32)
    # each row becomes one opaque value: sorting those is faster than sorting rows
    rows = np.ascontiguousarray(answers).view(np.dtype((np.void, answers.shape[1]))).ravel()
    _, first, of = np.unique(rows, return_index=True, return_inverse=True)
    return answers[first], of.astype(np.int32)


def _only_outcome(outcomes: Outcomes) -> NDArray[np.uint8]:
    """The only truth value that rows of each partition can have: 1 true, 2 false, 4 null; 0 for several."""
    bits = (
        outcomes.can_true.astype(np.uint8)
        | outcomes.can_false.astype(np.uint8) << 1
        | outcomes.can_null.astype(np.uint8) << 2
    )
    return np.where(np.isin(bits, list(_TRUTHS)), bits, np.uint8(0)).astype(np.uint8)
