"""DataFrames of a scan: files that Spark's reader reads, and slices that workers of Python read, united."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from catalog.rows.slice_rows import slice_batches
from catalog.scan import Scan
from catalog.snapshots.snapshot import Snapshot
from pushdown.errors import ExpressionError
from pushdown.expression import HudiExpression
from spark_writer.filters import from_condition, from_spark_column, from_spark_sql
from spark_writer.read.file_index import READER_OPTIONS, NativeFiles, exact_partition_columns, native_frame
from spark_writer.read.generations import Generation, Rows, converted, generations, promotions, table_schema
from spark_writer.read.jvm import why_unreachable
from spark_writer.read.parquet_format import reader_limits
from spark_writer.session import use_this_interpreter
from spark_writer.worker_errors import Batches, Worker, in_worker
from table_format.schema.evolution import conform

_BATCH_ROWS: Final = 10_000
_MOST_TASKS: Final = 200
_SLICE_DDL: Final = "slice binary"
#: Characters that make Spark take a path for a pattern.
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")


def scan_frame(
    session: SparkSession,
    scan: Scan,
    where: Column | str | None = None,
    *,
    files: HudiExpression | None = None,
) -> DataFrame:
    """The rows of a scan, lazily; its alias is the table's name, by which a write detects rows that come from it.

    Files that Spark's reader reads are chosen by each query on the DataFrame, where the session's planner can ask this
    process (`why_unreachable`). Slices with log files, and files whose columns only Hudi's rules map to the table's,
    are read by workers of Python, and chosen now, by `where`.

    Args:
        session: Spark's.
        scan: a state of the table, and the writes whose rows are wanted; without a filter.
        where: a condition on rows, by which files are chosen now as well.
        files: a condition by which files are chosen now; their rows are not filtered by it.

    Raises:
        ExpressionError: `where` is a Column, over Spark Connect.
        HudiError: the table cannot be planned.
    """
    parts = _Parts(session, scan)
    chosen = parts.chosen(where if files is None else files)
    frames = [parts.frame(one) for one in generations(scan.snapshot, chosen, promotions(session.version))]
    # without rows by `limit(0)`, since Spark does not know that a list is empty
    rows = reduce(DataFrame.union, frames) if frames else session.createDataFrame([], parts.schema).limit(0)
    if scan.instants is not None:
        rows = rows.where(scan.instants.predicate().to_sql())
    rows = rows.alias(scan.snapshot.config.name)
    return rows if where is None else rows.where(where)


class _Parts:
    """The parts that make up the DataFrame of a scan."""

    def __init__(self, session: SparkSession, scan: Scan) -> None:
        self._session = session
        self._scan = scan
        self._snapshot: Snapshot = scan.snapshot
        self._columns = table_schema(self._snapshot)
        self.schema: StructType = from_arrow_schema(self._columns)
        self._classic = hasattr(session, "_jsparkSession")
        self._planned = why_unreachable(session) is None
        self._paths = exact_partition_columns(self._snapshot) if self._planned else ()

    def chosen(self, where: Column | str | HudiExpression | None) -> Rows:
        """Positions of the slices that may hold rows which meet a condition, as far as that is understood."""
        if where is None:
            return self._scan.plan().rows
        if isinstance(where, HudiExpression):
            return replace(self._scan, filter=where).plan().rows
        zone = self._session.conf.get("spark.sql.session.timeZone") or "UTC"
        try:
            return replace(self._scan, filter=self._translated(where), time_zone=zone).plan().rows
        except ExpressionError:
            if not isinstance(where, str):
                raise
            return self._scan.plan().rows  # Spark will carry it out, or say what is wrong with it

    def _translated(self, where: Column | str) -> HudiExpression:
        if self._classic:
            empty = self._session.createDataFrame([], self.schema).alias(self._snapshot.config.name)
            return from_condition(where, empty, self._snapshot.schema)
        return from_spark_sql(where) if isinstance(where, str) else from_spark_column(where, self.schema)

    def frame(self, part: Generation) -> DataFrame:
        """The rows of a part in the table's columns."""
        partitioned = self._paths if not set(self._paths) & part.stored.keys() else ()
        if not part.native or (self._snapshot.config.drop_partition_columns and not partitioned):
            return self._by_workers(part.rows)
        if self._planned:
            frame = native_frame(self._session, NativeFiles(self._scan, part, self.schema, partitioned))
        else:
            frame = self._listed(part)
        if not part.stored:
            return frame
        columns = [
            converted(F.col(f"`{one.name}`"), part.stored.get(one.name, one.dataType), one.dataType).alias(one.name)
            for one in self.schema.fields
        ]
        return frame.select(*columns)

    def _listed(self, part: Generation) -> DataFrame:
        """All rows of files that are chosen already."""
        paths: list[Any] = self._snapshot.take_files(part.rows).column("path").to_pylist()
        schema = part.schema(self.schema)
        reader = self._session.read.schema(schema).options(**READER_OPTIONS, **reader_limits(schema))
        full = map(self._snapshot.client.storage.full_uri, paths)
        files = reader.parquet(*(_PATTERN.sub(r"\\\g<0>", path) for path in full))
        # Spark's INSERT INTO takes a relation with a single path, and OVERWRITE would delete that file.
        return files.select("*") if len(paths) == 1 else files

    def _by_workers(self, rows: Rows) -> DataFrame:
        use_this_interpreter(self._session)
        slices = [(bytearray(pickle.dumps(one)),) for one in self._snapshot.file_slices(rows)]
        listed = self._session.createDataFrame(slices, _SLICE_DDL)
        tasks = listed.repartition(min(len(slices), _MOST_TASKS), "slice")
        return tasks.mapInArrow(_reader(self._snapshot.for_reading(rows), self._columns), self.schema)


def _reader(snapshot: Snapshot, columns: pa.Schema) -> Worker:
    names: Sequence[str] = columns.names

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            slices: list[Any] = batch.column("slice").to_pylist()
            for one in map(pickle.loads, slices):  # of the driver
                for _, rows in slice_batches(snapshot, one, names, batch_rows=_BATCH_ROWS):
                    yield from conform(rows, columns).to_batches(max_chunksize=_BATCH_ROWS)

    return in_worker(run, lazy=True)
