"""From a listing of data files to the file slices that a query sees (copy-on-write, timeline layout 1)."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from table_format import partition_metadata
from table_format.errors import UnsupportedTableError
from table_format.file_names import LogFileName, parse_base_file_names
from table_format.instant import Action
from table_format.storage import Storage
from table_format.timeline import Timeline

#: A listing: every data file of some partitions, of whatever instant.
_FILES: dict[str, pa.DataType] = {"partition": pa.string(), "file_name": pa.string(), "size": pa.int64()}
FILES_SCHEMA = pa.schema(_FILES)
#: What a query reads: the base file of each file group's latest slice.
_BASE_FILES: dict[str, pa.DataType] = {
    "partition": pa.string(),
    "file_id": pa.string(),
    "instant": pa.string(),
    "file_name": pa.string(),
    "size": pa.int64(),
    "path": pa.string(),
}
BASE_FILES_SCHEMA = pa.schema(_BASE_FILES)
REPLACED_SCHEMA = pa.schema([("partition", pa.string()), ("file_id", pa.string()), ("replaced_at", pa.string())])


def list_data_files(storage: Storage, partitions: Sequence[str] | None = None) -> pa.Table:
    """List a table's data files from the file system; only folders that a metadata file marks are partitions.

    Args:
        storage: rooted at the table's base folder.
        partitions: only these; None finds them all.

    Returns:
        A table of `FILES_SCHEMA`, by partition and name.
    """
    entries = (
        storage.list(recursive=True)
        if partitions is None
        else [entry for partition in partitions for entry in storage.list(partition)]
    )
    files = [entry for entry in entries if not entry.is_dir and not entry.path.startswith(".hoodie/")]
    folders = {posixpath.dirname(entry.path) for entry in files if entry.name in partition_metadata.NAMES}
    kept = [
        (posixpath.dirname(entry.path), entry.name, entry.size)
        for entry in files
        if posixpath.dirname(entry.path) in folders and entry.name not in partition_metadata.NAMES
    ]
    columns = list(zip(*kept, strict=True)) if kept else [(), (), ()]
    return pa.table(list(map(pa.array, columns, FILES_SCHEMA.types)), schema=FILES_SCHEMA)


def list_partitions(storage: Storage) -> list[str]:
    """Paths of all partitions, from the file system."""
    return sorted(
        posixpath.dirname(entry.path)
        for entry in storage.list(recursive=True)
        if entry.name in partition_metadata.NAMES and not entry.path.startswith(".hoodie/")
    )


def replaced_file_groups(timeline: Timeline, as_of: str | None = None) -> pa.Table:
    """File groups that completed replacecommits took out of the table.

    Returns:
        A table of `REPLACED_SCHEMA`.
    """
    rows: list[tuple[str, str, str]] = []
    for instant in timeline.writes:
        if instant.action == Action.REPLACECOMMIT and (as_of is None or instant.time <= as_of):
            groups = timeline.commit_metadata(instant).partition_to_replace_file_ids or {}
            rows += [(partition, file_id, instant.time) for partition, ids in groups.items() for file_id in ids]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(list(map(pa.array, columns, REPLACED_SCHEMA.types)), schema=REPLACED_SCHEMA)


def latest_base_files(
    files: pa.Table, timeline: Timeline, *, as_of: str | None = None, replaced: pa.Table | None = None
) -> pa.Table:
    """The base file of each file group's latest slice that a query may see.

    A base file counts if its instant is committed and not after the query's; the newest one of its file group wins;
    replaced file groups are left out. Names that are no base file's are passed over, as Hudi does.

    Args:
        files: a table of `FILES_SCHEMA`.
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
        replaced: `replaced_file_groups(timeline, as_of)`, if the caller has it.

    Returns:
        A table of `BASE_FILES_SCHEMA`, by path.

    Raises:
        UnsupportedTableError: a log file, so the table is merge-on-read; or a base file that is not Parquet.
    """
    _refuse_log_files(files)
    parts = parse_base_file_names(files["file_name"])
    columns = {name: files[name] for name in FILES_SCHEMA.names} | {name: parts[name] for name in parts.column_names}
    rows = pa.table(columns)
    _refuse_other_formats(rows)
    rows = rows.filter(pc.equal(rows["extension"], pa.scalar("parquet")))
    rows = rows.filter(_visible(rows["instant"], timeline, as_of))
    rows = _newest_of_each_group(rows, timeline)
    gone = replaced_file_groups(timeline, as_of) if replaced is None else replaced
    if gone.num_rows:
        keys = ["partition", "file_id"]
        rows = rows.join(gone.select(keys), keys=keys, join_type="left anti", use_threads=False)
    rows = rows.append_column("path", _paths(rows))
    # one key sorts several times as fast as two
    return rows.take(pc.sort_indices(rows["path"])).select(BASE_FILES_SCHEMA.names).combine_chunks()


def _newest_of_each_group(rows: pa.Table, timeline: Timeline) -> pa.Table:
    # file ids are unique in a table, so this is all there is to do for most
    if pc.count_distinct(rows["file_id"]).as_py() == rows.num_rows:
        return rows
    keys = ["partition", "file_id", "instant"]
    groups = rows.group_by(keys[:2], use_threads=False).aggregate([("instant", "max")])
    rows = rows.join(groups.rename_columns(keys), keys=keys, join_type="inner", use_threads=False)
    return rows if rows.num_rows == groups.num_rows else _without_retries(rows, timeline)


def _without_retries(rows: pa.Table, timeline: Timeline) -> pa.Table:
    """Of several files of one group and instant, keep what the commit names: the others are a retried task's."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: row["file_name"]):
        key = (row["partition"], row["file_id"])
        if key not in kept or _is_named(row, timeline):
            kept[key] = row
    return pa.Table.from_pylist(list(kept.values()), rows.schema)


