"""Runs the tasks of a write in Spark: `mapInArrow`, shuffles of blocks, Spark's cache."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Self, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, __version__
from pyspark.sql import DataFrame, SparkSession

from spark_writer.blocks import (
    HELD_DDL,
    SPLIT_DDL,
    held_batch,
    held_blocks,
    placements,
    split_batches,
)
from spark_writer.frame_rows import FrameRows, task_identity
from spark_writer.progress import SparkProgress, default_parallelism, master
from spark_writer.received import slot_rows
from spark_writer.session import hadoop_setting, refuse_encryption, use_this_interpreter, with_small_batches
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.errors import HudiError
from table_writer.execution.executor import Block, BlockHead, Held, Place, Rows, SplitRows, Stage
from table_writer.execution.local import LocalExecutor, SharesInMemory
from table_writer.execution.slot_rows import SlotRows
from table_writer.execution.task_memory import TaskMemory
from table_writer.plan import executor_options
from table_writer.plan.options import WriteOptions

T = TypeVar("T")

R = TypeVar("R")

_RESULT_DDL: Final = "result binary"

_MAPPED_DDL: Final = "number int, result binary"

_MOST_TASKS: Final = 1000

# This many tasks per core cost next to nothing, whatever they do.
_FEW_TASKS: Final = 4

# The slots of a partitioned table, which adaptive execution joins to tasks of equal size.
_SLOTS_A_CORE: Final = 16

# The driver has other work too, and slots may rewrite large files.
_SLOTS_A_THREAD: Final = 2

# Not `local-cluster[...]`, which starts processes as a cluster does.
_LOCAL: Final = r"local(\[.*\])?"

_ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")

_FIRST_TASKS: Final = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"

_SPARK_VERSION: Final = "org.apache.spark.version"

"""Key of a footer without which Spark's readers refuse dates before 1582, lest they be of Spark 2's calendar."""


class SparkExecutor:
    """Runs a write's tasks in Spark.

    Args:
        session: Spark's.

    Raises:
        UnsupportedTableError: the session is set to encrypt Parquet files.
    """

    footer_texts: Mapping[str, str] = {_SPARK_VERSION: __version__}

    def __init__(self, session: SparkSession) -> None:
        use_this_interpreter(session)
        refuse_encryption(session)
        self._session = session
        self._driver_bytes = 0
        self._direct = False
        self._limit: int | None = None

    def with_options(self, options: WriteOptions) -> Self:
        """A copy with the options' limits on what the driver writes and a task holds; see `Executor`."""
        result = copy.copy(self)
        result._driver_bytes = options.number(executor_options.DRIVER_BYTES) or 0  # noqa: SLF001  # its own class
        result._limit = options.number(executor_options.TASK_MEMORY)  # noqa: SLF001
        result._direct = options.flag(executor_options.DIRECT_SCAN)  # noqa: SLF001
        return result

    @property
    def parallelism(self) -> int:
        """Cores of the session, as far as it shows them."""
        return default_parallelism(self._session)

    @property
    def task_memory(self) -> int | None:
        """Bytes of rows that a task should hold: a share of its limit."""
        budget = TaskMemory.of(self._limit)
        return None if budget is None else budget.rows

    @property
    def slots(self) -> int:
        """Many per task where adaptive execution deals them out by size, so that large partitions part; else two."""
        many = _SLOTS_A_CORE * self.parallelism
        return many if self._tasks_by_size(many) else 2 * self.parallelism

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, one task per item up to 1,000 tasks.

        Results travel through the driver: they should be small, such as the names of files that a task wrote.
        """
        if not items:
            return []
        with workers_errors():
            collected = self._items(items).mapInArrow(_applied(function), _MAPPED_DDL).collect()
        # pickles from our own workers, like everything that Spark's Python sends
        results = {row["number"]: pickle.loads(row["result"]) for row in collected}  # noqa: S301
        return [results[number] for number in range(len(items))]

    def dealt(self, items: Sequence[T]) -> Rows[T]:
        """Items as rows, one task per item up to 1,000 tasks; see `Executor`."""
        return _SparkRows(self._items(items), _unpickled)

    def _items(self, items: Sequence[Any]) -> DataFrame:
        """Pickled items, at least one, spread over tasks."""
        tasks = min(len(items), _MOST_TASKS)
        places = placements(tasks).tolist()
        entries = [(number, places[number % tasks], pickle.dumps(item)) for number, item in enumerate(items)]
        return self._session.createDataFrame(entries, "number int, place int, item binary").repartition(tasks, "place")

    def collect(self, rows: Rows[T], stage: Stage[T, R]) -> list[R]:
        """Run a stage on rows; see `Executor`."""
        near = self._in_driver(rows)
        if near is not None:
            return self._local.collect(near, stage)
        frame, read = self._frame(rows)

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            for result in stage(read(batches), task_identity()):
                yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], names=["result"])

        with workers_errors():
            collected = frame.mapInArrow(in_worker(run), _RESULT_DDL).collect()
        return [pickle.loads(row["result"]) for row in collected]  # noqa: S301  # of our own workers, too

    def exchange(self, rows: Rows[T], split: Stage[T, SplitRows], slots: int) -> Rows[SlotRows]:
        """Bring rows to their slots by a shuffle; see `Executor`."""
        near = self._in_driver(rows)
        if near is not None:
            return self._dealt_out(self._local.collect(near, split), slots)
        frame, read = self._frame(rows)
        tasks = self._tasks_by_size(slots)
        memory = self._limit
        worker = in_worker(lambda batches: split_batches(split(read(batches), task_identity()), slots, tasks, memory))
        blocks = frame.mapInArrow(worker, SPLIT_DDL)
        # without a number Spark coalesces small tasks
        return self._by_slot(blocks.repartition("slot") if tasks else blocks.repartition(slots, "slot"))

    def hold(self, rows: Rows[T], stage: Stage[T, Block]) -> Held:
        """Keep a stage's blocks in Spark's cache; see `Executor`."""
        near = self._in_driver(rows)
        if near is not None:
            return self._local.hold(near, stage)
        frame, read = self._frame(rows)
        worker = in_worker(lambda batches: map(held_batch, stage(read(batches), task_identity())))
        return _Cached(frame.mapInArrow(worker, HELD_DDL).persist(StorageLevel.MEMORY_AND_DISK))

    def progress(self, mode: str) -> SparkProgress:
        """Progress of one write, with the tasks of its Spark jobs."""
        return SparkProgress(self._session, mode)

    def setting(self, key: str) -> str | None:
        """A setting of the session's Hadoop configuration."""
        return hadoop_setting(self._session, key)

    @cached_property
    def _local(self) -> LocalExecutor:
        return LocalExecutor()

    def _in_driver(self, rows: Rows[T]) -> Rows[Any] | None:
        """Rows in the driver, or few enough to be collected there; None for rows of Spark's tasks."""
        if isinstance(rows, FrameRows):
            return rows.collected(self._driver_bytes, direct=self._direct)
        return None if isinstance(rows, (_SparkRows, _Cached)) else rows

    def _frame(self, rows: Rows[T]) -> tuple[DataFrame, Callable[[Batches], Iterator[Any]]]:
        """A DataFrame, and how a task reads its share of the rows out of it."""
        if isinstance(rows, FrameRows):
            return rows.frame(direct=self._direct, memory=self._limit)
        if isinstance(rows, _SparkRows):
            return rows.frame, rows.read
        if isinstance(rows, _Cached):
            return rows.frame, held_blocks
        raise HudiError(f"a SparkExecutor takes DataFrames, not {type(rows).__name__}")

    def _dealt_out(self, parts: list[SplitRows], slots: int) -> Rows[SlotRows]:
        """The driver's rows by slot: few slots stay there; many, which may rewrite large files, go to a cluster."""
        used = len(np.unique(np.concatenate([part.slots for part in parts]))) if parts else 0
        if used <= _SLOTS_A_THREAD * self._local.threads or self._tasks_are_threads():
            return SharesInMemory([(slot,) for slot in slot_rows(split_batches(parts, slots), waiting=None)])
        tasks = min(used, _FEW_TASKS * self.parallelism)
        blocks = [tuple(row.values()) for batch in split_batches(parts, slots, tasks) for row in batch.to_pylist()]
        return self._by_slot(self._session.createDataFrame(blocks, SPLIT_DDL).repartition(tasks, "slot"))

    def _by_slot(self, blocks: DataFrame) -> Rows[SlotRows]:
        """Shuffled blocks as the rows of slots, within the tasks' memory."""
        budget = TaskMemory.of(self._limit)
        if budget is not None:
            blocks = with_small_batches(blocks, budget.waiting)
        return _SparkRows(blocks, partial(slot_rows, memory=self._limit))

    def _tasks_are_threads(self) -> bool:
        """Whether tasks run in the driver's own process, so that they have no more cores and memory than the driver."""
        known = master(self._session)
        return known is not None and re.fullmatch(_LOCAL, known) is not None

    def _tasks_by_size(self, slots: int) -> int | None:
        """Number of tasks of an exchange whose tasks Spark's adaptive execution coalesces by size.

        Returns:
            None for one task per slot: with few slots, without adaptive execution, or if the session's
            `spark.sql.shuffle.partitions` are fewer than its cores.
        """
        if slots <= _FEW_TASKS * self.parallelism:
            return None
        conf = self._session.conf
        if any(conf.get(key, "true") != "true" for key in _ADAPTIVE):
            return None
        tasks = int(conf.get(_FIRST_TASKS, None) or conf.get("spark.sql.shuffle.partitions") or 0)
        return tasks if tasks >= self.parallelism else None


@dataclass(frozen=True)
class _SparkRows(Rows[T]):
    """Rows of a DataFrame in the executor's own columns."""

    frame: DataFrame
    read: Callable[[Batches], Iterator[T]]


class _Cached(Held):
    """Blocks in Spark's cache."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self._early: dict[Place, bytes] = {}

    @cached_property
    def heads(self) -> Sequence[BlockHead]:
        """Summaries of the blocks; runs the stage."""
        with workers_errors():
            collected = self.frame.select("task", "block", "rows", "head", "early").collect()
        self._early = {(row["task"], row["block"]): row["early"] for row in collected if row["early"] is not None}
        # from our own workers, like everything that Spark's Python sends
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
        """Remove the blocks from the cache."""
        self.frame.unpersist()


def _unpickled(batches: Batches) -> Iterator[Any]:
    for batch in batches:
        for row in batch.to_pylist():
            yield pickle.loads(row["item"])  # noqa: S301  # of our own driver


def _applied(function: Callable[[T], R]) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                item = pickle.loads(row["item"])  # noqa: S301  # of our own driver
                result = pa.array([pickle.dumps(function(item))], pa.binary())
                yield pa.record_batch([pa.array([row["number"]], pa.int32()), result], names=["number", "result"])

    return in_worker(run)
