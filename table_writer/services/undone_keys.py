"""What taking writes back changes in the record index: keys return to the file groups that had them, or are gone.

Compactions of the metadata table may have merged the entries of the writes long ago, so the changes are found by the
keys of the files: a key that a file group has before and not after is deleted, one that it has after and not before is
put. Of a key that moved between file groups both happen, and the index takes the location.
"""

from __future__ import annotations

import functools
import logging
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.reader import base_file_batches
from table_format.errors import RecordIndexError
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.execution.executor import Mapper, in_threads
from table_writer.metadata.index_deltas import DeltaCollector, DeltaFile, delta_folder
from table_writer.metadata.index_files import UNCHANGED, IndexChanges
from table_writer.metadata.index_options import with_partitions
from table_writer.metadata.writer import index_in_use

_log = logging.getLogger(__name__)
_KEYS: Final = pa.schema([(RECORD_KEY, pa.string())])
_BATCH_ROWS: Final = 262_144
_MEMORY: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Group:
    """A file group whose newest file becomes another one.

    Attributes:
        number: distinguishes the delta files.
        partition: its partition path.
        file_id: its id.
        before: path of its newest file; None if it has none in the table's state.
        after: the same once the writes are taken back.
    """

    number: int
    partition: str
    file_id: str
    before: str | None
    after: str | None


def changes_of_index(
    client: TableClient,
    instant: str,
    before: pa.Table,
    after: pa.Table,
    *,
    located: str | None,
    options: Mapping[str, str],
    mapper: Mapper = in_threads,
) -> IndexChanges | None:
    """The changes of the record index that go with taking writes back.

    Args:
        client: the table.
        instant: of the restore or rollback, which commits the changes.
        before: newest base files of the table's file groups, or of those in partitions that the writes touched:
            columns partition, file_id, file_name.
        after: the same once the writes are taken back.
        located: instant of the locations, which Apache's writers look for among the table's commits.
        options: of the table's writers.
        mapper: runs the reading of the keys, a file group a task.

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
    deltas = mapper(functools.partial(_changes, client.storage, instant, wanted), groups)
    return IndexChanges(tuple(delta for some in deltas for delta in some), wanted, mapper, located)


def _changed(before: pa.Table, after: pa.Table) -> list[_Group]:
    paths: dict[tuple[str, str], list[str | None]] = {}
    for at, files in enumerate((before, after)):
        for row in files.select(["partition", "file_id", "file_name"]).to_pylist():
            path = posixpath.join(row["partition"], row["file_name"])
            paths.setdefault((row["partition"], row["file_id"]), [None, None])[at] = path
    differing = [(place, old, new) for place, (old, new) in sorted(paths.items()) if old != new]
    return [_Group(number, *place, old, new) for number, (place, old, new) in enumerate(differing)]


def _changes(storage: Storage, instant: str, layout: IndexLayout, group: _Group) -> tuple[DeltaFile, ...]:
    """Delta files with the keys that a file group loses and gets back."""
    old, new = _keys(storage, group.before), _keys(storage, group.after)
    collector = DeltaCollector(storage, delta_folder(instant), f"undo-{group.number}", layout, _MEMORY)
    collector.add(group.partition, group.file_id, _without(new, old), _without(old, new))
    return collector.write()


def _keys(storage: Storage, path: str | None) -> pa.Array[Any]:
    if path is None:
        return pa.array([], pa.string())
    pieces: Iterable[pa.Table] = (
        piece for _, piece in base_file_batches(storage, path, [RECORD_KEY], _KEYS, batch_rows=_BATCH_ROWS)
    )
    chunks = [chunk for piece in pieces for chunk in piece[RECORD_KEY].chunks]
    keys: pa.Array[Any] = pc.unique(pa.chunked_array(chunks, pa.string()))
    return keys


def _without(keys: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