def _is_named(row: dict[str, Any], timeline: Timeline) -> bool:
    instant = next((i for i in timeline.writes if i.time == row["instant"]), None)
    if instant is None:
        return False
    stats = timeline.commit_metadata(instant).partition_to_write_stats.get(row["partition"], [])
    return any(stat.file_name == row["file_name"] for stat in stats)


def _paths(rows: pa.Table) -> pa.ChunkedArray[Any]:
    joined: Any = pc.binary_join_element_wise(rows["partition"], rows["file_name"], pa.scalar("/"))  # type: ignore[call-overload]
    trimmed: pa.ChunkedArray[Any] = pc.utf8_ltrim(joined, characters="/")
    return trimmed


def _refuse_log_files(files: pa.Table) -> None:
    hidden = files.filter(pc.starts_with(files["file_name"], "."))
    for entry in hidden.to_pylist():
        if LogFileName.parse(entry["file_name"]) is not None:
            place = posixpath.join(entry["partition"], entry["file_name"])
            raise UnsupportedTableError(f"{place}: a log file; merge-on-read tables are not read yet")


def _refuse_other_formats(rows: pa.Table) -> None:
    others = rows.filter(pc.is_in(rows["extension"], pa.array(["orc", "hfile"])))
    if others.num_rows:
        place = posixpath.join(others["partition"][0].as_py(), others["file_name"][0].as_py())
        raise UnsupportedTableError(f"{place}: base files are read in Parquet only")


def _visible(instants: pa.ChunkedArray[Any], timeline: Timeline, as_of: str | None) -> pa.BooleanArray:
    """Judge each distinct instant once, however many files carry it."""
    distinct: list[Any] = pc.unique(instants).to_pylist()
    good = [t for t in distinct if t and timeline.is_committed(t) and (as_of is None or t <= as_of)]
    return pc.is_in(instants, pa.array(good, pa.string()))
