"""File slices of a query, from a listing of data files."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.config import properties
from table_format.errors import UnsupportedTableError
from table_format.hfile.sorted_keys import KeySpans
from table_format.slices.file_names import LogFileName, group_keys, parse_base_file_names
from table_format.slices.log_slices import (
    LOGS_SCHEMA,
    LOGS_TYPE,
    attach_logs,
    instants_that,
    keys_still_replaced,
    positions,
    slice_logs,
)
from table_format.storage import Storage
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline

#: A listing: all data files of some partitions, of any instant.
_FILES: dict[str, pa.DataType] = {"partition": pa.string(), "file_name": pa.string(), "size": pa.int64()}
FILES_SCHEMA = pa.schema(_FILES)
#: Base file of each file group's latest slice.
_BASE_FILES: dict[str, pa.DataType] = {
    "partition": pa.string(),
    "file_id": pa.string(),
    "instant": pa.string(),
    "file_name": pa.string(),
    "size": pa.int64(),
    "path": pa.string(),
}
_PARTS = ("file_id", "instant", "extension")
_OTHER_FORMATS = ("orc", "hfile", "lance")
_INSTANT = r"^([0-9]{14}|[0-9]{17})\z"
_PREFIX = 8  # bytes of file ids that are compared at a time
_AT_ONCE = 1 << 15  # ids that fit into a core's cache
BASE_FILES_SCHEMA = pa.schema(_BASE_FILES)
#: Files that a query reads: of each file group's latest slice the base file (null if none) and the logs, in the
#: order in which they are merged.
SLICES_SCHEMA = BASE_FILES_SCHEMA.append(pa.field("logs", LOGS_TYPE))
REPLACED_SCHEMA = pa.schema([("partition", pa.string()), ("file_id", pa.string()), ("replaced_at", pa.string())])


def list_data_files(storage: Storage, partitions: Sequence[str] | None = None) -> pa.Table:
    """List a table's data files from the file system; folders without a partition metadata file are skipped.

    Args:
        storage: rooted at the table's base folder.
        partitions: only these; None lists all.

    Returns:
        A table of `FILES_SCHEMA`, by partition and name.
    """
    entries = (
        storage.list(recursive=True)
        if partitions is None
        else [entry for partition in partitions for entry in storage.list(partition)]
    )
    files = [entry for entry in entries if not entry.is_dir and not entry.path.startswith(".hoodie/")]
    folders = {posixpath.dirname(entry.path) for entry in files if entry.name in properties.PARTITION_METAFILES}
    data_files = [
        (posixpath.dirname(entry.path), entry.name, entry.size)
        for entry in files
        if posixpath.dirname(entry.path) in folders and entry.name not in properties.PARTITION_METAFILES
    ]
    columns = list(zip(*data_files, strict=True)) if data_files else [(), (), ()]
    return pa.table(list(map(pa.array, columns, FILES_SCHEMA.types)), schema=FILES_SCHEMA)


def replaced_file_groups(timeline: Timeline, as_of: str | None = None, *, archived: bool | None = None) -> pa.Table:
    """File groups that completed replacecommits replaced.

    File groups of archived replacecommits have usually been cleaned, unless a savepoint keeps their files.

    Args:
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
        archived: whether to include archived replacecommits; None includes them if they may matter by the timeline.

    Returns:
        A table of `REPLACED_SCHEMA`.

    Raises:
        CorruptFileError: a replacecommit, or the archive where it counts, is damaged.
    """
    rows = list(timeline.replaced)
    if timeline.has_gaps if archived is None else archived:
        rows += timeline.archived_replaced
    rows = [row for row in rows if as_of is None or row[2] <= as_of]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(list(map(pa.array, columns, REPLACED_SCHEMA.types)), schema=REPLACED_SCHEMA)


def latest_base_files(
    files: pa.Table, timeline: Timeline, *, as_of: str | None = None, replaced: pa.Table | None = None
) -> pa.Table:
    """Base file of each file group's latest slice that is visible to a query, in a table without log files.

    A base file is visible if its instant is committed and not after the query's; the newest of a file group wins;
    replaced file groups are left out. Other file names are ignored, as in Hudi. Arguments are those of
    `latest_file_slices`.

    Returns:
        A table of `BASE_FILES_SCHEMA`, by partition and file id.

    Raises:
        UnsupportedTableError: a log file, so the table is merge-on-read; or a base file that is not Parquet.
    """
    _refuse_log_files(files)
    newest = _newest_base_files(files, timeline, as_of, replaced)
    return with_paths(newest).select(BASE_FILES_SCHEMA.names).combine_chunks()


def read_optimized_slices(
    files: pa.Table, timeline: Timeline, *, as_of: str | None = None, replaced: pa.Table | None = None
) -> pa.Table:
    """Newest base file of each file group, without its logs (Hudi's read-optimized query).

    Arguments are those of `latest_file_slices`.

    Returns:
        A table of `SLICES_SCHEMA`, by partition and file id; its lists of logs are empty.
    """
    return _slices(_newest_base_files(files, timeline, as_of, replaced))


def latest_file_slices(
    files: pa.Table,
    timeline: Timeline,
    *,
    as_of: str | None = None,
    replaced: pa.Table | None = None,
    paths: bool = True,
) -> pa.Table:
    """Latest file slice of each file group that is visible to a query.

    The newest committed base file with all logs of its slice and of later ones, which writers began for a
    compaction that has not completed. File groups may have logs only. Replaced file groups are left out. In layout 1
    logs may hold blocks of failed or later writes, which the reader of the logs skips.

    Args:
        files: a table of `FILES_SCHEMA`.
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
        replaced: `replaced_file_groups(timeline, as_of)`, if known.
        paths: whether to give the paths, which take as much memory as all else; `with_paths` adds them.

    Returns:
        A table of `SLICES_SCHEMA`, by partition and file id.

    Raises:
        UnsupportedTableError: a base file that is not Parquet, or a log whose slice is unknown.
    """
    return _slices(_latest(files, timeline, as_of, replaced), paths=paths)


def _latest(files: pa.Table, timeline: Timeline, as_of: str | None, replaced: pa.Table | None) -> pa.Table:
    committed = _committed_base_files(files, timeline)
    gone = _gone(timeline, as_of, replaced)
    dotted = pc.any(pc.starts_with(files["file_name"], "."), min_count=0).as_py()
    if not dotted and not gone.num_rows:
        return _newest_of_each_group(_until(committed, as_of), timeline)
    committed = _with_keys(committed)
    logs = slice_logs(files, committed, timeline, as_of)
    newest = _newest_of_each_group(_until(committed, as_of), timeline)
    keys = keys_still_replaced(gone, newest, logs, timeline, as_of)
    logs, newest = _without(logs, keys), _without(newest, keys)
    if not logs.num_rows:
        return newest
    slices = attach_logs(newest, logs)
    return slices.take(pc.sort_indices(slices["key"]))


def _newest_base_files(files: pa.Table, timeline: Timeline, as_of: str | None, replaced: pa.Table | None) -> pa.Table:
    """The newest committed base file of each file group that was not replaced."""
    newest = _newest_of_each_group(_until(_committed_base_files(files, timeline), as_of), timeline)
    gone = _gone(timeline, as_of, replaced)
    if not gone.num_rows:
        return newest
    newest = _with_keys(newest)
    return _without(newest, keys_still_replaced(gone, newest, LOGS_SCHEMA.empty_table(), timeline, as_of))


def _gone(timeline: Timeline, as_of: str | None, replaced: pa.Table | None) -> pa.Table:
    """The replaced file groups; call it after checking the files' instants, which show whether the archive has some."""
    return replaced_file_groups(timeline, as_of) if replaced is None else replaced


def _committed_base_files(files: pa.Table, timeline: Timeline) -> pa.Table:
    """Base files of completed writes with their parsed names, in the listing's order."""
    parts = parse_base_file_names(files["file_name"], _PARTS)
    rows = pa.table({name: files[name] for name in FILES_SCHEMA.names} | {name: parts[name] for name in _PARTS})
    is_parquet = pc.equal(rows["extension"], pa.scalar("parquet"))
    _refuse_other_formats(rows.filter(pc.invert(is_parquet)), timeline)
    rows = _filtered(rows, is_parquet).drop_columns("extension")
    return _filtered(rows, instants_that(timeline.is_committed, rows["instant"]))


def _with_keys(rows: pa.Table) -> pa.Table:
    return rows.append_column("key", group_keys(rows["partition"], rows["file_id"]))


def _filtered(rows: pa.Table, mask: Any) -> pa.Table:
    """Filter by a mask, which mostly selects all rows."""
    return rows if not mask.null_count and pc.all(mask).as_py() is not False else rows.filter(mask)


def _until(rows: pa.Table, as_of: str | None) -> pa.Table:
    return rows if as_of is None else rows.filter(pc.less_equal(rows["instant"], as_of))


def _newest_of_each_group(rows: pa.Table, timeline: Timeline) -> pa.Table:
    """Newest base file of each group, by partition and file id."""
    rows = rows.combine_chunks()
    if rows.num_rows < 2:
        return rows
    order, starts = _by_group(rows)
    if starts.all():
        return rows if order is None else _taken(rows, order)
    order = np.arange(rows.num_rows) if order is None else order
    times = pc.unique(rows["instant"])
    ranks = positions(rows["instant"], times.take(pc.sort_indices(times)))[order]
    first = np.flatnonzero(starts)
    group = np.cumsum(starts) - 1
    newest = ranks == np.maximum.reduceat(ranks, first)[group]
    twins = newest & (np.bincount(group[newest])[group] > 1)
    if twins.any():
        newest[twins] = _named_by_commits(rows.take(from_numpy(order[twins])), timeline)
    return _taken(rows, order[newest])


def _taken(rows: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Rows in an order; of a million files each column takes long, so each is a thread's."""
    places = from_numpy(order)
    return pa.table(in_threads(lambda column: column.take(places), rows.columns), schema=rows.schema)


def _by_group(rows: pa.Table) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_]]:
    """Order by partition and file id, None for the order that they have; and where a file group begins in it."""
    folders = one_chunk(rows["partition"]).dictionary_encode()
    rank = np.empty(len(folders.dictionary), np.int64)
    rank[to_numpy(pc.sort_indices(folders.dictionary))] = np.arange(len(rank))
    ranks, names = rank[to_numpy(folders.indices)], one_chunk(rows["file_id"])
    starts = np.append(True, ranks[1:] != ranks[:-1])
    if bool((ranks[1:] >= ranks[:-1]).all()) and _ascend(names, starts):
        return None, starts
    ids = KeySpans.of(names)
    bits = np.uint64(len(rank).bit_length())
    # the partition and the first bytes of the file id decide for most rows
    marks = (ranks.astype(np.uint64) << (np.uint64(64) - bits)) | (ids.words(0) >> bits)
    order = np.argsort(marks, kind="stable")  # finds ascending runs: files of later commits follow those in order
    marks = marks[order]
    starts = np.append(True, marks[1:] != marks[:-1])
    for at in range(0, ids.longest(), _PREFIX):
        tied = np.flatnonzero(~starts | ~np.append(starts[1:], True))
        if not tied.size:
            break
        words, group = ids.words(at, order[tied]), np.cumsum(starts)[tied]
        by_words = np.lexsort((words, group))
        order[tied], words = order[tied][by_words], words[by_words]
        starts[tied] |= np.append(True, (words[1:] != words[:-1]) | (group[1:] != group[:-1]))
    return order, starts


