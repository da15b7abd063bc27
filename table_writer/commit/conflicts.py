"""Optimistic concurrency control: conflicts of a write with the writes that completed since it began."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from table_format.actions.commit import CommitMetadata
from table_format.codecs.arrow_numpy import one_chunk
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.errors import ConflictError, HudiError, MissingFileError, SchemaError, TransactionError
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.slices.file_names import bucket_of_file_id
from table_format.storage import Storage
from table_format.table.bucket_counts import RESCALE_KEY
from table_format.table.client import SCHEMA_KEY, TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.metadata.index_deltas import DeltaFile, changed_groups, read_deltas
from table_writer.metadata.index_files import FEW_CHANGES, IndexChanges
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import RequestedReplaceMetadata, is_clustering, is_plan

Slot = tuple[str, str | int]

"""What one writer at a time may change: (partition path, file id), or (partition path, bucket)."""

Cleared = Callable[[str], bool]

"""Whether a write replaces everything in a partition, given its path."""

_CHANGES: Final = (*WRITE_ACTIONS, Action.ROLLBACK, Action.RESTORE)

_MEANWHILE: Final = "while this write was under way; nothing was written, try again"


@dataclass(frozen=True, slots=True)
class TimelineState:
    """State of the timeline when a write began.

    Attributes:
        completed: times of completed writes, rollbacks and restores.
        writes: times of completed writes.
        pending: times of pending writes.
        schema: the table's Avro schema text, or None.
    """

    completed: frozenset[str]
    writes: frozenset[str]
    pending: frozenset[str]
    schema: str | None

    @classmethod
    def of(cls, client: TableClient, timeline: Timeline) -> Self:
        """State of a timeline that was loaded under the table's lock."""
        return cls(
            completed=frozenset(i.time for i in timeline.completed if i.action in _CHANGES),
            writes=frozenset(i.time for i in timeline.writes),
            pending=frozenset(i.time for i in timeline.pending if i.comparable_action in WRITE_ACTIONS),
            schema=client.table_schema_json(timeline),
        )


def touched_slots(metadata: CommitMetadata, *, bucketed: bool) -> set[Slot]:
    """File groups that a write changed, created or replaced.

    Under the bucket index the bucket stands for its file group, so two writers that each create the first file of a
    bucket, with different file ids, conflict (as in Apache's conflict strategy for the bucket index).
    """
    groups = [(stat.partition_path, stat.file_id) for stat in metadata.stats() if stat.file_id]
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        groups += [(partition, file_id) for file_id in file_ids]
    return {(partition, _slot(file_id, bucketed=bucketed)) for partition, file_id in groups}


def check_conflicts(
    timeline: Timeline,
    own: Instant,
    before: TimelineState,
    metadata: CommitMetadata,
    *,
    bucketed: bool,
    cleared: Cleared | None = None,
) -> None:
    """Check a write against those that others completed since it began, and against pending table services.

    Args:
        timeline: loaded under the table lock.
        own: this write's instant.
        before: state of the timeline when this write began.
        metadata: of this write.
        bucketed: whether the table has the bucket index.
        cleared: whether this write replaces everything in a partition, given its path.

    Raises:
        ConflictError: another write changed the same file groups or buckets, or the number of buckets, wrote into a
            partition that this one clears, or evolved the schema differently.
        TransactionError: a clustering that was planned before this write began is about to replace its file groups.
    """
    own_slots = touched_slots(metadata, bucketed=bucketed)
    _check_not_undone(timeline, own, before)
    for instant in completed_since(timeline, own, before):
        if instant.action == Action.RESTORE:
            raise ConflictError(f"{own.time}: restore {instant.time} took writes back {_MEANWHILE}")
        other_metadata = timeline.commit_metadata(instant)
        if RESCALE_KEY in other_metadata.extra_metadata:
            # also where no file group is common: this write's rows may lie in new ones, numbered by the old count
            raise ConflictError(f"{own.time}: resize {instant.time} changed the number of buckets {_MEANWHILE}")
        slots = touched_slots(other_metadata, bucketed=bucketed)
        common = own_slots & slots
        if cleared is not None:
            common |= {slot for slot in slots if cleared(slot[0])}
        if common:
            raise ConflictError(
                f"{own.time}: instant {instant.time} ({instant.action}) changed the same file groups while this write "
                f"was under way ({_places(common)}); nothing was written, try again"
            )
        _check_schema(own, instant, before.schema, other_metadata, metadata)
    gone = before.writes.difference(write.time for write in timeline.writes)
    lost = [time for time in sorted(gone) if not timeline.is_committed(time)]  # the others were archived
    if lost:
        raise ConflictError(f"{own.time}: instant {lost[0]} left the timeline {_MEANWHILE}")
    check_services(timeline, own_slots, bucketed=bucketed, own=own, before=before)


