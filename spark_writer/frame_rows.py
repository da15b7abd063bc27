"""The rows of a DataFrame, for a write: computed in tasks, collected if they are few, or read by Arrow."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import AtomicType

from spark_writer.bare_scan import CannotScan, bare_scan, class_name, items
from spark_writer.blocks import restored_batches, stream, unscaled
from spark_writer.scanned_files import ScannedRows, scanned_rows
from spark_writer.spark_types import arrow_schema
from spark_writer.worker_errors import Batches, in_worker, workers_errors
from table_format.errors import HudiError
from table_format.storage import Storage
from table_writer.execution.executor import RowSource
from table_writer.execution.local import SharesInMemory
from table_writer.execution.task_memory import TaskMemory
from table_writer.plan.plan import TaskIdentity

# Spark estimates rows by the size of their Parquet files, which is about this many times too small.
_EXPANSION: Final = 4
_COLLECTED_DDL: Final = "task int, payload binary"
_RESULTS_TOO_LARGE: Final = "spark.driver.maxResultSize"
_PROJECT: Final = "org.apache.spark.sql.catalyst.plans.logical.Project"
_ROW_BY_ROW: Final = (_PROJECT, "org.apache.spark.sql.catalyst.plans.logical.Filter")
_ATTRIBUTE: Final = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
_CACHED: Final = "org.apache.spark.sql.execution.columnar.InMemoryRelation"
_OF_RDD: Final = "org.apache.spark.sql.execution.LogicalRDD"
_SAME_PARTITIONS: Final = ("org.apache.spark.rdd.MapPartitionsRDD", "org.apache.spark.api.python.PythonRDD")
_SENT: Final = "org.apache.spark.rdd.ParallelCollectionRDD"
_LOG: Final = logging.getLogger(__name__)

Shares = SharesInMemory[pa.RecordBatch]


class FrameRows(RowSource):
    """The rows of a DataFrame; each pass over them computes it again, unless the driver collected them.

    Args:
        df: the DataFrame, or what makes it when it is used first.
    """

    def __init__(self, df: DataFrame | Callable[[], DataFrame]) -> None:
        self._made = df
        self._collected: Shares | None = None
        self._large = False

    @cached_property
    def df(self) -> DataFrame:
        """The DataFrame."""
        made: Any = self._made
        frame: DataFrame = made() if callable(made) else made
        return frame

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns in the types under which tables store them."""
        return arrow_schema(self.df.schema)

    def reads_table(self, storage: Storage, name: str) -> bool:
        """Whether the rows come from a table, as far as Spark shows it; if it does not, they may."""
        return reads_table(self.df, storage, name)

    def frame(
        self, *, direct: bool, memory: int | None = None
    ) -> tuple[DataFrame, Callable[[Batches], Iterator[pa.RecordBatch]]]:
        """A DataFrame for tasks, and a function by which each reads its share of the rows.

        Args:
            direct: whether Arrow reads rows that are unchanged from files.
            memory: bytes that a task may take; None for no limit.
        """
        scanned = self._scanned if direct else None
        if scanned is not None and scanned.parts:
            count = len(scanned.parts)
            numbers = self.df.sparkSession.range(0, count, 1, count)
            budget = TaskMemory.of(memory)
            most = None if budget is None else budget.batch
            return numbers, lambda batches: _of_files(scanned, batches, most)
        df, decimals = unscaled(self.df)
        return df, iter if decimals is None else lambda batches: restored_batches(batches, decimals)

    def collected(self, most: int, *, direct: bool) -> Shares | None:
        """The rows in the driver, if they are few; later passes reuse those of the first.

        Args:
            most: most bytes of the rows, by Spark's estimate.
            direct: see `frame`.

        Returns:
            None if the estimate is larger or missing, or if it was far too low: the first pass is then repeated in
            tasks.
        """
        df = self.df  # when it is made, its rows may be collected
        if self._collected is None and not self._large:
            if most > 0 and estimated_size(df) <= most:
                scanned = self._scanned if direct else None
                limit = _EXPANSION * most
                if scanned is not None:
                    self._collected = _read(scanned, limit)
                else:
                    self._collected = self._by_arrow() if can_be_sent(df) else self._by_job(limit)
            self._large = self._collected is None
        return self._collected

    @cached_property
    def _scanned(self) -> ScannedRows | None:
        """The row groups that hold the rows; None where Spark has to read or compute them."""
        try:
            return scanned_rows(bare_scan(self.df))
        except CannotScan as reason:
            _LOG.debug("Spark reads the rows: %s", reason)
            return None

    def _by_arrow(self) -> Shares | None:
        """The rows as the JVM's tasks send them, without workers of Python that could count them; None if too many."""
        df, read = self.frame(direct=False)
        numbered: Any = df.select("*", F.spark_partition_id())
        try:
            with workers_errors():
                rows: pa.Table = numbered.toArrow()
        except PySparkException as error:
            _raise_unless_too_large(error)
            return None
        shares: dict[int, list[pa.RecordBatch]] = {}
        for batch in rows.to_batches():
            if batch.num_rows:  # of one task
                last = batch.num_columns - 1
                shares.setdefault(batch.column(last)[0].as_py(), []).append(batch.select(list(range(last))))
        return SharesInMemory([list(read(iter(shares[number]))) for number in sorted(shares)])

    def _by_job(self, most: int) -> Shares | None:
        """The rows, if no task has more than `most` bytes of them; else None."""
        frame, read = self.frame(direct=False)

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            part: list[pa.RecordBatch] = []
            size = 0
            for batch in batches:
                part.append(batch)
                size += batch.nbytes
                if size > most:
                    break
            rows = pa.Table.from_batches(part) if part else None
            if rows is not None and rows.num_rows:
                payload = None if size > most else stream(rows).to_pybytes()
                columns: list[Any] = [pa.array([task_identity().number], pa.int32()), pa.array([payload], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["task", "payload"])

        try:
            with workers_errors():
                tasks = frame.mapInArrow(in_worker(run), _COLLECTED_DDL).collect()
        except PySparkException as error:
            _raise_unless_too_large(error)
            return None
        if any(task["payload"] is None for task in tasks):
            return None
        tasks.sort(key=lambda task: int(task["task"]))
        # a share per Spark partition: some sort modes keep the rows of a partition together
        return SharesInMemory([list(read(pa.ipc.open_stream(task["payload"]))) for task in tasks])


def _raise_unless_too_large(error: PySparkException) -> None:
    """Raise an error unless it is that results exceed the session's limit."""
    if _RESULTS_TOO_LARGE not in str(error):
        raise error


def _of_files(scanned: ScannedRows, batches: Batches, most: int | None) -> Iterator[pa.RecordBatch]:
    """The rows of the parts that a task was given by number, in batches of about `most` bytes."""
    for batch in batches:
        numbers: Any = batch.column(0).to_pylist()
        for number in numbers:
            yield from scanned.batches(number, most)


def _read(scanned: ScannedRows, most: int) -> Shares | None:
    """The rows of files, if each part has at most `most` bytes; None where one has more."""
    shares = []
    for number in range(len(scanned.parts)):
        share = []
        size = 0
        for batch in scanned.batches(number):
            share.append(batch)
            size += batch.nbytes
            if size > most:
                return None
        if share:
            shares.append(share)
    return SharesInMemory(shares)


def estimated_size(df: DataFrame) -> float:
    """The bytes of a DataFrame's rows by Spark's statistics; infinity if it has none, as over Spark Connect.

    Spark has no statistics of rows that the driver has sent to the JVM, as `createDataFrame` does with a list: they are
    counted as pickled.
    """
    try:
        plan: Any = df._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
        return min(int(str(plan.stats().sizeInBytes())), _sent_size(df, plan))
    except (PySparkException, Py4JError, AttributeError):
        return math.inf


def can_be_sent(df: DataFrame) -> bool:
    """Whether the JVM may send the rows by `DataFrame.toArrow`: Spark has measured them, and they nest nothing.

    Rows in Spark's cache are measured, and those that the driver has sent to the JVM: `estimated_size` is at least the
    size of them or some of them.
    """
    # of PySpark 4; refuses nested columns that are not nullable in a value that is
    if not hasattr(df, "toArrow") or any(not isinstance(field.dataType, AtomicType) for field in df.schema.fields):
        return False
    try:
        plan: Any = df._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
        while (name := class_name(plan)) in _ROW_BY_ROW:
            if name == _PROJECT and any(class_name(column) != _ATTRIBUTE for column in items(plan.projectList())):
                return False
            plan = plan.child()
        if name == _CACHED:
            return bool(plan.cacheBuilder().isCachedColumnBuffersLoaded())
        return _sent_size(df, plan) < math.inf
    except (PySparkException, Py4JError, AttributeError, TypeError):
        return False


def _sent_size(df: Any, plan: Any) -> float:
    """The bytes that a DataFrame's rows took when the driver sent them; infinity if it did not."""
    while (name := class_name(plan)) in _ROW_BY_ROW:
        plan = plan.child()
    if name != _OF_RDD:
        return math.inf
    rdd = plan.rdd()
    while (name := class_name(rdd)) in _SAME_PARTITIONS:
        rdd = rdd.dependencies().apply(0).rdd()
    if name != _SENT:
        return math.inf
    estimator = df.sparkSession._jvm.org.apache.spark.util.SizeEstimator  # noqa: SLF001 - PySpark has no other way
    return sum(int(estimator.estimate(part.values())) for part in rdd.partitions())


def task_identity() -> TaskIdentity:
    """Which attempt of which task this is."""
    context = TaskContext.get()
    if context is None:
        raise HudiError("this runs in Spark's workers only")
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def reads_table(df: DataFrame, storage: Storage, name: str) -> bool:
    """Whether a DataFrame's rows come from a table, as far as Spark shows it; if it does not, they may.

    Such rows show the table's state when the DataFrame was made: writing them over a newer state would undo other
    writers' changes.

    Args:
        df: the rows.
        storage: the table's.
        name: of the table, after which `spark_writer.read` names its DataFrames.
    """
    try:
        # a cached DataFrame does not show its files
        if re.search(rf"SubqueryAlias {re.escape(name)}\s*$", _plan_text(df), re.MULTILINE) is not None:
            return True
        files = df.inputFiles()
    except (PySparkException, AttributeError, OSError):
        return True
    base = f"{storage.base.rstrip('/')}/"
    return any(_plain(file).startswith(base) for file in files)


def _plan_text(df: Any) -> str:
    try:
        return str(df._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - PySpark has no other way
    except (PySparkException, AttributeError):
        return str(df._explain_string(mode="extended"))  # noqa: SLF001 - Spark Connect's


def _plain(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.netloc}{unquote(parts.path)}"
