"""The partition stage: partitions whose path tells that no row of them can match."""

from __future__ import annotations

import numpy as np

from catalog.stages.stage import StageInput
from pushdown.evaluate import evaluate
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import columns_of, restrict


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
    asked = [column for column in columns_of(given.expression) if column in values.statistics]
    if not asked:
        return CannotPrune(f"the filter says nothing of partition column {', '.join(fields)}")
    count = len(snapshot.partitions)
    outcomes = evaluate(restrict(given.expression, asked), values.statistics, count)
    of_files = snapshot.partition_index[given.rows]
    here = np.unique(of_files)
    kept = int(outcomes.can_true[here].sum())
    reason = f"{kept:,} of {len(here):,} partitions can match by {', '.join(asked)}"
    unknown = int((~values.known[here]).sum())
    if unknown:
        reason += f"; {unknown:,} whose path does not tell its values are kept"
    return Candidates(outcomes.can_true[of_files], reason)
