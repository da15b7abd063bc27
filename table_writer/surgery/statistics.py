"""Column statistics of a spliced file, without a look at the pages whose footer tells enough."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from table_format.base_file.footer_statistics import footer_statistics
from table_format.base_file.reader import BaseFileFooter, as_schema, named_corruption
from table_format.storage import Storage
from table_writer.metadata.column_statistics import ColumnValues, statistics_of

pc: Any = compute  # the stubs lag behind the functions
parquet: Any = pq
types: Any = pa.types

# These writers leave statistics out that would be too long; others cut them, and then no value need be as small.
_WHOLE_BOUNDS = re.compile(r"parquet-(mr|cpp)")
_MAKES_BOUNDS_UP = int(pa.__version__.partition(".")[0]) < 26


def has_whole_bounds(metadata: pq.FileMetaData) -> bool:
    """Whether the bounds in a footer are values of the column, as its creator writes them."""
    return _WHOLE_BOUNDS.match(metadata.created_by or "") is not None


def may_be_made_up(bound: Any) -> bool:
    """Whether a bound may be missing in truth: older releases of pyarrow give an empty text then."""
    return _MAKES_BOUNDS_UP and bound in ("", b"")


def spliced_statistics(
    storage: Storage,
    path: str,
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    indexed_columns: Sequence[str],
    *,
    file_name: str,
    partition: str,
) -> pa.Table:
    """Statistics of a file by its footer, the same that `collect_statistics` finds in its rows.

    Chunks are only decoded where the footer does not tell the exact bounds: those of floating-point numbers, since a
    footer is silent about NaN, chunks without statistics, and texts of writers that cut bounds.

    Args:
        storage: the table's.
        path: the file.
        metadata: its footer.
        schema: the table's columns, meta columns included.
        indexed_columns: see `column_statistics.indexable_columns`; those that the schema lacks are left out.
        file_name: name of the file, without its folder.
        partition: its partition path.

    Returns:
        A table of `STATISTICS_SCHEMA`; the sizes are those of the file's own chunks.
    """
    extremes = [_Extremes(metadata, path, schema.field(name)) for name in indexed_columns if name in schema.names]
    everywhere = range(metadata.num_row_groups)
    untold: dict[int, list[_Extremes]] = defaultdict(list)
    for column in extremes:
        if not column.take_from_footer(everywhere):
            for group in everywhere:
                if not column.take_from_footer([group]):
                    untold[group].append(column)
    if untold:
        with storage.open_input(path) as stream, named_corruption(path, stream):
            file = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us", pre_buffer=True)
            for group, columns in untold.items():
                rows = file.read_row_group(group, columns=[column.field.name for column in columns])
                rows = as_schema(rows, pa.schema([column.field for column in columns]))
                for column in columns:
                    column.take_from_rows(rows.column(column.field.name))
    values = (ColumnValues(column.field.name, column.values, metadata.num_rows, column.nulls) for column in extremes)
    return statistics_of(values, file_name, partition, metadata)


class _Extremes:
    """The least and greatest values of a column's row groups, and whether there is a NaN."""

    def __init__(self, metadata: pq.FileMetaData, path: str, field: Any) -> None:
        self.field = field
        self.nulls = 0
        self._footer = BaseFileFooter(metadata.schema.to_arrow_schema().remove_metadata(), {}, metadata, 0, path)
        self._found: list[pa.Array[Any]] = []

    @property
    def values(self) -> Any:
        """Some values that have the column's bounds; a null when there are no values."""
        nulls: Any = pa.nulls
        return pa.chunked_array(self._found, self.field.type) if self._found else nulls(1, self.field.type)

    def take_from_footer(self, groups: Sequence[int]) -> bool:
        """Add some row groups; False, and nothing done, when the footer does not tell their bounds exactly."""
        kind = self.field.type
        told = footer_statistics(self._footer, self.field.name, kind, groups)
        if told.null_count is None:
            return False
        if told.null_count < told.row_count:
            if told.lower is None or told.upper is None:
                return False
            # Bounds of times need not be times of Python.
            text = types.is_string(kind) or types.is_binary(kind)
            if text and (not has_whole_bounds(self._footer.metadata) or may_be_made_up(told.lower.as_py())):
                return False
            self._found.append(pa.array([told.lower, told.upper], kind))
        self.nulls += told.null_count
        return True

    def take_from_rows(self, column: pa.ChunkedArray[Any]) -> None:
        """Add the column of a row group."""
        bounds = pc.min_max(column)
        values = [bounds[side] for side in ("min", "max") if bounds[side].is_valid]
        if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            values.append(pa.scalar(float("nan"), column.type))
        if values:
            self._found.append(pa.array(values, column.type))
        self.nulls += column.null_count
