"""Records found by the files of their bucket, in a table whose buckets have several file groups.

A key can only be in the files of its bucket. Of these, ranges of keys and bloom filters leave out most where keys are
few or ordered; the record keys of the others are read, and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.footer import footer_of, named_corruption, parquet
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.meta_columns import RECORD_KEY
from table_format.slices.file_names import group_keys
from table_format.storage import Storage
from table_format.threads import in_threads
from table_writer.rows.several_rows import several_rows
from table_writer.slots.current import bucket_numbers
from table_writer.slots.partition_files import PartitionFiles
from table_writer.surgery.locate import KeyRange, candidate_groups, key_ranges
from table_writer.tagging.placement import Home
from table_writer.tagging.rows import homes_of
from table_writer.tagging.tagging import NEW, Tags

Rows = npt.NDArray[np.int64]
#: With more distinct keys, hardly a row group has none of them in its range.
_PROBED: Final = 1 << 16
#: Stored keys that are looked up at once: this many, or so many times the keys of the batch.
_AT_LEAST: Final = 1 << 18
_TIMES: Final = 4


@dataclass(frozen=True)
class BucketKeys:
    """Where records are found by their bucket.

    Attributes:
        storage: the table's.
        files: of the table before the write.
        count: number of buckets, of the partition with most.
    """

    storage: Storage
    files: PartitionFiles
    count: int

    def tags(self, slim: pa.Table, *, delete: bool, selected: bool = False) -> Tags:
        """The file groups of all rows. A row whose key is in several goes to each of them.

        What becomes of a row is decided there, by all rows of its key.

        Args:
            slim: see `slim_rows`, with buckets.
            delete: rows are keys to delete: those that are nowhere go nowhere.
            selected: see `TagPlan`.

        Raises:
            RecordError: other rows than the selected ones would change.
            UnsupportedTableError: a file whose name has no bucket.
            HudiError: a file cannot be read.
        """
        keys, homes = one_chunk(slim[RECORD_KEY]), homes_of(slim)
        files = self._files({home.partition for home in homes.names})
        lookups = [
            _Lookup(self.storage, keys if len(homes.names) == 1 else keys.take(from_numpy(positions)), positions, there)
            for home, positions in homes.each()
            if (there := files.of.get(home))
        ]
        pairs = [pair for of_home in in_threads(_Lookup.pairs, lookups) for pair in of_home]
        rows = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in pairs)])
        numbers = np.repeat(np.array([number for number, _ in pairs], np.int32), [len(rows) for _, rows in pairs])
        if selected:
            _refuse_others(keys, rows, delete=delete)
        if not delete:
            new = np.ones(slim.num_rows, np.bool_)
            new[rows] = False
            inserted = np.flatnonzero(new)
            rows = np.concatenate([rows, inserted])
            numbers = np.concatenate([numbers, np.full(len(inserted), NEW, np.int32)])
        return Tags(rows, numbers, np.zeros(len(rows), np.bool_), files.names)

    def _files(self, partitions: Iterable[str]) -> _Files:
        latest = self.files.of(sorted(partitions))
        of: dict[Home, list[tuple[int, str]]] = {}
        if latest.num_rows:
            columns = (latest["partition"], bucket_numbers(latest), latest["path"])
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            for number, (partition, bucket, path) in enumerate(rows):
                of.setdefault(Home(partition, bucket), []).append((number, path))
        return _Files(of, group_keys(latest["partition"], latest["file_id"]))


@dataclass(frozen=True)
class _Files:
    """The files of some partitions.

    Attributes:
        of: number and path of each file, by home.
        names: of all, by number, as `group_keys` names them.
    """

    of: dict[Home, list[tuple[int, str]]]
    names: Any


@dataclass(frozen=True)
class _Lookup:
    """Keys of one bucket that are looked up in its files.

    Attributes:
        storage: the table's.
        keys: record keys, some of them equal.
        rows: a number of each key.
        files: number and path of each file.
    """

    storage: Storage
    keys: Any
    rows: Rows
    files: list[tuple[int, str]]

    def pairs(self) -> list[tuple[int, Rows]]:
        """The number of each file that has some of the keys, and the rows of these."""
        encoded = self.keys.dictionary_encode()
        distinct = encoded.dictionary
        ordered = distinct.take(pc.sort_indices(distinct)) if len(distinct) <= _PROBED else None
        spans = None if len(distinct) == len(encoded) else _Spans.of(to_numpy(encoded.indices), len(distinct))
        bounds = pc.min_max(distinct).as_py()
        pairs = []
        for numbers, texts in self._stored(ordered, bounds["min"], bounds["max"]):
            # hashing the keys of the batch costs more than looking some up: those of several files are taken together
            at = pc.index_in(pa.concat_arrays(texts), value_set=distinct)
            start = 0
            for number, part in zip(numbers, texts, strict=True):
                of_file = at.slice(start, len(part))
                start += len(part)
                there = np.unique(to_numpy(of_file.filter(from_numpy(valid_mask(of_file)))))
                if len(there):
                    pairs.append((number, self.rows[there if spans is None else spans.members(there)]))
        return pairs

    def _stored(self, ordered: Any, first: str, last: str) -> Iterator[tuple[list[int], list[Any]]]:
        """Keys of the files that may have some of these, a few files at a time, with the files' numbers."""
        numbers: list[int] = []
        texts: list[Any] = []
        for number, path in self.files:
            stored = self._keys_of(path, ordered, first, last)
            if len(stored):
                numbers.append(number)
                texts.append(stored)
            if sum(map(len, texts)) > max(_AT_LEAST, _TIMES * len(self.rows)):
                yield numbers, texts
                numbers, texts = [], []
        if texts:
            yield numbers, texts

    def _keys_of(self, path: str, ordered: Any, first: str, last: str) -> Any:
        """The keys of the row groups of a file that may have some of these."""
        with self.storage.open_input(path) as stream, named_corruption(path, stream):
            file = parquet.ParquetFile(stream)
            ranges = key_ranges(file.metadata)
            if ordered is not None:
                groups = candidate_groups(footer_of(file, path, stream.size()), ranges, ordered)
            else:
                groups = [number for number, one in enumerate(ranges) if _overlap(one, first, last)]
            if not groups:
                return pa.array([], pa.string())
            stored = one_chunk(file.read_row_groups(groups, columns=[RECORD_KEY], use_threads=False)[RECORD_KEY])
            return stored.cast(pa.string())


