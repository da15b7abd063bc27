"""The current base files of a write by buckets, found by name without reading them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.some_keys import some_keys
from table_format.codecs.arrow_numpy import one_chunk
from table_format.config.table_config import BUCKET_FILE_SIZE
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.bucket_index import possible_buckets
from table_format.keys.partition_buckets import EXPRESSIONS, BucketRules
from table_format.storage import Storage
from table_writer.plan.plan import CURRENT_SCHEMA, CurrentFile
from table_writer.slots.partition_files import PartitionFiles

_CHECKED_PARTITIONS: Final = 64
_CHECKED_FILES: Final = 8
_CHECKED_KEYS: Final = 64
_READERS: Final = 8


class BucketFiles:
    """The latest base file of each bucket, looked up by partition.

    Threads may share an instance; what was looked up is not pickled.

    Args:
        files: of the table.
        buckets: file groups per partition.
        rules: how many each partition has; None where all have the same number.
        several: a bucket may have several file groups; then `load` and `find` are not for use.
    """

    def __init__(
        self, files: PartitionFiles, buckets: int, rules: BucketRules | None = None, *, several: bool = False
    ) -> None:
        self.files = files
        self._buckets = buckets
        self._rules = rules
        self._several = several
        self._lock = threading.Lock()
        self._found: dict[str, dict[int, CurrentFile]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(BucketFiles, several=self._several), (self.files, self._buckets, self._rules)

    def load(self, partitions: Iterable[str]) -> None:
        """Look up the files of some partitions together.

        Raises:
            UnsupportedTableError: a file that no bucket index wrote, or two file groups of one bucket.
            OptionError: a bucket beyond the count of buckets.
        """
        with self._lock:
            unknown = [name for name in dict.fromkeys(partitions) if name not in self._found]
            if not unknown:
                return
            by_partition: dict[str, dict[int, CurrentFile]] = {name: {} for name in unknown}
            for row in self.of(unknown).to_pylist():
                partition, number = row.pop("partition"), row.pop("bucket")
                by_partition[partition][number] = CurrentFile(**row)
            self._found |= by_partition

    def find(self, partition: str, number: int) -> CurrentFile | None:
        """The file of a bucket; None for one without. Raises as `load` does."""
        self.load([partition])
        return self._found[partition].get(number)

    def of(self, partitions: Sequence[str] | None = None) -> pa.Table:
        """The files of some partitions, or of the whole table, of `CURRENT_SCHEMA`. Raises as `load` does."""
        latest = self.files.of(partitions)
        if latest.num_rows == 0:
            return CURRENT_SCHEMA.empty_table()
        numbers = bucket_numbers(latest)
        buckets = pc.greater_equal(numbers, self._counts(latest["partition"]))
        if pc.any(buckets).as_py():
            greatest, partition = (column.filter(buckets)[0].as_py() for column in (numbers, latest["partition"]))
            raise OptionError(
                f"hoodie.bucket.index.num.buckets={self.count_of(partition)}, but partition {partition!r} has bucket "
                f"{greatest}: give the count that the table was made with ({EXPRESSIONS} too, if its jobs have it), or "
                "readers would not find rows"
            )
        table = numbered(latest, numbers)
        if not self._several:
            _refuse_doubles(table)
        return table

    @property
    def has_rules(self) -> bool:
        """Whether counts differ between partitions."""
        return self._rules is not None

    def count_of(self, partition: str) -> int:
        """File groups of a partition."""
        return self._buckets if self._rules is None else self._rules.count_of(partition)

    def _counts(self, partitions: Any) -> Any:
        if self._rules is None:
            return pa.scalar(self._buckets, pa.int32())
        paths = one_chunk(partitions).dictionary_encode()
        counts = pa.array(self._rules.counts_of(paths.dictionary.to_pylist()), pa.int32())
        return counts.take(paths.indices)


def numbered(files: pa.Table, numbers: Any) -> pa.Table:
    """Base files with their buckets or other numbers, of `CURRENT_SCHEMA`."""
    columns = [files["partition"], numbers, files["file_id"], files["instant"], files["path"]]
    return pa.table(columns, schema=CURRENT_SCHEMA).combine_chunks()


def refuse_other_count(storage: Storage, files: BucketFiles, hash_fields: Sequence[str]) -> None:
    """Refuse a bucket count that other writers may not have, if keys of the table contradict it.

    Checks about 64 keys of the newest files, or two of a file in each of up to 64 partitions. Where counts differ
    between partitions, 64 keys in each of up to 64 partitions with each count: a partition may have a count of its own,
    which a few keys may fit by chance.

    Args:
        storage: the table's.
        files: current files.
        hash_fields: fields that decide the bucket, in the order of the record key.

    Raises:
        OptionError: a key is in another bucket.
    """
    # all files are listed, so that a bucket beyond the count is noticed in any partition
    newest = _newest_files(files.of(), _CHECKED_FILES)
    by_count: dict[int, list[str]] = {}
    for partition in newest:
        by_count.setdefault(files.count_of(partition), []).append(partition)
    checked = [newest[name] for names in by_count.values() for name in _spread(names)]
    wanted = _CHECKED_KEYS if files.has_rules else _CHECKED_KEYS // max(1, len(checked))
    read = functools.partial(_keys, storage, wanted)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="hudi-buckets") as pool:
        for keys in pool.map(read, checked):
            _refuse_strange(keys, files, hash_fields)


def _keys(storage: Storage, wanted: int, rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Files of one partition with record keys of theirs, read file by file until there are enough keys."""
    keys: list[tuple[dict[str, Any], str]] = []
    for row in rows:
        keys += [(row, key) for key in some_keys(storage, row["path"], wanted)]
        if len(keys) >= wanted:
            break
    return keys


