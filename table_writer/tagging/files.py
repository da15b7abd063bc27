"""The base files that a write by the record index builds on, and how large files are to become."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.errors import UnsupportedTableError
from table_format.mapping import Mapper, in_threads
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_entries import CHANGES_SCHEMA
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.index_deltas import DeltaFile, write_delta
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import CURRENT_SCHEMA
from table_writer.tagging.placement import Numbers, Sizing

pc: Any = compute  # the stubs lag behind the functions

_COMMITS_LOOKED_AT = 8

# An average over fewer rows says more of a file's footer than of its rows.
_ROWS_TO_TRUST = 1000

# Three zeros and five decimal digits: one random file id in 40,000 looks so, too.
_BUCKET_SHAPE = "^000[0-9]{5}-"


@dataclass(frozen=True)
class CurrentFiles:
    """The latest base file of each file group.

    Attributes:
        table: of `CURRENT_SCHEMA`, with the number of the file group, which is its row, in the place of the bucket.
        sizes: their bytes.
    """

    table: pa.Table
    sizes: pa.Array[Any]

    def sizes_of(self, partitions: set[str]) -> dict[str, list[tuple[int, int]]]:
        """Number and bytes of each file group of some partitions."""
        wanted = pc.is_in(self.table["partition"], value_set=pa.array(sorted(partitions), pa.string()))
        numbers = np.flatnonzero(to_numpy(wanted.combine_chunks()).astype(np.bool_))
        at = from_numpy(numbers)
        names: list[Any] = self.table["partition"].take(at).to_pylist()
        groups: dict[str, list[tuple[int, int]]] = {}
        for name, number, size in zip(names, numbers.tolist(), to_numpy(self.sizes.take(at)).tolist(), strict=True):
            groups.setdefault(name, []).append((number, size))
        return groups

    def only(self, numbers: Numbers) -> pa.Table:
        """The rows of some file groups; numbers of new file groups have none."""
        return self.table.take(from_numpy(numbers[numbers < self.table.num_rows].astype(np.int64)))


def indexed_files(client: TableClient, timeline: Timeline) -> CurrentFiles:
    """The latest base file of each file group, from the metadata table or a listing.

    Args:
        client: the table.
        timeline: loaded after the write's own instant was requested, so that no commit is missed unnoticed.
    """
    metadata = MetadataTable.open(client, timeline)
    files = list_data_files(client.storage) if metadata is None else metadata.files()
    latest = latest_base_files(files, timeline)
    numbers = from_numpy(np.arange(latest.num_rows, dtype=np.int32))
    columns = [latest["partition"], numbers, latest["file_id"], latest["instant"], latest["path"]]
    table = pa.table(columns, schema=CURRENT_SCHEMA).combine_chunks()
    sizes: Any = latest["size"].combine_chunks()
    return CurrentFiles(table, sizes)


def refuse_buckets(files: CurrentFiles) -> None:
    """Refuse a table whose files all bear buckets in their names: records in other files would be lost to its writers.

    Raises:
        UnsupportedTableError: it is one.
    """
    bucketed = pc.match_substring_regex(files.table["file_id"], _BUCKET_SHAPE)
    if files.table.num_rows and pc.all(bucketed).as_py():
        raise UnsupportedTableError(
            f"{files.table['path'][0].as_py()}: the files of this table are buckets, where its other writers look for "
            "records by their hash: leave hoodie.index.type=RECORD_INDEX out, and give hoodie.bucket.index.num.buckets"
        )


def sizing(options: WriteOptions, known: float | None, measured: float | None) -> Sizing:
    """How large the files of a write become.

    A record's bytes are those that the last commits tell; else `hoodie.copyonwrite.record.size.estimate`, where the
    job gives it; else those of a sample of the rows. Apache takes its default of 1024 bytes in the last case, which
    makes the first files of narrow rows many times too small.

    Args:
        options: of the job.
        known: bytes of a record in the files of the last commits, see `average_record`.
        measured: bytes of a row of the batch in a file; None where it was not measured.
    """
    split = None if options.flag(registry.AUTO_SPLIT) else options.number(registry.INSERT_SPLIT)
    record = known or options.number(registry.RECORD_SIZE) or measured or 1.0
    small, most = options.number(registry.SMALL_FILES), options.number(registry.FILE_SIZE)
    return Sizing(small or 0, most or 1, record, split)


def average_record(timeline: Timeline) -> float | None:
    """Bytes of a record in the files of the last commits; None when they wrote too few to tell.

    Copy-on-write files are written whole, so that each write stat has a whole file's bytes and rows.
    """
    size = rows = 0
    for instant in list(reversed(timeline.writes))[:_COMMITS_LOOKED_AT]:
        stats = timeline.commit_metadata(instant).stats()
        size += sum(stat.file_size_in_bytes for stat in stats)
        rows += sum(stat.num_writes for stat in stats)
        if rows >= _ROWS_TO_TRUST:
            return size / rows
    return None


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
