"""Comparing the record index with the data: a file group of the index with its keys, or what later writes touched."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Mask, from_numpy, one_chunk, to_numpy
from table_format.errors import MissingFileError, RecordIndexError
from table_format.instant import Action, Instant, State
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION
from table_format.slices.file_names import group_keys, in_groups
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.execution.executor import Mapper
from table_writer.metadata.index_deltas import DeltaFile, write_delta
from table_writer.record_index.build import Progress
from table_writer.record_index.group_file import EXAMPLES, DistinctKeys, SliceLocations
from table_writer.record_index.runs import Numbers, Run, RunSet, save_run
from table_writer.record_index.touched import (
    Touched,
    contents,
    ids_of,
    places_of,
    retried_after_cleans,
    touched_slices,
)
from table_writer.timeline.instants import WITHOUT_FILES

MISSING: Final = "missing"
EXTRA: Final = "extra"
WRONG: Final = "wrong location"
DUPLICATE: Final = "duplicate"
MISPLACED: Final = "misplaced"
KINDS: Final = (MISSING, EXTRA, WRONG, DUPLICATE, MISPLACED)

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Example:
    """A key with a fault.

    Attributes:
        kind: one of `KINDS`.
        key: the record key.
        data: its locations in the data, as partition and file id.
        index: its location by the index; None if it has no entry.
    """

    kind: str
    key: str
    data: tuple[str, ...]
    index: str | None


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Faults of one file group of the index.

    Attributes:
        group: its ordinal.
        keys: distinct keys of the data that were compared.
        entries: entries of the index that were compared.
        counts: faults by kind.
        examples: some of them.
        delta: the changes that repair the index; None without a repair.
    """

    group: int
    keys: int
    entries: int
    counts: dict[str, int]
    examples: tuple[Example, ...]
    delta: DeltaFile | None


@dataclass(frozen=True)
class Comparison:
    """Compares file groups of the index with the data; shared by all tasks of a verification.

    Attributes:
        index: of the table.
        scratch: the storage of the runs.
        data: the keys of the checked slices, which come first in `places`.
        spread: the entries of the index by the newest family of file groups, where it has several; an entry's number
            is the ordinal of its slice, or the count of slices where that is unknown.
        places: of all slices of the table.
        checked: how many slices are checked.
        repair: storage and folder for the delta files of a repair; None for none.
    """

    index: RecordIndex
    scratch: Storage
    data: RunSet
    spread: RunSet | None
    places: SliceLocations
    checked: int
    repair: tuple[Storage, str] | None = None

    def __call__(self, group: int) -> GroupFindings:
        """Compare one file group."""
        data = DistinctKeys.of(*self.data.group_keys(self.scratch, group), self.places)
        keys, numbers = self._entries(group)
        # only entries of checked or deleted slices can be refuted by the keys that were read
        faults = _Faults.of(data, keys, numbers, np.asarray(numbers < self.checked))
        misplaced = self._misplaced(group, keys, faults.extra)
        rows = {
            MISSING: faults.missing,
            EXTRA: np.setdiff1d(faults.extra, misplaced),
            WRONG: faults.wrong,
            DUPLICATE: data.repeated,
            MISPLACED: misplaced,
        }
        delta = None
        if self.repair is not None:
            storage, folder = self.repair
            name = f"repair-{group}-{uuid.uuid4().hex}.arrow"
            delta = write_delta(storage, folder, name, self.index.layout, self._changes(group, data, faults, keys))
        counts = {kind: len(of) for kind, of in rows.items()}
        examples = tuple(self._examples(data, faults, rows, keys, numbers))
        return GroupFindings(group, len(data.keys), len(keys), counts, examples, delta)

    def _entries(self, group: int) -> tuple[Any, Numbers]:
        """Keys of the entries of a file group, and the ordinals of their slices; -1 for a file group that is gone."""
        if self.spread is not None:
            keys, numbers = self.spread.group_keys(self.scratch, group)
            return keys, np.where(numbers < len(self.places.file_ids), numbers, np.int32(-1))
        rows = self.index.group_entries(group)
        return one_chunk(rows["key"]).cast(pa.binary()), place_numbers(self.places, rows)

    def _misplaced(self, group: int, keys: Any, rows: Rows) -> Rows:
        """Those of some entries that readers and writers look for in another file group."""
        if not rows.size or self.spread is not None:
            return rows[:0]
        possible = self.index.layout.groups_of(keys.take(from_numpy(rows)))
        unreachable: Rows = rows[~np.any([groups == group for groups in possible], axis=0)]
        return unreachable

    def _examples(
        self, data: DistinctKeys, faults: _Faults, rows: dict[str, Rows], keys: Any, numbers: Numbers
    ) -> Iterator[Example]:
        def of_index(row: int) -> str:
            number = int(numbers[row])
            return "a file group that is gone" if number < 0 else self.places.name(number)

        def of_data(row: int) -> tuple[str, ...]:
            return (self.places.name(int(data.numbers[row])),)

        for row in _some(rows[MISSING]):
            yield Example(MISSING, _text(data.keys, row), of_data(row), None)
        for row in _some(rows[WRONG]):
            yield Example(WRONG, _text(data.keys, row), of_data(row), of_index(int(faults.at[row])))
        for key, where in data.duplicates(self.places):
            yield Example(DUPLICATE, key, where, None)
        for kind in (EXTRA, MISPLACED):
            for row in _some(rows[kind]):
                yield Example(kind, _text(keys, row), (), of_index(row))

    def _changes(self, group: int, data: DistinctKeys, faults: _Faults, keys: Any) -> pa.Table:
        """Changes that repair the index; a key with another location in the data is put there, not deleted."""
        extra = keys.take(from_numpy(faults.extra))
        again = pc.index_in(extra, value_set=data.keys)
        put = np.unique(np.concatenate([faults.missing, faults.wrong, to_numpy(again.drop_null()).astype(np.int64)]))
        gone = faults.extra[to_numpy(pc.is_null(again)).astype(np.bool_)]
        layout = self.index.layout
        partition = layout.partition_of(layout.family_of(group)) or ""
        numbers = from_numpy(data.numbers[put])
        file_ids = pa.array(list(self.places.file_ids), pa.string()).take(numbers)
        partitions: Any = pa.array(list(self.places.partitions), pa.string()).take(numbers)
        put_keys, gone_keys = data.keys.take(from_numpy(put)), keys.take(from_numpy(gone))
        columns: dict[str, Any] = {
            "key": pa.concat_arrays([put_keys, gone_keys]).cast(pa.string()),
            "partition": pa.concat_arrays([partitions, pa.array([partition] * len(gone), pa.string())]),
            "file_id": pa.concat_arrays([file_ids, pa.nulls(len(gone), pa.string())]),
            "deleted": from_numpy(np.arange(len(put) + len(gone)) >= len(put)),
        }
        return pa.table(columns, schema=CHANGES_SCHEMA)


