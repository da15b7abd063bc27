"""File slice of each log file of a listing; log files cut off; replaced file groups that were written to again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.actions.table_services import CompactionPlan
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import UnsupportedTableError
from table_format.instant import State
from table_format.log.blocks import BlockType, LogBlock, read_log_blocks
from table_format.slices.file_names import LogFileName, group_keys, parse_log_file_names
from table_format.timeline import history
from table_format.timeline.timeline import Timeline

_NAMED_AFTER_WRITES = 2


def seems_cut(blocks: Sequence[LogBlock]) -> bool:
    """Whether a log file is empty or has bytes of an unknown instant."""
    return not blocks or any(block.type is BlockType.CORRUPT and block.instant is None for block in blocks)


def is_cut(path: str, size: int, timeline: Timeline) -> bool:
    """Whether a log file is shorter than completed writes of the active timeline left it.

    From layout 2 on a log file has one write, whose instant is in its name. In layout 1 several writes may append
    to it; commit metadata has its size after each.

    Args:
        path: relative to the table.
        size: actual size in bytes.
        timeline: of the table.
    """
    name = LogFileName.parse(path.rpartition("/")[2])
    if timeline.layout >= _NAMED_AFTER_WRITES:
        return name is not None and timeline.is_committed(name.instant)
    return any(
        stat.path == path and stat.file_size_in_bytes > size
        for write in timeline.writes
        for stat in timeline.commit_metadata(write).stats()
    )


Ints = NDArray[np.int64]

#: Logs visible to a query. `key` is the file group's (see `group_keys`), `slice` the base instant of the file slice.
_LOGS: Final[dict[str, pa.DataType]] = {
    "partition": pa.string(),
    "file_id": pa.string(),
    "key": pa.string(),
    "slice": pa.string(),
    "instant": pa.string(),
    "version": pa.int64(),
    "write_token": pa.string(),
    "file_name": pa.string(),
    "size": pa.int64(),
}

LOGS_SCHEMA: Final = pa.schema(_LOGS)
_ENTRY: Final[list[pa.Field[Any]]] = [pa.field("file_name", pa.string()), pa.field("size", pa.int64())]

#: The logs of a slice in merge order.
LOGS_TYPE: Final = pa.list_(pa.struct(_ENTRY))


def slice_logs(files: pa.Table, bases: pa.Table, timeline: Timeline, as_of: str | None) -> pa.Table:
    """Log files that a query may need, each with its slice.

    In layout 1 a log's name has the base instant of its slice, which may be a pending compaction: then it
    belongs together with the older slices until the compaction completes. In layout 2 a
    log's name has the deltacommit that wrote it, and the log belongs to the newest slice that existed when that
    deltacommit completed (Hudi format, file slices). Logs of change data are left out.

    Args:
        files: a listing with partition, file_name and size.
        bases: all committed base files, with `key` and `instant`, also those after the query's instant.
        timeline: the data table's.
        as_of: instant of the query; None for the newest.

    Returns:
        A table of `LOGS_SCHEMA`, in the listing's order.

    Raises:
        UnsupportedTableError: the completion time of an archived deltacommit is needed and unknown.
    """
    dotted = files.filter(pc.starts_with(files["file_name"], "."))
    names = parse_log_file_names(dotted["file_name"])
    logs = pa.table({name: dotted[name] for name in ("partition", "file_name", "size")} | _by_name(names))
    logs = logs.filter(pc.invert(names["is_cdc"]))
    if not logs.num_rows:
        return LOGS_SCHEMA.empty_table()
    logs = logs.append_column("key", group_keys(logs["partition"], logs["file_id"]))
    if timeline.layout == 1:
        compactions = {instant.time for instant in timeline.pending_compactions}
        logs = logs.filter(
            instants_that(lambda t: t in compactions or timeline.is_committed(t), logs["instant"], as_of)
        )
        logs = logs.append_column("slice", logs["instant"])
    else:
        logs = logs.filter(instants_that(timeline.is_committed, logs["instant"], as_of))
        logs = _assign(logs, _boundaries(bases, logs, timeline, as_of), timeline)
    if as_of is not None:
        logs = logs.filter(pc.less_equal(logs["slice"], pa.scalar(as_of)))
    return logs.select(LOGS_SCHEMA.names).cast(LOGS_SCHEMA)


def _by_name(table: pa.Table) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}


def instants_that(judge: Callable[[str], bool], instants: Any, as_of: str | None = None) -> Any:
    """Apply a predicate once to each distinct instant; a mask over all rows."""
    distinct: list[Any] = pc.unique(instants).to_pylist()
    good = [t for t in distinct if t and (as_of is None or t <= as_of) and judge(t)]
    if len(good) == len(distinct):
        return from_numpy(np.ones(len(instants), np.bool_))
    return pc.is_in(instants, pa.array(good, pa.string()))


def _boundaries(bases: pa.Table, logs: pa.Table, timeline: Timeline, as_of: str | None) -> pa.Table:
    """Base instants of slices in the file groups that have logs: (key, instant).

    Pending compactions begin slices too. Their logs are read together with earlier slices, so they matter only to
    queries of a time before the compaction.
    """
    known = bases.select(["key", "instant"])
    later = [i for i in timeline.pending_compactions if as_of is not None and i.time > as_of]
    for instant in later:
        requested = instant.at(State.REQUESTED)
        plan = CompactionPlan.from_avro(timeline.read(requested), timeline.path(requested))
        groups = [f"{partition}\0{file_id}" for partition, file_id in plan.file_groups]
        planned = pa.table({"key": pa.array(groups, pa.string()), "instant": pa.array([instant.time] * len(groups))})
        known = pa.concat_tables([known, planned.cast(known.schema)])
    return known.filter(pc.is_in(known["key"], pc.unique(logs["key"])))


def _assign(logs: pa.Table, boundaries: pa.Table, timeline: Timeline) -> pa.Table:
    """Slice of each log in layout 2: the last one that began no later than the log's deltacommit completed."""
    completions = _completion_times(logs, boundaries, timeline)
    written = pa.array(list(completions), pa.string())
    logs = logs.filter(pc.is_in(logs["instant"], written))
    if not logs.num_rows:
        return logs.append_column("slice", logs["instant"])
    begun: list[Any] = pc.unique(boundaries["instant"]).to_pylist()
    times = pa.array(sorted({*completions, *completions.values(), *begun}), pa.string())
    groups = pc.unique(logs["key"])
    group, own = positions(logs["key"], groups), positions(logs["instant"], times)
    completed = positions(pa.array(completions.values(), pa.string()), times)[positions(logs["instant"], written)]
    # group and time in one number, so that one sorted list is searched for all logs at once
    begins = np.sort(positions(boundaries["key"], groups) * len(times) + positions(boundaries["instant"], times))
    begins = np.append(-1, begins)
    last = begins[np.searchsorted(begins, group * len(times) + completed, side="right") - 1]
    older = last // len(times) == group
    # logs without an older slice form their own, named by the first of them
    first = np.full(len(groups), len(times), np.int64)
    np.minimum.at(first, group[~older], own[~older])
    slices = np.where(older, last % len(times), first[group])
    return logs.append_column("slice", times.take(from_numpy(slices)))