def changed_since(timeline: Timeline, own: Instant, before: TimelineState) -> dict[Slot, str]:
    """File groups that others changed, created or replaced since a write began, with the newest instant of each."""
    slots: dict[Slot, str] = {}
    for instant in completed_since(timeline, own, before):
        if instant.action != Action.RESTORE:
            slots |= dict.fromkeys(touched_slots(timeline.commit_metadata(instant), bucketed=False), instant.time)
    return slots


def check_alone(timeline: Timeline, own: Instant, before: TimelineState) -> None:
    """Refuse a write that must be the only one, when another one completed since it began.

    Raises:
        ConflictError: another write completed.
    """
    for instant in completed_since(timeline, own, before):
        raise ConflictError(
            f"{own.time}: instant {instant.time} ({instant.action}) completed while this write was under way, which "
            "must be the only one; nothing was written, try again"
        )


def foreign_writes(timeline: Timeline) -> list[Instant]:
    """Pending instants of other tools, which look at no conflict with a write of ours; no plans of clusterings."""
    return [
        one
        for one in timeline.pending
        if one.action != Action.SAVEPOINT
        and not is_clustering(timeline, one)
        and not (one.action in WRITE_ACTIONS and heartbeat.is_own(timeline.storage, one.time))
        and _is_still_pending(timeline, one)
    ]


def _is_still_pending(timeline: Timeline, one: Instant) -> bool:
    """Whether it has not ended since the timeline was loaded: the heartbeats of our own writes go with their end."""
    storage = timeline.storage
    return storage.exists(timeline.path(one)) and not storage.exists(timeline.path(one.at(State.COMPLETED)))


def clustered_slots(timeline: Timeline, *, bucketed: bool) -> dict[Slot, Instant]:
    """File groups that pending clusterings are about to replace, each with its clustering."""
    slots: dict[Slot, Instant] = {}
    for instant in timeline.pending:
        if instant.comparable_action != Action.REPLACECOMMIT:
            continue
        requested = instant.at(State.REQUESTED)
        try:
            plan = RequestedReplaceMetadata.from_avro(timeline.read(requested), timeline.path(requested))
        except MissingFileError:
            continue  # completed or rolled back meanwhile
        for partition, file_id in plan.clustered:
            slots[partition, _slot(file_id, bucketed=bucketed)] = instant
    return slots


