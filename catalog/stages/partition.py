"""The partition stage: partitions whose path tells that no row of them can match."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.slices.path_values import PathValues
from catalog.stages.stage import StageInput
from pushdown.bindings import key_bindings
from pushdown.evaluate import evaluate
from pushdown.expression import HudiExpression
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import columns_of, restrict
from table_format.keys.timestamp_keys import path_of_text

_MOST_TIMES = 10_000


def prune_by_partition(given: StageInput) -> Verdict:
    """Keep the files of partitions for which the filter, restricted to partition columns, can be true.

    Args:
        given: what came in.

    Returns:
        The files kept, or why paths don't help.
    """
    snapshot = given.snapshot
    fields = snapshot.config.partition_fields
    if not fields:
        return CannotPrune("the table is not partitioned")
    values = snapshot.path_values()
    if isinstance(values, CannotPrune):
        return values
    columns = columns_of(given.expression)
    asked = [column for column in columns if column in values.statistics]
    keep = _by_times(given.expression, values)
    if not asked and keep is None:
        return CannotPrune(f"the filter says nothing of partition column {', '.join(fields)}")
    count = len(snapshot.partitions)
    can_true = evaluate(restrict(given.expression, asked), values.statistics, count).can_true
    if keep is not None:
        can_true = can_true & keep
        asked += [column for column in columns if column in values.times]
    of_files = snapshot.partition_index[given.rows]
    here = np.unique(of_files)
    kept = int(can_true[here].sum())
    reason = f"{kept:,} of {len(here):,} partitions can match by {', '.join(asked)}"
    unknown = int((~values.known[here]).sum())
    if unknown:
        reason += f"; {unknown:,} whose path does not tell its values are kept"
    return Candidates(can_true[of_files], reason)


def _by_times(expression: HudiExpression, values: PathValues) -> NDArray[np.bool_] | None:
    """Partitions that can hold the times that the filter names, of columns that hold them as text; None for no such."""
    keep: NDArray[np.bool_] | None = None
    for column, times in values.times.items():
        named = key_bindings(expression, (column,), _MOST_TIMES)
        if named is None:
            continue
        paths = {None if row[0] is None else path_of_text(row[0], times.form) for row in named}
        if None not in paths:
            here = np.array([text is None or text in paths for text in times.segments], np.bool_)
            keep = here if keep is None else keep & here
    return keep
