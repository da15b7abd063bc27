"""The base files that a write builds on, found without reading any of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.bucket_index import possible_buckets
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.plan.plan import CURRENT_SCHEMA

pc: Any = compute  # the stubs lag behind the functions

_CHECKED_PARTITIONS: Final = 64
_READERS: Final = 8


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


def refuse_other_count(storage: Storage, files: pa.Table, buckets: int, hash_fields: Sequence[str]) -> None:
    """Refuse a bucket count that only the job's options tell, and by which keys of the table would be in other buckets.

    One file of each of up to 64 partitions is looked at: its first and last key, which stand in its footer.

    Args:
        storage: the table's.
        files: current files, of `CURRENT_SCHEMA`.
        buckets: file groups per partition, as given.
        hash_fields: fields that decide the bucket, in the order of the record key.

    Raises:
        OptionError: a key is in another bucket.
    """
    partitions: Any = files["partition"].to_numpy(zero_copy_only=False)
    _, first = np.unique(partitions, return_index=True)
    chosen = first[np.unique(np.linspace(0, max(len(first) - 1, 0), _CHECKED_PARTITIONS).astype(int))[: len(first)]]
    checked = files.take(from_numpy(chosen)).select(["path", "bucket"]).to_pylist()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="hudi-buckets") as pool:
        feet = list(pool.map(lambda row: footer(storage, row["path"]), checked))
    for row, foot in zip(checked, feet, strict=True):
        for key in filter(None, (foot.min_key, foot.max_key)):
            if row["bucket"] not in possible_buckets(key, hash_fields, buckets):
                raise OptionError(
                    f"hoodie.bucket.index.num.buckets={buckets} with hash fields {','.join(hash_fields)}, but by that "
                    f"key {key!r} of {row['path']} belongs into another bucket: give both as the jobs that wrote the "
                    "table did"
                )


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


def files_of_group(files: pa.Table, partition: str, number: int) -> pa.Table:
    """The current files of one partition and one number, which is the bucket or the group's number among all."""
    return files.filter(pc.and_(pc.equal(files["partition"], partition), pc.equal(files["bucket"], number)))


def _refuse_doubles(files: pa.Table) -> None:
    counts = files.group_by(["partition", "bucket"], use_threads=False).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts["count_all"], 1))
    if doubled.num_rows == 0:
        return
    partition, bucket = doubled["partition"][0].as_py(), doubled["bucket"][0].as_py()
    paths = files_of_group(files, partition, bucket)["path"].to_pylist()
    raise UnsupportedTableError(
        f"bucket {bucket} of partition {partition!r} has {len(paths)} file groups ({paths[0]}, {paths[1]}); the bucket "
        "index needs one. Remove the duplicates with the writer that made them"
    )
