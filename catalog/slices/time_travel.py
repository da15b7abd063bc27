"""Which past states of a table can still be read."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.table_services import CleanerPlan, CleanMetadata
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import MissingFileError, OptionError
from table_format.instant import Action, State, is_calendar_time, parse_as_of
from table_format.slices.file_slices import (
    FILES_SCHEMA,
    latest_file_slices,
    read_optimized_slices,
    replaced_file_groups,
)
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive


def instant_as_of(text: str, timeline: Timeline, timezone: str) -> str:
    """The instant that `text` means, if the timeline or its archive has the table's state at that time.

    Args:
        text: an instant, or an ISO 8601 time.
        timeline: of the table.
        timezone: `hoodie.table.timeline.timezone`.

    Raises:
        CorruptFileError: the archived timeline is needed and damaged.
        OptionError: the text is no time, or lies before the first known commit, or is later than the newest and no
            time of a calendar.
    """
    instant = parse_as_of(text, timezone)
    if not timeline.writes:
        raise OptionError(f"as of {text}: the table has no commit yet")
    first = timeline_as_of(instant, timeline).writes[0].time
    if instant < first:
        raise OptionError(f"as of {text}: the oldest commit that the table's timeline still has is {first}")
    if instant > timeline.writes[-1].time and not is_calendar_time(instant):
        raise OptionError(
            f"as of {text}: there is no such time, and the table's newest commit is {timeline.writes[-1].time}"
        )
    return instant


def timeline_as_of(instant: str, timeline: Timeline) -> Timeline:
    """The timeline by which a past state is read: with its archive where the state's newest write is archived.

    Such writes are older than the active ones, or lie between them (`hoodie.archive.beyond.savepoint`).

    Args:
        instant: of the state.
        timeline: of the table; it has writes.

    Raises:
        CorruptFileError: the archived timeline is needed and damaged.
    """
    if instant < timeline.writes[0].time:
        return with_archive(timeline)
    if not timeline.has_gaps:
        return timeline
    unbroken = timeline.first_unbroken
    last = next(write.time for write in reversed(timeline.writes) if write.time <= instant)
    if last == instant or (unbroken is not None and last >= unbroken):
        return timeline
    between = any(last < time <= instant for time in timeline.archive.writes)
    return with_archive(timeline) if between else timeline


def check_not_cleaned(listed: pa.Table, timeline: Timeline, as_of: str | None, *, read_optimized: bool = False) -> None:
    """Refuse a past state if a clean has deleted some of its files.

    Args:
        listed: the files that exist: partition, file_name, size.
        timeline: of the table.
        as_of: an instant time; None for the whole timeline, if it is itself the past one.
        read_optimized: log files are not wanted.

    Raises:
        CorruptFileError: a clean, or the archived timeline where it is needed, is damaged.
        OptionError: a file of that state is gone; the message names it, and the oldest commit kept if known.
    """
    cleans, retained, reaches_back = _active_cleans(timeline, as_of)
    lost = _lost(listed, cleans, timeline, as_of, read_optimized=read_optimized)
    if not lost.num_rows and not reaches_back:
        lost = _lost(listed, _archived_cleans(timeline, as_of), timeline, as_of, read_optimized=read_optimized)
    if lost.num_rows:
        oldest = f"; commits from {retained} on are kept" if retained else ""
        place = posixpath.join(lost.column("partition")[0].as_py(), lost.column("file_name")[0].as_py())
        raise OptionError(
            f"as of {as_of or timeline.writes[-1].time}: {lost.num_rows} file(s) of that state were cleaned away, "
            f"such as {place}{oldest}"
        )


def _lost(
    listed: pa.Table, deleted: list[tuple[str, str]], timeline: Timeline, as_of: str | None, *, read_optimized: bool
) -> pa.Table:
    """The deleted files that the past state needs."""
    partitions, names = zip(*deleted, strict=True) if deleted else ((), ())
    gone = pa.table(list(map(pa.array, (partitions, names, [1] * len(names)), FILES_SCHEMA.types)), FILES_SCHEMA.names)
    there = one_chunk(listed.column("file_name"))
    gone = gone.filter(pc.invert(pc.is_in(gone.column("file_name"), there)))
    lost = _needed(listed, gone, timeline, as_of, archived=None, read_optimized=read_optimized)
    if lost.num_rows:
        # files of groups that an archived commit had replaced before that state are not missed
        lost = _needed(listed, lost, timeline, as_of, archived=True, read_optimized=read_optimized)
    return lost


def _needed(
    listed: pa.Table,
    gone: pa.Table,
    timeline: Timeline,
    as_of: str | None,
    *,
    archived: bool | None,
    read_optimized: bool,
) -> pa.Table:
    if not gone.num_rows:
        return gone
    both = pa.concat_tables([listed.select(FILES_SCHEMA.names), gone])
    slices = read_optimized_slices if read_optimized else latest_file_slices
    then = slices(both, timeline, as_of=as_of, replaced=replaced_file_groups(timeline, as_of, archived=archived))
    logs: Any = one_chunk(then.column("logs"))
    names = pc.struct_field(logs.flatten(), "file_name")
    needed = pa.concat_arrays([one_chunk(then.column("file_name")), names])
    return gone.filter(pc.is_in(gone.column("file_name"), needed))


def _active_cleans(timeline: Timeline, as_of: str | None) -> tuple[list[tuple[str, str]], str, bool]:
    """Files deleted by active cleans, pending ones included, that the state at `as_of` may have had.

    A clean deletes no file of the newest state that it knows, so cleans that know no later state are left out.

    Returns:
        Partitions and names; the newest "earliest commit to retain"; and whether no archived clean matters: cleans are
        archived oldest first, so none does once an active one was left out.
    """
    files: list[tuple[str, str]] = []
    retained, reaches_back = "", as_of is not None and as_of >= timeline.writes[-1].time
    for last, earliest, deleted in _cleans(timeline):
        if as_of is not None and last <= as_of:
            reaches_back = True
        else:
            retained = max(retained, earliest)
            files += deleted
    return files, retained, reaches_back


def _archived_cleans(timeline: Timeline, as_of: str | None) -> list[tuple[str, str]]:
    cleans = timeline.archive.cleans()
    then = timeline.writes[0].time if as_of is None else as_of
    return [file for time, of in cleans if (of.last_completed_commit or time) > then for file in _files_of(of)]


def _cleans(timeline: Timeline) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """For each active clean: the newest write it knew, the earliest commit to retain, and its files."""
    for instant in timeline.instants:
        if instant.action != Action.CLEAN:
            continue
        if instant.state is State.COMPLETED:
            metadata = CleanMetadata.from_avro(timeline.read(instant), timeline.path(instant))
            last = metadata.last_completed_commit or instant.time
            yield last, metadata.earliest_commit_to_retain, list(_files_of(metadata))
            continue
        requested = instant.at(State.REQUESTED)
        try:
            plan = CleanerPlan.from_avro(timeline.read(requested), timeline.path(requested))
        except MissingFileError:  # completed meanwhile
            continue
        paths = ((partition, path) for partition, of in plan.files.items() for path in of)
        yield plan.last_completed_commit or instant.time, "", list(_data_files(paths))


def _files_of(metadata: CleanMetadata) -> Iterator[tuple[str, str]]:
    for partition, done in metadata.partitions.items():
        yield from _data_files((partition, name) for name in {*done.patterns, *done.deleted})


def _data_files(paths: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    names = ((partition, path.rsplit("/", 1)[-1]) for partition, path in paths)
    yield from (pair for pair in names if pair[1].endswith(".parquet") or pair[1].startswith("."))
