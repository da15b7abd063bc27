"""Rows of one file slice in the table's current columns: log files merged, old schemas brought up to date."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.row_groups import RowGroups, matching_groups
from pushdown.expression import HudiExpression
from pushdown.verdict import CannotPrune
from pushdown.walk import columns_read
from table_format.base_file.footer import BaseFileFooter, footer
from table_format.base_file.reader import base_file_batches, read_base_file
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import UnsupportedTableError
from table_format.keys.partition_values import DEFAULT_PARTITION
from table_format.merge.file_slice import read_file_slice
from table_format.merge.rules import MergeRules
from table_format.schema.evolution import conform


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
        UnsupportedTableError: log files of an unsupported kind, or partition columns whose values are not known.
    """
    files = snapshot.file_slice(row)
    if files.logs or files.base is None:
        return _merged(snapshot, files, columns)
    schema = _schema(snapshot, columns)
    return _with_path_values(snapshot, files, _base_rows(snapshot, files.base, schema, expression))


def slice_batches(
    snapshot: Snapshot,
    files: FileSlice,
    columns: Sequence[str],
    *,
    expression: HudiExpression | None = None,
    start: int = 0,
    batch_rows: int = 65_536,
) -> Iterator[tuple[int, pa.Table]]:
    """The rows that a query sees of a file slice, in batches; a slice with log files is merged as a whole first.

    Args:
        snapshot: of the table.
        files: the slice, or a part of its base file: of its row groups, or of those that begin in its range of bytes.
        columns: at least one, names of the snapshot's schema.
        expression: a bound filter; row groups in which no row makes it true may be left out.
        start: rows of the slice to leave out, rows of row groups that are not read counted too.
        batch_rows: greatest number of rows of a batch.

    Yields:
        Position in the slice of the first row, and the rows. Positions do not depend on filter, columns or row groups.

    Raises:
        CorruptFileError: a file cannot be read.
        UnsupportedTableError: log files of an unsupported kind, or partition columns whose values are not known.
    """
    if files.logs or files.base is None:
        whole = _merged(snapshot, files, columns)
        for at in range(start, whole.num_rows, batch_rows):
            yield at, whole.slice(at, batch_rows)
        return
    schema, history = _schema(snapshot, columns), snapshot.schema_history
    names: Sequence[str] = schema.names
    shape: Callable[[pa.Table], pa.Table] | None = None
    if history is not None:
        stored = history.physical_names(files.instant, schema.names)
        names = list(dict.fromkeys(name for name in stored.values() if name is not None))
        shape = functools.partial(_renamed, snapshot, files.instant, schema)
    batches = base_file_batches(
        snapshot.client.storage,
        files.base,
        names,
        schema,
        shape=shape,
        choose=functools.partial(_chosen, expression if snapshot.footers_apply else None, files),
        start=start,
        batch_rows=batch_rows,
    )
    for at, batch in batches:
        yield at, _with_path_values(snapshot, files, batch)


def _chosen(expression: HudiExpression | None, part: FileSlice, footer: BaseFileFooter) -> Sequence[int]:
    own = _own_groups(part, footer)
    return own if expression is None else sorted(set(own).intersection(matching_groups(expression, footer)))


def _own_groups(part: FileSlice, footer: BaseFileFooter) -> Sequence[int]:
    if part.row_groups is not None:
        return part.row_groups
    if part.is_whole:
        return range(footer.metadata.num_row_groups)
    firsts = [first for first, _, _ in RowGroups(footer).extents]
    return [ordinal for ordinal, first in enumerate(firsts) if part.start <= first < part.start + part.length]


def _schema(snapshot: Snapshot, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([snapshot.schema.field(name) for name in columns])


def _renamed(snapshot: Snapshot, instant: str, schema: pa.Schema, stored: pa.Table) -> pa.Table:
    history = snapshot.schema_history
    return conform(stored if history is None else history.renamed(instant, stored), schema)


def _merged(snapshot: Snapshot, files: FileSlice, columns: Sequence[str]) -> pa.Table:
    table = read_file_slice(
        snapshot.client.storage,
        files.base,
        [path for path, _ in files.logs],
        schema=snapshot.schema,
        columns=columns,
        rules=MergeRules.of(snapshot.config),
        timeline=snapshot.timeline,
        as_of=snapshot.as_of,
        history=snapshot.schema_history,
        log_sizes=[size for _, size in files.logs],
    )
    return _with_path_values(snapshot, files, table)


def _base_rows(snapshot: Snapshot, path: str, schema: pa.Schema, expression: HudiExpression | None) -> pa.Table:
    storage, history = snapshot.client.storage, snapshot.schema_history
    if history is None:
        by_footer = None if expression is None else functools.partial(matching_groups, expression)
        choose = by_footer if snapshot.footers_apply else None
        return read_base_file(storage, path, columns=schema.names, schema=schema, choose=choose)
    return history.read(storage, path, schema)


def _with_path_values(snapshot: Snapshot, files: FileSlice, table: pa.Table) -> pa.Table:
    """The table with partition columns filled in from the partition path, if the table's files omit them.

    Raises:
        UnsupportedTableError: neither the files nor the path give a column's values.
    """
    if not snapshot.config.drop_partition_columns:
        return table
    path_values = snapshot.path_values()
    partition = snapshot.slices.partition_numbers[files.partition]
    known = not isinstance(path_values, CannotPrune) and bool(path_values.known[partition])
    values = {} if isinstance(path_values, CannotPrune) or not known else path_values.values
    fields = {name.lower() for name in snapshot.config.partition_fields}
    for at, field in enumerate(table.schema):
        if field.name in values:
            same: Any = values[field.name].take(from_numpy(np.full(table.num_rows, partition)))
            table = table.set_column(at, field, same)
        elif field.name.lower() in fields and not _holds(snapshot, files, table, field.name):
            why = path_values.reason if isinstance(path_values, CannotPrune) else "it is not of the table's form"
            raise UnsupportedTableError(
                f"partition {files.partition!r}: files of this table leave partition columns out, and its path does "
                f"not give the values of {field.name}: {why}; leave this column out of the query"
            )
    return table


def _holds(snapshot: Snapshot, files: FileSlice, table: pa.Table, column: str) -> bool:
    """Whether the files hold a column themselves, as far as is known.

    Some files of Apache 0.15's do and some don't, and rows of the latter, merged with others or copied into a file of
    the former, are null there.
    """
    if not table.column(table.column_names.index(column)).null_count:
        return True
    may_be_null = DEFAULT_PARTITION in files.partition
    return may_be_null and files.base is not None and column in footer(snapshot.client.storage, files.base).schema.names


def needed_columns(schema: pa.Schema, wanted: Iterable[str], expression: HudiExpression | None) -> list[str]:
    """Columns to read: the wanted ones and those of the filter (a struct for its field); at least one.

    Args:
        schema: the table's.
        wanted: names in it.
        expression: a bound filter; None for all rows.
    """
    names = set(wanted)
    for column in columns_read(expression) if expression is not None else ():
        names.add(column if column in schema.names else _top_level(column, schema))
    return [name for name in schema.names if name in names] or schema.names[:1]


def _top_level(column: str, schema: pa.Schema) -> str:
    fitting = [name for name in schema.names if column.startswith(f"{name}.")]
    return max(fitting, key=len)
