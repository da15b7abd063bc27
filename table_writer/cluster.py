"""Clusterings as users call them: planned, run, or both; after a commit, and by the policy of the options."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from catalog.layout import column_layouts
from catalog.table import Table
from table_format.actions.commit import CommitMetadata
from table_format.errors import HudiError, OptionError, error_text
from table_format.instant import Action, Instant, State
from table_format.meta_columns import META_FIELDS
from table_format.table.bucket_counts import RESCALE_KEY
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.clustering.report import ClusteringReport
from table_writer.clustering_job import plan, plan_and_run, planned_report, run
from table_writer.commit.clustering import OPERATION, PlanGoneError, outdated_file, pending_clusterings
from table_writer.commit.rollback import dead_runs, roll_back, roll_back_dead_runs
from table_writer.execution.executor import Executor
from table_writer.plan import clustering_options as keys
from table_writer.plan.options import WriteOptions
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import is_plan, table_lock
from table_writer.timeline.options import ProtocolOptions

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusteringPolicy:
    """What a table's options say of clustering; by default, as in Apache Hudi, nothing.

    Attributes:
        inline: planned and run after a commit.
        scheduled: planned after a commit, and run apart.
        apart: planned and run by maintenance.
        commits: since the last clustering after which another one is planned.
    """

    inline: bool
    scheduled: bool
    apart: bool
    commits: int

    @classmethod
    def of(cls, options: WriteOptions) -> Self:
        """The policy of a job.

        Raises:
            OptionError: clustering both inline and scheduled, which Apache refuses as well.
        """
        inline, scheduled = options.flag(keys.INLINE), options.flag(keys.SCHEDULE_INLINE)
        if inline and scheduled:
            raise OptionError(
                f"{keys.INLINE.key} and {keys.SCHEDULE_INLINE.key} are both true: the first runs what the second "
                "leaves to others; give one"
            )
        commits = options.number(keys.INLINE_COMMITS if inline else keys.ASYNC_COMMITS) or 1
        return cls(inline, scheduled, options.flag(keys.ASYNC), commits)

    @property
    def runs(self) -> bool:
        """Whether maintenance runs what is planned."""
        return self.inline or self.scheduled or self.apart

    @property
    def plans(self) -> bool:
        """Whether maintenance plans clusterings."""
        return self.inline or self.apart


def cluster(
    client: TableClient,
    options: WriteOptions,
    executor: Executor,
    *,
    sort_by: Sequence[str] = (),
    strategy: str | None = None,
    partitions: Sequence[str] = (),
    plan_only: bool = False,
    dry_run: bool = False,
) -> ClusteringReport:
    """Plan a clustering and run it; see `TableWrites.cluster`."""
    changes: dict[str, object] = {}
    if sort_by:
        changes[keys.SORT_COLUMNS.key] = ",".join(sort_by)
    if strategy is not None:
        changes[keys.LAYOUT.key] = strategy
    options = options.with_values(changes)
    columns = options.names(keys.SORT_COLUMNS)
    before = kept_shares(client, columns)
    if plan_only or dry_run:
        return replace(plan(client, options, partitions, dry_run=dry_run), kept_before=before)
    report = plan_and_run(client, options, executor, partitions)
    after = () if report.instant is None else kept_shares(client, columns)
    return replace(report, kept_before=before, kept_after=after)


def kept_shares(client: TableClient, columns: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Share of the files that a random range of 1 % keeps, by column; none of columns without statistics."""
    known = {field.name for field in (*META_FIELDS, *client.table_schema())} if columns else ()
    names = [name for name in columns if name in known]
    if not names:
        return ()
    layouts = column_layouts(Table(client).snapshot(), names)
    return tuple((one.column, one.kept) for one in layouts if not one.reason)


def run_planned(
    client: TableClient, options: WriteOptions, executor: Executor, instant: str | None = None
) -> list[ClusteringReport]:
    """Run pending plans; see `TableWrites.run_clustering`."""
    if instant is not None:
        return [run(client, instant, options, executor)]
    reports = []
    for one in pending_clusterings(client.timeline()):
        with contextlib.suppress(PlanGoneError):  # another process has run or cancelled it
            reports.append(run(client, one.time, options, executor))
    return reports


def cluster_after_write(client: TableClient, options: WriteOptions, executor: Executor) -> None:
    """Cluster after a commit, or plan it, if the options ask for it and enough commits have come.

    A failure is logged and left to the next run: the commit stands, and no plan of a run is left.
    """
    policy = ClusteringPolicy.of(options)
    if not policy.inline and not policy.scheduled:
        return
    try:
        timeline = client.timeline()
        planned = policy.scheduled and pending_clusterings(timeline)
        if not planned and commits_since(timeline) >= policy.commits:
            report = cluster(client, options, executor, plan_only=policy.scheduled)
            _LOG.info("%s: %s", client.storage.uri, report)
    except (HudiError, OSError) as error:
        _LOG.warning("%s: clustering is left to the next write: %s", client.storage.uri, error_text(error))