def check_services(
    timeline: Timeline,
    slots: Collection[Slot],
    *,
    bucketed: bool,
    own: Instant | None = None,
    before: TimelineState | None = None,
) -> None:
    """Refuse to change file groups that a pending clustering is about to replace.

    Args:
        timeline: loaded under the table lock, or when the write began.
        slots: what the write touches.
        bucketed: whether the table has the bucket index.
        own: the write's instant.
        before: state of the timeline when the write began; None if it begins now.

    Raises:
        ConflictError: the clustering was planned since the write began: a retry may write other file groups.
        TransactionError: it was pending before: a retry would meet it again.
    """
    clustered = clustered_slots(timeline, bucketed=bucketed)
    others = {slot: instant for slot, instant in clustered.items() if own is None or instant.time != own.time}
    common = {slot: others[slot] for slot in slots if slot in others}
    for instant in sorted(set(common.values())):
        places = _places({slot for slot, other in common.items() if other == instant})
        if own is not None and before is not None and instant.time not in before.pending:
            raise ConflictError(
                f"{own.time}: instant {instant.time} ({instant.action}), a clustering, was planned for the same file "
                f"groups while this write was under way ({places}); nothing was written, try again"
            )
        raise TransactionError(
            f"{timeline.storage.uri}: instant {instant.time} ({instant.action}), a clustering that was planned before "
            f"this write began and has not ended, is about to replace file groups that this write changes ({places}); "
            "nothing was written. Wait until it has run, run it by `hudi-catalog cluster PATH --run`, or cancel it by "
            f"`hudi-catalog rollback PATH {instant.time}`; then write again"
        )


def _check_not_undone(timeline: Timeline, own: Instant, before: TimelineState) -> None:
    """Refuse a write that began with the rows of another one which was rolled back since.

    Times do not say what came since: a planned clustering begins long after its instant.
    """
    for instant in timeline.completed:
        if instant.action == Action.ROLLBACK and instant.time not in before.completed:
            undone = sorted(before.completed.intersection(time for time, _ in timeline.rolled_back_by(instant)))
            if undone:
                raise ConflictError(f"{own.time}: rollback {instant.time} took {undone[0]} back {_MEANWHILE}")


def check_savepoints(timeline: Timeline, own: Instant) -> None:
    """Refuse a write that would belong to a state, by its time, that was saved without it.

    A planned clustering, which keeps its time, changes no row of that state.

    Raises:
        ConflictError: a later state was saved.
    """
    saved = (one.time for one in timeline.instants if one.action == Action.SAVEPOINT and one.time > own.time)
    later = next(saved, None)
    if later is not None and not is_plan(timeline, own):
        raise ConflictError(f"{own.time}: the state of instant {later} was saved {_MEANWHILE}")


def raise_if_overtaken(client: TableClient, begun: Timeline, own: str, error: HudiError) -> None:
    """Raise a conflict in place of an error that others may have caused: by what completed, or was undone, meanwhile.

    Args:
        client: the table.
        begun: its timeline as the write began.
        own: the write's instant; it may have been rolled back because of the error.
        error: such as that a file is gone which the write wanted to read.

    Raises:
        ConflictError: somebody changed the table, so that another attempt may succeed.
    """
    now = client.timeline(begun)
    came, went = set(now.completed).difference(begun.completed), set(begun.completed).difference(now.completed)
    others = sorted([*went, *(one for one in came if not _undoes(now, one, own))])
    if others:
        raise ConflictError(
            f"{own}: instant {others[-1].time} ({others[-1].action}) came or went {_MEANWHILE}: {error}"
        ) from error


def _undoes(timeline: Timeline, one: Instant, own: str) -> bool:
    """Whether a completed instant is a write's rollback."""
    if one.action != Action.ROLLBACK:
        return False
    return own in dict(timeline.rolled_back_by(one))


def completed_since(timeline: Timeline, own: Instant, before: TimelineState) -> Iterator[Instant]:
    """Writes and restores of others that completed since a write began."""
    for instant in timeline.completed:
        known = instant.time in before.completed or instant.time == own.time
        if instant.action in (*WRITE_ACTIONS, Action.RESTORE) and not known:
            yield instant


