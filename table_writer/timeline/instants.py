"""Instants on the timeline: their times, the table lock, the files of their states, and requested replacecommits."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from table_format.actions.avro_schemas import REQUESTED_REPLACE
from table_format.codecs.avro_file import read_avro_record, write_avro_file
from table_format.config.table_config import require_writable
from table_format.errors import AlreadyExistsError, MissingFileError
from table_format.instant import Action, Instant, State, next_instant_time
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import FOLDER, Timeline
from table_writer.timeline.heartbeat import Heartbeat
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import ProtocolOptions

AT_ONCE: Final = "hoodie.catalog.clustering.at.once"
"""Key in the metadata of a requested clustering that one call plans and runs: the plan ends with its run."""


WITHOUT_FILES: Final = frozenset({Action.SAVEPOINT, Action.INDEXING})
"""Actions that neither add data files nor take them away."""


@contextlib.contextmanager
def table_lock(client: TableClient, options: ProtocolOptions) -> Iterator[FileSystemLock]:
    """Hold the table's lock, which adding instants to the timeline and deleting them require.

    The table's properties are reloaded, since another writer may have upgraded the table.

    Raises:
        LockError: the lock could not be taken.
        UnsupportedTableError: a table of this kind can only be read.
    """
    require_writable(client.config, client.storage.uri)
    with FileSystemLock(client.storage, options.lock) as lock:
        require_writable(client.reload(), client.storage.uri)
        yield lock


def instant_path(instant: Instant) -> str:
    """The file of one state of an instant, relative to the table's base folder."""
    return f"{FOLDER}/{instant.file_name}"


def next_time(client: TableClient, timeline: Timeline, now: dt.datetime | None = None) -> str:
    """A time after every instant of the timeline, pending ones included."""
    return next_instant_time(timeline.last_instant_time, client.config.timeline_timezone, now)


def request(client: TableClient, action: str, data: bytes, timeline: Timeline | None = None) -> Instant:
    """Put a new instant on the timeline as requested.

    Its time is after every instant of the table. If another writer requests the same time at that moment, a later one
    is tried.

    Args:
        client: the table.
        action: of the instant.
        data: content of the requested file.
        timeline: loaded under the lock that the caller holds; None loads it.

    Returns:
        The requested instant.
    """
    while True:
        instant = Instant(next_time(client, timeline or client.timeline()), action, State.REQUESTED)
        with contextlib.suppress(AlreadyExistsError):
            client.storage.create(instant_path(instant), data)
            return instant
        timeline = None


def request_alive(
    client: TableClient, action: str, data: bytes, timeline: Timeline, protocol: ProtocolOptions
) -> tuple[Instant, Heartbeat]:
    """`request` for a write, whose heartbeat is there before its instant."""
    while True:
        instant = Instant(next_time(client, timeline), action, State.REQUESTED)
        beat = Heartbeat(client.storage, instant.time, protocol.heartbeat_interval_ms, protocol.heartbeat_misses)
        beat.start()
        try:
            client.storage.create(instant_path(instant), data)
        except BaseException as error:
            beat.silence()
            if not isinstance(error, AlreadyExistsError):
                raise
            timeline = client.timeline()
            continue
        return instant, beat


def ensure_state(storage: Storage, instant: Instant, data: bytes) -> None:
    """Write the file of a state unless an earlier attempt has written it."""
    with contextlib.suppress(AlreadyExistsError):
        storage.create(instant_path(instant), data)


def delete_pending(storage: Storage, time: str, action: str) -> None:
    """Delete a pending instant from the timeline, its later state first."""
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.delete(instant_path(Instant(time, action, state)))


@dataclass(slots=True)
class RequestedReplaceMetadata:
    """Requested replacecommit.

    Attributes:
        operation: e.g. `CLUSTER`; None for overwrites.
        clustered: (partition path, file id) of the file groups that a clustering plan takes as its input.
        at_once: of a clustering that one call plans and runs; see `AT_ONCE`.
    """

    operation: str | None = None
    clustered: list[tuple[str, str]] = field(default_factory=list)
    at_once: bool = False

    @property
    def is_clustering(self) -> bool:
        """Whether this is a clustering plan rather than an overwrite."""
        return self.operation == "CLUSTER" or bool(self.clustered)

    def to_avro(self) -> bytes:
        """The content of the requested file of an overwrite: a record of nulls, as Apache writes it."""
        return write_avro_file(REQUESTED_REPLACE, [{"version": None}])

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> RequestedReplaceMetadata:
        """Read a requested file; it may be empty.

        Raises:
            CorruptFileError: the file is damaged.
        """

        def build(record: dict[str, Any]) -> RequestedReplaceMetadata:
            plan = record.get("clusteringPlan") or {}
            slices = [s for group in plan.get("inputGroups") or [] for s in group.get("slices") or []]
            return cls(
                operation=record.get("operationType"),
                clustered=[(s.get("partitionPath") or "", s.get("fileId") or "") for s in slices],
                at_once=AT_ONCE in (record.get("extraMetadata") or {}),
            )

        return read_avro_record(data, path, build) if data else cls()


def is_clustering(timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a clustering."""
    return requested_replace(timeline, instant).is_clustering


def is_plan(timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is the plan of a clustering that stays until it has run, whatever becomes of a run.

    A clustering that one call plans and runs is a write like others.
    """
    requested = requested_replace(timeline, instant)
    return requested.is_clustering and not requested.at_once


def requested_replace(timeline: Timeline, instant: Instant) -> RequestedReplaceMetadata:
    """What a pending instant's requested file says; nothing of other actions, and of one that has ended."""
    requested = instant.at(State.REQUESTED)
    if instant.action != Action.REPLACECOMMIT:
        return RequestedReplaceMetadata()
    try:
        data = timeline.read(requested)
    except MissingFileError:
        return RequestedReplaceMetadata()
    return RequestedReplaceMetadata.from_avro(data, timeline.path(requested))


def pending_work(client: TableClient, timeline: Timeline) -> list[Instant]:
    """Pending instants on which somebody may work, oldest first.

    Not an indexing while Apache's indexer builds nothing: its CREATE INDEX leaves one for ever when it fails early. Nor
    a savepoint, which has no files and is made under the table's lock: one that is left is of a dead process.
    """
    is_building = bool(client.config.raw.get(layout.INFLIGHT_PARTITIONS_KEY, "").strip())
    idle = {Action.SAVEPOINT} if is_building else WITHOUT_FILES
    return [one for one in timeline.pending if one.action not in idle]


def unlisted_writes(client: TableClient, timeline: Timeline) -> list[Instant]:
    """Pending instants whose files an index that is put to use now would miss, oldest first.

    A clustering that is only planned has none: whoever runs the plan looks at the table's indexes when the run begins,
    as a write does. Apache Hudi waits for plans as well, and so does a table without a listing of files, which the
    index would bring: Apache refuses to roll back what is older than the metadata table.
    """
    pending = pending_work(client, timeline)
    if layout.FILES not in client.config.metadata_partitions:
        return pending
    return [one for one in pending if one.state is not State.REQUESTED or not is_clustering(timeline, one)]