def _refuse_strange(keys: Sequence[tuple[dict[str, Any], str]], files: BucketFiles, hash_fields: Sequence[str]) -> None:
    """Refuse keys that belong to another bucket than their file's."""
    for row, key in keys:
        buckets = files.count_of(row["partition"])
        if row["bucket"] not in possible_buckets(key, hash_fields, buckets):
            by_rule = f" by {EXPRESSIONS}" if files.has_rules else ""
            raise OptionError(
                f"hoodie.bucket.index.num.buckets={buckets}{by_rule} with hash fields {','.join(hash_fields)}, but by "
                f"that key {key!r} of {row['path']} belongs to another bucket: give both as the jobs that wrote the "
                "table did. If the table was resized, a job of Apache Hudi's was left at the old number and has "
                "written rows a second time: stop it, and restore the table to the write before"
            )


def _newest_files(files: pa.Table, most: int) -> dict[str, list[dict[str, Any]]]:
    """Path and bucket of the newest files of each partition."""
    rows: list[dict[str, Any]] = files.select(["partition", "path", "bucket", "instant"]).to_pylist()
    newest: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=itemgetter("instant"), reverse=True):
        of_partition = newest.setdefault(row["partition"], [])
        if len(of_partition) < most:
            of_partition.append(row)
    return newest


def _spread(partitions: Sequence[str]) -> list[str]:
    """Some partitions from all over the table."""
    places = np.unique(np.linspace(0, len(partitions) - 1, _CHECKED_PARTITIONS).astype(int))
    ordered = sorted(partitions)
    return [ordered[place] for place in places]


def bucket_numbers(files: pa.Table) -> Any:
    """The bucket of each file, by its name.

    Raises:
        UnsupportedTableError: a name without one.
    """
    ids = files["file_id"]
    named = pc.match_substring_regex(ids, "^[0-9]{8}-")
    if pc.all(named).as_py() is False:
        path = files.filter(pc.invert(named))["path"][0].as_py()
        raise UnsupportedTableError(
            f"{path}: no bucket number in the name, so another index than the bucket index wrote this table; "
            "build a record index by `hudi-catalog index bootstrap`, and write with hoodie.index.type=RECORD_INDEX"
        )
    return pc.cast(pc.utf8_slice_codeunits(ids, 0, 8), pa.int32())


def _refuse_doubles(files: pa.Table) -> None:
    counts = files.group_by(["partition", "bucket"], use_threads=False).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts["count_all"], 1))
    if doubled.num_rows == 0:
        return
    partition, bucket = doubled["partition"][0].as_py(), doubled["bucket"][0].as_py()
    same = pc.and_(pc.equal(files["partition"], partition), pc.equal(files["bucket"], bucket))
    paths = files.filter(same)["path"].to_pylist()
    raise UnsupportedTableError(
        f"bucket {bucket} of partition {partition!r} has {len(paths)} file groups ({paths[0]}, {paths[1]}); the bucket "
        "index needs one. Remove the duplicates with the writer that made them; or, where no key has two rows, let "
        f"buckets have several by {BUCKET_FILE_SIZE}"
    )
