"""The record index in time: where keys were as of an instant, which moved between two, and what to verify since one.

The index holds the newest state. What it held before follows from the data: a file group that no write touched since
then has the same keys, and the keys of the others are read from their older files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import MissingFileError, RecordIndexError
from table_format.instant import Action, State
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.execution.executor import Mapper, in_threads
from table_writer.record_index.build import Progress
from table_writer.record_index.compare import DUPLICATE, EXTRA, KINDS, MISSING, WRONG, Example
from table_writer.record_index.key_source import KeySource, require_keys
from table_writer.record_index.touched import Group, Touched, read_keys, touched_slices

LOCATIONS_SCHEMA: Final = pa.schema([("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string())])
"""Where records are: record key, partition path, file group."""

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
_ATTEMPTS: Final = 3
_EXAMPLES: Final = 5

_T = TypeVar("_T")


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
        UnsupportedTableError: a merge-on-read table.
    """
    require_keys(client)

    def attempt() -> pa.Table:
        timeline = client.timeline()
        touched = touched_slices(client, timeline, begin, end)
        old, new = _contents(client, touched, mapper, progress)
        return _changes(old, new, by_partition=_by_partition(client, timeline))

    return _with_retries(attempt, progress)


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
        RecordIndexError: the table has no record index.
        OptionError: the text is no time, or files of that state were cleaned.
        UnsupportedTableError: a merge-on-read table, for the past.
    """
    column: Any = one_chunk(keys) if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys, pa.string())
    wanted = pc.unique(column.cast(pa.string())).drop_null()
    order: Any = [(name, "ascending") for name in LOCATIONS_SCHEMA.names]

    def attempt() -> pa.Table:
        timeline = client.timeline()
        index = RecordIndex.open(client, timeline)
        if as_of is None:
            now = index.get_record_locations(wanted).select(LOCATIONS_SCHEMA.names)
            return now.cast(LOCATIONS_SCHEMA).sort_by(order)
        touched = touched_slices(client, timeline, as_of)
        entries = index.get_record_locations(wanted)
        settled = entries.filter(pc.invert(_in_groups(entries, touched.groups)))
        settled = settled.select(LOCATIONS_SCHEMA.names).cast(LOCATIONS_SCHEMA)
        # a key of an index by partition may have been in further partitions
        rest = wanted
        if index.layout.scope != PARTITION:
            rest = wanted.filter(pc.invert(pc.is_in(wanted, value_set=one_chunk(settled["key"]))))
        past = LOCATIONS_SCHEMA.empty_table()
        if len(rest) and touched.before:
            progress(f"reading the keys of {len(touched.before):,} files as of {touched.begin}")
            past = _placed(read_keys(client, touched.timeline, touched.before, mapper, rest), touched.before)
        places = pa.concat_tables([settled, past]).group_by(LOCATIONS_SCHEMA.names, use_threads=False).aggregate([])
        return places.select(LOCATIONS_SCHEMA.names).sort_by(order)

    return _with_retries(attempt, progress)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The record index compared with what writes since an instant touched.

    Attributes:
        since: the instant.
        counts: faults by kind.
        examples: some of them.
        keys: distinct keys of the touched slices.
        entries: entries of the index that were looked up.
        slices: touched file slices, as they are now.
        groups: file groups of the index.
        verified_to: the newest write before which no write is pending, for the next verification; None without one.
    """

    since: str
    counts: dict[str, int]
    examples: tuple[Example, ...]
    keys: int
    entries: int
    slices: int
    groups: int
    verified_to: str | None


def compare_since(client: TableClient, since: str, mapper: Mapper, progress: Progress) -> Comparison:
    """Compare the record index with the file groups that writes since an instant touched.

    Keys that they have must have entries that name them; keys that they had at that instant and have no more must not.

    Raises:
        RecordIndexError: the table has no record index, or a restore since then took writes back, whose keys cannot be
            read any more.
        OptionError: the text is no time, or files of that state were cleaned.
        UnsupportedTableError: a merge-on-read table.
    """

    def attempt() -> Comparison:
        timeline = client.timeline()
        index = RecordIndex.open(client, timeline)
        touched = touched_slices(client, timeline, since)
        _refuse_undone(client, touched)
        old, new = _contents(client, touched, mapper, progress)
        progress(f"comparing {new.num_rows:,} keys with the index")
        return _compared(index, touched, old, new, verified_to(timeline))

    return _with_retries(attempt, progress)


def verified_to(timeline: Timeline) -> str | None:
    """The newest write that no pending one precedes: writes after it are those to verify the next time."""
    pending = min((one.time for one in timeline.pending if one.action != Action.SAVEPOINT), default=None)
    times = [write.time for write in timeline.writes if pending is None or write.time < pending]
    return times[-1] if times else None


def _refuse_undone(client: TableClient, touched: Touched) -> None:
    for instant in touched.timeline.completed:
        if instant.time <= touched.begin or instant.action not in (Action.RESTORE, Action.ROLLBACK):
            continue
        # the plan in its inflight file marks a rollback of a completed write; see ADR 37
        if instant.action == Action.RESTORE or _inflight(touched.timeline, instant):
            raise RecordIndexError(
                f"{client.storage.uri}: {instant} took writes back since {touched.begin}, and the keys that these had "
                "added can no longer be read: compare the whole index, without an instant"
            )


