"""Clusterings as users call them: planned, run, or both; and after a commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from catalog.layout import column_layouts
from catalog.table import Table
from table_format.actions.commit import CommitMetadata
from table_format.errors import HudiError
from table_format.instant import Action, State
from table_format.meta_columns import META_FIELDS
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.clustering.report import ClusteringReport
from table_writer.clustering_job import plan, run
from table_writer.commit.clustering import OPERATION, pending_clusterings
from table_writer.commit.rollback import roll_back
from table_writer.execution.executor import Executor
from table_writer.plan import clustering_options as keys
from table_writer.plan.options import WriteOptions
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import table_lock
from table_writer.timeline.options import ProtocolOptions

_LOG = logging.getLogger(__name__)


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
    planned = replace(plan(client, options, partitions, dry_run=dry_run), kept_before=before)
    if plan_only or planned.state != "planned" or planned.instant is None:
        return planned
    try:
        report = run(client, planned.instant, options, executor)
    except HudiError as error:
        _cancel(client, planned.instant, options, error)
        raise
    return replace(report, kept_before=before, kept_after=kept_shares(client, columns))


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
    times = [one.time for one in pending_clusterings(client.timeline())] if instant is None else [instant]
    return [run(client, time, options, executor) for time in times]


def cluster_after_write(client: TableClient, options: WriteOptions, executor: Executor) -> None:
    """Cluster after a commit, if `hoodie.clustering.inline` asks for it and enough commits have come.

    A failure is logged and left to the next run: the commit stands, and no plan is left.
    """
    if not options.flag(keys.INLINE):
        return
    try:
        if commits_since(client.timeline()) >= (options.number(keys.INLINE_COMMITS) or 1):
            _LOG.info("%s: %s", client.storage.uri, cluster(client, options, executor))
    except (HudiError, OSError) as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        _LOG.warning("%s: clustering is left to the next write: %s %s", client.storage.uri, error, notes)


def finish_inline(client: TableClient, options: WriteOptions, executor: Executor) -> None:
    """Run clusterings that died after a commit, before a write of a job that clusters inline: it may need their files.

    Those that another writer runs are left to it.
    """
    if not options.flag(keys.INLINE):
        return
    protocol, timeline = ProtocolOptions.parse(options.texts), client.timeline()
    for pending in pending_clusterings(timeline):
        dead = heartbeat.is_expired(
            client.storage, pending.time, protocol.heartbeat_interval_ms, protocol.heartbeat_misses
        )
        if dead or (dead is None and pending.state is State.REQUESTED):
            _LOG.warning("%s: running clustering %s, which was left", client.storage.uri, pending.time)
            try:
                run(client, pending.time, options, executor)
            except HudiError as error:
                _LOG.warning("%s: clustering %s stays planned: %s", client.storage.uri, pending.time, error)


def commits_since(timeline: Timeline) -> int:
    """Completed writes since the last clustering, all that are active without one."""
    count = 0
    for write in reversed(timeline.writes):
        if write.action == Action.REPLACECOMMIT and _operation(timeline.commit_metadata(write)) == OPERATION:
            break
        count += 1
    return count


def _operation(metadata: CommitMetadata) -> str:
    return (metadata.operation_type or "").upper()


def _cancel(client: TableClient, time: str, options: WriteOptions, error: HudiError) -> None:
    """Take back a plan that was made for a run which failed, since writes of its files would be refused."""
    try:
        with table_lock(client, ProtocolOptions.parse(options.texts)):
            plans = [one for one in pending_clusterings(client.timeline()) if one.time == time]
            for one in plans:
                if one.state is State.REQUESTED:
                    roll_back(client, one)
                    return
    except HudiError as failure:
        _LOG.warning("%s: cancelling clustering %s failed: %s", client.storage.uri, time, failure)
    error.add_note(
        f"clustering {time} stays planned, and writes that change its files are refused until it has run "
        "(`hudi-catalog cluster PATH --run`) or is cancelled by `hudi-catalog rollback`"
    )