def _ascend(names: Any, starts: NDArray[np.bool_]) -> bool:
    """Whether file ids ascend between the starts of partitions; adds those of file groups."""

    def piece(begin: int) -> bool:
        return _ascend_behind(KeySpans.of(names.slice(begin - 1, _AT_ONCE + 1)), starts[begin : begin + _AT_ONCE])

    return all(in_threads(piece, range(1, len(names), _AT_ONCE)))


def _ascend_behind(ids: KeySpans, starts: NDArray[np.bool_]) -> bool:
    """As `_ascend`, for the ids behind the first one."""
    later = np.flatnonzero(~starts)  # each has the partition, and so far the id, of the row before
    for at in range(0, ids.longest(), _PREFIX):
        before, here = ids.words(at, later), ids.words(at, later + 1)
        if bool((before > here).any()):
            return False
        starts[later[before < here]] = True
        later = later[before == here]
        if not later.size:
            break
    return True


def _named_by_commits(rows: pa.Table, timeline: Timeline) -> list[bool]:
    """Of several files of one group and instant, the one in the commit: others are from retried tasks."""
    chosen: dict[tuple[str, str], tuple[bool, str]] = {}
    for row in rows.to_pylist():
        group, rank = (row["partition"], row["file_id"]), (_is_named(row, timeline), row["file_name"])
        chosen[group] = max(rank, chosen.get(group, rank))
    names = {name for _, name in chosen.values()}
    return [name in names for name in rows["file_name"].to_pylist()]


