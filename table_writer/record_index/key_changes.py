"""The record index in time: where keys were as of an instant, which moved between two, and what to verify since one.

The index holds the newest state. What it held before follows from the data: a file group that no write touched since
then has the same keys, and the keys of the others are read from their older files.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.snapshots.incremental import refuse_undone
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import ArgumentError
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.schema.evolution import storage_type
from table_format.slices.file_names import in_groups
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.execution.executor import Mapper
from table_writer.metadata.key_source import require_keys
from table_writer.record_index.build import Progress
from table_writer.record_index.touched import (
    LOCATIONS_SCHEMA,
    contents,
    ids_of,
    placed,
    places_of,
    read_keys,
    retried_after_cleans,
    touched_slices,
)

CHANGES_SCHEMA: Final = pa.schema(
    {
        "key": pa.string(),
        "change": pa.string(),
        "old_partition": pa.string(),
        "old_file_id": pa.string(),
        "partition": pa.string(),
        "file_id": pa.string(),
    }
)
"""Changed entries: `change` is `insert`, `move` or `delete`; the old place of the first and the new one of the last are
null."""

INSERT, MOVE, DELETE = "insert", "move", "delete"


def changed_entries(
    client: TableClient,
    begin: str,
    end: str | None = None,
    *,
    mapper: Mapper = in_threads,
    progress: Progress = lambda _: None,
) -> pa.Table:
    """The entries of the record index that the writes of a range changed: of keys inserted, moved or deleted.

    They follow from the data, so that the table need not have a record index. An update in place changes no entry. Only
    files that these writes replaced and wrote are read.

    Args:
        client: a copy-on-write table.
        begin: an instant or an ISO 8601 time, not part of the range.
        end: likewise, part of the range; None for now.
        mapper: runs the tasks, in threads or in Spark.
        progress: called with each step, as a few words.

    Returns:
        Schema `CHANGES_SCHEMA`, by key.

    Raises:
        RecordIndexError: the table's files hold no record keys.
        OptionError: a text is no time, or files of one of the two states were cleaned.
        UndoneWriteError: the range begins at a write that a rollback or a restore has taken back.
        UnsupportedTableError: a merge-on-read table.
    """
    require_keys(client)

    def attempt() -> pa.Table:
        timeline = client.timeline()
        touched = touched_slices(client, timeline, begin, end)
        refuse_undone(timeline, touched.begin)
        old, new = contents(client, touched, mapper, progress)
        return _changes(old, new, by_partition=_by_partition(client, timeline))

    return retried_after_cleans(attempt, progress)


def index_entries(
    client: TableClient,
    keys: Any,
    as_of: str | None = None,
    *,
    mapper: Mapper = in_threads,
    progress: Progress = lambda _: None,
) -> pa.Table:
    """Where records are by the record index, or were as of an instant.

    An entry of the index is that of the past state, too, if no write touched its file group since then. Other keys are
    looked for in the older files of the file groups that were touched, except those whose bloom filters rule them out.

    Args:
        client: a copy-on-write table with a record index.
        keys: record keys: an Arrow array or a sequence of texts.
        as_of: an instant or an ISO 8601 time; None for now.
        mapper: runs the tasks, in threads or in Spark.
        progress: called with each step, as a few words.

    Returns:
        Schema `LOCATIONS_SCHEMA`, by key; keys that the table does not have are left out.

    Raises:
        ArgumentError: keys that are no texts.
        RecordIndexError: the table has no record index.
        OptionError: the text is no time, or files of that state were cleaned.
        UnsupportedTableError: a merge-on-read table, for the past.
    """
    wanted = pc.unique(_texts(keys)).drop_null()
    order: Any = [(name, "ascending") for name in LOCATIONS_SCHEMA.names]

    def attempt() -> pa.Table:
        timeline = client.timeline()
        index = RecordIndex.open(client, timeline)
        if as_of is None:
            now = index.get_record_locations(wanted).select(LOCATIONS_SCHEMA.names)
            return now.cast(LOCATIONS_SCHEMA).sort_by(order)
        touched = touched_slices(client, timeline, as_of)
        entries = index.get_record_locations(wanted)
        settled = entries.filter(pc.invert(in_groups(entries, touched.groups)))
        settled = settled.select(LOCATIONS_SCHEMA.names).cast(LOCATIONS_SCHEMA)
        # a key of an index by partition may have been in further partitions
        rest = wanted
        if index.layout.scope != PARTITION:
            rest = wanted.filter(pc.invert(pc.is_in(wanted, value_set=one_chunk(settled["key"]))))
        past = LOCATIONS_SCHEMA.empty_table()
        if len(rest) and touched.before:
            progress(f"reading the keys of {len(touched.before):,} files as of {touched.begin}")
            past = placed(read_keys(client, touched.timeline, touched.before, mapper, rest), touched.before)
        places = pa.concat_tables([settled, past]).group_by(LOCATIONS_SCHEMA.names, use_threads=False).aggregate([])
        return places.select(LOCATIONS_SCHEMA.names).sort_by(order)

    return retried_after_cleans(attempt, progress)


def _texts(keys: Any) -> Any:
    """Record keys as one array of texts."""
    if isinstance(keys, str):
        raise ArgumentError(f"keys={keys!r}: give an array or a list of record keys, such as [{keys!r}]")
    if not isinstance(keys, (pa.Array, pa.ChunkedArray)):
        keys = list(keys)
        if others := [key for key in keys if not isinstance(key, str)]:
            raise ArgumentError(f"record keys are texts, which {others[0]!r} is not: give str({others[0]!r})")
        return pa.array(keys, pa.string())
    column = one_chunk(keys)
    kind = storage_type(column.type)
    if kind != pa.string():
        raise ArgumentError(f"record keys are texts, and the array is of {kind}: cast it to string")
    return column.cast(pa.string())


def _changes(old: pa.Table, new: pa.Table, *, by_partition: bool) -> pa.Table:
    gone = old.filter(pc.invert(pc.is_in(places_of(old), value_set=places_of(new))))
    came = new.filter(pc.invert(pc.is_in(places_of(new), value_set=places_of(old))))
    gone_ids, came_ids = ids_of(gone, by_partition=by_partition), ids_of(came, by_partition=by_partition)
    before = pc.index_in(came_ids, value_set=gone_ids)
    left = gone.filter(pc.invert(pc.is_in(gone_ids, value_set=came_ids)))
    kinds: Any = pc.if_else(pc.is_null(before), INSERT, MOVE)
    nulls = pa.nulls(left.num_rows, pa.string())
    columns: list[Any] = [
        [came["key"], left["key"]],
        [kinds, pa.array([DELETE] * left.num_rows, pa.string())],
        [one_chunk(gone["partition"]).take(before), left["partition"]],
        [one_chunk(gone["file_id"]).take(before), left["file_id"]],
        [came["partition"], nulls],
        [came["file_id"], nulls],
    ]
    parts = [pa.chunked_array([one_chunk(part) for part in parts], pa.string()) for parts in columns]
    return pa.table(parts, schema=CHANGES_SCHEMA).sort_by([("key", "ascending"), ("partition", "ascending")])


def _by_partition(client: TableClient, timeline: Timeline) -> bool:
    """Whether a key may have a row in each partition: unless the table has an index of all keys."""
    layout = IndexLayout.of(client, timeline)
    return layout is None or layout.scope == PARTITION
