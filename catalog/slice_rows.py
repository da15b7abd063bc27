"""The rows of one file slice in the table's columns, whatever its files look like."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.row_groups import matching_groups
from catalog.snapshot import Snapshot
from catalog.split_table import log_paths
from pushdown.expression import HudiExpression
from pushdown.verdict import CannotPrune
from table_format.arrow_numpy import from_numpy
from table_format.base_file import footer, read_base_file
from table_format.merge.file_slice import read_file_slice
from table_format.merge.rules import MergeRules
from table_format.schema_evolution import conform

nulls: Any = pa.nulls  # its stubs take one type at a time


def slice_rows(
    snapshot: Snapshot, row: int, columns: Sequence[str], expression: HudiExpression | None = None
) -> pa.Table:
    """The rows that a query sees of a file slice, log files merged.

    Args:
        snapshot: of the table.
        row: the slice's position in the snapshot's files.
        columns: at least one, names of the snapshot's schema.
        expression: a bound filter; row groups in which no row makes it true may be left out.

    Raises:
        CorruptFileError: a file cannot be read.
        UnsupportedTableError: log files of a kind that is not read.
    """
    schema = pa.schema([snapshot.schema.field(name) for name in columns])
    piece = snapshot.files.slice(row, 1)
    logs: list[Any] = log_paths(piece)[0].as_py()
    path: Any = piece.column("path")[0].as_py()
    if logs:
        table = read_file_slice(
            snapshot.client.storage,
            path,
            logs,
            schema=snapshot.schema,
            columns=columns,
            rules=MergeRules.of(snapshot.config),
            timeline=snapshot.timeline,
            as_of=snapshot.as_of,
            history=snapshot.schema_history,
            log_sizes=[log["size"] for log in piece.column("logs")[0].as_py()],
        )
    else:
        table = _base_rows(snapshot, path, str(piece.column("instant")[0].as_py()), schema, expression)
    return _with_path_values(snapshot, row, table) if snapshot.config.drop_partition_columns else table


def _base_rows(
    snapshot: Snapshot, path: str, instant: str, schema: pa.Schema, expression: HudiExpression | None
) -> pa.Table:
    storage, history = snapshot.client.storage, snapshot.schema_history
    if history is None:
        choose = None if expression is None else functools.partial(matching_groups, expression)
        return read_base_file(storage, path, columns=schema.names, schema=schema, choose=choose)
    stored = [name for name in history.physical_names(instant, schema.names).values() if name is not None]
    present = set(footer(storage, path).schema.names)
    wanted = [name for name in dict.fromkeys(stored) if name in present]
    if not wanted:
        count = footer(storage, path).row_count
        return pa.Table.from_arrays([nulls(count, field.type) for field in schema], schema=schema)
    return conform(history.renamed(instant, read_base_file(storage, path, columns=wanted)), schema)


def _with_path_values(snapshot: Snapshot, row: int, table: pa.Table) -> pa.Table:
    """Partition columns that the files of this table leave out, from the partition path."""
    told = snapshot.path_values()
    if isinstance(told, CannotPrune):
        return table
    partition = int(snapshot.partition_index[row])
    for name, values in told.values.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            same: Any = values.take(from_numpy(np.full(table.num_rows, partition)))
            table = table.set_column(at, table.schema.field(at), same)
    return table
