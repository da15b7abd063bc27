"""`spark.read.format("hudi_catalog")`, as one of Spark 4's data sources in Python: workers of Python read the rows.

Filters come by the option `where` only. Spark's `pushFilters` is not served: Spark keeps a reader with the filters of
one query, and uses it for the next one on the same DataFrame, which then lacks rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from catalog.rows.slice_rows import needed_columns, slice_batches
from catalog.scan import Scan
from catalog.table import Table
from pushdown.evaluation.rows import matches
from spark_writer.filters import from_spark_sql
from spark_writer.read.generations import table_schema
from table_format.errors import ArgumentError, OptionError, did_you_mean
from table_format.schema.evolution import conform

NAME: Final = "hudi_catalog"
_OPTIONS: Final = ("path", "where", "as_of", "time_zone")
_BATCH_ROWS: Final = 10_000
_MOST_TASKS: Final = 200


class HudiSource(DataSource):
    """The rows of a Hudi table, by options `path`, `where`, `as_of` and `time_zone`, which is that of `where`."""

    @classmethod
    def name(cls) -> str:
        """As `format` takes it."""
        return NAME

    def schema(self) -> StructType:
        """The table's columns, Hudi's meta columns first."""
        return from_arrow_schema(table_schema(_scan(self.options).snapshot))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads rows with the columns that `schema` gave, or some of them."""
        return _Reader(dict(self.options), schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002 - Spark's names
        """Refused: a data source cannot distribute rows by their keys."""
        raise ArgumentError(
            f'df.write.format("{NAME}") cannot write: use hudi_catalog.write(df, path, record_key=…), or the other '
            "writes of HudiTable"
        )


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> list[InputPartition]:
        """The slices of the newest state that may hold rows which fulfil the filter."""
        try:
            return self._partitions()
        except NotImplementedError as error:
            # Spark takes this class for a reader of one part that it need not ask for, and gets no rows
            raise ArgumentError(str(error)) from error

    def _partitions(self) -> list[InputPartition]:
        scan = _scan(self._options)
        scan.check_understood()
        plan = scan.plan()
        known = table_schema(scan.snapshot)
        columns = pa.schema([known.field(name) for name in self._names])
        parts = np.array_split(plan.rows, min(max(len(plan.rows), 1), _MOST_TASKS))
        return [
            InputPartition(
                pickle.dumps(
                    (scan.snapshot.for_reading(rows), [*scan.snapshot.file_slices(rows)], plan.expression, columns)
                )
            )
            for rows in parts
            if len(rows)
        ] or [InputPartition(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some slices."""
        if partition is None or partition.value is None:
            raise ArgumentError(f"{NAME} was asked for a part that it did not plan")
        if not partition.value:
            return
        snapshot, slices, expression, columns = pickle.loads(partition.value)  # noqa: S301 - of the driver
        needed = needed_columns(snapshot.schema, tuple(columns.names), expression)
        for one in slices:
            for _, rows in slice_batches(snapshot, one, needed, expression=expression, batch_rows=_BATCH_ROWS):
                kept = rows if expression is None else rows.filter(matches(expression, rows))
                yield from conform(kept.select(columns.names), columns).to_batches(max_chunksize=_BATCH_ROWS)


def _scan(options: Mapping[str, str]) -> Scan:
    """What the options ask for.

    Raises:
        OptionError: an option is unknown, or there is no path.
        ExpressionError: `where` does not parse, or names columns that are not there.
    """
    for key in options:
        if key.lower() not in _OPTIONS:
            raise OptionError(f"{key}: no such option of {NAME}{did_you_mean(key, _OPTIONS)}; there are {_OPTIONS}")
    values = {key.lower(): value for key, value in options.items()}
    if not values.get("path"):
        raise OptionError(f'{NAME} reads the table in a folder: give it as .load("/path/of/table")')
    where = values.get("where")
    return Table.open(values["path"]).scan(
        None if where is None else from_spark_sql(where),
        as_of=values.get("as_of"),
        time_zone=values.get("time_zone", "UTC"),
    )
