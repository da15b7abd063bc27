"""The file slices that the writes of a range touched, as they were before it and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.slices.time_travel import instant_as_of
from table_format.actions.commit import NO_COMMIT
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, schema_of
from table_format.errors import MissingFileError, OptionError, UnsupportedTableError
from table_format.instant import Instant
from table_format.metadata_table.reader import data_files
from table_format.slices.file_slices import latest_file_slices
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive
from table_writer.execution.executor import Mapper
from table_writer.metadata.key_source import KeyReader, KeySource, keys_of_slices, sources_of
from table_writer.record_index.build import Progress

Group = tuple[str, str]
"""Partition path and file id."""

KEYS_SCHEMA: Final = schema_of(key=pa.string(), slice=pa.int32())
"""A record key, and the ordinal of the file slice that has it."""


LOCATIONS_SCHEMA: Final = pa.schema([("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string())])
"""Where records are: record key, partition path, file group."""

_ATTEMPTS: Final = 3

_T = TypeVar("_T")


@dataclass(frozen=True)
class Touched:
    """File groups that writes touched.

    Attributes:
        begin: the instant after which the range begins.
        end: its last instant; None for the newest state.
        timeline: of the table, with its archive where the range needs it.
        writes: of the range, oldest first.
        groups: the file groups.
        before: their slices as of `begin`, of those that were there.
        after: their slices at the end, of those that are there.
    """

    begin: str
    end: str | None
    timeline: Timeline
    writes: tuple[Instant, ...]
    groups: frozenset[Group]
    before: tuple[KeySource, ...]
    after: tuple[KeySource, ...]


def touched_slices(client: TableClient, timeline: Timeline, begin: str, end: str | None = None) -> Touched:
    """The slices that writes of a range touched. Only partitions of these writes are listed.

    Args:
        client: a copy-on-write table.
        timeline: of the table.
        begin: an instant or an ISO 8601 time, not part of the range.
        end: likewise, part of the range; None for the newest state.

    Raises:
        OptionError: a text is no time, or lies before what the timeline has; or files of the state at one of the times
            were cleaned.
        UnsupportedTableError: a merge-on-read table.
    """
    if client.config.table_type != "COPY_ON_WRITE":
        raise UnsupportedTableError(
            f"{client.storage.uri}: log files of a merge-on-read table do not tell which keys they had at a time; "
            "compare the whole index, or read rows as of that time"
        )
    zone = client.config.timeline_timezone
    first = instant_as_of(begin, timeline, zone)
    last = None if end is None else instant_as_of(end, timeline, zone)
    if last is not None and last < first:
        raise OptionError(f"the range ends at {end}, before it begins at {begin}")
    whole = with_archive(timeline) if timeline.has_gaps or first < timeline.writes[0].time else timeline
    writes = tuple(write for write in whole.writes if first < write.time and (last is None or write.time <= last))
    previous: dict[Group, str | None] = {}
    newest: dict[Group, str | None] = {}
    for write in writes:
        for group, instant, superseded in _groups_of(whole, write):
            previous.setdefault(group, superseded)
            newest[group] = instant
    listed = data_files(client, timeline, sorted({partition for partition, _ in previous}))
    before = _slices(listed, whole, first, previous)
    after = _slices(listed, whole, last, newest)
    _require(before, {group: instant for group, instant in previous.items() if instant != NO_COMMIT}, first)
    _require(after, {group: instant for group, instant in newest.items() if instant is not None}, last or "now")
    return Touched(first, last, whole, writes, frozenset(previous), before, after)


def _groups_of(timeline: Timeline, write: Instant) -> Iterator[tuple[Group, str | None, str | None]]:
    """File groups of a write: the instant of the slice after it (None where there is none), and of the one before.

    The latter is None where the commit does not name it, as that of a replaced file group.
    """
    metadata = timeline.commit_metadata(write)
    for stat in metadata.stats():
        if stat.path:
            yield (stat.partition_path, stat.file_id), write.time, stat.prev_commit
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        for file_id in file_ids:
            yield (partition, file_id), None, None


def _slices(listed: pa.Table, timeline: Timeline, as_of: str | None, groups: Iterable[Group]) -> tuple[KeySource, ...]:
    wanted = set(groups)
    slices = sources_of(latest_file_slices(listed, timeline, as_of=as_of))
    return tuple(one for one in slices if (one.partition, one.file_id) in wanted)


def _require(slices: Sequence[KeySource], expected: dict[Group, str | None], when: str) -> None:
    """Refuse a state of which files were cleaned."""
    there = {(one.partition, one.file_id): one.instant for one in slices}
    for group, instant in expected.items():
        if group not in there or (instant is not None and there[group] != instant):
            place = "/".join(filter(None, group)) + ("" if instant is None else f" of {instant}")
            raise OptionError(
                f"as of {when}: the file of {place} was cleaned; give a later instant, as `history` lists them"
            )


def read_keys(
    client: TableClient,
    timeline: Timeline,
    sources: Sequence[KeySource],
    mapper: Mapper,
    wanted: pa.Array[Any] | None = None,
) -> pa.Table:
    """The keys of some slices, schema `KEYS_SCHEMA`; a slice's ordinal is its place in `sources`.

    Args:
        client: the table.
        timeline: of it.
        sources: the slices.
        mapper: runs the tasks.
        wanted: the keys in question; files whose bloom filter rules them out are not read. None for all.

    Raises:
        MissingFileError: a file was cleaned meanwhile.
    """
    ordinals = {source.identity: number for number, source in enumerate(sources)}
    tables = [KEYS_SCHEMA.empty_table()]
    for identity, keys in keys_of_slices(KeyReader(client, timeline), wanted, sources, mapper):
        numbers = np.full(len(keys), ordinals[identity], dtype=np.int32)
        tables.append(pa.table([keys, from_numpy(numbers)], schema=KEYS_SCHEMA))
    return pa.concat_tables(tables)


def contents(client: TableClient, touched: Touched, mapper: Mapper, progress: Progress) -> tuple[pa.Table, pa.Table]:
    """Locations of the keys of the touched slices, before and after; schema `LOCATIONS_SCHEMA`."""
    count = len(touched.before) + len(touched.after)
    progress(f"reading the keys of {count:,} files that {len(touched.writes):,} writes touched")
    old, new = (
        placed(read_keys(client, touched.timeline, slices, mapper), slices)
        for slices in (touched.before, touched.after)
    )
    return old, new


def placed(keys: pa.Table, slices: Sequence[KeySource]) -> pa.Table:
    """Keys (schema `KEYS_SCHEMA`) with the places of their slices; schema `LOCATIONS_SCHEMA`."""
    numbers = one_chunk(keys["slice"])
    partitions, file_ids = (
        pa.array([getattr(one, name) for one in slices], pa.string()).take(numbers) for name in ("partition", "file_id")
    )
    return pa.table([keys["key"], partitions, file_ids], schema=LOCATIONS_SCHEMA)


def ids_of(rows: pa.Table, *, by_partition: bool) -> Any:
    """What identifies a record: the key, and with it the partition where keys are unique in each."""
    keys = one_chunk(rows["key"]).cast(pa.string())
    return pc.binary_join_element_wise(one_chunk(rows["partition"]), keys, "\0") if by_partition else keys


def places_of(rows: pa.Table) -> Any:
    """Partition, file id and key of each row as one text."""
    columns = [one_chunk(rows[name]).cast(pa.string()) for name in ("partition", "file_id", "key")]
    return pc.binary_join_element_wise(*columns, "\0")


def retried_after_cleans(attempt: Callable[[], _T], progress: Progress) -> _T:
    """Try again where cleaning deleted files meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except MissingFileError:
            progress("files were cleaned meanwhile; beginning again")
    return attempt()
