"""Tasks of a resize: rows of the files of some buckets to the files of others.

Where one count divides the other, old and new buckets form classes that share no row: a bucket goes to several, or
several go to one. A task rewrites a class by itself. Otherwise, and for classes beyond a task's memory, rows are
exchanged as in a clustering by record key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import UnsupportedTableError
from table_format.keys.bucket_index import bucket_ids_of_keys
from table_format.keys.key_order import is_sorted, sorted_order
from table_format.meta_columns import RECORD_KEY
from table_format.slices.file_names import new_bucket_file_id
from table_format.table.schema_history import read_columns
from table_writer.clustering.cuts import Cuts
from table_writer.clustering.order import Layout, RowOrder
from table_writer.clustering.tasks import CODE_COLUMN, ClusterPlan, GroupOrder, with_deltas
from table_writer.execution.executor import SplitRows
from table_writer.files.file_change import FileChange, WrittenFile
from table_writer.files.ordered_merge import file_batches
from table_writer.files.rewrite import current_schema, few_valued_columns, write_moved
from table_writer.metadata.index_deltas import DeltaCollector
from table_writer.plan.plan import BUCKET_COLUMN, CurrentFile, FilePlan, KeyPlan, TaskIdentity
from table_writer.rows.slot_rows import Incoming

_BATCH_ROWS: Final = 1 << 16
_MOST_COUNT: Final = (1 << 31) - 1
_BY_KEY: Final = RowOrder((RECORD_KEY,), Layout.LINEAR, ())
_NO_CUTS: Final = Cuts(np.empty(0, np.uint64), pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class BucketFile:
    """The file of a bucket.

    Attributes:
        partition: its path.
        bucket: by the old count.
        before: the old count of its partition.
        file: the newest base file.
    """

    partition: str
    bucket: int
    before: int
    file: CurrentFile


@dataclass(frozen=True)
class RescalePlan:
    """What the tasks of a resize share.

    Attributes:
        files: how files are read and written.
        keys: by which rows lie in buckets.
        after: the new count.
        memory: bytes of rows that a task may hold; None for any number.
        apart: each file is rewritten by itself, since a new bucket may have the rows of several in file groups of
            their own.
    """

    files: FilePlan
    keys: KeyPlan
    after: int
    memory: int | None = None
    apart: bool = False

    def numbers(self, file: BucketFile, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The new bucket of each row of a file.

        Args:
            file: of the old bucket.
            rows: some of its rows, with their record keys.

        Raises:
            UnsupportedTableError: a row does not belong into the old bucket.
        """
        before = file.before
        common = math.lcm(before, self.after)
        if common <= _MOST_COUNT:
            places = self._buckets(rows, common)
            old, new = places % before, places % self.after
        else:
            old, new = self._buckets(rows, before), self._buckets(rows, self.after)
        strays = np.flatnonzero(old != file.bucket)
        if len(strays):
            key, place = rows[RECORD_KEY][int(strays[0])].as_py(), int(old[strays[0]])
            raise UnsupportedTableError(
                f"{file.file.path}: key {key!r} lies in bucket {file.bucket}, but of {before} buckets its hash gives "
                f"{place}: a job with another hoodie.bucket.index.num.buckets or hoodie.bucket.index.hash.field has "
                "written this table, so that its keys may have several rows. Nothing was changed; overwrite the table "
                "with its right rows"
            )
        return new

    def _buckets(self, rows: pa.Table, count: int) -> npt.NDArray[np.int64]:
        """By the record keys; whole numbers, whose texts never differ, by the columns, which are hashed faster."""
        named = self.keys.spec.record_key_fields
        fields, keys = self.keys.hash_fields or named, one_chunk(rows[RECORD_KEY])
        if all(name in rows.column_names and pa.types.is_integer(rows.field(name).type) for name in named):
            return self.keys.generator.bucket_ids(rows, count, fields, keys).astype(np.int64)
        return bucket_ids_of_keys(keys, fields, count, self.keys.hash_rule).astype(np.int64)


BucketClass = tuple[BucketFile, ...]
"""Files of one partition whose rows go to buckets to which no other file's rows go."""


def bucket_classes(files: Iterable[BucketFile], after: int) -> list[BucketClass]:
    """Files in the classes of two counts, of their partition; of counts of which none divides the other, larger ones.

    >>> one, two = (BucketFile("", bucket, 4, CurrentFile(str(bucket), "", "")) for bucket in (1, 3))
    >>> [[file.bucket for file in members] for members in bucket_classes([one, two], 2)]
    [[1, 3]]
    >>> [[file.bucket for file in members] for members in bucket_classes([one, two], 8)]
    [[1], [3]]
    """
    classes: dict[tuple[str, int], list[BucketFile]] = {}
    for file in files:
        classes.setdefault((file.partition, file.bucket % math.gcd(file.before, after)), []).append(file)
    return [tuple(sorted(members, key=lambda one: one.bucket)) for members in classes.values()]


