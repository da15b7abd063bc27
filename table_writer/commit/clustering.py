"""The commit of a clustering: planned on the timeline, begun, and then completed or rolled back to its plan.

1. The requested replacecommit holds the plan. From here on writers refuse to change its file groups. 2. A heartbeat and
the inflight file: somebody runs it. 3. Files with markers, as of every write. 4. Under the table's lock the metadata
table gets the new files, their statistics and the new place of every record in the record index; then the completed
replacecommit is published. Whoever finds a dead run between 2 and 4 rolls it back to 1.

A clustering that one call plans and runs begins with its heartbeat, and takes the steps 1 and 2 under one hold of the
lock. It is a write like others: whoever finds it dead, or its own failure, rolls it back as a whole.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from table_format.actions.commit import CommitMetadata
from table_format.actions.table_services import ClusteringPlan
from table_format.config.table_config import recover_table_config
from table_format.errors import ConflictError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.conflicts import Cleared
from table_writer.commit.rollback import is_dead, resume_rollbacks, roll_back, settled_timeline
from table_writer.commit.transaction import WriteTransaction, bring_up_to_date
from table_writer.metadata.index_files import IndexChanges
from table_writer.metadata.index_options import IndexOptions
from table_writer.slots.partition_files import PartitionFiles
from table_writer.timeline.heartbeat import Heartbeat, silenced_if_it_fails
from table_writer.timeline.instants import AT_ONCE, ensure_state, is_clustering, is_plan, request_alive, table_lock
from table_writer.timeline.markers import scratch_folder
from table_writer.timeline.options import ProtocolOptions

OPERATION = "CLUSTER"


class PlanGoneError(TransactionError):
    """There is no such plan: it was never made, or it was run or cancelled, perhaps by another process."""


def pending_clusterings(timeline: Timeline) -> list[Instant]:
    """Clusterings that are planned and have not completed, oldest first."""
    return [one for one in timeline.pending if one.action == Action.REPLACECOMMIT and is_clustering(timeline, one)]


def read_plan(timeline: Timeline, instant: Instant) -> ClusteringPlan:
    """The plan of a pending clustering.

    Raises:
        TransactionError: it holds none.
    """
    requested = instant.at(State.REQUESTED)
    plan = ClusteringPlan.from_avro(timeline.read(requested), timeline.path(requested))
    if plan is None:
        raise TransactionError(f"{timeline.path(requested)}: no plan of a clustering")
    return plan


class ClusteringTransaction(WriteTransaction):
    """A clustering that runs; see `WriteTransaction`.

    Attributes:
        plan: what it rewrites.
    """

    plan: ClusteringPlan

    @classmethod
    def begin_planned(cls, client: TableClient, time: str, options: Mapping[str, str]) -> Self:
        """Begin to run a plan.

        A run of it whose writer died is rolled back before.

        Args:
            client: the table.
            time: instant of the plan.
            options: Apache's keys; see `ProtocolOptions`.

        Raises:
            TransactionError: there is no such plan, another writer runs it, or files of it were replaced since.
            LockError: the table lock could not be taken.
        """
        protocol, index = ProtocolOptions.parse(options), IndexOptions.parse(options)
        with table_lock(client, protocol):
            timeline = _settled(client, protocol)
            instant = _planned(client, timeline, time, protocol)
            timeline = client.timeline(timeline)
            plan = read_plan(timeline, instant)
            refuse_outdated(client, timeline, instant)
            bring_up_to_date(client, timeline, options, protocol, index)
            beat = Heartbeat(client.storage, time, protocol.heartbeat_interval_ms, protocol.heartbeat_misses)
            beat.start()
            with silenced_if_it_fails(beat):
                # of a run that died; its markers stay, so that files which its tasks write late are deleted
                client.storage.delete_dir(scratch_folder(time))
                return cls._running(client, instant, plan, options=options, timeline=timeline, beat=beat)

    @classmethod
    def begin_new(
        cls, client: TableClient, options: Mapping[str, str], planner: Callable[[Timeline], ClusteringPlan]
    ) -> Self | None:
        """Plan a clustering and begin to run it, as one write: however the run ends, no plan is left.

        Args:
            client: the table.
            options: Apache's keys; see `ProtocolOptions`.
            planner: makes the plan, under the table's lock.

        Returns:
            None where nothing is planned.

        Raises:
            LockError: the table lock could not be taken.
        """
        protocol, index = ProtocolOptions.parse(options), IndexOptions.parse(options)
        with table_lock(client, protocol):
            timeline = _settled(client, protocol)
            plan = planner(timeline)
            if not plan.groups:
                return None
            plan = replace(plan, extra={**plan.extra, AT_ONCE: "true"})
            bring_up_to_date(client, timeline, options, protocol, index)
            content = plan.to_avro(client.storage.full_uri)
            instant, beat = request_alive(client, Action.REPLACECOMMIT, content, timeline, protocol)
            with silenced_if_it_fails(beat):
                return cls._running(client, instant, plan, options=options, timeline=timeline, beat=beat)

    @classmethod
    def _running(
        cls,
        client: TableClient,
        instant: Instant,
        plan: ClusteringPlan,
        *,
        options: Mapping[str, str],
        timeline: Timeline,
        beat: Heartbeat,
    ) -> Self:
        ensure_state(client.storage, instant.at(State.INFLIGHT), b"")
        begun = cls(client, instant, OPERATION, options=options, timeline=timeline, heartbeat=beat)
        begun.plan = plan
        begun._inflight = True
        return begun

    def mark_inflight(self, stats: CommitMetadata | None = None) -> None:
        """Do nothing: a clustering is inflight when it begins."""

    def _check(
        self,
        timeline: Timeline,
        own: Instant,
        metadata: CommitMetadata,
        changes: IndexChanges | None,
        cleared: Cleared | None,
        *,
        alone: bool,
    ) -> None:
        refuse_outdated(self.client, timeline, own)
        super()._check(timeline, own, metadata, changes, cleared, alone=alone)

    def _undo(self) -> None:
        if AT_ONCE in self.plan.extra:
            super()._undo()
            return
        with table_lock(self.client, self._protocol):
            timeline = self.client.timeline()
            if resume_rollbacks(self.client, timeline):
                timeline = self.client.timeline()
            own = timeline.find(self.instant, self._requested.action)
            if own is not None and own.state is State.INFLIGHT:
                roll_back(self.client, own)


def _settled(client: TableClient, protocol: ProtocolOptions) -> Timeline:
    if recover_table_config(client.storage):
        client.reload()
    return settled_timeline(client, protocol)[0]


def _planned(client: TableClient, timeline: Timeline, time: str, protocol: ProtocolOptions) -> Instant:
    """The requested instant of a plan that nobody runs."""
    instant = next((one for one in pending_clusterings(timeline) if one.time == time), None)
    if instant is None:
        if any(one.time == time for one in timeline.writes):
            raise PlanGoneError(f"{client.storage.uri}: clustering {time} has been run already, by another process")
        known = ", ".join(one.time for one in pending_clusterings(timeline)) or "none"
        raise PlanGoneError(f"{client.storage.uri}: no clustering {time} is planned; planned: {known}")
    if instant.state is State.INFLIGHT:
        wait = f"{client.storage.uri}: another writer runs clustering {time}. Wait until it has ended"
        if not is_plan(timeline, instant):
            raise TransactionError(wait)  # the next write after its end rolls it back
        if not is_dead(timeline, instant, protocol):
            raise TransactionError(f"{wait}; if it is dead, hoodie.clean.failed.writes.policy=EAGER takes it over now")
        roll_back(client, instant)
    return instant.at(State.REQUESTED)


def outdated_file(client: TableClient, timeline: Timeline, instant: Instant) -> str | None:
    """Path of a file of a pending plan that is no longer the newest of its file group; None where the plan can run."""
    plan = read_plan(timeline, instant)
    partitions = sorted({partition for partition, _ in plan.file_groups})
    latest = PartitionFiles(client, timeline).of(partitions)
    names = {(row["partition"], row["file_name"]) for row in latest.select(["partition", "file_name"]).to_pylist()}
    pieces = (piece for group in plan.groups for piece in group)
    gone = (piece for piece in pieces if (piece.partition, piece.base_file) not in names)
    return next((posixpath.join(piece.partition, piece.base_file or piece.file_id) for piece in gone), None)


def refuse_outdated(client: TableClient, timeline: Timeline, instant: Instant) -> None:
    """Refuse to run a plan whose files are no longer the newest of their file groups.

    Raises:
        ConflictError: a writer that does not respect plans has changed or replaced some.
    """
    place = outdated_file(client, timeline, instant)
    if place is not None:
        raise ConflictError(
            f"{client.storage.uri}: clustering {instant.time} was planned with {place}, which another writer has "
            f"changed or replaced since: cancel it by `hudi-catalog rollback PATH {instant.time}`"
        )