def write_entries(index: RecordIndex, places: SliceLocations, storage: Storage, folder: str, group: int) -> Run:
    """Spread the entries of one file group by the newest family; see `Comparison.spread`.

    Entries that readers look for in another file group are left out: to readers they are missing.
    """
    rows = index.group_entries(group)
    keys = one_chunk(rows["key"]).cast(pa.binary())
    is_placed = index.layout.groups_of(keys)[index.layout.family_of(group)] == group
    numbers = place_numbers(places, rows)[is_placed]
    keys = keys.filter(from_numpy(is_placed))
    unknown = np.int32(len(places.file_ids))
    return save_run(
        storage,
        folder,
        [f"entries of {group}: {number}" for number in range(unknown + 1)],
        [(keys, np.where(numbers < 0, unknown, numbers), index.layout.group_of(keys))],
    )


@dataclass(frozen=True, slots=True)
class _Faults:
    """Rows with a fault.

    Attributes:
        missing: of the data.
        wrong: of the data.
        extra: of the index.
        at: for each key of the data, the row of its entry; -1 for none.
    """

    missing: Rows
    wrong: Rows
    extra: Rows
    at: Rows

    @classmethod
    def of(cls, data: DistinctKeys, keys: Any, numbers: Numbers, is_checked: Mask) -> _Faults:
        at = _rows_in(data.keys, keys)
        missing = at < 0
        right = np.zeros(len(at), dtype=np.bool_)
        if data.repeated.size:
            # any location of a repeated key is right; the repetition is reported as a fault of its own
            distinct = np.cumsum(~np.isin(np.arange(len(data.all_keys)), data.repeated)) - 1
            rows = at[distinct]
            same = (rows >= 0) & (numbers[rows] == data.all_numbers) if len(numbers) else np.zeros(len(rows), np.bool_)
            right[distinct[same]] = True
        elif len(numbers):
            right = ~missing & (numbers[at] == data.numbers)
        hit = np.zeros(len(keys), dtype=np.bool_)
        hit[at[~missing]] = True
        return cls(np.flatnonzero(missing), np.flatnonzero(~missing & ~right), np.flatnonzero(~hit & is_checked), at)


def place_numbers(places: SliceLocations, rows: pa.Table) -> Numbers:
    """The ordinal of the slice of each row's partition and file id, -1 where there is none."""
    known = group_keys(*(pa.array(list(texts), pa.string()) for texts in (places.partitions, places.file_ids)))
    wanted = group_keys(rows["partition"], rows["file_id"])
    return to_numpy(pc.fill_null(pc.index_in(wanted, value_set=known), -1)).astype(np.int32)


def _rows_in(keys: Any, among: Any) -> Rows:
    rows = pc.fill_null(pc.index_in(keys, value_set=among), -1)
    return to_numpy(rows).astype(np.int64)


def _some(rows: Rows) -> Sequence[int]:
    some: list[int] = rows[:EXAMPLES].tolist()
    return some


