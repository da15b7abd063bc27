"""The current base files of a write that looks keys up, and the target sizes of files."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import RecordIndexError, UnsupportedTableError
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.slices.file_names import group_keys
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.execution.executor import Mapper
from table_writer.metadata.index_deltas import DeltaFile, write_delta
from table_writer.metadata.key_source import KeyReader, KeySource
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.slots.current import bucket_numbers, numbered
from table_writer.slots.partition_files import PartitionFiles
from table_writer.tagging.placement import Home, Numbers, Sizing
from table_writer.tagging.tagging import place_of

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
        """The file groups as `group_keys` names them."""
        return group_keys(self.table["partition"], self.table["file_id"])

    def numbers_of(self, groups: Iterable[str]) -> Numbers:
        """Numbers of file groups that the record index names.

        Args:
            groups: as `group_keys` names them.

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
            known = group_keys(*(pa.array([group[part] for group in busy], pa.string()) for part in (0, 1)))
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

# Each look-up may read all of the index, so that the keys of many files are looked up at once.
_FILES_A_TASK = 32
_KEY_BYTES = 64 << 20


@dataclass(frozen=True)
class _Forgetting:
    """The deletion of the keys of replaced file groups from the record index, in tasks.

    Attributes:
        reader: of the table's keys.
        index: the record index before the write.
        folder: of the write's delta files.
    """

    reader: KeyReader
    index: RecordIndex
    folder: str

    def of_files(self, sources: Sequence[KeySource]) -> list[DeltaFile]:
        """Delta files for the keys of some files, as far as the index locates them there."""
        own = group_keys(*(pa.array([getattr(one, name) for one in sources], pa.string()) for name in _GROUP))
        deltas: list[DeltaFile] = []
        waiting: list[tuple[str, Any]] = []
        for source in sources:
            waiting += [(source.partition, batch.cast(pa.string())) for batch in self.reader.batches(source)]
            if sum(keys.nbytes for _, keys in waiting) >= _KEY_BYTES:
                deltas += self._deleted(self._located(waiting), own)
                waiting = []
        return [*deltas, *self._deleted(self._located(waiting), own)] if waiting else deltas

    def of_index(self, group: int, names: Any) -> list[DeltaFile]:
        """Delta files for the keys of a file group of the index that it locates in some file groups of the table.

        Args:
            group: its ordinal.
            names: of those file groups, by `group_keys`; None for all.
        """
        return self._deleted(self.index.group_entries(group), names)

    def _located(self, batches: Sequence[tuple[str, Any]]) -> pa.Table:
        """Where the index has some keys; each comes with the partition of its file."""
        keys = pa.chunked_array([keys for _, keys in batches], pa.string())
        codes = np.repeat(np.arange(len(batches)), [len(keys) for _, keys in batches])
        partitions: Any = pa.array([partition for partition, _ in batches], pa.string()).take(from_numpy(codes))
        return self.index.get_record_locations(keys, partitions)

    def _deleted(self, locations: pa.Table, names: Any) -> list[DeltaFile]:
        """A delta file that deletes locations: of a duplicate row the index may have its key elsewhere."""
        gone = locations
        if names is not None:
            gone = locations.filter(pc.is_in(group_keys(*(locations[name] for name in _GROUP)), value_set=names))
        columns = [
            gone["key"],
            gone["partition"],
            pa.nulls(gone.num_rows, pa.string()),
            from_numpy(np.ones(gone.num_rows, np.bool_)),
        ]
        changes = pa.table(columns, schema=CHANGES_SCHEMA)
        name = f"replaced-{uuid.uuid4()}"
        delta = write_delta(self.reader.storage, self.folder, name, self.index.layout, changes)
        return [] if delta is None else [delta]


_GROUP = ("partition", "file_id")


def forget_groups(
    client: TableClient,
    timeline: Timeline,
    options: Mapping[str, str],
    folder: str,
    groups: pa.Table,
    *,
    whole: bool,
    mapper: Mapper,
) -> list[DeltaFile]:
    """Delete the keys of replaced file groups from the record index, if it locates them there.

    Args:
        client: the table.
        timeline: as of before the write.
        options: of look-ups.
        folder: for the write's delta files.
        groups: of `CURRENT_SCHEMA`.
        whole: these are all file groups of the table.
        mapper: reads many files.

    Raises:
        HudiError: a file or the index cannot be read.
    """
    index = RecordIndex.open(client, timeline, dict(options))
    work = _Forgetting(KeyReader(client, timeline), index, folder)
    job: Callable[[Any], list[DeltaFile]]
    items: Sequence[Any]
    if index.layout.scope == PARTITION or (whole and len(index.layout.families) == 1):
        job, items = functools.partial(_of_index, work), _index_groups(index.layout, groups)
        count = len(items)
    else:
        sources = [
            KeySource(row["partition"], row["file_id"], row["instant"], row["path"], (), 0)
            for row in groups.to_pylist()
        ]
        job, count = work.of_files, len(sources)
        items = [sources[start : start + _FILES_A_TASK] for start in range(0, count, _FILES_A_TASK)]
    chosen = in_threads if count <= _FILES_READ_HERE else mapper
    return [delta for deltas in chosen(job, items) for delta in deltas]


def _of_index(work: _Forgetting, item: tuple[int, Any]) -> list[DeltaFile]:
    return work.of_index(*item)


def _index_groups(layout: IndexLayout, groups: pa.Table) -> list[tuple[int, Any]]:
    """Ordinals of the index's file groups that locate keys in some file groups, with the names of these; None: all."""
    if layout.scope != PARTITION:
        return [(number, None) for number in range(layout.count)]
    names = group_keys(groups["partition"], groups["file_id"])
    partitions = one_chunk(groups["partition"])
    of_partition = {name.as_py(): names.filter(pc.equal(partitions, name)) for name in pc.unique(partitions)}
    owners = [(number, layout.partition_of(layout.family_of(number))) for number in range(layout.count)]
    return [(number, of_partition[owner]) for number, owner in owners if owner in of_partition]