def _inflight(timeline: Timeline, instant: Any) -> bytes:
    try:
        return timeline.read(instant.at(State.INFLIGHT))
    except MissingFileError:
        return b""


def _compared(index: RecordIndex, touched: Touched, old: pa.Table, new: pa.Table, to: str | None) -> Comparison:
    by_partition = index.layout.scope == PARTITION
    new_ids, old_ids = _ids(new, by_partition=by_partition), _ids(old, by_partition=by_partition)
    gone = old.filter(pc.invert(pc.is_in(old_ids, value_set=new_ids)))
    keys, partitions = (pa.chunked_array([*new[name].chunks, *gone[name].chunks], pa.string()) for name in _KEYED)
    entries = index.get_record_locations(keys, partitions if by_partition else None)
    entry_ids = _ids(entries, by_partition=by_partition)
    right = pc.is_in(_places(new), value_set=_places(entries))
    right_ids = new_ids.filter(right)
    missing = new.filter(pc.invert(pc.is_in(new_ids, value_set=entry_ids)))
    known = pc.is_in(new_ids, value_set=entry_ids)
    wrong = new.filter(pc.and_(known, pc.invert(pc.is_in(new_ids, value_set=right_ids))))
    of_gone = pc.is_in(entry_ids, value_set=_ids(gone, by_partition=by_partition))
    extra = entries.filter(pc.and_(of_gone, _in_groups(entries, touched.groups)))
    counted = pc.value_counts(new_ids)
    repeated = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    duplicate = new.filter(pc.is_in(new_ids, value_set=repeated))
    faults = {MISSING: missing, EXTRA: extra, WRONG: wrong, DUPLICATE: duplicate}
    counts = dict.fromkeys(KINDS, 0)
    for kind, rows in faults.items():
        counts[kind] = len(pc.unique(_ids(rows, by_partition=by_partition)))
    return Comparison(
        touched.begin,
        counts,
        tuple(
            _example(kind, row, entries)
            for kind, rows in faults.items()
            for row in rows.slice(0, _EXAMPLES).to_pylist()
        ),
        keys=len(pc.unique(new_ids)),
        entries=entries.num_rows,
        slices=len(touched.after),
        groups=index.layout.count,
        verified_to=to,
    )


_KEYED: Final = ("key", "partition")


def _example(kind: str, row: dict[str, Any], entries: pa.Table) -> Example:
    place = f"{row['partition']}/{row['file_id']}" if row["partition"] else row["file_id"]
    if kind == EXTRA:
        return Example(kind, row["key"], (), place)
    where = None
    if kind == WRONG:
        entry = entries.filter(pc.equal(entries["key"], row["key"])).to_pylist()[0]
        where = f"{entry['partition']}/{entry['file_id']}" if entry["partition"] else entry["file_id"]
    return Example(kind, row["key"], (place,), where)


def _contents(client: TableClient, touched: Touched, mapper: Mapper, progress: Progress) -> tuple[pa.Table, pa.Table]:
    """Locations of the keys of the touched slices, before and after; schema `LOCATIONS_SCHEMA`."""
    count = len(touched.before) + len(touched.after)
    progress(f"reading the keys of {count:,} files that {len(touched.writes):,} writes touched")
    old, new = (
        _placed(read_keys(client, touched.timeline, slices, mapper), slices)
        for slices in (touched.before, touched.after)
    )
    return old, new


def _placed(keys: pa.Table, slices: Sequence[KeySource]) -> pa.Table:
    """Keys with the places of their slices."""
    numbers = one_chunk(keys["slice"])
    partitions, file_ids = (
        pa.array([getattr(one, name) for one in slices], pa.string()).take(numbers) for name in ("partition", "file_id")
    )
    return pa.table([keys["key"], partitions, file_ids], schema=LOCATIONS_SCHEMA)


def _changes(old: pa.Table, new: pa.Table, *, by_partition: bool) -> pa.Table:
    gone = old.filter(pc.invert(pc.is_in(_places(old), value_set=_places(new))))
    came = new.filter(pc.invert(pc.is_in(_places(new), value_set=_places(old))))
    gone_ids, came_ids = _ids(gone, by_partition=by_partition), _ids(came, by_partition=by_partition)
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


def _ids(rows: pa.Table, *, by_partition: bool) -> Any:
    """What identifies a record: the key, and with it the partition where keys are unique in each."""
    keys = one_chunk(rows["key"]).cast(pa.string())
    return pc.binary_join_element_wise(one_chunk(rows["partition"]), keys, "\0") if by_partition else keys


def _places(rows: pa.Table) -> Any:
    columns = [one_chunk(rows[name]).cast(pa.string()) for name in ("partition", "file_id", "key")]
    return pc.binary_join_element_wise(*columns, "\0")


def _in_groups(rows: pa.Table, groups: Collection[Group]) -> Any:
    known = pa.array([f"{partition}\0{file_id}" for partition, file_id in groups], pa.string())
    columns = [one_chunk(rows[name]).cast(pa.string()) for name in ("partition", "file_id")]
    return pc.is_in(pc.binary_join_element_wise(*columns, "\0"), value_set=known)


def _with_retries(attempt: Callable[[], _T], progress: Progress) -> _T:
    """Try again where cleaning deleted files meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except MissingFileError:
            progress("files were cleaned meanwhile; beginning again")
    return attempt()