def rescale_classes(plan: RescalePlan, classes: Iterable[BucketClass], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the new files of some classes; the last result names the files with changes of the record index."""
    files = plan.files
    changes = DeltaCollector(files.storage, files.index_folder, task.token, files.index, plan.memory)
    written = (file for members in classes for file in _rescaled(plan, members, task, changes))
    yield from with_deltas(written, changes)


def _rescaled(
    plan: RescalePlan, members: BucketClass, task: TaskIdentity, changes: DeltaCollector
) -> Iterator[WrittenFile]:
    rows, numbers = _rows_of(plan, members)
    if not len(numbers):
        return  # all were deleted
    # a stable sort: each new file keeps the order of the rows
    order = np.argsort(numbers, kind="stable")
    buckets, starts = np.unique(numbers[order], return_index=True)
    whole = len(buckets) == 1
    none: Any = pa.array([], pa.string())
    for bucket, start, end in zip(buckets, starts, [*starts[1:], len(order)], strict=True):
        chosen = rows if whole else rows.take(from_numpy(order[start:end]))
        file_id = new_bucket_file_id(int(bucket))
        changes.add(members[0].partition, file_id, one_chunk(chosen[RECORD_KEY]), none)
        incoming = Incoming(plan.files, pa.table({}), np.empty(0, np.int64), none, 0)
        yield write_moved(FileChange(incoming, task, members[0].partition, file_id, None), chosen)
        del chosen  # before the next ones are taken


def _rows_of(plan: RescalePlan, members: Sequence[BucketFile]) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """All rows of a class, by record key if each file's are, and their new buckets."""
    files = plan.files
    few: set[str] = set()
    if files.history is None:
        few = set.intersection(*(set(few_valued_columns(footer(files.storage, one.file.path))) for one in members))
    tables, numbers = [], []
    in_order = True
    for one in members:
        rows = read_columns(files.storage, one.file.path, current_schema(files), files.history, sorted(few))
        keys = one_chunk(rows[RECORD_KEY])
        in_order = in_order and is_sorted(keys)
        numbers.append(plan.numbers(one, rows))
        tables.append(rows)
    rows, places = pa.concat_tables(tables).unify_dictionaries().combine_chunks(), np.concatenate(numbers)
    del tables
    if len(members) == 1 or not in_order:
        return rows, places
    order = sorted_order(one_chunk(rows[RECORD_KEY]))
    return rows.take(from_numpy(order)), places[order]


@dataclass(frozen=True)
class ExchangePlan(ClusterPlan):
    """A resize whose rows are exchanged. A slot is a new bucket of a partition.

    Attributes:
        rescale: see `RescalePlan`.
        partitions: whose rows are exchanged at once.
    """

    rescale: RescalePlan
    partitions: tuple[str, ...]

    @classmethod
    def of(cls, plan: RescalePlan, partitions: Iterable[str]) -> ExchangePlan:
        """The plan of some partitions."""
        return cls(plan.files, {}, plan, tuple(partitions))

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.partitions) * self.rescale.after

    def group_of(self, slot: int) -> GroupOrder:
        """The new bucket whose rows go to a slot."""
        partition, bucket = divmod(slot, self.rescale.after)
        return GroupOrder(self.partitions[partition], bucket, _BY_KEY, _NO_CUTS, slot)


def split_by_bucket(plan: ExchangePlan, inputs: Iterable[BucketFile], task: TaskIdentity) -> Iterator[SplitRows]:
    """Rows of files with the slots that they go to."""
    number = 0
    files, after = plan.rescale.files, plan.rescale.after
    schema = current_schema(files)
    for item in inputs:
        first = plan.partitions.index(item.partition) * after
        for rows in file_batches(files, item.file, schema, _BATCH_ROWS):
            if not rows.num_rows:
                continue
            slots = first + plan.rescale.numbers(item, rows)
            coded = rows.append_column(CODE_COLUMN, from_numpy(np.zeros(len(rows), np.uint64)))
            coded = coded.append_column(BUCKET_COLUMN, from_numpy(slots.astype(np.int32)))
            yield SplitRows((task.number, number), coded, slots)
            number += 1
