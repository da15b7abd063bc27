"""Optimistic concurrency control: has another writer touched what this write touches?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from table_format.actions.commit import CommitMetadata
from table_format.actions.replace import RequestedReplaceMetadata
from table_format.avro_schema import avro_to_arrow
from table_format.errors import ConflictError, MissingFileError, SchemaError
from table_format.file_names import bucket_of_file_id
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.meta_client import SCHEMA_KEY
from table_format.timeline import Timeline

Slot = tuple[str, str | int]
"""A place that one writer at a time may change: (partition path, file id), or (partition path, bucket)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a writer saw of the timeline when it began.

    Attributes:
        last_completed: time of the newest completed write, or `""`.
        pending: times of the writes then pending.
        schema: the table's Avro schema text, or None.
    """

    last_completed: str
    pending: frozenset[str]
    schema: str | None


def touched_slots(metadata: CommitMetadata, *, bucketed: bool) -> set[Slot]:
    """File groups that a write changed, made or replaced.

    Under the bucket index the bucket stands for its file group. So two writers that each make the first file of a
    bucket, under different file ids, do conflict (as Apache's conflict strategy for the bucket index has it).
    """
    groups = [(stat.partition_path, stat.file_id) for stat in metadata.stats() if stat.file_id]
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        groups += [(partition, file_id) for file_id in file_ids]
    return {(partition, _slot(file_id, bucketed=bucketed)) for partition, file_id in groups}


def check_conflicts(
    timeline: Timeline, own: Instant, before: Snapshot, metadata: CommitMetadata, *, bucketed: bool
) -> None:
    """Compare a write with those that others completed since it began, and with pending table services.

    Args:
        timeline: loaded under the table lock.
        own: this write's instant.
        before: the timeline as this write found it.
        metadata: what this write is about to publish.
        bucketed: whether the table has the bucket index.

    Raises:
        ConflictError: another write changed the same file groups or buckets, or evolved the schema otherwise.
    """
    mine = touched_slots(metadata, bucketed=bucketed)
    for instant in _completed_since(timeline, own, before):
        theirs = timeline.commit_metadata(instant)
        common = mine & touched_slots(theirs, bucketed=bucketed)
        if common:
            raise ConflictError(_message(own, instant, common))
        _check_schema(own, instant, before.schema, theirs, metadata)
    check_services(timeline, own, mine, bucketed=bucketed)


def changed_since(timeline: Timeline, own: Instant, before: Snapshot) -> set[Slot]:
    """File groups that other writes changed, made or replaced since a write began."""
    slots: set[Slot] = set()
    for instant in _completed_since(timeline, own, before):
        slots |= touched_slots(timeline.commit_metadata(instant), bucketed=False)
    return slots


def check_alone(timeline: Timeline, own: Instant, before: Snapshot) -> None:
    """Refuse a write that must see all others, when another one completed since it began.

    Raises:
        ConflictError: there is one.
    """
    for instant in _completed_since(timeline, own, before):
        raise ConflictError(
            f"{own.time}: instant {instant.time} ({instant.action}) completed while this write was under way, which "
            "must be the only one; nothing was written, try again"
        )


def check_services(timeline: Timeline, own: Instant, mine: set[Slot], *, bucketed: bool) -> None:
    """Refuse to change file groups that a pending clustering is about to replace.

    Raises:
        ConflictError: the write touches one of them.
    """
    for instant in timeline.pending:
        if instant.action != Action.REPLACECOMMIT or instant.time == own.time:
            continue
        requested = instant.at(State.REQUESTED)
        try:
            plan = RequestedReplaceMetadata.from_avro(timeline.read(requested), timeline.path(requested))
        except MissingFileError:
            continue  # completed or undone meanwhile
        theirs = {(partition, _slot(file_id, bucketed=bucketed)) for partition, file_id in plan.clustered}
        if mine & theirs:
            raise ConflictError(_message(own, instant, mine & theirs))


def _completed_since(timeline: Timeline, own: Instant, before: Snapshot) -> Iterator[Instant]:
    for instant in timeline.writes:
        since = instant.time > before.last_completed or instant.time in before.pending
        if instant.action in WRITE_ACTIONS and instant.time != own.time and since:
            yield instant


def _check_schema(
    own: Instant, other: Instant, before: str | None, theirs: CommitMetadata, mine: CommitMetadata
) -> None:
    """Publishing a schema that lacks what another writer has just added would take those columns from the readers."""
    schema = theirs.extra_metadata.get(SCHEMA_KEY)
    known = (before, mine.extra_metadata.get(SCHEMA_KEY))
    if schema and schema not in known and _columns(schema) not in [_columns(text) for text in known if text]:
        raise ConflictError(
            f"{own.time}: instant {other.time} changed the table's schema while this write was under way; nothing was "
            "written, try again"
        )


def _columns(schema_json: str) -> list[tuple[str, object]]:
    """Names and types; writers differ in the names of records, the order of unions and blanks."""
    try:
        return [(field.name, field.type) for field in avro_to_arrow(schema_json)]
    except SchemaError:
        return [(schema_json, None)]


def _slot(file_id: str, *, bucketed: bool) -> str | int:
    bucket = bucket_of_file_id(file_id) if bucketed else None
    return file_id if bucket is None else bucket


def _message(own: Instant, other: Instant, common: set[Slot]) -> str:
    places = sorted(f"{partition or 'the table'}: {slot}" for partition, slot in common)
    shown = "; ".join(places[:3]) + (f"; and {len(places) - 3} more" if len(places) > 3 else "")
    what = "clusters" if other.state is not State.COMPLETED else "changed"
    return (
        f"{own.time}: instant {other.time} ({other.action}) {what} the same file groups while this write was under way "
        f"({shown}); nothing was written, try again"
    )
