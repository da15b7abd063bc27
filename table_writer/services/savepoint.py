"""Savepoints: states of the table that cleaning and archiving keep, until the savepoint is deleted."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType

import pyarrow as pa

from catalog.slices.time_travel import check_not_cleaned
from table_format.actions.restore import SavepointMetadata
from table_format.errors import ArgumentError, OptionError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.metadata_table.reader import data_files
from table_format.slices.file_slices import latest_base_files
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.services.clean import resume_cleans
from table_writer.services.undo import refuse_foreign_undo
from table_writer.timeline.instants import ensure_state, instant_path, table_lock
from table_writer.timeline.options import ProtocolOptions


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of a table.

    Attributes:
        instant: of the write whose state it keeps.
        user: who made it.
        created_ms: when, in milliseconds since the epoch.
        comments: free text.
        partitions: number of partitions with files in it.
        files: number of data files that it keeps.
    """

    instant: str
    user: str
    created_ms: int
    comments: str
    partitions: int
    files: int


def create_savepoint(
    client: TableClient,
    instant: str | None = None,
    *,
    user: str | None = None,
    comments: str = "",
    options: Mapping[str, str] | None = None,
) -> Savepoint:
    """Keep the table's state after a write.

    Args:
        client: the table.
        instant: of a completed write on the active timeline; None for the newest.
        user: name to note; None for the user of this process.
        comments: free text to note.
        options: of the table's lock.

    Raises:
        TransactionError: there is no such write, it has a savepoint, or files of its state were cleaned; or a restore
            of another tool is under way.
        LockError: the table lock could not be taken.
        ArgumentError: `user` or `comments` is not a text.
    """
    for name, text in (("user", user), ("comments", comments)):
        _check_text(name, text)
    with table_lock(client, ProtocolOptions.parse(options or {})):
        timeline = client.timeline()
        refuse_foreign_undo(timeline)
        if resume_cleans(client, timeline):
            timeline = client.timeline()
        write = write_at(client, timeline, instant)
        if timeline.is_saved(write):
            raise TransactionError(f"{client.storage.uri}: {write.time} has a savepoint already")
        files = state_files(client, timeline, write)
        names: dict[str, list[str]] = {}
        for row in latest_base_files(files, timeline, as_of=write.time).select(["partition", "file_name"]).to_pylist():
            names.setdefault(row["partition"], []).append(row["file_name"])
        metadata = SavepointMetadata(user or _user(), round(time.time() * 1000), comments, names)
        content = metadata.to_avro()
        ensure_state(client.storage, Instant(write.time, Action.SAVEPOINT, State.INFLIGHT), b"")
        completed = Instant(write.time, Action.SAVEPOINT, State.COMPLETED)
        client.storage.create(instant_path(completed), content)
    return _described(write.time, metadata)


def _check_text(name: str, text: object) -> None:
    try:
        if text is not None:
            str.encode(text)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise ArgumentError(f"{name}={text!r}: give a text") from error


def list_savepoints(client: TableClient) -> list[Savepoint]:
    """The table's savepoints, oldest first."""
    timeline = client.timeline()
    saved = (instant for instant in timeline.completed if instant.action == Action.SAVEPOINT)
    return [_described(instant.time, timeline.savepoint_metadata(instant)) for instant in saved]


def delete_savepoint(client: TableClient, instant: str, options: Mapping[str, str] | None = None) -> None:
    """Give up a savepoint: cleaning and archiving no longer keep its state.

    Args:
        client: the table.
        instant: of the savepoint.
        options: of the table's lock.

    Raises:
        TransactionError: there is no such savepoint, or a restore of another tool is under way.
        LockError: the table lock could not be taken.
    """
    with table_lock(client, ProtocolOptions.parse(options or {})):
        timeline = client.timeline()
        refuse_foreign_undo(timeline)
        saved = [one.time for one in timeline.instants if one.action == Action.SAVEPOINT]
        if instant not in saved:
            known = f"it has {', '.join(saved)}" if saved else "it has none"
            raise TransactionError(f"{client.storage.uri}: there is no savepoint {instant}; {known}")
        for state in (State.COMPLETED, State.INFLIGHT):
            client.storage.delete(instant_path(Instant(instant, Action.SAVEPOINT, state)))


def write_at(client: TableClient, timeline: Timeline, instant: str | None) -> Instant:
    """A completed write of the active timeline; the newest for None.

    Raises:
        ArgumentError: the instant is no text.
        TransactionError: there is none, or it is archived, pending or was taken back.
    """
    if not isinstance(instant, (str, NoneType)):
        raise ArgumentError(f"an instant is a text, as `history` lists it, not {instant!r}")
    write = timeline.last_completed_write() if instant is None else _write_of(timeline, instant)
    if write is not None:
        return write
    place = client.storage.uri
    if instant is None:
        raise TransactionError(f"{place}: the table has no completed write yet")
    if any(pending.time == instant for pending in timeline.pending):
        raise TransactionError(f"{place}: {instant} has not completed")
    if timeline.is_undone(instant):
        raise TransactionError(f"{place}: {instant} was rolled back")
    if timeline.start is not None and instant < timeline.start and instant in timeline.archive.writes:
        raise TransactionError(
            f"{place}: {instant} is not on the active timeline, which begins at {timeline.start}: what is older was "
            "archived and can be neither saved, restored nor rolled back"
        )
    raise TransactionError(f"{place}: {instant} is no write of this table; `history` lists them")


def state_files(client: TableClient, timeline: Timeline, write: Instant) -> pa.Table:
    """All data files of the table, if those of its state after a write are among them.

    Returns:
        Columns partition, file_name, size.

    Raises:
        TransactionError: files of that state were cleaned.
    """
    files = data_files(client, timeline)
    try:
        check_not_cleaned(files, timeline, write.time)
    except OptionError as error:
        raise TransactionError(f"{client.storage.uri}: the state after {write.time} is gone: {error}") from error
    return files


def _write_of(timeline: Timeline, instant: str) -> Instant | None:
    return next((write for write in timeline.writes if write.time == instant), None)


def _described(instant: str, metadata: SavepointMetadata) -> Savepoint:
    sizes = [len(names) for names in metadata.files.values() if names]
    return Savepoint(
        instant, metadata.saved_by, metadata.saved_at_ms, metadata.comments, partitions=len(sizes), files=sum(sizes)
    )


def _user() -> str:
    """Name of the user of this process; empty where the system knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
