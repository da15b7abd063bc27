"""Reading of planned files: columns that are needed, rows that match, a bounded number of files ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.planner import Plan
from pushdown.rows import matches
from pushdown.verdict import CannotPrune
from pushdown.walk import columns_of
from table_format.arrow_numpy import from_numpy
from table_format.base_file import read_base_file

_BATCH_ROWS = 65_536


def read_plan(plan: Plan, columns: tuple[str, ...] | None, threads: int) -> Iterator[pa.RecordBatch]:
    """The rows of the planned files that make the filter true.

    Args:
        plan: what to read.
        columns: the columns wanted; None for all.
        threads: files read at once.

    Yields:
        Non-empty batches with the wanted columns, in the order of the plan.
    """
    schema = plan.snapshot.schema
    wanted = tuple(schema.names) if columns is None else columns
    needed = _needed(plan, wanted)
    pending: deque[Future[pa.Table]] = deque()
    positions = iter(range(len(plan)))
    with ThreadPoolExecutor(threads, thread_name_prefix="hudi-read") as pool:
        try:
            for position in positions:
                pending.append(pool.submit(_read_file, plan, position, needed, wanted))
                if len(pending) > threads:
                    yield from _batches(pending.popleft().result())
            while pending:
                yield from _batches(pending.popleft().result())
        finally:
            for future in pending:
                future.cancel()


def _needed(plan: Plan, wanted: tuple[str, ...]) -> list[str]:
    """Columns to read: those wanted, and those that the filter looks at (a struct for its field)."""
    names = set(wanted)
    if plan.expression is not None:
        schema = plan.snapshot.schema
        for column in columns_of(plan.expression):
            names.add(column if column in schema.names else _top_level(column, schema))
    return [name for name in plan.snapshot.schema.names if name in names]


def _top_level(column: str, schema: pa.Schema) -> str:
    fitting = [name for name in schema.names if column.startswith(f"{name}.")]
    return max(fitting, key=len)


def _read_file(plan: Plan, position: int, needed: list[str], wanted: tuple[str, ...]) -> pa.Table:
    snapshot = plan.snapshot
    row = int(plan.rows[position])
    path = snapshot.files.column("path")[row].as_py()
    schema = pa.schema([snapshot.schema.field(name) for name in needed])
    table = read_base_file(snapshot.client.storage, path, columns=needed, schema=schema)
    if snapshot.config.drop_partition_columns:
        table = _with_path_values(plan, row, table)
    if plan.expression is not None:
        table = table.filter(matches(plan.expression, table))
    return table.select(list(wanted))


def _with_path_values(plan: Plan, row: int, table: pa.Table) -> pa.Table:
    """Partition columns that the files of this table leave out, from the partition path."""
    told = plan.snapshot.path_values()
    if isinstance(told, CannotPrune):
        return table
    partition = int(plan.snapshot.partition_index[row])
    for name, values in told.values.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            same: Any = values.take(from_numpy(np.full(table.num_rows, partition)))
            table = table.set_column(at, table.schema.field(at), same)
    return table


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    if table.num_rows:
        yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
