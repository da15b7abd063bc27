"""Which past states of a table can still be read."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from table_format.actions.clean import CleanerPlan, CleanMetadata
from table_format.errors import MissingFileError, OptionError
from table_format.file_slices import latest_file_slices, read_optimized_slices, replaced_file_groups
from table_format.instant import Action, Instant, State, parse_as_of
from table_format.timeline import Timeline

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def instant_as_of(text: str, timeline: Timeline, timezone: str) -> str:
    """The instant time that `text` means, if the table had a commit by then.

    Args:
        text: an instant, or an ISO 8601 time.
        timeline: of the table.
        timezone: `hoodie.table.timeline.timezone`.

    Raises:
        OptionError: the text is no time, or lies before the first commit that the active timeline knows.
    """
    instant = parse_as_of(text, timezone)
    if not timeline.writes:
        raise OptionError(f"as of {text}: the table has no commit yet")
    first = timeline.writes[0].time
    if instant < first:
        raise OptionError(f"as of {text}: the oldest commit that the table's timeline still has is {first}")
    return instant


def check_not_cleaned(listed: pa.Table, timeline: Timeline, as_of: str | None, *, read_optimized: bool = False) -> None:
    """Refuse a past state some of whose files a clean has deleted.

    Args:
        listed: the files that exist: partition, file_name, size.
        timeline: of the table.
        as_of: an instant time; None for the timeline as it stands, because it was put back itself.
        read_optimized: log files are not wanted.

    Raises:
        OptionError: a file of that state is gone; the message names it, and the oldest commit kept if known.
    """
    deleted, retained = _deleted_files(timeline)
    gone = deleted.filter(pc.invert(pc.is_in(deleted.column("file_name"), listed.column("file_name").combine_chunks())))
    if not gone.num_rows:
        return
    both = pa.concat_tables([listed.select(["partition", "file_name", "size"]), gone])
    slices = read_optimized_slices if read_optimized else latest_file_slices
    then = slices(both, timeline, as_of=as_of, replaced=replaced_file_groups(timeline, as_of))
    logs: Any = then.column("logs").combine_chunks()
    names = pc.struct_field(logs.flatten(), "file_name")
    needed = pa.concat_arrays([then.column("file_name").combine_chunks(), names])
    lost = gone.filter(pc.is_in(gone.column("file_name"), needed))
    if lost.num_rows:
        oldest = f"; commits from {retained} on are kept" if retained else ""
        place = posixpath.join(lost.column("partition")[0].as_py(), lost.column("file_name")[0].as_py())
        raise OptionError(
            f"as of {as_of or timeline.writes[-1].time}: {lost.num_rows} file(s) of that state were cleaned away, "
            f"such as {place}{oldest}"
        )


def _deleted_files(timeline: Timeline) -> tuple[pa.Table, str]:
    """Base and log files that cleans deleted, or are deleting, and the newest "earliest commit to retain"."""
    partitions: list[str] = []
    names: list[str] = []
    retained = ""
    for instant in timeline.instants:
        if instant.action != Action.CLEAN:
            continue
        for partition, name in _files_of_clean(timeline, instant):
            if name.endswith(".parquet") or name.startswith("."):
                partitions.append(partition)
                names.append(name)
        if instant.state is State.COMPLETED:
            metadata = CleanMetadata.from_avro(timeline.read(instant), timeline.path(instant))
            retained = max(retained, metadata.earliest_commit_to_retain)
    columns = {"partition": pa.array(partitions, pa.string()), "file_name": pa.array(names, pa.string())}
    return pa.table({**columns, "size": pa.array([1] * len(names), pa.int64())}), retained


def _files_of_clean(timeline: Timeline, instant: Instant) -> Iterator[tuple[str, str]]:
    if instant.state is State.COMPLETED:
        metadata = CleanMetadata.from_avro(timeline.read(instant), timeline.path(instant))
        for partition, done in metadata.partitions.items():
            yield from ((partition, name.rsplit("/", 1)[-1]) for name in {*done.patterns, *done.deleted})
        return
    requested = instant.at(State.REQUESTED)
    try:
        plan = CleanerPlan.from_avro(timeline.read(requested), timeline.path(requested))
    except MissingFileError:  # completed meanwhile
        return
    for partition, paths in plan.files.items():
        yield from ((partition, path.rsplit("/", 1)[-1]) for path in paths)