def positions(values: Any, among: Any) -> Ints:
    """Index of each value in an array that has them all."""
    return to_numpy(_index_in(values, among)).astype(np.int64)


def _index_in(values: Any, among: Any) -> Any:
    return one_chunk(pc.index_in(values, one_chunk(among)))


def _completion_times(logs: pa.Table, boundaries: pa.Table, timeline: Timeline) -> dict[str, str]:
    """Completion times of the logs' deltacommits, without those that never completed.

    For archived ones it matters only if a slice began after them: else they belong to the last slice anyway,
    and their instant time serves as well.
    """
    written: list[Any] = pc.unique(logs["instant"]).to_pylist()
    known = {time: timeline.completion_time(time) or time for time in written}
    archived = pa.array([time for time in written if timeline.completion_time(time) is None], pa.string())
    old = logs.filter(pc.is_in(logs["instant"], archived))
    if not old.num_rows:
        return known
    begun: list[Any] = pc.unique(boundaries["instant"]).to_pylist()
    times = pa.array(sorted({*written, *begun}), pa.string())
    groups = pc.unique(logs["key"])
    newest = np.full(len(groups), -1, np.int64)
    np.maximum.at(newest, positions(boundaries["key"], groups), positions(boundaries["instant"], times))
    late = newest[positions(old["key"], groups)] > positions(old["instant"], times)
    doubtful: list[Any] = pc.unique(old["instant"].filter(from_numpy(late))).to_pylist()
    return known if not doubtful else _from_history(known, doubtful, timeline)


def _from_history(known: dict[str, str], doubtful: list[str], timeline: Timeline) -> dict[str, str]:
    completions = history.completion_times(timeline.storage, timeline.history_folder, min(doubtful), max(doubtful))
    missing = sorted(set(doubtful) - set(completions))
    oldest = history.first_archived(timeline.storage, timeline.history_folder) if missing else None
    if missing and (oldest is None or missing[0] < oldest):
        raise UnsupportedTableError(
            f"{timeline.history_folder}: the completion time of the deltacommit {missing[0]} is unknown, "
            "and its logs lie beside a newer base file; compact the table, or restore its archived timeline"
        )
    # the history holds all that completed in its range, so the others never did
    return {time: completions.get(time, completion) for time, completion in known.items() if time not in missing}


