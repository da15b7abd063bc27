"""Reading of a plan: only the needed columns, only matching rows, a bounded number of files ahead."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from catalog.planner import Plan
from catalog.rows.slice_rows import needed_columns, slice_rows
from catalog.snapshots.snapshot import IndexedColumn
from pushdown.errors import RowCastError
from pushdown.evaluation.rows import matches
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, pc, valid_mask
from table_format.meta_columns import RECORD_KEY

T = TypeVar("T")
_BATCH_ROWS = 65_536
_FEW_FILES = 100


def read_plan(plan: Plan, columns: tuple[str, ...] | None, threads: int) -> Iterator[pa.RecordBatch]:
    """The rows of the planned files that make the filter true.

    Args:
        plan: what to read.
        columns: the columns wanted; None for all.
        threads: files read at once.

    Yields:
        Non-empty batches with the wanted columns, in the order of the plan.
    """
    wanted = tuple(plan.snapshot.schema.names) if columns is None else columns
    needed = needed_columns(plan.snapshot.schema, wanted, plan.expression)
    for table in _ahead(lambda at: _matching(plan, at, needed).select(list(wanted)), range(len(plan)), threads):
        if table.num_rows:
            yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def count_plan(plan: Plan, threads: int) -> int:
    """How many rows of the planned files make the filter true.

    Files of which every row matches are counted by statistics or footers, unless log files change them.

    Args:
        plan: what to count.
        threads: files read at once.
    """
    plain = plan.fully_matching & ~plan.snapshot.has_logs[plan.rows]
    known = _known_counts(plan, int(plain.sum()))
    certain = plain & valid_mask(known)
    total = int(pc.sum(known.filter(from_numpy(certain))).as_py() or 0)
    for count, mask in ((_footer_count, plain & ~certain), (_row_count, ~plain)):
        positions: list[int] = np.flatnonzero(mask).tolist()
        total += sum(_ahead(functools.partial(count, plan), positions, threads))
    return total


def _ahead(work: Callable[[int], T], positions: Iterable[int], threads: int) -> Iterator[T]:
    """Results in order, with a bounded number of items worked on ahead of the consumer."""
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="hudi-read") as pool:
        try:
            for position in positions:
                pending.append(pool.submit(work, position))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _matching(plan: Plan, position: int, needed: list[str]) -> pa.Table:
    row = int(plan.rows[position])
    table = slice_rows(plan.snapshot, row, needed, plan.expression)
    if plan.expression is None:
        return table
    try:
        return table.filter(matches(plan.expression, table))
    except RowCastError as error:
        raise RowCastError(f"{plan.snapshot.files.column('path')[row].as_py()}: {error}") from None


def _row_count(plan: Plan, position: int) -> int:
    return _matching(plan, position, needed_columns(plan.snapshot.schema, (), plan.expression)).num_rows


def _footer_count(plan: Plan, position: int) -> int:
    path: Any = plan.snapshot.files.column("path")[int(plan.rows[position])].as_py()
    return footer(plan.snapshot.client.storage, path).row_count


def _known_counts(plan: Plan, files: int) -> Any:
    """Rows of each kept file by statistics; for many files the record key's statistics are loaded."""
    snapshot = plan.snapshot
    counts = plan.row_counts
    if files <= _FEW_FILES or counts.null_count < len(counts) or RECORD_KEY not in snapshot.schema.names:
        return counts
    keys = snapshot.indexed_column(RECORD_KEY, pa.string())
    return keys.row_count.take(from_numpy(plan.rows)) if isinstance(keys, IndexedColumn) else counts
