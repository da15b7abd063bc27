"""Incremental scans: the rows of the table's state at an end instant that were written after a begin instant.

In timeline layout 1 a write belongs to the range by its instant time; in layout 2 by the time at which it completed, so
that a slow writer's rows are not skipped (Hudi format, snapshot and incremental reads). A row's `_hoodie_commit_time`
is the instant that wrote its value. Compactions and clusterings rewrite rows without changing that column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.builder import col
from pushdown.expression import HudiExpression
from table_format.actions.commit import CommitMetadata
from table_format.actions.table_services import ClusteringPlan
from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.errors import (
    MissingFileError,
    OptionError,
    PendingWriteError,
    UndoneWriteError,
    UnsupportedTableError,
)
from table_format.instant import WRITE_ACTIONS, Action, Instant, State, parse_as_of
from table_format.meta_columns import COMMIT_TIME
from table_format.slices.file_names import in_groups
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive

Mask = NDArray[np.bool_]
EARLIEST, LATEST = "earliest", "latest"
_REWRITES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
_TIMELESS = "0"


@dataclass(frozen=True, eq=False)
class InstantRange:
    """The writes of a range, begin exclusive and end inclusive.

    Attributes:
        begin: a time in the form of instant times; "0" for the beginning of the table.
        end: likewise; None for the newest state.
        timeline: the table's, as it was at the end.
        as_of: the instant up to which the timeline counts; None for all of it.
        completions: in layout 2, when each known write completed; empty in layout 1.
        rewrites: instants of compactions and clusterings, which wrote no new versions of rows.
        touched: file groups, as partition and id, that writes of the range changed; None if that is not known.
    """

    begin: str
    end: str | None
    timeline: Timeline
    as_of: str | None
    completions: dict[str, str]
    rewrites: frozenset[str]
    touched: frozenset[tuple[str, str]] | None

    @property
    def label(self) -> str:
        """The range in words, for `explain`."""
        begin = "the beginning" if self.begin == _TIMELESS else self.begin
        return f"after {begin} up to {self.end or 'now'}"

    @property
    def checkpoint(self) -> str:
        """Where the range ended; see `catalog.scan.Scan.checkpoint`."""
        writes = {write.time: write.time for write in self.timeline.writes} | self.completions
        ends = (done for time, done in writes.items() if self.includes(done) and not self.timeline.is_undone(time))
        return max(ends, default=self.begin)

    def predicate(self) -> HudiExpression:
        """The filter on `_hoodie_commit_time` that selects the rows of the range."""
        time = col(COMMIT_TIME)
        inside = time > self.begin
        if self.end is not None:
            inside = inside & (time <= self.end)
        # The instant decides, except for writes that are known to have completed on the other side of a limit. Writes
        # that neither the timeline nor its history has count by their instant.
        wanted = {t for t, done in self.completions.items() if self.includes(done)} - self.rewrites
        other = sorted({t for t in self.completions if self.includes(t)} - wanted | self.rewrites)
        slow = sorted(t for t in wanted if not self.includes(t))
        inside = inside & time.not_in(other) if other else inside
        return inside | time.is_in(slow) if slow else inside

    def includes(self, done: str) -> bool:
        """Whether a time is in the range: an instant in layout 1, a completion time in layout 2."""
        return done > self.begin and (self.end is None or done <= self.end)

    def may_hold(self, files: pa.Table) -> Mask:
        """Which file slices may hold a row of the range.

        A base file holds rows of its own instant and older ones, so an old one has none of the range.

        Args:
            files: slices with `partition`, `file_id`, `instant`, `file_name` and, if any has logs, `logs`.
        """
        has_base: Mask = to_numpy(one_chunk(files.column("file_name")).is_valid())
        return (has_base & self._newer(files.column("instant"))) | self._changed_by_logs(files)

    def _newer(self, instants: Any) -> Mask:
        """Whether each write is after the beginning, by its completion time if that is known, else by its instant."""
        distinct: list[Any] = pc.unique(instants).to_pylist()
        newer = [t for t in distinct if self.completions.get(t, t) > self.begin]
        mask: Mask = to_numpy(one_chunk(pc.is_in(instants, pa.array(newer, pa.string()))))
        return mask

    def _changed_by_logs(self, files: pa.Table) -> Mask:
        if "logs" not in files.column_names:
            return np.zeros(files.num_rows, np.bool_)
        has_logs: Mask = to_numpy(pc.greater(pc.list_value_length(one_chunk(files.column("logs"))), 0))
        if self.touched is None:
            return has_logs
        touched: Mask = to_numpy(in_groups(files, self.touched))
        return has_logs & touched


def instant_range(
    begin: str, end: str | None, client: TableClient, timeline: Timeline, *, end_at_holes: bool = False
) -> InstantRange:
    """Parse the limits of an incremental query.

    Args:
        begin: an instant or an ISO 8601 time, not part of the range; `earliest` or zeros for the table's beginning.
        end: likewise, part of the range; None or `latest` for the newest state.
        client: of the table.
        timeline: as loaded.
        end_at_holes: end the range before a pending write that belongs to it, rather than refuse it.

    Raises:
        OptionError: a text is not a time, the end is before the beginning, or before what the timeline still has.
        PendingWriteError: a write of the range is pending (layout 1), and the range may not end before it.
        UndoneWriteError: the range begins at a write that a rollback or a restore has taken back.
        UnsupportedTableError: the table's rows have no commit time, or a clustering of the range changed it.
    """
    config = client.config
    if not config.populate_meta_fields:
        raise UnsupportedTableError(
            f"{client.storage.uri}: hoodie.populate.meta.fields is false, so rows have no commit time"
        )
    first = (
        _TIMELESS
        if begin.strip() == EARLIEST or not begin.strip(" 0")
        else parse_as_of(begin, config.timeline_timezone)
    )
    layout_2 = timeline.layout > 1
    completions = _completions(timeline) if layout_2 else {}
    refuse_undone(timeline, first, completions)
    last = None if end is None or end.strip() == LATEST else parse_as_of(end, config.timeline_timezone)
    if last is not None and last < first:
        raise OptionError(f"incremental {begin}..{end}: the end is before the beginning")
    if not layout_2 and (pending := _pending_write(timeline, first, last)) is not None:
        earlier = [write.time for write in timeline.writes if write.time < pending.time]
        if not end_at_holes or not earlier:
            raise PendingWriteError(
                f"incremental {begin}..{end or LATEST}: {pending} is pending and belongs to this range, so "
                "a reader that continues after its end would miss that write's rows. Try again when the write has "
                "ended, end the range before it, or have ranges end there by "
                "hoodie.read.timeline.holes.resolution.policy=BLOCK"
            )
        last = max(earlier[-1], first)
    reaches_archive = _reaches_archive(first, timeline) or _ended_later(first, timeline, completions)
    known_timeline = with_archive(timeline) if reaches_archive else timeline
    then = _state_at(known_timeline, last, completions)
    as_of = None if layout_2 or not timeline.writes or timeline.writes[-1].time <= (last or "~") else last
    state = timeline if as_of is None and then is known_timeline else then
    known = InstantRange(first, last, state, as_of, completions, frozenset(), None)
    inside = [i for i in then.writes if known.includes(completions.get(i.time, i.time))]
    writes = {instant: then.commit_metadata(instant) for instant in inside}
    return dataclasses.replace(known, rewrites=_rewrites(then, writes), touched=_touched(known, then, writes))


def refuse_undone(timeline: Timeline, begin: str, completions: Mapping[str, str] | None = None) -> None:
    """Refuse to go on after a write that is gone, since the reader may hold rows of it, and would keep them.

    In layout 2 a reader goes on after a completion time. Of a write that was taken back this is not known any more: a
    time at which no known write completed may be its.

    Args:
        timeline: of the table.
        begin: the time after which a range begins.
        completions: in layout 2, when each known write completed.

    Raises:
        UndoneWriteError: a rollback or a restore has taken it back.
    """
    if begin == _TIMELESS or timeline.find(begin) is not None:
        return
    done = completions or {}
    if any(of == begin and not timeline.is_undone(time) for time, of in done.items()):
        return
    whole = with_archive(timeline) if _reaches_archive(begin, timeline) else timeline
    is_gone = begin in whole.rolled_back and whole.is_undone(begin)
    if not is_gone and (timeline.layout == 1 or not _undone_since(whole, begin)):
        return
    ends = (done.get(write.time, write.time) for write in with_archive(timeline).writes)
    last = max((end for end in ends if end < begin), default=EARLIEST)
    raise UndoneWriteError(
        f"incremental from {begin}: a rollback or restore took this write back, so rows that were read of it, and of "
        f"others after {last}, are no longer in the table, or have their earlier values. Undo them where they "
        "went, such as by the table's present state (a scan without a range), or if they went nowhere begin at "
        f"{last}",
        last,
    )


def _undone_since(timeline: Timeline, begin: str) -> bool:
    """Whether a write that began before a time, and may have completed by then, was taken back after it."""
    since = {time for one in timeline.undoing if one.instant.time > begin for time in one.times}
    for instant in timeline.completed:
        if instant.time > begin:
            since.update(timeline.undone_by(instant))
    pending = {instant.time for instant in timeline.pending}  # failed runs of compactions and clusterings
    return any(time < begin and time not in pending and timeline.is_undone(time) for time in since)


def checkpoint_of(timeline: Timeline, as_of: str | None = None) -> str:
    """Where a scan of a table's whole state ended; see `catalog.scan.Scan.checkpoint`.

    Args:
        timeline: of the state.
        as_of: in layout 1, the instant up to which it counts; None for all.
    """
    if timeline.layout > 1:
        return max((timeline.completion_time(write.time) or write.time for write in timeline.writes), default=_TIMELESS)
    pending = _pending_write(timeline, _TIMELESS, as_of)
    writes = [write.time for write in timeline.writes if as_of is None or write.time <= as_of]
    return max((time for time in writes if pending is None or time < pending.time), default=_TIMELESS)


def _pending_write(timeline: Timeline, begin: str, end: str | None) -> Instant | None:
    """The oldest pending write of a range of layout 1, where writes count by the times at which they began.

    Without an end the range goes up to the newest completed write. Compactions and clusterings do not change rows.
    """
    newest = timeline.writes[-1].time if timeline.writes else ""
    for instant in timeline.pending:
        if begin < instant.time <= (newest if end is None else end) and instant.action in WRITE_ACTIONS:
            if instant.action == Action.REPLACECOMMIT and _clustering_plan(timeline, instant) is not None:
                continue
            return instant
    return None


def _completions(timeline: Timeline) -> dict[str, str]:
    """When writes completed; archived ones too, because one that began early may have completed late."""
    times = {i.time: timeline.completion_time(i.time) or i.time for i in timeline.writes}
    return {**timeline.archive.writes, **times}


def _reaches_archive(begin: str, timeline: Timeline) -> bool:
    """Whether writes that began after a time may be archived."""
    first = timeline.first_unbroken
    return bool(timeline.writes) and (first is None or begin < first)


def _ended_later(begin: str, timeline: Timeline, completions: dict[str, str]) -> bool:
    """Whether an archived write completed after the beginning of a range, though it began before (layout 2).

    An archived write is older than the active ones by its instant, and may have completed after some of them.
    """
    active = {write.time for write in timeline.writes}
    return any(done > begin for time, done in completions.items() if time not in active)


def _state_at(timeline: Timeline, end: str | None, completions: dict[str, str]) -> Timeline:
    """The timeline with the writes that completed later put back to inflight (layout 2)."""
    if end is None:
        return timeline
    if not timeline.writes or end < min(completions.get(i.time, i.time) for i in timeline.writes):
        oldest = (
            f"the oldest write that it still has is of {timeline.writes[0].time}" if timeline.writes else "it has none"
        )
        raise OptionError(f"incremental up to {end}: the table's timeline does not reach back so far; {oldest}")
    later = {i for i in timeline.writes if completions.get(i.time, i.time) > end}
    if timeline.layout == 1 or not later:
        return timeline
    _refuse_archived(timeline, end, completions)
    instants = tuple(i.at(State.INFLIGHT) if i in later else i for i in timeline.instants)
    return dataclasses.replace(timeline, instants=instants)


def _refuse_archived(timeline: Timeline, end: str, completions: dict[str, str]) -> None:
    """Refuse a state with archived writes after it, though older ones are active: these cannot be put back."""
    if not timeline.has_gaps:
        return
    last = max(done for write in timeline.writes if (done := completions.get(write.time, write.time)) <= end)
    if any(done > last for done in timeline.archive.writes.values()):
        first = timeline.first_unbroken
        raise OptionError(
            f"incremental up to {end}: commits after {last} are archived; "
            f"end at {completions.get(first, first) if first else 'latest'} or later"
        )


def _rewrites(timeline: Timeline, writes: Mapping[Instant, CommitMetadata]) -> frozenset[str]:
    times = set()
    for instant, metadata in writes.items():
        if instant.action == Action.DELTACOMMIT or metadata.operation_type not in _REWRITES:
            continue
        if instant.action == Action.REPLACECOMMIT and not _keeps_times(timeline, instant):
            raise UnsupportedTableError(
                f"incremental: clustering {instant.time} gave its rows a new commit time, so which of them were "
                "written in the range is not known any more; begin at or after it, or end before it"
            )
        times.add(instant.time)
    return frozenset(times)


def _keeps_times(timeline: Timeline, instant: Instant) -> bool:
    plan = _clustering_plan(timeline, instant)
    return plan is None or plan.preserves_times


def _clustering_plan(timeline: Timeline, instant: Instant) -> ClusteringPlan | None:
    """The plan of a replacecommit that clusters; None for one that overwrites, or whose request is gone."""
    for action in (Action.REPLACECOMMIT, Action.CLUSTERING):
        requested = Instant(instant.time, action, State.REQUESTED)
        try:
            return ClusteringPlan.from_avro(timeline.read(requested), timeline.path(requested))
        except MissingFileError:
            continue
    return None


def _touched(
    known: InstantRange, timeline: Timeline, writes: Mapping[Instant, CommitMetadata]
) -> frozenset[tuple[str, str]] | None:
    """File groups that the writes of the range name; None if some of them may have left the active timeline.

    Names of log files do not show this: in layout 1 they hold the instant of the base file, and upgraded tables keep
    such names.
    """
    first = timeline.first_unbroken
    if first is None or known.begin < first:
        return None
    times = {write.time for write in writes}
    if any(known.includes(done) and t not in times for t, done in known.completions.items()):
        return None
    stats = [entry for metadata in writes.values() for entry in metadata.partition_to_write_stats.items()]
    return frozenset((partition, stat.file_id) for partition, of in stats for stat in of)