def attach_logs(bases: pa.Table, logs: pa.Table) -> pa.Table:
    """Join base files with the logs of their slice and of later ones; groups without a base file get their own row.

    Args:
        bases: the newest base file of each file group, with `key`, `instant` and whatever else.
        logs: of `LOGS_SCHEMA`.

    Returns:
        The base files with a column `logs`, then rows for the other groups: key, partition, file_id, instant and logs,
        all else null.
    """
    count = bases.num_rows
    base: Any = _index_in(logs["key"], bases["key"])
    # content of slices older than the base file's is in the base file
    begun = one_chunk(bases["instant"]).take(base)
    in_slice = pc.fill_null(pc.greater_equal(logs["slice"], begun), True)
    logs, base = logs.filter(in_slice), one_chunk(base.filter(in_slice))
    alone = pc.unique(logs["key"].filter(pc.is_null(base)))
    group = np.where(valid_mask(base), to_numpy(base), count + positions(logs["key"], alone))
    order = _merge_order(group, logs)
    logs, group = logs.take(from_numpy(order)), group[order]
    offsets = np.append(0, np.cumsum(np.bincount(group, minlength=count + len(alone))))
    entries = pa.StructArray.from_arrays([one_chunk(logs[name]) for name in ("file_name", "size")], fields=_ENTRY)
    lists: Any = pa.ListArray.from_arrays(from_numpy(offsets.astype(np.int32)), entries, type=LOGS_TYPE)
    firsts = offsets[count:-1]
    rows: Any = logs.select(["key", "partition", "file_id"]).take(from_numpy(firsts))
    rows = rows.append_column("instant", _least(logs["slice"], firsts))
    return pa.concat_tables([bases, rows], promote_options="default").append_column("logs", lists)


def _merge_order(group: Ints, logs: pa.Table) -> Ints:
    """Sort logs of a group by instant, version and write token."""
    times = pc.unique(logs["instant"])
    instants = positions(logs["instant"], times.take(pc.sort_indices(times)))
    tokens = np.empty(len(group), np.int64)
    tokens[to_numpy(pc.sort_indices(logs["write_token"]))] = np.arange(len(group))
    return np.lexsort((tokens, to_numpy(one_chunk(logs["version"])), instants, group))


def _least(texts: Any, firsts: Ints) -> Any:
    """Least text of each run; runs begin at `firsts`."""
    distinct = pc.unique(texts)
    ordered = distinct.take(pc.sort_indices(distinct))
    return ordered.take(from_numpy(np.minimum.reduceat(positions(texts, ordered), firsts)))


def keys_still_replaced(gone: pa.Table, newest: pa.Table, logs: pa.Table, timeline: Timeline, as_of: str | None) -> Any:
    """Keys (`group_keys`) of replaced file groups, without those that were written to again.

    Once a replacecommit is archived, Apache's readers and writers no longer know of it. If its files still exist
    because a savepoint keeps them (`hoodie.archive.beyond.savepoint`), they update these file groups as any others.
    From such a write on the file group is part of the table again: its rows are nowhere else.

    Args:
        gone: replaced file groups, of `file_slices.REPLACED_SCHEMA`.
        newest: the newest base file of each file group, with `key` and `instant`.
        logs: of `log_slices.LOGS_SCHEMA`.
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
    """
    keys = group_keys(gone["partition"], gone["file_id"])
    active = pa.array([instant.time for instant in timeline.writes], pa.string())
    old = gone.append_column("key", keys).filter(pc.invert(pc.is_in(gone["replaced_at"], active)))
    there = (
        pa.concat_arrays([*newest["key"].chunks, *logs["key"].chunks]) if old.num_rows else pa.array([], pa.string())
    )
    old = old.filter(pc.is_in(old["key"], there))
    if not old.num_rows:
        return keys
    completions = {} if timeline.layout == 1 else timeline.archive.writes
    replaced_at: dict[str, str] = {}
    pairs: Any = zip(old["key"].to_pylist(), old["replaced_at"].to_pylist(), strict=True)
    for key, time in pairs:
        replaced_at[key] = max(replaced_at.get(key, ""), completions.get(time, time))
    revived = _by_names(newest, replaced_at) | _by_names(logs, replaced_at)
    if timeline.layout == 1:
        revived |= _by_blocks(logs, replaced_at, timeline, as_of)
    return keys.filter(pc.invert(pc.is_in(keys, pa.array(sorted(revived), pa.string()))))


def _by_names(rows: pa.Table, replaced_at: dict[str, str]) -> set[str]:
    """File groups with a file whose name has a later write."""
    rows = rows.filter(pc.is_in(rows["key"], pa.array(list(replaced_at), pa.string())))
    pairs: Any = zip(rows["key"].to_pylist(), rows["instant"].to_pylist(), strict=True)
    return {key for key, instant in pairs if instant > replaced_at[key]}


def _by_blocks(logs: pa.Table, replaced_at: dict[str, str], timeline: Timeline, as_of: str | None) -> set[str]:
    """File groups with a later write in their logs, whose names have the base file's instant in layout 1."""
    logs = logs.filter(pc.is_in(logs["key"], pa.array(list(replaced_at), pa.string())))
    revived = set()
    for row in logs.to_pylist():
        path = f"{row['partition']}/{row['file_name']}".lstrip("/")
        times = {block.instant or "" for block in read_log_blocks(timeline.storage.read(path), path)}
        later = (time for time in times if time > replaced_at[row["key"]] and (as_of is None or time <= as_of))
        if any(timeline.is_committed(time) for time in later):
            revived.add(row["key"])
    return revived
