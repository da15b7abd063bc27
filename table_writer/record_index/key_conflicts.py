"""Optimistic concurrency control by key: have others put the same keys elsewhere while a write was under way?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import ConflictError
from table_format.mapping import in_threads
from table_format.record_index.index import RecordIndex
from table_format.record_index.layout import IndexLayout
from table_format.slices.table_client import TableClient
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline
from table_writer.record_index.commit import FEW_CHANGES, IndexChanges
from table_writer.record_index.deltas import DeltaFile, changed_groups, read_deltas

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked of one file group of the index; `places` are those that others changed."""

    index: RecordIndex
    storage: Storage
    files: tuple[DeltaFile, ...]
    group: int
    asked: int
    places: pa.Table


def check_keys(
    client: TableClient,
    timeline: Timeline,
    changes: IndexChanges,
    own: str,
    others: Mapping[tuple[str, str | int], str],
) -> None:
    """Look up the keys that a write puts or deletes among those that others put since it began.

    Two writers that insert the same key write into different file groups, so that their file groups do not tell. A
    second record of a key would stay for ever; callers hold the table's lock until the write is published.

    Args:
        client: the table.
        timeline: loaded under the lock.
        changes: of the write.
        own: the write's instant.
        others: partition path and file id of the file groups that others changed since the write began, and who did;
            none of them is the write's own.

    Raises:
        ConflictError: there is such a key.
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
        _Task(index, client.storage, tuple(changes.files), group, ordinals[layout.groups[group]], places)
        for group in counts
        if layout.groups[group] in ordinals
    ]
    mapper = in_threads if sum(counts.values()) < FEW_CHANGES else changes.mapper
    clashes = [clash for found in mapper(_clashes, tasks) for clash in found]
    if clashes:
        shown = ", ".join(repr(key) for key, *_ in clashes[:_SHOWN])
        _, partition, file_id = clashes[0]
        raise ConflictError(
            f"{own}: instant {others[partition, file_id]} put records of the same keys ({shown}) elsewhere while this "
            "write was under way; nothing was written, try again"
        )


def _clashes(task: _Task) -> list[tuple[str, str, str]]:
    """Some of the keys that lie now where others wrote, with partition path and file id."""
    changes = read_deltas(task.storage, task.files, task.group)
    found = task.index.group_locations(task.asked, one_chunk(changes["key"]))
    theirs = found.join(task.places, ["partition", "file_id"], join_type="left semi")
    rows = theirs.select(["key", "partition", "file_id"]).slice(0, _SHOWN).to_pylist()
    return [(row["key"], row["partition"], row["file_id"]) for row in rows]