@dataclass(frozen=True)
class _Spans:
    """Where equal keys are.

    Attributes:
        order: positions of the keys, those of equal ones together.
        starts: where those of each key start in `order`, and the end of all.
    """

    order: Rows
    starts: Rows

    @classmethod
    def of(cls, codes: npt.NDArray[Any], count: int) -> _Spans:
        """By a number of each key, below `count`."""
        order = np.argsort(codes, kind="stable")
        return cls(order, np.searchsorted(codes[order], np.arange(count + 1)))

    def members(self, codes: npt.NDArray[Any]) -> Rows:
        """Positions of all keys with some numbers."""
        firsts = self.starts[codes]
        counts = self.starts[codes + 1] - firsts
        before = np.cumsum(counts) - counts
        places: Rows = np.arange(int(counts.sum())) + np.repeat(firsts - before, counts)
        return np.take(self.order, places)


def _refuse_others(keys: Any, rows: Rows, *, delete: bool) -> None:
    """Refuse selected rows whose keys other files have, too; what one file does with them is seen as it is written.

    Args:
        keys: of the selected rows.
        rows: for each file the selected rows whose keys it has.
        delete: rows may go from as many files as were selected.
    """
    files = np.bincount(rows, minlength=len(keys))
    if files.max(initial=0) < 2:
        return
    encoded = keys.dictionary_encode()
    codes = to_numpy(encoded.indices)
    selected = np.bincount(codes)[codes] if delete else 1
    wrong = np.flatnonzero(files > selected)
    if len(wrong):
        records = len(np.unique(codes[wrong]))
        raise several_rows(records, keys[int(wrong[0])].as_py(), "files of their bucket have other rows of them")


def _overlap(bounds: KeyRange, first: str, last: str) -> bool:
    if bounds.first is None or bounds.last is None:
        return True
    return bounds.first.encode() <= last.encode() and first.encode() <= bounds.last.encode()
