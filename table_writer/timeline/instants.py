"""Instants on the timeline: their times, the table lock, and the files of their states."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator

from table_format.actions.table_services import RequestedReplaceMetadata
from table_format.config.table_config import require_writable
from table_format.errors import AlreadyExistsError, MissingFileError
from table_format.instant import Action, Instant, State, next_instant_time
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import FOLDER, Timeline
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import ProtocolOptions


@contextlib.contextmanager
def table_lock(client: TableClient, options: ProtocolOptions) -> Iterator[FileSystemLock]:
    """Hold the table's lock, as whoever adds instants to the timeline or deletes them must.

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


def request(client: TableClient, action: str, data: bytes) -> Instant:
    """Put a new instant on the timeline as requested.

    Its time is after every instant of the table. If another writer requests the same time at that moment, a later one
    is tried.

    Returns:
        The requested instant.
    """
    while True:
        instant = Instant(next_time(client, client.timeline()), action, State.REQUESTED)
        with contextlib.suppress(AlreadyExistsError):
            client.storage.create(instant_path(instant), data)
            return instant


def ensure_state(storage: Storage, instant: Instant, data: bytes) -> None:
    """Write the file of a state unless an earlier attempt has written it."""
    with contextlib.suppress(AlreadyExistsError):
        storage.create(instant_path(instant), data)


def delete_pending(storage: Storage, time: str, action: str) -> None:
    """Delete a pending instant from the timeline, its later state first."""
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.delete(instant_path(Instant(time, action, state)))


def is_clustering(timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is the plan of a clustering, which is not a failed write."""
    if instant.action != Action.REPLACECOMMIT:
        return False
    requested = instant.at(State.REQUESTED)
    try:
        data = timeline.read(requested)
    except MissingFileError:
        return False
    return RequestedReplaceMetadata.from_avro(data, timeline.path(requested)).is_clustering