def _text(keys: Any, row: int) -> str:
    key: bytes = keys[row].as_py()
    return key.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class LaterComparison:
    """The record index compared with what writes since an instant touched.

    Attributes:
        since: the instant.
        counts: faults by kind.
        examples: some of them.
        keys: distinct keys of the touched slices.
        entries: entries of the index that were looked up.
        slices: touched file slices, as they are now.
        groups: file groups of the index.
        verified_to: the newest write before which no write is pending, for the next verification; None without one.
    """

    since: str
    counts: dict[str, int]
    examples: tuple[Example, ...]
    keys: int
    entries: int
    slices: int
    groups: int
    verified_to: str | None


def compare_since(client: TableClient, since: str, mapper: Mapper, progress: Progress) -> LaterComparison:
    """Compare the record index with the file groups that writes since an instant touched.

    Keys that they have must have entries that name them; keys that they had at that instant and have no more must not.

    Raises:
        RecordIndexError: the table has no record index, or a restore since then took writes back, whose keys cannot be
            read any more.
        OptionError: the text is no time, or files of that state were cleaned.
        UnsupportedTableError: a merge-on-read table.
    """

    def attempt() -> LaterComparison:
        timeline = client.timeline()
        index = RecordIndex.open(client, timeline)
        touched = touched_slices(client, timeline, since)
        _refuse_undone(client, touched)
        old, new = contents(client, touched, mapper, progress)
        progress(f"comparing {new.num_rows:,} keys with the index")
        return _compared(index, touched, old, new, verified_to(timeline))

    return retried_after_cleans(attempt, progress)


def verified_to(timeline: Timeline) -> str | None:
    """The newest write that no pending one precedes: writes after it are those to verify the next time."""
    pending = min((one.time for one in timeline.pending if one.action not in WITHOUT_FILES), default=None)
    times = [write.time for write in timeline.writes if pending is None or write.time < pending]
    return times[-1] if times else None


def _refuse_undone(client: TableClient, touched: Touched) -> None:
    for instant in touched.timeline.completed:
        if instant.time <= touched.begin or instant.action not in (Action.RESTORE, Action.ROLLBACK):
            continue
        # the plan in its inflight file marks a rollback of a completed write; see ADR 37
        if instant.action == Action.RESTORE or _inflight(touched.timeline, instant):
            raise RecordIndexError(
                f"{client.storage.uri}: {instant} took writes back since {touched.begin}, and the keys that these had "
                "added can no longer be read: compare the whole index, without an instant"
            )


def _inflight(timeline: Timeline, instant: Instant) -> bytes:
    try:
        return timeline.read(instant.at(State.INFLIGHT))
    except MissingFileError:
        return b""


def _compared(index: RecordIndex, touched: Touched, old: pa.Table, new: pa.Table, to: str | None) -> LaterComparison:
    by_partition = index.layout.scope == PARTITION
    new_ids, old_ids = ids_of(new, by_partition=by_partition), ids_of(old, by_partition=by_partition)
    gone = old.filter(pc.invert(pc.is_in(old_ids, value_set=new_ids)))
    keys, partitions = (pa.chunked_array([*new[name].chunks, *gone[name].chunks], pa.string()) for name in _KEYED)
    entries = index.get_record_locations(keys, partitions if by_partition else None)
    entry_ids = ids_of(entries, by_partition=by_partition)
    right = pc.is_in(places_of(new), value_set=places_of(entries))
    right_ids = new_ids.filter(right)
    missing = new.filter(pc.invert(pc.is_in(new_ids, value_set=entry_ids)))
    known = pc.is_in(new_ids, value_set=entry_ids)
    wrong = new.filter(pc.and_(known, pc.invert(pc.is_in(new_ids, value_set=right_ids))))
    of_gone = pc.is_in(entry_ids, value_set=ids_of(gone, by_partition=by_partition))
    extra = entries.filter(pc.and_(of_gone, in_groups(entries, touched.groups)))
    counted = pc.value_counts(new_ids)
    repeated = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    duplicate = new.filter(pc.is_in(new_ids, value_set=repeated))
    faults = {MISSING: missing, EXTRA: extra, WRONG: wrong, DUPLICATE: duplicate}
    counts = dict.fromkeys(KINDS, 0)
    for kind, rows in faults.items():
        counts[kind] = len(pc.unique(ids_of(rows, by_partition=by_partition)))
    return LaterComparison(
        touched.begin,
        counts,
        tuple(
            _example_of(kind, row, entries)
            for kind, rows in faults.items()
            for row in rows.slice(0, EXAMPLES).to_pylist()
        ),
        keys=len(pc.unique(new_ids)),
        entries=entries.num_rows,
        slices=len(touched.after),
        groups=index.layout.count,
        verified_to=to,
    )


_KEYED: Final = ("key", "partition")


def _example_of(kind: str, row: dict[str, Any], entries: pa.Table) -> Example:
    place = f"{row['partition']}/{row['file_id']}" if row["partition"] else row["file_id"]
    if kind == EXTRA:
        return Example(kind, row["key"], (), place)
    where = None
    if kind == WRONG:
        entry = entries.filter(pc.equal(entries["key"], row["key"])).to_pylist()[0]
        where = f"{entry['partition']}/{entry['file_id']}" if entry["partition"] else entry["file_id"]
    return Example(kind, row["key"], (place,), where)
