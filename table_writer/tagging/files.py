"""The current base files of a write that looks keys up, and the target sizes of files."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import RecordIndexError, UnsupportedTableError
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.execution.executor import Mapper, in_threads
from table_writer.metadata.index_deltas import DeltaFile, write_delta
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.slots.current import bucket_numbers, numbered
from table_writer.slots.partition_files import PartitionFiles
from table_writer.tagging.placement import Home, Numbers, Sizing
from table_writer.tagging.tagging import file_names_of, place_of

_COMMITS_AVERAGED = 8

# With fewer rows the average mostly measures the file's footer.
_ROWS_TO_TRUST = 1000

# Three zeros and five decimal digits: one random file id in 40,000 matches too.
_BUCKET_SHAPE = "^000[0-9]{5}-"


@dataclass(frozen=True)
class CurrentFiles:
    """The latest base file of each file group of some partitions.

    Attributes:
        table: of `CURRENT_SCHEMA`, with the number of the file group, which is its row number, in the bucket column.
        sizes: their bytes.
    """

    table: pa.Table
    sizes: pa.Array[Any]

    @classmethod
    def of(cls, files: PartitionFiles, partitions: Iterable[str] | None) -> CurrentFiles:
        """Look up some partitions, or all for None."""
        latest = files.of(None if partitions is None else sorted(partitions))
        numbers = from_numpy(np.arange(latest.num_rows, dtype=np.int32))
        sizes: Any = one_chunk(latest["size"])
        return cls(numbered(latest, numbers), sizes)

    @functools.cached_property
    def names(self) -> Any:
        """The file groups as `file_names_of` names them."""
        return file_names_of(self.table["partition"], self.table["file_id"])

    def numbers_of(self, groups: Iterable[str]) -> Numbers:
        """Numbers of file groups that the record index names.

        Args:
            groups: as `file_names_of` names them.

        Raises:
            RecordIndexError: the table does not have one.
        """
        wanted: Any = pa.array(list(groups), pa.string())
        numbers = pc.index_in(wanted, value_set=self.names)
        if numbers.null_count:
            partition, file_id = place_of(wanted[int(np.flatnonzero(~valid_mask(numbers))[0])].as_py())
            raise RecordIndexError(
                f"the record index has keys of these rows in file group {file_id} of partition {partition!r}, which "
                "the table does not have: rebuild it by `hudi-catalog index bootstrap`"
            )
        return to_numpy(numbers)

    def sizes_of(
        self, homes: Collection[Home], busy: Collection[tuple[str, str]] = ()
    ) -> dict[Home, list[tuple[int, int]]]:
        """Number and size in bytes of each file group of some homes.

        Args:
            homes: all with a bucket, or none.
            busy: partition path and file id of file groups to leave out.
        """
        partitions = sorted({home.partition for home in homes})
        wanted = pc.is_in(self.table["partition"], value_set=pa.array(partitions, pa.string()))
        numbers = np.flatnonzero(to_numpy(one_chunk(wanted)).astype(np.bool_))
        if busy:
            known = file_names_of(*(pa.array([group[part] for group in busy], pa.string()) for part in (0, 1)))
            left_out = to_numpy(pc.is_in(self.names, value_set=known)).astype(np.bool_)
            numbers = numbers[~left_out[numbers]]
        at = from_numpy(numbers)
        names: list[Any] = self.table["partition"].take(at).to_pylist()
        buckets: list[Any] = [None] * len(names)
        if any(home.bucket is not None for home in homes):
            buckets = bucket_numbers(self.table.take(at)).to_pylist()
        groups: dict[Home, list[tuple[int, int]]] = {}
        sizes = to_numpy(self.sizes.take(at)).tolist()
        for name, bucket, number, size in zip(names, buckets, numbers.tolist(), sizes, strict=True):
            groups.setdefault(Home(name, bucket), []).append((number, size))
        return groups

    def only(self, numbers: Numbers) -> pa.Table:
        """The rows of some file groups; new file groups have no row."""
        return self.table.take(from_numpy(numbers[numbers < self.table.num_rows].astype(np.int64)))


@dataclass(frozen=True)
class GroupPaths:
    """Paths of file groups that the record index names, looked up by partition.

    Attributes:
        files: of the table.
    """

    files: PartitionFiles

    def paths_of(self, groups: Any) -> list[str]:
        """The path of each group's newest base file; see `CurrentFiles.numbers_of`."""
        names: list[str] = groups.to_pylist()
        current = CurrentFiles.of(self.files, {place_of(name)[0] for name in names})
        paths: list[Any] = current.table["path"].take(from_numpy(current.numbers_of(names))).to_pylist()
        return paths


def refuse_buckets(files: PartitionFiles) -> None:
    """Refuse a table whose files all bear buckets in their names: records in other files would be lost to its writers.

    All are looked at only where those of the newest write are such.

    Raises:
        UnsupportedTableError: it is one.
    """
    if not are_buckets(files.recent()):
        return
    every = files.of()
    if every.num_rows and are_buckets(every):
        raise UnsupportedTableError(
            f"{every['path'][0].as_py()}: the files of this table are buckets, where its other writers look for "
            "records by their hash: leave hoodie.index.type=RECORD_INDEX out, and give hoodie.bucket.index.num.buckets"
        )


def are_buckets(files: pa.Table) -> bool:
    """Whether the names of all base files look like those of buckets."""
    return pc.all(pc.match_substring_regex(files["file_id"], _BUCKET_SHAPE)).as_py() is not False


def sizing(options: WriteOptions, known: float | None, measured: float | None) -> Sizing:
    """Target sizes of the files of a write.

    A record's bytes are the average of the last commits; else `hoodie.copyonwrite.record.size.estimate`, where the
    job gives it; else those of a sample of the rows. Apache takes its default of 1024 bytes in the last case, which
    makes the first files of narrow rows many times too small.

    Args:
        options: of the job.
        known: bytes of a record in the files of the last commits, see `average_record`.
        measured: bytes of a row of the batch in a file; None if it was not measured.
    """
    split = None if options.flag(registry.AUTO_SPLIT) else options.number(registry.INSERT_SPLIT)
    record = known or options.number(registry.RECORD_SIZE) or measured or 1.0
    small, most = options.number(registry.SMALL_FILES), options.number(registry.FILE_SIZE)
    return Sizing(small or 0, most or 1, record, split)


def average_record(timeline: Timeline) -> float | None:
    """Bytes of a record in the files of the last commits; None if they wrote too few.

    Copy-on-write files are written whole, so that each write stat has a whole file's bytes and rows.
    """
    size = rows = 0
    for instant in list(reversed(timeline.writes))[:_COMMITS_AVERAGED]:
        stats = timeline.commit_metadata(instant).stats()
        size += sum(stat.file_size_in_bytes for stat in stats)
        rows += sum(stat.num_writes for stat in stats)
        if rows >= _ROWS_TO_TRUST:
            return size / rows
    return None


# Fewer files than this are read faster than workers start.
_FILES_READ_HERE = 8


@dataclass(frozen=True)
class ReplacedGroup:
    """A file group that is replaced.

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
    """Delete the keys of replaced file groups from the record index, if it locates them there.

    Args:
        client: the table.
        timeline: as of before the write.
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
    """Delete the keys of a file group from the index, if it locates them there.

    A key that the index locates elsewhere (of a duplicate row) stays.

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
