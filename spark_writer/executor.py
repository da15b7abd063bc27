"""The tasks of a write as Spark's: `mapInArrow`, shuffles of blocks, Spark's cache."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark import StorageLevel, TaskContext, __version__
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_writer.blocks import (
    HELD_DDL,
    SPLIT_DDL,
    held_batch,
    held_blocks,
    placements,
    restored_batches,
    slot_rows,
    split_batches,
    unscaled,
)
from spark_writer.progress import SparkProgress, default_parallelism
from spark_writer.session import hadoop_setting, refuse_encryption, use_this_interpreter
from spark_writer.spark_types import arrow_schema
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.errors import HudiError
from table_format.storage import Storage
from table_writer.execution.executor import Block, BlockHead, Held, Place, Rows, RowSource, SplitRows, Stage
from table_writer.execution.slot_rows import SlotRows
from table_writer.plan.plan import TaskIdentity

T = TypeVar("T")

R = TypeVar("R")

_RESULT_DDL: Final = "result binary"

_MAPPED_DDL: Final = "number int, result binary"

_MOST_TASKS: Final = 1000

_SPARK_VERSION: Final = "org.apache.spark.version"

"""Key of a footer without which Spark's readers refuse dates before 1582, lest they be of Spark 2's calendar."""


class SparkExecutor:
    """Runs a write's tasks in Spark.

    Args:
        session: Spark's.

    Raises:
        UnsupportedTableError: the session's settings have Parquet files encrypted.
    """

    task_memory = None
    footer_texts: Mapping[str, str] = {_SPARK_VERSION: __version__}

    def __init__(self, session: SparkSession) -> None:
        use_this_interpreter(session)
        refuse_encryption(session)
        self._session = session

    @property
    def parallelism(self) -> int:
        """Cores of the session, as far as it tells."""
        return default_parallelism(self._session)

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, one task an item up to 1,000 tasks.

        Results travel through the driver: they should be small, such as the names of files that a task wrote.
        """
        if not items:
            return []
        tasks = min(len(items), _MOST_TASKS)
        places = placements(tasks).tolist()
        entries = [(number, places[number % tasks], pickle.dumps(item)) for number, item in enumerate(items)]
        frame = self._session.createDataFrame(entries, "number int, place int, item binary")
        with workers_errors():
            collected = frame.repartition(tasks, "place").mapInArrow(_applied(function), _MAPPED_DDL).collect()
        # pickles of our own workers, as all that Spark's Python sends
        results = {row["number"]: pickle.loads(row["result"]) for row in collected}  # noqa: S301
        return [results[number] for number in range(len(items))]

    def collect(self, rows: Rows[T], stage: Stage[T, R]) -> list[R]:
        """Run a stage on rows; see `Executor`."""
        frame, read = _frame(rows)

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            for result in stage(read(batches), task_identity()):
                yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], names=["result"])

        with workers_errors():
            collected = frame.mapInArrow(in_worker(run), _RESULT_DDL).collect()
        return [pickle.loads(row["result"]) for row in collected]  # noqa: S301  # of our own workers, too

    def exchange(self, rows: Rows[T], split: Stage[T, SplitRows], slots: int) -> Rows[SlotRows]:
        """Bring rows to their slots by a shuffle; see `Executor`."""
        frame, read = _frame(rows)
        worker = in_worker(lambda batches: split_batches(split(read(batches), task_identity()), slots))
        return _SparkRows(frame.mapInArrow(worker, SPLIT_DDL).repartition(slots, "slot"), slot_rows)

    def hold(self, rows: Rows[T], stage: Stage[T, Block]) -> Held:
        """Keep a stage's blocks in Spark's cache; see `Executor`."""
        frame, read = _frame(rows)
        worker = in_worker(lambda batches: map(held_batch, stage(read(batches), task_identity())))
        return _Cached(frame.mapInArrow(worker, HELD_DDL).persist(StorageLevel.MEMORY_AND_DISK))

    def progress(self, mode: str) -> SparkProgress:
        """Progress of one write, with the tasks of its Spark jobs."""
        return SparkProgress(self._session, mode)

    def setting(self, key: str) -> str | None:
        """A setting of the session's Hadoop configuration."""
        return hadoop_setting(self._session, key)