def _check_schema(
    own: Instant, other: Instant, before: str | None, other_metadata: CommitMetadata, own_metadata: CommitMetadata
) -> None:
    """Refuse a schema that lacks columns which another writer has just added: readers would lose them.

    Of two overlapping writes readers take the schema of the greater instant, whichever completed first.
    """
    schema = other_metadata.extra_metadata.get(SCHEMA_KEY)
    ours = own_metadata.extra_metadata.get(SCHEMA_KEY)
    if not schema or schema == ours:
        return
    columns, own_columns = _columns(schema), _columns(ours) if ours else None
    if columns == own_columns:
        return
    if before is None or columns != _columns(before):
        raise ConflictError(
            f"{own.time}: instant {other.time} ({other.action}) changed the table's schema {_MEANWHILE}"
        )
    if other.time > own.time and own_columns is not None:
        raise ConflictError(
            f"{own.time}: instant {other.time} ({other.action}) kept the table's schema, which this write changes, "
            "while it was under way; nothing was written, try again"
        )


def _columns(schema_json: str) -> list[tuple[str, object]]:
    """Names and types of columns, whatever names writers give to records and in whatever order they list unions."""
    try:
        return [(field.name, field.type) for field in avro_to_arrow(schema_json)]
    except SchemaError:
        return [(schema_json, None)]


def _slot(file_id: str, *, bucketed: bool) -> str | int:
    bucket = bucket_of_file_id(file_id) if bucketed else None
    return file_id if bucket is None else bucket


def _places(slots: set[Slot]) -> str:
    places = sorted(f"{partition or 'the table'}: {slot}" for partition, slot in slots)
    return "; ".join(places[:3]) + (f"; and {len(places) - 3} more" if len(places) > 3 else "")


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _GroupTask:
    """One file group of the index to look up keys in; `places` are the file groups that others changed."""

    index: RecordIndex
    storage: Storage
    files: tuple[DeltaFile, ...]
    group: int
    current_group: int
    places: pa.Table


def check_keys(
    client: TableClient,
    timeline: Timeline,
    changes: IndexChanges,
    own: str,
    others: Mapping[tuple[str, str | int], str],
) -> None:
    """Check whether others put records of the same keys into file groups since a write began.

    Two writers that insert the same key write into different file groups, so comparing file groups does not find it,
    and the second record of the key would stay. Callers hold the table's lock until the write is published.

    Args:
        client: the table.
        timeline: loaded under the lock.
        changes: of the write.
        own: the write's instant.
        others: the instant that changed each file group (partition path and file id) since the write began; none is
            the write's own.

    Raises:
        ConflictError: another write put a record of the same key.
    """
    counts = changed_groups(changes.files)
    if not others or not counts:
        return
    current = IndexLayout.of(client, timeline)
    if current is None:
        return
    layout = changes.layout or current
    ordinals = {file_id: number for number, file_id in enumerate(current.groups)}
    index = RecordIndex.open(client, timeline)
    rows = sorted((partition, str(slot)) for partition, slot in others)
    names = ["partition", "file_id"]
    places = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    tasks = [
        _GroupTask(index, client.storage, tuple(changes.files), group, ordinals[layout.groups[group]], places)
        for group in counts
        if layout.groups[group] in ordinals
    ]
    mapper = in_threads if sum(counts.values()) < FEW_CHANGES else changes.mapper
    clashes = [clash for task_clashes in mapper(_clashes, tasks) for clash in task_clashes]
    if clashes:
        shown = ", ".join(repr(key) for key, *_ in clashes[:_SHOWN])
        _, partition, file_id = clashes[0]
        raise ConflictError(
            f"{own}: instant {others[partition, file_id]} put records of the same keys ({shown}) elsewhere while this "
            "write was under way; nothing was written, try again"
        )


def _clashes(task: _GroupTask) -> list[tuple[str, str, str]]:
    """Some of the keys that are now in file groups of others, with partition path and file id."""
    changes = read_deltas(task.storage, task.files, task.group)
    locations = task.index.group_locations(task.current_group, one_chunk(changes["key"]))
    clashes = locations.join(task.places, ["partition", "file_id"], join_type="left semi")
    rows = clashes.select(["key", "partition", "file_id"]).slice(0, _SHOWN).to_pylist()
    return [(row["key"], row["partition"], row["file_id"]) for row in rows]
