"""What becomes of the record index when file groups leave the table: their keys go, unless they are written anew."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from spark_writer.spark_map import spark_mapper
from spark_writer.write_plans import WritePlans
from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.mapping import in_threads
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_entries import CHANGES_SCHEMA
from table_format.storage import Storage
from table_writer.files.written import WrittenFile
from table_writer.metadata.index_deltas import DeltaFile, delta_folder, write_delta

pc: Any = compute  # the stubs lag behind the functions

# A few files are read sooner than Spark's workers are asked.
_FILES_READ_HERE = 8


@dataclass(frozen=True)
class ReplacedGroup:
    """One file group that leaves the table.

    Attributes:
        storage: the table's.
        index: the record index before the write.
        folder: of the write's delta files.
        partition: of the file group.
        file_id: its id.
        path: its base file.
    """

    storage: Storage
    index: RecordIndex
    folder: str
    partition: str
    file_id: str
    path: str


def index_changes(
    plans: WritePlans, written: Sequence[WrittenFile], current: pa.Table, replaced: Mapping[str, Sequence[str]]
) -> list[DeltaFile] | None:
    """What a write does to the record index; None in a table that keeps none.

    Args:
        plans: of the write.
        written: its files.
        current: of `CURRENT_SCHEMA`, as of before the write.
        replaced: file groups that leave the table, by partition.
    """
    if plans.layout is None:
        return None
    changes = [file.index_delta for file in written if file.index_delta is not None]
    if not any(replaced.values()):
        return changes
    index = RecordIndex.open(plans.client, plans.timeline, dict(plans.options.texts))
    folder = delta_folder(plans.transaction.instant)
    groups = [
        ReplacedGroup(plans.client.storage, index, folder, row["partition"], row["file_id"], row["path"])
        for row in current.to_pylist()
        if row["file_id"] in replaced.get(row["partition"], ())
    ]
    mapper = in_threads if len(groups) <= _FILES_READ_HERE else spark_mapper(plans.session)
    return changes + [delta for delta in mapper(forget_group, groups) if delta is not None]


def forget_group(group: ReplacedGroup) -> DeltaFile | None:
    """Delete the keys of a file group from the index, those that it has there.

    A key that lies elsewhere by the index, as one of two rows of a key may, stays.

    Raises:
        HudiError: the file or the index cannot be read.
    """
    keys = one_chunk(read_base_file(group.storage, group.path, [RECORD_KEY])[RECORD_KEY])
    partitions: Any = pa.array([group.partition], pa.string()).take(from_numpy(np.zeros(len(keys), np.int64)))
    found = group.index.get_record_locations(keys, partitions)
    here = pc.and_(pc.equal(found["partition"], group.partition), pc.equal(found["file_id"], group.file_id))
    mine = found.filter(here)
    columns = [
        mine["key"],
        mine["partition"],
        pa.nulls(mine.num_rows, pa.string()),
        from_numpy(np.ones(mine.num_rows, np.bool_)),
    ]
    changes = pa.table(columns, schema=CHANGES_SCHEMA)
    return write_delta(group.storage, group.folder, f"replaced-{uuid.uuid4()}", group.index.layout, changes)