def finish_inline(client: TableClient, options: WriteOptions, executor: Executor) -> None:
    """Run clusterings that died after a commit, before a write of a job that clusters inline: it may need their files.

    Those that another writer runs are left to it.

    Raises:
        OptionError: the options contradict each other.
    """
    if not ClusteringPolicy.of(options).inline:
        return
    for pending in left_clusterings(client, options):
        _LOG.warning("%s: running clustering %s, which was left", client.storage.uri, pending.time)
        try:
            run(client, pending.time, options, executor)
        except HudiError as error:
            _LOG.warning("%s: clustering %s stays planned: %s", client.storage.uri, pending.time, error)


def left_clusterings(client: TableClient, options: WriteOptions) -> list[Instant]:
    """Plans of clusterings that nobody runs, oldest first."""
    protocol, timeline = ProtocolOptions.parse(options.texts), client.timeline()
    dead = dead_runs(timeline, protocol)

    def is_left(pending: Instant) -> bool:
        if pending.state is not State.REQUESTED:
            return pending in dead
        beats = protocol.heartbeat_interval_ms, protocol.heartbeat_misses
        return heartbeat.is_expired(client.storage, pending.time, *beats) is not False  # a run is not just beginning

    plans = (pending for pending in pending_clusterings(timeline) if is_plan(timeline, pending))
    return [pending for pending in plans if is_left(pending)]


@dataclass(frozen=True, slots=True)
class Clusterings:
    """What clustering by policy did.

    Attributes:
        reports: of each clustering that was run, or would be.
    """

    reports: tuple[ClusteringReport, ...] = ()


def why_not_clustered(client: TableClient, options: WriteOptions) -> str:
    """Why maintenance does not cluster a table; empty where it does.

    Raises:
        OptionError: the options contradict each other.
    """
    policy, timeline = ClusteringPolicy.of(options), client.timeline()
    pending = pending_clusterings(timeline)
    if not policy.runs:
        off = f"{keys.INLINE.key}, .schedule.inline and .async.enabled are off"
        plans = ", ".join(one.time for one in pending if is_plan(timeline, one))
        return f"{off}, and {plans} is planned, which `hudi-catalog cluster PATH --run` runs" if plans else off
    if left_clusterings(client, options):
        return ""
    if pending:
        return f"{', '.join(one.time for one in pending)} is being run by another process"
    if not policy.plans:
        return "none is planned, which writers do"
    count = commits_since(timeline)
    return "" if count >= policy.commits else f"{count} of {policy.commits} commits since the last clustering"


def cluster_by_policy(
    client: TableClient, options: WriteOptions, executor: Executor, *, dry_run: bool = False
) -> Clusterings:
    """Run clusterings that were left, and where enough commits have come a new one.

    A plan that cannot run any more, since another tool changed its files, is cancelled: it would hold back archiving,
    the compaction of the metadata table, and writes of its files.

    Raises:
        ConflictError: another writer changed the same files first.
        OptionError: an invalid option.
        UnsupportedTableError: a table with buckets, without columns to sort by.
    """
    policy, left = ClusteringPolicy.of(options), left_clusterings(client, options)
    if left:
        return Clusterings(tuple(_finish(client, one, options, executor, dry_run=dry_run) for one in left))
    if not policy.plans or commits_since(client.timeline()) < policy.commits:
        return Clusterings()
    report = cluster(client, options, executor, dry_run=dry_run)
    return Clusterings(() if report.state == "nothing" else (report,))


def _finish(
    client: TableClient, left: Instant, options: WriteOptions, executor: Executor, *, dry_run: bool
) -> ClusteringReport:
    """Run a plan that was left, or cancel it if it cannot run."""
    report = planned_report(client, left, options)
    outdated = outdated_file(client, client.timeline(), left)
    if outdated is None:
        return report if dry_run else run(client, left.time, options, executor)
    if not dry_run:
        protocol = ProtocolOptions.parse(options.texts)
        with table_lock(client, protocol):
            roll_back_dead_runs(client, protocol)
            plans = [one for one in pending_clusterings(client.timeline()) if one.time == left.time]
            for one in plans:
                if one.state is State.REQUESTED:
                    _LOG.warning("%s: cancelling %s: %s was changed by another tool", client.storage.uri, one, outdated)
                    roll_back(client, one)
    return replace(report, state="cannot run" if dry_run else "cancelled")


def commits_since(timeline: Timeline) -> int:
    """Completed writes since the last clustering, all that are active without one."""
    count = 0
    for write in reversed(timeline.writes):
        if write.action == Action.REPLACECOMMIT and _is_clustering(timeline.commit_metadata(write)):
            break
        count += 1
    return count


def _is_clustering(metadata: CommitMetadata) -> bool:
    return (metadata.operation_type or "").upper() == OPERATION and RESCALE_KEY not in metadata.extra_metadata
