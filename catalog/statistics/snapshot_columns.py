"""Loading one column's statistics for the file slices of a snapshot, and bringing them up to a later one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.slices.slice_set import SliceSet, file_names
from catalog.statistics.aggregate import Before, known_only, statistics_of_slices
from catalog.statistics.column_cache import CachedColumn
from catalog.statistics.indexed_column import IndexedColumn
from catalog.statistics.merged_ranges import RowGroupSize, without_merged_ranges
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.errors import UnsupportedTableError
from table_format.metadata_table.reader import MetadataTable
from table_format.table.schema_history import SchemaHistory

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def load_column(
    table: MetadataTable,
    slices: SliceSet,
    column: str,
    kind: pa.DataType,
    history: SchemaHistory | None,
    *,
    row_groups: RowGroupSize,
) -> IndexedColumn | CannotPrune:
    """A column's statistics in all slices.

    Args:
        table: the metadata table, which has column statistics.
        slices: of the snapshot; file names must be unique.
        column: its name.
        kind: its type.
        history: the schemas with column ids, if the table has any.
        row_groups: from which size on files may have several row groups.
    """
    entries = table.column_stats(column, kind)
    if entries.num_rows == 0:
        return CannotPrune(f"column_stats has no column {column}")
    pieces = [slices.main, slices.tail] if slices.tail.num_rows else [slices.main]
    parts = [
        statistics_of_slices(piece, without_merged_ranges(entries, kind, piece, row_groups), kind) for piece in pieces
    ]
    if history is not None:
        same = [_holds_column(piece, column, history) for piece in pieces]
        parts = [known_only(mask, part, kind) for mask, part in zip(same, parts, strict=True)]
    return IndexedColumn(*parts)


def update_column(
    cached: CachedColumn,
    table: MetadataTable | None,
    slices: SliceSet,
    column: str,
    kind: pa.DataType,
    *,
    row_groups: RowGroupSize,
) -> IndexedColumn | None:
    """A column that an earlier snapshot loaded, brought up to a later one by what came since.

    Returns:
        None when it must be loaded afresh.
    """
    known = cached.column
    if table is None or cached.source is None or isinstance(known, CannotPrune) or cached.kind != kind:
        return None
    entries = table.column_stats_since(cached.source, column, kind)
    if entries is None or not slices.names_are_unique():
        return None
    late, before, names = slices.since(len(known))
    if not _are_all_of(entries, late):
        return None
    if not late.num_rows:
        return known
    entries = without_merged_ranges(entries, kind, late, row_groups)
    return known.with_part(statistics_of_slices(late, entries, kind, Before(known, before, names)))


def _are_all_of(entries: pa.Table, slices: pa.Table) -> bool:
    """Whether statistics came for files of these slices only."""
    _, names = file_names(slices)
    listed: Any = one_chunk(entries.column("file_name"))
    return bool(pc.all(pc.is_in(listed, names), min_count=0).as_py())


def _holds_column(slices: pa.Table, column: str, history: SchemaHistory) -> NDArray[np.bool_]:
    """In which slices the column's name means that column; log files may have names of their own."""
    top = column.split(".", 1)[0]
    instants: Any = one_chunk(slices.column("instant"))
    good = []
    for instant in pc.unique(instants).to_pylist():
        try:
            if instant is not None and top in history.same_names(instant, [top]):
                good.append(instant)
        except UnsupportedTableError:  # whoever reads such a file will say so
            continue
    same = to_numpy(pc.is_in(instants, pa.array(good, pa.string()))).astype(np.bool_)
    mask: NDArray[np.bool_] = same & (to_numpy(pc.list_value_length(one_chunk(slices.column("logs")))) == 0)
    return mask