def _is_named(row: dict[str, Any], timeline: Timeline) -> bool:
    instant = next((i for i in timeline.writes if i.time == row["instant"]), None)
    if instant is None:
        return False
    stats = timeline.commit_metadata(instant).partition_to_write_stats.get(row["partition"], [])
    return any(stat.file_name == row["file_name"] for stat in stats)


def with_paths(rows: pa.Table) -> pa.Table:
    """Files or slices with their paths, which are null where the name is: the last column but `logs`."""
    joined: Any = pc.binary_join_element_wise(rows["partition"], rows["file_name"], pa.scalar("/"))
    in_root = pc.any(pc.equal(rows["partition"], "")).as_py()
    paths = pc.utf8_ltrim(joined, characters="/") if in_root else joined
    place = rows.num_columns - 1 if rows.column_names[-1:] == ["logs"] else rows.num_columns
    return rows.add_column(place, "path", paths)


def _without(rows: pa.Table, keys: Any) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["key"], keys))) if len(keys) else rows


def _slices(rows: pa.Table, *, paths: bool = True) -> pa.Table:
    """A table of `SLICES_SCHEMA` of rows with or without a base file."""
    if "logs" not in rows.column_names:
        none: Any = np.zeros(rows.num_rows + 1, np.int32)
        entries = pa.array([], LOGS_TYPE.value_type)
        rows = rows.append_column("logs", pa.ListArray.from_arrays(from_numpy(none), entries, type=LOGS_TYPE))
    if rows["size"].null_count:
        rows = rows.set_column(rows.column_names.index("size"), "size", pc.fill_null(rows["size"], 0))
    rows = rows.select([name for name in SLICES_SCHEMA.names if name != "path"])
    return (with_paths(rows) if paths else rows).combine_chunks()


