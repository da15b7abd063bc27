"""The base files that a write builds on, found without reading any of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import compute

from spark_writer.plans import CURRENT_SCHEMA
from table_format.errors import OptionError, UnsupportedTableError
from table_format.file_slices import latest_base_files, list_data_files
from table_format.meta_client import TableClient
from table_format.metadata_table.reader import MetadataTable
from table_format.timeline import Timeline

pc: Any = compute  # the stubs lag behind the functions


def current_files(client: TableClient, timeline: Timeline, buckets: int) -> pa.Table:
    """The latest base file of each bucket and partition, as a table of `CURRENT_SCHEMA`.

    File names come from the metadata table, or from a listing where the table has none.

    Args:
        client: the table.
        timeline: loaded after the write's own instant was requested, so that no commit is missed unnoticed.
        buckets: file groups per partition.

    Raises:
        UnsupportedTableError: a file that no bucket index wrote, or two file groups of one bucket.
        OptionError: a bucket beyond the given count.
    """
    metadata = MetadataTable.open(client, timeline)
    files = list_data_files(client.storage) if metadata is None else metadata.files()
    latest = latest_base_files(files, timeline)
    if latest.num_rows == 0:
        return CURRENT_SCHEMA.empty_table()
    numbers = _buckets(latest)
    greatest = pc.max(numbers).as_py()
    if greatest >= buckets:
        raise OptionError(
            f"hoodie.bucket.index.num.buckets={buckets}, but the table has bucket {greatest}: give the count that the "
            "table was made with, or rows land in buckets where nobody looks for them"
        )
    columns = [latest["partition"], numbers, latest["file_id"], latest["instant"], latest["path"]]
    result = pa.table(columns, schema=CURRENT_SCHEMA).combine_chunks()
    _refuse_doubles(result)
    return result


def _buckets(files: pa.Table) -> Any:
    ids = files["file_id"]
    named = pc.match_substring_regex(ids, "^[0-9]{8}-")
    if not pc.all(named).as_py():
        path = files.filter(pc.invert(named))["path"][0].as_py()
        raise UnsupportedTableError(
            f"{path}: the name starts with no bucket number, so another index than the bucket index wrote this table; "
            "build a record index by `hudi-catalog index bootstrap`, and write with hoodie.index.type=RECORD_INDEX"
        )
    return pc.cast(pc.utf8_slice_codeunits(ids, 0, 8), pa.int32())


def _refuse_doubles(files: pa.Table) -> None:
    counts = files.group_by(["partition", "bucket"], use_threads=False).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts["count_all"], 1))
    if doubled.num_rows == 0:
        return
    partition, bucket = doubled["partition"][0].as_py(), doubled["bucket"][0].as_py()
    mine = pc.and_(pc.equal(files["partition"], partition), pc.equal(files["bucket"], bucket))
    paths = files.filter(mine)["path"].to_pylist()
    raise UnsupportedTableError(
        f"bucket {bucket} of partition {partition!r} has {len(paths)} file groups ({paths[0]}, {paths[1]}); the bucket "
        "index needs one. Remove the duplicates with the writer that made them"
    )