class FrameRows(RowSource):
    """The rows of a DataFrame; each pass over them computes it anew."""

    def __init__(self, df: DataFrame) -> None:
        self.df = df

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns in the types under which tables store them."""
        return arrow_schema(self.df.schema)

    def reads_table(self, storage: Storage, name: str) -> bool:
        """Whether the rows come from a table, as far as Spark tells; if it does not tell, they may."""
        return reads_table(self.df, storage, name)


@dataclass(frozen=True)
class _SparkRows(Rows[T]):
    """Rows of a DataFrame whose columns are for the executor."""

    frame: DataFrame
    read: Callable[[Batches], Iterator[T]]


class _Cached(Held):
    """Blocks in Spark's cache."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self._early: dict[Place, bytes] = {}

    @cached_property
    def heads(self) -> Sequence[BlockHead]:
        """What the driver knows of each block; the stage runs now."""
        with workers_errors():
            collected = self.frame.select("task", "block", "rows", "head", "early").collect()
        self._early = {(row["task"], row["block"]): row["early"] for row in collected if row["early"] is not None}
        # of our own workers, as all that Spark's Python sends
        return [
            BlockHead((row["task"], row["block"]), row["rows"], pickle.loads(row["head"]))  # noqa: S301
            for row in collected
        ]

    def keys(self) -> Mapping[Place, pa.Table]:
        """The columns for the driver."""
        streams = dict(self._early)
        if streams.keys() != {head.place for head in self.heads}:
            with workers_errors():
                collected = self.frame.select("task", "block", "keys").collect()
            streams |= {(row["task"], row["block"]): row["keys"] for row in collected if row["keys"] is not None}
        return {place: pa.ipc.open_stream(bytes(data)).read_all() for place, data in streams.items()}

    def release(self) -> None:
        """Take the blocks out of the cache."""
        self.frame.unpersist()


def task_identity() -> TaskIdentity:
    """Which attempt of which task this is."""
    context = TaskContext.get()
    if context is None:
        raise HudiError("this runs in Spark's workers only")
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def _frame(rows: Rows[T]) -> tuple[DataFrame, Callable[[Batches], Iterator[Any]]]:
    """A DataFrame, and how a task reads its share of the rows out of it."""
    if isinstance(rows, FrameRows):
        df, decimals = unscaled(rows.df)
        return df, iter if decimals is None else lambda batches: restored_batches(batches, decimals)
    if isinstance(rows, _SparkRows):
        return rows.frame, rows.read
    if isinstance(rows, _Cached):
        return rows.frame, held_blocks
    raise HudiError(f"a SparkExecutor takes DataFrames, not {type(rows).__name__}")


def _applied(function: Callable[[T], R]) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                item = pickle.loads(row["item"])  # noqa: S301  # of our own driver
                result = pa.array([pickle.dumps(function(item))], pa.binary())
                yield pa.record_batch([pa.array([row["number"]], pa.int32()), result], names=["number", "result"])

    return in_worker(run)


def reads_table(df: DataFrame, storage: Storage, name: str) -> bool:
    """Whether a DataFrame's rows come from a table, as far as Spark tells; if it does not tell, they may.

    Such rows are of the state in which the table was when the DataFrame was made. To write them over a newer state
    would undo what another writer did in between.

    Args:
        df: the rows.
        storage: the table's.
        name: of the table, after which `snapshot` names its DataFrames.
    """
    try:
        files = df.inputFiles()
        plan = _plan_text(df)
    except (PySparkException, AttributeError, OSError):
        return True
    base = f"{storage.base.rstrip('/')}/"
    if any(_plain(file).startswith(base) for file in files):
        return True
    # a cached DataFrame tells no files
    return re.search(rf"SubqueryAlias {re.escape(name)}\s*$", plan, re.MULTILINE) is not None


def _plan_text(df: Any) -> str:
    try:
        return str(df._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - PySpark has no other way
    except (PySparkException, AttributeError):
        return str(df._explain_string(mode="extended"))  # noqa: SLF001 - Spark Connect's


def _plain(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.netloc}{unquote(parts.path)}"
