"""The file slices of a snapshot, at stable positions that a later snapshot can share.

A table that is held open may have a million file slices, and a commit changes a few of them. New slices are appended
and superseded ones marked dead, so that nothing large is copied.
"""

from __future__ import annotations

import bisect
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize
from catalog.slices.name_table import NameTable
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.slices.file_slices import with_paths

Rows = NDArray[np.int64]
_TAIL_SHARE = 0.1
_MIN_TAIL = 1_000
_FEW = 1_000
_ID_LENGTH = 36
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class _Origin:
    """Owner of what is memoized about `main`, for all sets that share it: Arrow's tables cannot be hashed."""


@dataclass(frozen=True, eq=False)
class SliceSet:
    """File slices at positions that never change; new slices are appended.

    Attributes:
        main: slices as they were loaded, by partition and file id; without their paths, which are made when asked for.
        tail: slices of later commits, at the positions after those of `main`.
        partitions: paths of the partitions.
        partition_index: for each slice, its partition.
        sizes: of each slice, log files included.
        has_logs: for each slice, whether it has log files.
        live: for each slice, whether no later one superseded or replaced it; None when none did.
        before: for each slice of the tail, the position of the one that it supersedes, or -1.
        names: for each commit, the position of its first slice, and the names of its new files.
    """

    main: pa.Table
    tail: pa.Table
    partitions: list[str]
    partition_index: Rows
    sizes: Rows
    has_logs: NDArray[np.bool_]
    live: NDArray[np.bool_] | None = None
    before: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    names: tuple[tuple[int, pa.Array[Any]], ...] = ()
    _origin: _Origin = field(default_factory=_Origin, repr=False)

    @classmethod
    def of(cls, slices: pa.Table) -> SliceSet:
        """A set of newly loaded slices, of `file_slices.SLICES_SCHEMA` with or without paths."""
        slices = _without_paths(slices)
        encoded: Any = one_chunk(slices.column("partition")).dictionary_encode()
        has_logs, sizes = _logs(slices)
        return cls(
            main=slices,
            tail=slices.slice(0, 0),
            partitions=[*map(str, encoded.dictionary.to_pylist())],
            partition_index=to_numpy(encoded.indices).astype(np.int64),
            sizes=sizes,
            has_logs=has_logs,
        )

    def __len__(self) -> int:
        return self.main.num_rows + self.tail.num_rows

    @functools.cached_property
    def files(self) -> pa.Table:
        """All slices with paths, dead ones too; in two chunks when there is a tail."""
        return with_paths(self.listed)

    @functools.cached_property
    def listed(self) -> pa.Table:
        """All slices as `files` without paths."""
        return pa.concat_tables([self.main, self.tail]) if self.tail.num_rows else self.main

    @functools.cached_property
    def live_rows(self) -> Rows:
        """Positions of the slices that are not dead, ascending."""
        return np.arange(len(self), dtype=np.int64) if self.live is None else np.flatnonzero(self.live)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """First and end position of `main`, and of `tail` if there is one."""
        main = (0, self.main.num_rows)
        return (main, (self.main.num_rows, len(self))) if self.tail.num_rows else (main,)

    @functools.cached_property
    def partition_numbers(self) -> dict[str, int]:
        """For each path of a partition, its place in `partitions`."""
        return {path: number for number, path in enumerate(self.partitions)}

    @functools.cached_property
    def live_bytes(self) -> int:
        """Bytes of the slices that are not dead."""
        return int((self.sizes if self.live is None else self.sizes[self.live]).sum())

    def take(self, rows: Rows) -> pa.Table:
        """Some slices in any order, with paths."""
        return with_paths(self._taken(rows))

    def _taken(self, rows: Rows) -> pa.Table:
        split = self.main.num_rows  # taking from a chunked table would copy all of it first
        if not self.tail.num_rows or not len(rows) or rows.max() < split:
            return self.main.take(from_numpy(rows))
        late = rows >= split
        parts = [self.main.take(from_numpy(rows[~late])), self.tail.take(from_numpy(rows[late] - split))]
        taken = pa.concat_tables(parts).combine_chunks()
        if not (late[:-1] & ~late[1:]).any():
            return taken
        places = np.empty(len(rows), np.int64)
        places[np.concatenate([np.flatnonzero(~late), np.flatnonzero(late)])] = np.arange(len(rows))
        return taken.take(from_numpy(places))

    def positions(self, partitions: list[str], file_ids: list[str]) -> Rows:
        """Positions of the live slices of some file groups; -1 for groups without one."""
        numbers = self.partition_numbers
        return np.array([self._position(numbers.get(p, -1), f) for p, f in zip(partitions, file_ids, strict=True)], int)

    def with_changes(self, slices: pa.Table, before: Rows, dead: Rows, names: pa.Array[Any]) -> SliceSet:
        """This set with new slices appended.

        Args:
            slices: the new ones.
            before: for each of them, the position of the one that it supersedes, or -1.
            dead: positions of superseded and replaced slices.
            names: of the new files.
        """
        slices = _without_paths(slices)
        paths: Any = one_chunk(slices.column("partition")).dictionary_encode()
        numbers = dict(self.partition_numbers)
        codes = np.array([numbers.setdefault(path, len(numbers)) for path in paths.dictionary.to_pylist()], np.int64)
        has_logs, sizes = _logs(slices)
        live = np.ones(len(self) + slices.num_rows, np.bool_)
        if self.live is not None:
            live[: len(self)] = self.live
        live[dead] = False
        return SliceSet(
            main=self.main,
            tail=pa.concat_tables([self.tail, slices]).combine_chunks(),
            partitions=[*numbers],
            partition_index=np.concatenate([self.partition_index, codes[to_numpy(paths.indices)]]),
            sizes=np.concatenate([self.sizes, sizes]),
            has_logs=np.concatenate([self.has_logs, has_logs]),
            live=live,
            before=np.concatenate([self.before, before]),
            names=(*self.names, (len(self), names)),
            _origin=self._origin,
        )

    def since(self, count: int) -> tuple[pa.Table, Rows, pa.Array[Any]]:
        """The slices after the first `count`.

        Returns:
            The slices; for each of them the position below `count` of the one that it supersedes, or -1; names of the
            new files.
        """
        split = self.main.num_rows
        before = self.before[count - split :].copy()
        for row in np.flatnonzero(before >= count):  # in this order each one's own predecessor is settled already
            before[row] = before[before[row] - count]
        names = [names for start, names in self.names if start >= count]
        return self.tail.slice(count - split), before, pa.concat_arrays([pa.array([], pa.string()), *names])

    @property
    def is_stale(self) -> bool:
        """Whether so many slices are appended or dead that loading the table afresh is cheaper."""
        dead = 0 if self.live is None else len(self) - int(self.live.sum())
        return self.tail.num_rows + dead > max(_MIN_TAIL, _TAIL_SHARE * self.main.num_rows)

    def names_are_unique(self) -> bool:
        """Whether no two files have the same name, in any partition.

        Later files carry instants that no earlier file has, so they are compared with each other only.
        """
        unique = memoize(self._origin, "names are unique", self._main_is_unique)
        return unique and all(len(pc.unique(names)) == len(names) for _, names in self.names)

    def _main_is_unique(self) -> bool:
        has_logs = bool(self.has_logs[: self.main.num_rows].any())
        return (not has_logs and self.base_files().proves_unique) or names_are_unique(file_names(self.main)[1])

    def base_files(self) -> NameTable:
        """The base files of `main` by name, for look-ups."""
        return memoize(self._origin, "base files", lambda: NameTable(one_chunk(self.main.column("file_name"))))

    def _position(self, partition: int, file_id: str) -> int:
        if partition < 0:
            return -1
        for row in self._tail_rows.get((partition, file_id), ()):
            if self.live is None or self.live[row]:
                return row
        of_main = self.partition_index[: self.main.num_rows]
        start, end = (int(np.searchsorted(of_main, partition, side)) for side in _SIDES)
        row = bisect.bisect_left(range(start, end), file_id, key=self._file_id) + start
        is_live = row < end and self._file_id(row) == file_id and (self.live is None or bool(self.live[row]))
        return row if is_live else -1

    def _file_id(self, row: int) -> str:
        return str(self._file_ids[row].as_py())

    @functools.cached_property
    def _file_ids(self) -> Any:
        return one_chunk(self.main.column("file_id"))

    @functools.cached_property
    def _tail_rows(self) -> dict[Any, list[int]]:
        split = self.main.num_rows
        rows_by_group: dict[Any, list[int]] = {}
        late = zip(self.partition_index[split:].tolist(), self.tail.column("file_id").to_pylist(), strict=True)
        for row, group in enumerate(late):
            rows_by_group.setdefault(group, []).append(split + row)
        return rows_by_group


