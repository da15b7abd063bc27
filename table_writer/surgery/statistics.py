"""Column statistics of a spliced file, from its footer where that has exact bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.footer import BaseFileFooter, named_corruption
from table_format.base_file.reader import as_schema
from table_format.codecs.arrow_numpy import pc
from table_format.meta_columns import PARTITION_PATH
from table_format.storage import Storage
from table_writer.metadata.column_statistics import ColumnValues, exact_statistics, statistics_of, values_in_use

parquet: Any = pq
types: Any = pa.types


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
    """Statistics of a file from its footer, equal to those that `collect_statistics` computes from its rows.

    Chunks are decoded only where the footer has no exact bounds: floating-point numbers, since a footer does not show
    NaN, chunks without statistics, and texts of writers that truncate bounds.

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
    footer = BaseFileFooter(metadata.schema.to_arrow_schema().remove_metadata(), {}, metadata, 0, path)
    extremes = [_Extremes(footer, schema.field(name)) for name in indexed_columns if name in schema.names]
    everywhere = range(metadata.num_row_groups)
    undecided: dict[int, list[_Extremes]] = defaultdict(list)
    for column in extremes:
        if not column.take_from_footer(everywhere):
            for group in everywhere:
                if not column.take_from_footer([group]):
                    undecided[group].append(column)
    if undecided:
        with storage.open_input(path) as stream, named_corruption(path, stream):
            # one text, and not certain by the footer where it is the empty one
            few = [name for name in (PARTITION_PATH,) if name in footer.schema.names]
            file = parquet.ParquetFile(stream, read_dictionary=few, coerce_int96_timestamp_unit="us", pre_buffer=True)
            for group, columns in undecided.items():
                rows = file.read_row_group(group, columns=[column.field.name for column in columns])
                rows = as_schema(rows, pa.schema([column.field for column in columns]))
                for column in columns:
                    column.take_from_rows(rows.column(column.field.name))
    values = (ColumnValues(column.field.name, column.values, metadata.num_rows, column.nulls) for column in extremes)
    return statistics_of(values, file_name, partition, metadata)


class _Extremes:
    """The least and greatest values of a column's row groups, and whether there is a NaN."""

    def __init__(self, footer: BaseFileFooter, field: Any) -> None:
        self.field = field
        self.nulls = 0
        self._footer = footer
        self._bounds: list[pa.Array[Any]] = []

    @property
    def values(self) -> Any:
        """Some values that have the column's bounds; a null when there are no values."""
        nulls: Any = pa.nulls
        return pa.chunked_array(self._bounds, self.field.type) if self._bounds else nulls(1, self.field.type)

    def take_from_footer(self, groups: Sequence[int]) -> bool:
        """Add some row groups; returns False, and adds nothing, when the footer has no exact bounds."""
        kind = self.field.type
        statistics = exact_statistics(self._footer, self.field.name, kind, groups)
        if statistics is None:
            return False
        if statistics.lower is not None:
            self._bounds.append(pa.array([statistics.lower, statistics.upper], kind))
        self.nulls += statistics.null_count or 0
        return True

    def take_from_rows(self, column: pa.ChunkedArray[Any]) -> None:
        """Add the column of a row group."""
        nulls = column.null_count
        column = values_in_use(column)
        bounds = pc.min_max(column)
        values = [bounds[side] for side in ("min", "max") if bounds[side].is_valid]
        if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            values.append(pa.scalar(float("nan"), column.type))
        if values:
            self._bounds.append(pa.array(values, column.type))
        self.nulls += nulls
