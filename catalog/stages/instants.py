"""Before the other stages of an incremental scan: files that no write of the range has touched."""

from __future__ import annotations

import functools

from catalog.snapshot.incremental import InstantRange
from catalog.stages.stage import Stage, StageInput
from pushdown.verdict import Candidates, Verdict


def instant_stage(instants: InstantRange) -> Stage:
    """The stage that keeps file slices in which writes of a range may have left rows."""
    return functools.partial(_prune_by_instants, instants)


def _prune_by_instants(instants: InstantRange, given: StageInput) -> Verdict:
    keep = instants.may_hold(given.snapshot.files)[given.rows]
    return Candidates(keep, f"{int(keep.sum()):,} files may hold rows written {instants.label}")
