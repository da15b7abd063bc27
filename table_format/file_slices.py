"""From a listing of data files to the file slices that a query sees (copy-on-write, timeline layout 1)."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from table_format import partition_metadata
from table_format.errors import UnsupportedTableError
from table_format.file_names import LogFileName, parse_base_file_names
from table_format.instant import Action
from table_format.storage import Storage
from table_format.timeline import Timeline

#: A listing: every data file of some partitions, of whatever instant.
FILES_SCHEMA = pa.schema([("partition", pa.string()), ("file_name", pa.string()), ("size", pa.int64())])
#: What a query reads: the base file of each file group's latest slice.
BASE_FILES_SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("instant", pa.string()),
        ("file_name", pa.string()),
        ("size", pa.int64()),
        ("path", pa.string()),
    ]
)
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
        A table of `BASE_FILES_SCHEMA`, by partition, file id.

    Raises:
        UnsupportedTableError: a log file, so the table is merge-on-read.
    """
    files = files.combine_chunks()
    _refuse_log_files(files)
    files = pa.table(
        {**{name: files[name] for name in FILES_SCHEMA.names}, **_columns(parse_base_file_names(files["file_name"]))}
    )
    files = files.filter(pc.and_(pc.is_valid(files["instant"]), pc.equal(files["extension"], "parquet")))
    files = files.filter(_visible(files["instant"], timeline, as_of))
    groups = files.group_by(["partition", "file_id"], use_threads=False).aggregate([("instant", "max")])
    if groups.num_rows < files.num_rows:
        newest = groups.rename_columns(["partition", "file_id", "instant"])
        files = files.join(newest, keys=["partition", "file_id", "instant"], join_type="inner", use_threads=False)
    gone = replaced_file_groups(timeline, as_of) if replaced is None else replaced
    if gone.num_rows:
        files = files.join(
            gone.select(["partition", "file_id"]),
            keys=["partition", "file_id"],
            join_type="left anti",
            use_threads=False,
        )
    files = files.sort_by([("partition", "ascending"), ("file_id", "ascending"), ("write_token", "ascending")])
    folder = pc.if_else(pc.equal(files["partition"], ""), "", pc.binary_join_element_wise(files["partition"], "", "/"))
    files = files.append_column("path", pc.binary_join_element_wise(folder, files["file_name"], ""))
    return files.select(BASE_FILES_SCHEMA.names).combine_chunks()


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _refuse_log_files(files: pa.Table) -> None:
    hidden = files.filter(pc.starts_with(files["file_name"], "."))
    for partition, name in zip(hidden["partition"].to_pylist(), hidden["file_name"].to_pylist(), strict=True):
        if LogFileName.parse(name) is not None:
            place = f"{partition}/{name}" if partition else name
            raise UnsupportedTableError(f"{place}: a log file; merge-on-read tables are not read yet")


def _visible(instants: pa.ChunkedArray, timeline: Timeline, as_of: str | None) -> pa.ChunkedArray:
    """Judge each distinct instant once, however many files carry it."""
    distinct = pc.unique(instants)
    good = [t for t in distinct.to_pylist() if timeline.is_committed(t) and (as_of is None or t <= as_of)]
    return pc.is_in(instants, pa.array(good, pa.string()))
