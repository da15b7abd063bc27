"""The files of a plan in pieces: each file whole, or a large one in parts of some row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from catalog.planner import Plan
from catalog.slices.file_slice import log_paths
from catalog.snapshots.snapshot import IndexedColumn, Snapshot
from catalog.statistics.row_groups import divide
from hudi_catalog.trino.split_id import SplitSlice
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_format.errors import CorruptFileError, MissingFileError
from table_format.meta_columns import RECORD_KEY

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
nulls: Any = pa.nulls  # its stubs take one type at a time

_FOOTER_THREADS = 8
_CHUNK = 256
# To merge log files costs several times what it costs to read a base file of their size.
_MERGING = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read of a file without a pause.

    Attributes:
        position: of the file in the plan.
        slice: the file, or the part of it.
        weight: bytes, as a measure of the work.
        ends_file: whether nothing of the file comes behind it.
    """

    position: int
    slice: SplitSlice
    weight: int
    ends_file: bool


def in_order(plan: Plan) -> Plan:
    """The plan with its files in the order of partition and file group, which no refresh changes."""
    if len(plan) < 2:
        return plan
    files = plan.snapshot.take_files(plan.rows).select(["partition", "file_id"])
    order = to_numpy(pc.sort_indices(files, sort_keys=[("partition", "ascending"), ("file_id", "ascending")]))
    order = order.astype(np.int64)
    return replace(plan, rows=plan.rows[order], fully_matching=plan.fully_matching[order])


def position_after(plan: Plan, partition: str, file_id: str, *, whole: bool) -> int:
    """The position, in a plan in order, of the first file behind another one, which need not be in the plan.

    Args:
        plan: in order.
        partition: of the other file.
        file_id: of the other file.
        whole: whether that file itself is behind too.
    """
    files = plan.snapshot.take_files(plan.rows)
    partitions, file_ids = files.column("partition"), files.column("file_id")
    less = pc.less_equal if whole else pc.less
    before = pc.or_(pc.less(partitions, partition), pc.and_(pc.equal(partitions, partition), less(file_ids, file_id)))
    return int(pc.sum(before, min_count=0).as_py() or 0)


def row_counts(plan: Plan) -> Any:
    """Rows of each file, by the statistics of the record keys; null where they do not tell, or log files change them.

    Args:
        plan: of any filter.
    """
    snapshot = plan.snapshot
    keys = snapshot.indexed_column(RECORD_KEY, pa.string()) if RECORD_KEY in snapshot.schema.names else None
    if not isinstance(keys, IndexedColumn):
        return nulls(len(plan), pa.int64())
    plain = from_numpy(~snapshot.has_logs[plan.rows])
    return pc.if_else(plain, keys.row_count.take(from_numpy(plan.rows)).cast(pa.int64()), pa.scalar(None, pa.int64()))


def pieces(plan: Plan, start: int, most_bytes: int | None, counts: Any = None) -> Iterator[Piece]:
    """The pieces of the files of a plan from a position on, made as they are asked for.

    Args:
        plan: what is read.
        start: position of the first file.
        most_bytes: base files of more bytes without log files are divided by row groups; None for no division.
        counts: rows of each file, null where not known; None when that is of no use.
    """
    for begin in range(start, len(plan), _CHUNK):
        slices, weights = _whole_files(plan, begin, min(_CHUNK, len(plan) - begin), counts)
        parts = _parts_of_large(plan, slices, weights, most_bytes)
        for at, (one, weight) in enumerate(zip(slices, weights, strict=True)):
            found = parts.get(at, [one])
            for number, part in enumerate(found, 1):
                yield Piece(begin + at, part, weight // len(found), number == len(found))


def behind(snapshot: Snapshot, slice_: SplitSlice, group: int) -> SplitSlice | None:
    """What of a slice comes behind a row group; None for nothing."""
    groups = slice_.row_groups
    if groups is None:  # this plan does not divide the file, and the one before did
        groups = tuple(range(footer(snapshot.client.storage, str(slice_.base)).metadata.num_row_groups))
    left = tuple(one for one in groups if one > group)
    return replace(slice_, row_groups=left, rows=None) if left else None


def _whole_files(plan: Plan, start: int, count: int, counts: Any) -> tuple[list[SplitSlice], list[int]]:
    """Each file as one slice, and its weight."""
    snapshot = plan.snapshot
    rows = plan.rows[start : start + count]
    files = snapshot.take_files(rows)
    names = ("partition", "file_id", "path", "instant")
    columns: list[list[Any]] = [files.column(name).to_pylist() for name in names]
    logs = _log_files(files) if snapshot.has_logs[rows].any() else [()] * len(rows)
    known: list[Any] = [None] * len(rows) if counts is None else counts.slice(start, len(rows)).to_pylist()
    slices = [
        SplitSlice(partition, file_id, path, str(instant), log_files, None, row_count)
        for partition, file_id, path, instant, log_files, row_count in zip(*columns, logs, known, strict=True)
    ]
    sizes: list[int] = snapshot.sizes[rows].tolist()
    weights = [
        0 if one.rows is not None else size * (_MERGING if one.logs else 1)
        for one, size in zip(slices, sizes, strict=True)
    ]
    return slices, weights


def _log_files(files: pa.Table) -> list[tuple[tuple[str, int], ...]]:
    """Paths and bytes of the log files of each slice."""
    paths: list[Any] = log_paths(files).to_pylist()
    logs: list[Any] = files.column("logs").to_pylist()
    return [
        tuple((path, int(log["size"] or 0)) for path, log in zip(of_slice, told or (), strict=True))
        for of_slice, told in zip(paths, logs, strict=True)
    ]


def _parts_of_large(
    plan: Plan, slices: Sequence[SplitSlice], weights: Sequence[int], most_bytes: int | None
) -> dict[int, list[SplitSlice]]:
    """The parts of each large file; those that no longer can have a matching row have none."""
    if most_bytes is None or plan.snapshot.schema_history is not None:
        return {}
    large = [
        at
        for at, one in enumerate(slices)
        if weights[at] > most_bytes and one.base is not None and not one.logs and one.rows is None
    ]
    if not large:
        return {}
    with ThreadPoolExecutor(_FOOTER_THREADS, thread_name_prefix="hudi-footer") as pool:
        return dict(zip(large, pool.map(lambda at: _parts(plan, slices[at], most_bytes), large), strict=True))


def _parts(plan: Plan, slice_: SplitSlice, most_bytes: int) -> list[SplitSlice]:
    try:
        found = footer(plan.snapshot.client.storage, str(slice_.base))
    except (MissingFileError, CorruptFileError):
        return [slice_]  # whoever reads the file will say so
    return [replace(slice_, row_groups=part.row_groups) for part in divide(found, plan.expression, most_bytes)]
