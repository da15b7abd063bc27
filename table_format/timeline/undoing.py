"""Writes that a restore or a rollback under way takes back: the table is without them from its inflight file on.

Completed instants leave the timeline one by one. Readers of this project see none of the states between, because the
inflight file of its restores and of its rollbacks of completed writes holds the plan. Those of other tools are empty,
and change nothing here.
"""

from __future__ import annotations

import dataclasses

from table_format.actions.restore import RestorePlan
from table_format.actions.rollback import RollbackPlan
from table_format.errors import MissingFileError
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.timeline.timeline import Timeline, Undoing


def without_undone(timeline: Timeline) -> Timeline:
    """The timeline without completed writes that are being taken back; the same one if there are none.

    Raises:
        CorruptFileError: an inflight file is damaged.
    """
    candidates = [_undoing(timeline, instant) for instant in timeline.pending]
    undoing = tuple(one for one in candidates if one is not None)
    if not undoing:
        return timeline
    gone = {time for one in undoing for time in one.times}
    rest = tuple(i for i in timeline.instants if i.time not in gone or i.comparable_action not in WRITE_ACTIONS)
    return dataclasses.replace(timeline, instants=rest, undoing=undoing)


def undone_by(content: bytes, instant: Instant, path: str) -> list[tuple[str, str]]:
    """Time and action of what a restore or rollback takes back, newest first, by its plan.

    Raises:
        CorruptFileError: the plan is damaged.
    """
    if instant.action == Action.RESTORE:
        return RestorePlan.from_avro(content, path).instants
    plan = RollbackPlan.from_avro(content, path)
    return [(plan.instant, plan.action)]


def _undoing(timeline: Timeline, instant: Instant) -> Undoing | None:
    if instant.action not in (Action.RESTORE, Action.ROLLBACK) or instant.state is not State.INFLIGHT:
        return None
    path = timeline.path(instant)
    try:
        content = timeline.storage.read(path)
    except MissingFileError:
        return None  # it has ended meanwhile
    times = frozenset(time for time, _ in undone_by(content, instant, path)) if content else frozenset()
    return Undoing(instant, times) if times else None
