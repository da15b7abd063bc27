"""What becomes of the record index when file groups leave the table: their keys go, unless they are written anew."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.mapping import Mapper, in_threads
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_entries import CHANGES_SCHEMA
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.index_deltas import DeltaFile, write_delta

pc: Any = compute  # the stubs lag behind the functions

# A few files are read sooner than workers are asked.
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


def forget_groups(
    client: TableClient,
    timeline: Timeline,
    options: Mapping[str, str],
    folder: str,
    groups: Iterable[Mapping[str, str]],
    *,
    mapper: Mapper,
) -> list[DeltaFile]:
    """Delete the keys of file groups that leave the table from its record index, those that it has there.

    Args:
        client: the table.
        timeline: of before the write.
        options: of look-ups.
        folder: for the write's delta files.
        groups: rows of `CURRENT_SCHEMA`.
        mapper: reads many files.
    """
    index = RecordIndex.open(client, timeline, dict(options))
    replaced = [
        ReplacedGroup(client.storage, index, folder, row["partition"], row["file_id"], row["path"]) for row in groups
    ]
    chosen = in_threads if len(replaced) <= _FILES_READ_HERE else mapper
    return [delta for delta in chosen(forget_group, replaced) if delta is not None]


def forget_group(group: ReplacedGroup) -> DeltaFile | None:
    """Delete the keys of a file group from the index, those that it has there.

    A key that lies elsewhere by the index, as one of two rows of a key may, stays.

    Raises:
        HudiError: the file or the index cannot be read.
    """
    keys = one_chunk(read_base_file(group.storage, group.path, [RECORD_KEY])[RECORD_KEY])
    partitions: Any = pa.array([group.partition], pa.string()).take(from_numpy(np.zeros(len(keys), np.int64)))
    locations = group.index.get_record_locations(keys, partitions)
    here = pc.and_(pc.equal(locations["partition"], group.partition), pc.equal(locations["file_id"], group.file_id))
    gone = locations.filter(here)
    columns = [
        gone["key"],
        gone["partition"],
        pa.nulls(gone.num_rows, pa.string()),
        from_numpy(np.ones(gone.num_rows, np.bool_)),
    ]
    changes = pa.table(columns, schema=CHANGES_SCHEMA)
    return write_delta(group.storage, group.folder, f"replaced-{uuid.uuid4()}", group.index.layout, changes)
