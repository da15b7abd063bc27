"""What taking writes back changes in the record index: keys return to the file groups that had them, or are gone.

Compactions of the metadata table may have merged the entries of the writes long ago, so the changes are found by the
keys of the files: a key that a file group has before and not after is deleted, one that it has after and not before is
put. Of a key that moved between file groups both happen, and the index takes the location. Where the writes need not
have looked keys up, a key that is deleted may have another row in a file that stays, which is put then.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import RecordIndexError
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.execution.executor import Mapper
from table_writer.metadata.index_deltas import DeltaCollector, DeltaFile, deletions, delta_folder
from table_writer.metadata.index_files import UNCHANGED, IndexChanges
from table_writer.metadata.index_options import with_partitions
from table_writer.metadata.key_source import KeyReader, KeySource, keys_of_slices, sources_of
from table_writer.metadata.writer import index_in_use

_log = logging.getLogger(__name__)
_MEMORY: Final = 64 << 20
_NO_KEYS: Final = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class _Group:
    """A file group whose newest file becomes another one.

    Attributes:
        number: distinguishes the delta files.
        partition: its partition path.
        file_id: its id.
        before: its newest file; None if it has none in the table's state.
        after: the same once the writes are taken back.
    """

    number: int
    partition: str
    file_id: str
    before: KeySource | None
    after: KeySource | None


def changes_of_index(
    client: TableClient,
    timeline: Timeline,
    instant: str,
    before: pa.Table,
    after: pa.Table,
    *,
    located: str | None,
    options: Mapping[str, str],
    mapper: Mapper = in_threads,
    staying: Callable[[], pa.Table] | None = None,
) -> IndexChanges | None:
    """The changes of the record index that go with taking writes back.

    Args:
        client: the table.
        timeline: of it, before the writes are taken back.
        instant: of the restore or rollback, which commits the changes.
        before: newest base files of the table's file groups, or of those in partitions that the writes touched; of
            `BASE_FILES_SCHEMA`.
        after: the same once the writes are taken back.
        located: instant of the locations, which Apache's writers look for among the table's commits.
        options: of the table's writers.
        mapper: runs the reading of the keys.
        staying: gives the newest base files of all file groups once the writes are taken back; None if the writes have
            looked up their keys.

    Returns:
        None if the index is out of date, so that it has to be taken out of use.
    """
    try:
        layout = index_in_use(client)
    except RecordIndexError as error:
        _log.warning("%s: %s", client.storage.uri, error)
        return None
    if layout is None:
        return UNCHANGED
    groups = _changed(before, after)
    wanted = with_partitions(layout, sorted({group.partition for group in groups if group.after}), options)
    reader = KeyReader(client, timeline)
    made = mapper(functools.partial(_changes, reader, instant, wanted), groups)
    deltas = tuple(delta for some in made for delta in some)
    if staying is not None and deltas:
        files = after if wanted.scope == PARTITION else staying()
        deltas += _other_places(reader, instant, wanted, deltas, sources_of(files), mapper=mapper)
    return IndexChanges(deltas, wanted, mapper, located)


def _changed(before: pa.Table, after: pa.Table) -> list[_Group]:
    files: dict[tuple[str, str], list[KeySource | None]] = {}
    for at, state in enumerate((before, after)):
        for source in sources_of(state):
            files.setdefault((source.partition, source.file_id), [None, None])[at] = source
    differing = [(place, old, new) for place, (old, new) in sorted(files.items()) if old != new]
    return [_Group(number, *place, old, new) for number, (place, old, new) in enumerate(differing)]


def _changes(reader: KeyReader, instant: str, layout: IndexLayout, group: _Group) -> tuple[DeltaFile, ...]:
    """Delta files with the keys that a file group loses and gets back."""
    old, new = _keys(reader, group.before), _keys(reader, group.after)
    collector = DeltaCollector(reader.storage, delta_folder(instant), f"undo-{group.number}", layout, _MEMORY)
    collector.add(group.partition, group.file_id, _without(new, old), _without(old, new))
    return collector.write()


def _keys(reader: KeyReader, source: KeySource | None) -> pa.Array[Any]:
    if source is None:
        return _NO_KEYS
    batches: Iterable[Any] = reader.batches(source)
    keys: pa.Array[Any] = pc.unique(pa.chunked_array([batch.cast(pa.string()) for batch in batches], pa.string()))
    return keys


def _other_places(
    reader: KeyReader,
    instant: str,
    layout: IndexLayout,
    deltas: Sequence[DeltaFile],
    staying: Sequence[KeySource],
    *,
    mapper: Mapper,
) -> tuple[DeltaFile, ...]:
    """Delta files that put keys which others delete, where a file that stays has a row of them."""
    collector = DeltaCollector(reader.storage, delta_folder(instant), "undo-others", layout, _MEMORY)
    of_identity = {source.identity: source for source in staying}
    for partition, lost in _lost_keys(reader.storage, deltas, by_partition=layout.scope == PARTITION):
        sources = [source for source in staying if partition in (None, source.partition)]
        placed = _NO_KEYS
        for identity, keys in keys_of_slices(reader, lost, sources, mapper):
            if len(keys):
                source, fresh = of_identity[identity], pc.unique(_without(keys, placed))
                collector.add(source.partition, source.file_id, fresh, _NO_KEYS)
                placed = pa.concat_arrays([placed, fresh])
    return collector.write()


def _lost_keys(
    storage: Storage, deltas: Sequence[DeltaFile], *, by_partition: bool
) -> Iterator[tuple[str | None, pa.Array[Any]]]:
    """Keys that delta files delete, as many at a time as a task may hold, and where it matters their partition."""
    waiting: dict[str | None, list[Any]] = {}
    for delta in deltas:
        rows = deletions(storage, delta)
        if not rows.num_rows:
            continue
        partition = rows["partition"][0].as_py() if by_partition else None  # each file is of one file group
        keys = waiting.setdefault(partition, [])
        keys.append(one_chunk(rows["key"]))
        if sum(some.nbytes for some in keys) >= _MEMORY:
            yield partition, pa.concat_arrays(waiting.pop(partition))
    for partition, keys in waiting.items():
        yield partition, pa.concat_arrays(keys)


def _without(keys: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