def _refuse_log_files(files: pa.Table) -> None:
    hidden = files.filter(pc.starts_with(files["file_name"], "."))
    for entry in hidden.to_pylist():
        if LogFileName.parse(entry["file_name"]) is not None:
            place = posixpath.join(entry["partition"], entry["file_name"])
            raise UnsupportedTableError(
                f"{place}: a log file; tables with log files are read, not written; write to it by Apache Hudi"
            )


def _refuse_other_formats(others: pa.Table, timeline: Timeline) -> None:
    """Refuse base files of completed writes that are not Parquet, since skipping them would lose rows.

    For unknown extensions, the form of the instant distinguishes a base file from a stray `report_1_2024.csv`.
    """
    if not others.num_rows:
        return
    likely = pc.or_(
        pc.is_in(others["extension"], pa.array(_OTHER_FORMATS)),
        pc.match_substring_regex(others["instant"], _INSTANT),
    )
    others = others.filter(pc.and_(likely, instants_that(timeline.is_committed, others["instant"])))
    if others.num_rows:
        place = posixpath.join(others["partition"][0].as_py(), others["file_name"][0].as_py())
        raise UnsupportedTableError(
            f"{place}: base files are read in Parquet only; rewrite the table with Apache Hudi and "
            "hoodie.table.base.file.format=PARQUET"
        )