_SIDES: Any = ("left", "right")


def _without_paths(slices: pa.Table) -> pa.Table:
    return slices.select([name for name in slices.column_names if name != "path"]).combine_chunks()


def _logs(slices: pa.Table) -> tuple[NDArray[np.bool_], Rows]:
    """Which slices have log files, and the size of each slice with them."""
    sizes = to_numpy(one_chunk(slices.column("size"))).astype(np.int64)
    logs: Any = one_chunk(slices.column("logs"))
    counts = to_numpy(pc.list_value_length(logs)).astype(np.int64)
    if not counts.any():
        return counts > 0, sizes
    of_logs = pc.fill_null(pc.struct_field(logs.flatten(), "size"), 0)
    sums = np.concatenate([[0], np.cumsum(to_numpy(of_logs))]).astype(np.int64)
    ends = np.cumsum(counts)
    return counts > 0, sizes + sums[ends] - sums[ends - counts]


def file_names(slices: pa.Table) -> tuple[Rows, Any]:
    """Every file of some slices, base and log files: the position of its slice, and its name."""
    names: Any = one_chunk(slices.column("file_name"))
    base = np.flatnonzero(valid_mask(names))
    logs: Any = one_chunk(slices.column("logs"))
    counts = to_numpy(pc.list_value_length(logs)).astype(np.int64)
    if not counts.any():
        return base, names.drop_null()
    of_logs = pc.struct_field(logs.flatten(), "file_name")
    rows = np.concatenate([base, np.repeat(np.arange(len(counts)), counts)])
    return rows, pa.concat_arrays([names.drop_null(), of_logs])


def names_are_unique(names: pa.Array[Any]) -> bool:
    """Whether no file name occurs twice.

    File names begin with a random id. If all ids differ, so do the names.
    """
    if len(names) < _FEW:
        return len(pc.unique(names)) == len(names)
    buffers: Any = names.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[names.offset : names.offset + len(names) + 1]
    data = np.frombuffer(buffers[2], np.uint8)
    if int(np.diff(offsets).min()) < _ID_LENGTH:
        return len(pc.unique(names)) == len(names)
    windows = np.lib.stride_tricks.sliding_window_view(data, 8)
    mixed = np.zeros(len(names), np.uint64)
    for start in (0, 8, 16, 24, 28):
        mixed = mixed * _MIXER + windows[offsets[:-1] + start].copy().view(np.uint64).ravel()
    mixed.sort()
    return bool((mixed[1:] != mixed[:-1]).all()) or len(pc.unique(names)) == len(names)
