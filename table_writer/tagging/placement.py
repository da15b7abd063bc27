"""Placement of new records: first in small files, then in new files of the target size, by key ranges.

A record may go to any file group of its partition, or, in a table with buckets, to any of its bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.errors import TransactionError
from table_format.slices.file_names import group_keys
from table_writer.rows.merge import positions_after
from table_writer.tagging.tagging import NEW

Numbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
#: Codes up to this are counted in an array; beyond, and with larger numbers, sorting takes less memory.
_COUNTED: Final = 1 << 22
_SHORT: Final = 1 << 15


class Home(NamedTuple):
    """Where new records belong: any file group of it may take them.

    Attributes:
        partition: its path.
        bucket: of the partition; None in a table without buckets.
    """

    partition: str
    bucket: int | None = None


@dataclass(frozen=True)
class Homes:
    """The homes of some records.

    Attributes:
        names: the homes.
        codes: of each record, the place of its home among the names.
    """

    names: tuple[Home, ...]
    codes: Rows

    @classmethod
    def of(cls, count: int, paths: Any, buckets: Numbers | None) -> Homes:
        """By partition and bucket.

        Args:
            count: of records.
            paths: their partition paths, as a dictionary array; None in a table without partitions.
            buckets: their buckets; None in a table without buckets.
        """
        if paths is None and buckets is None:
            return cls((Home(""),) if count else (), np.zeros(count, np.int64))
        partitions = np.zeros(count, np.int64) if paths is None else to_numpy(paths.indices).astype(np.int64)
        width = 1 if buckets is None else int(buckets.max(initial=0)) + 1
        joined = partitions if buckets is None else partitions * width + buckets
        most = width * (1 if paths is None else len(paths.dictionary))
        if most > _COUNTED:
            distinct, codes = np.unique(joined, return_inverse=True)
        else:
            distinct = np.flatnonzero(np.bincount(joined, minlength=most))
            places = np.zeros(most, np.int64)
            places[distinct] = np.arange(len(distinct))
            codes = places[joined]
        names = []
        for number in distinct.tolist():
            partition, bucket = divmod(number, width)
            path = "" if paths is None else paths.dictionary[partition].as_py()
            names.append(Home(path, None if buckets is None else bucket))
        return cls(tuple(names), codes)

    def each(self) -> Iterator[tuple[Home, Rows]]:
        """The homes, each with the ascending positions of its records."""
        if len(self.names) == 1:
            yield self.names[0], np.arange(len(self.codes))
            return
        # numpy sorts 16 bits without comparing them
        codes = self.codes.astype(np.int16) if len(self.names) < _SHORT else self.codes
        order = np.argsort(codes, kind="stable")
        firsts = np.searchsorted(self.codes[order], np.arange(len(self.names) + 1))
        for name, first, end in zip(self.names, firsts, firsts[1:], strict=False):
            yield name, order[first:end]


@dataclass(frozen=True)
class Sizing:
    """Target sizes of files, as in Apache's `UpsertPartitioner`.

    Attributes:
        small: files below this take new records (`hoodie.parquet.small.file.limit`); 0 for none.
        most: bytes up to which they are filled (`hoodie.parquet.max.file.size`).
        record: bytes of a record in a file, on average.
        split: records of a new file; None to fill the file (`hoodie.copyonwrite.insert.auto.split`).
    """

    small: int
    most: int
    record: float
    split: int | None = None

    @property
    def per_file(self) -> int:
        """Most records of a new file."""
        return self.split or max(1, int(self.most / max(self.record, 1e-3)))

    def room(self, size: int) -> int:
        """Records that still fit into a file of `size` bytes; 0 unless it is small."""
        return max(0, int((self.most - size) / max(self.record, 1e-3))) if size < self.small else 0


@dataclass(frozen=True)
class Sample:
    """Records to insert into one home.

    Attributes:
        rows: their number.
        keys: some of their keys, in any order.
        weights: number of records that each key represents.
    """

    rows: int
    keys: pa.Array[Any]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ranges:
    """The file groups that take one home's new records.

    Attributes:
        bounds: the least key of each file group but the first, ascending.
        numbers: of the file groups.
    """

    bounds: pa.Array[Any]
    numbers: Numbers

    def numbers_of(self, keys: Any) -> Numbers:
        """The file group of each key."""
        if len(self.numbers) == 1:
            return np.full(len(keys), self.numbers[0], np.int32)
        return self.numbers[positions_after(self.bounds, keys)]


@dataclass(frozen=True)
class Placement:
    """File groups for the records to insert.

    Attributes:
        homes: ranges of each home.
        created: home of each new file group, in the order of their numbers.
    """

    homes: Mapping[Home, Ranges]
    created: tuple[Home, ...]

    def numbers_of(self, keys: Any, homes: Homes) -> Numbers:
        """The file group of each record.

        Args:
            keys: their keys.
            homes: their homes.

        Raises:
            KeyError: a home without a plan.
        """
        if len(homes.names) == 1:
            return self.homes[homes.names[0]].numbers_of(keys)
        result = np.empty(len(keys), np.int32)
        for home, positions in homes.each():
            result[positions] = self.homes[home].numbers_of(keys.take(from_numpy(positions)))
        return result


def place_inserts(
    inserts: Mapping[Home, Sample],
    files: Mapping[Home, Sequence[tuple[int, int]]],
    sizing: Sizing,
    first: int,
    updated: Mapping[int, int] | None = None,
) -> Placement:
    """Assign new records to file groups.

    Each home's records are divided by key ranges, so that files of one write do not overlap. Small files
    that are rewritten anyway come first, then the smallest ones: the fewest files are touched.

    Args:
        inserts: by home.
        files: number and bytes of each home's current file groups.
        sizing: see `Sizing`.
        first: number of the first new file group.
        updated: rows that the write changes in current file groups, by number.
    """
    ranges: dict[Home, Ranges] = {}
    created: list[Home] = []
    for home, sample in inserts.items():
        if sample.rows == 0:
            continue
        shares = _small_files(sample.rows, files.get(home, ()), sizing, updated or {})
        left = sample.rows - int(sum(share for _, share in shares))
        new = -(-left // sizing.per_file)
        for _ in range(new):
            shares.append((first + len(created), left / new))
            created.append(home)
        ranges[home] = _cut(sample, shares)
    return Placement(ranges, tuple(created))


def _small_files(
    rows: int, files: Sequence[tuple[int, int]], sizing: Sizing, updated: Mapping[int, int]
) -> list[tuple[int, float]]:
    """File groups that take records, with the number of records for each."""
    rooms = [(number not in updated, size, number) for number, size in files if sizing.room(size)]
    shares: list[tuple[int, float]] = []
    for _, size, number in sorted(rooms):
        if rows == 0:
            break
        share = min(rows, sizing.room(size))
        shares.append((number, share))
        rows -= share
    return shares


def _cut(sample: Sample, shares: Sequence[tuple[int, float]]) -> Ranges:
    numbers = np.array([number for number, _ in shares], np.int32)
    if len(numbers) == 1 or len(sample.keys) == 0:
        return Ranges(pa.array([], pa.string()), numbers[:1])
    order = to_numpy(pc.sort_indices(sample.keys)).astype(np.int64)
    before = np.cumsum(sample.weights[order])
    before *= sample.rows / before[-1]
    ends = np.cumsum([share for _, share in shares])[:-1]
    places = np.minimum(np.searchsorted(before, ends, side="left") + 1, len(order) - 1)
    return Ranges(sample.keys.take(from_numpy(order[places])), numbers)


@dataclass(frozen=True)
class Targets:
    """File groups that a write changes.

    Attributes:
        numbers: of the file groups, ascending.
        partitions: index of each one's partition in `names`.
        names: partition paths.
        slots: the writing task of each.
        updated: numbers of the current file groups that rows are tagged with.
        groups: these, as `group_keys` names them.
    """

    numbers: Numbers
    partitions: Numbers
    names: tuple[str, ...]
    slots: Numbers
    updated: Numbers
    groups: pa.Array[Any]

    def numbers_of(self, groups: Any) -> Numbers:
        """Number of the file group of each row; `NEW` for null.

        Args:
            groups: a dictionary array of names.

        Raises:
            TransactionError: a file group that the driver does not know of.
        """
        numbers = np.full(len(groups), NEW, np.int32)
        tagged = valid_mask(groups.indices)
        codes = groups.indices.filter(from_numpy(tagged))
        # a dictionary may have groups that no row of this block goes to
        places = pc.index_in(groups.dictionary, value_set=self.groups).take(codes)
        if places.null_count:
            raise other_rows()
        numbers[tagged] = self.updated[to_numpy(places)]
        return numbers

    def positions(self, numbers: Numbers) -> npt.NDArray[np.int64]:
        """Positions of some file groups among these.

        Raises:
            TransactionError: a file group that the driver did not plan.
        """
        places = np.searchsorted(self.numbers, numbers)
        if len(numbers) and (places.max() >= len(self.numbers) or (self.numbers[places] != numbers).any()):
            raise other_rows()
        return places


def slot_targets(updates: Mapping[int, int], places: Placement, current: pa.Table, most: int) -> Targets:
    """Divide the file groups of a write among writing tasks.

    Args:
        updates: rows by number of the current file group that they change.
        places: of new rows.
        current: of `CURRENT_SCHEMA`; the rows are the file groups.
        most: most tasks.
    """
    updated = np.array(sorted(updates), np.int32)
    changed = current.take(from_numpy(updated.astype(np.int64)))
    groups = group_keys(changed["partition"], changed["file_id"])
    placed = [number for ranges in places.homes.values() for number in ranges.numbers.tolist()]
    numbers = np.array(sorted({*updates, *placed}), np.int32)
    old = numbers[numbers < current.num_rows]
    paths: list[Any] = current["partition"].take(from_numpy(old.astype(np.int64))).to_pylist()
    paths += [home.partition for home in places.created]
    codes = {name: code for code, name in enumerate(dict.fromkeys(paths))}
    partitions = np.array([codes[name] for name in paths], np.int32)
    slots = (np.arange(len(numbers)) % max(1, most)).astype(np.int32)
    return Targets(numbers, partitions, tuple(codes), slots, updated, groups)


def other_rows() -> TransactionError:
    """The error for rows that differ from those that the driver planned for."""
    return TransactionError(
        "the rows to write differed when Spark computed them a second time, after it had lost a part of "
        "them; nothing was written. Store the DataFrame first, or make it deterministic"
    )
