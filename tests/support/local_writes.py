"""Tables written in this process: by the local executor, or by what Spark's workers run, without Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from spark_writer import frame_rows as spark_frames
from spark_writer.blocks import murmur3_int
from spark_writer.executor import SparkExecutor
from spark_writer.frame_rows import FrameRows
from spark_writer.worker_errors import workers_errors
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.commit.create import create_table
from table_writer.execution.executor import Executor
from table_writer.execution.local import LocalExecutor
from table_writer.execution.progress import WriteProgress
from table_writer.plan import option_registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import new_table_properties
from table_writer.summary import WriteSummary
from table_writer.writer import TableWriter

TASKS = 3
JOINED_TASKS = 2
_QUIET = {option_registry.PROGRESS.key: "false", option_registry.PARALLELISM.key: str(TASKS)}


class LocalFrame:
    """As much of a DataFrame as write jobs ask for: batches by partition, one per task.

    A shuffle gives blocks in another order than they came, as that of Spark does, which mixes what several tasks send.
    """

    def __init__(self, partitions: Sequence[Sequence[pa.RecordBatch]], arrow: pa.Schema) -> None:
        self._partitions = partitions
        self._arrow = arrow

    @classmethod
    def of(cls, table: pa.Table, tasks: int = 2) -> LocalFrame:
        rows = max(1, -(-table.num_rows // tasks))
        return cls([[batch] for batch in table.combine_chunks().to_batches(max_chunksize=rows)], table.schema)

    @property
    def schema(self) -> Any:
        return from_arrow_schema(self._arrow)

    def mapInArrow(  # noqa: N802 - Spark's name
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], _ddl: str
    ) -> LocalFrame:
        made = []
        with _WORKERS, _pool_kept(), workers_errors():
            for number, batches in enumerate(self._partitions):
                _RUNNING.task = _Task(number)
                made.append(list(function(iter(batches))))
        return LocalFrame(made, self._arrow)  # nobody asks for what the DDL says

    def inputFiles(self) -> list[str]:  # noqa: N802
        return []

    def _explain_string(self, mode: str) -> str:
        return mode

    def persist(self, _level: object = None) -> LocalFrame:
        return self

    def unpersist(self) -> LocalFrame:
        return self

    def select(self, *names: str) -> LocalFrame:
        made = [[batch.select(list(names)) for batch in batches] for batches in self._partitions]
        return LocalFrame(made, self._arrow)

    def repartition(self, by: int | str, column: str = "slot") -> LocalFrame:
        count = by if isinstance(by, int) else JOINED_TASKS
        made: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for batches in self._partitions:
            for batch in batches:
                values: Any = batch.column(column).to_numpy(zero_copy_only=False)
                for value in np.unique(values):
                    sent = batch.take(pa.array(np.flatnonzero(values == value)[::-1]))
                    made[murmur3_int(int(value)) % count].insert(0, sent)
        return LocalFrame(made, self._arrow)

    def distinct(self) -> LocalFrame:
        whole = pa.Table.from_batches([batch for batches in self._partitions for batch in batches])
        return LocalFrame([whole.group_by(whole.column_names).aggregate([]).to_batches()], self._arrow)

    def collect(self) -> list[dict[str, Any]]:
        return [row for batches in self._partitions for batch in batches for row in batch.to_pylist()]


@contextlib.contextmanager
def _pool_kept() -> Iterator[None]:
    """A worker's process takes another memory pool; that of the tests goes on with its own."""
    pool = pa.default_memory_pool()
    try:
        yield
    finally:
        pa.set_memory_pool(pool)


class _Task:
    """Stands in for a `TaskContext`."""

    def __init__(self, number: int) -> None:
        self._number = number

    def partitionId(self) -> int:  # noqa: N802 - Spark's names
        return self._number

    def stageId(self) -> int:  # noqa: N802
        return 0

    def taskAttemptId(self) -> int:  # noqa: N802
        return self._number


_RUNNING = threading.local()


class _Tasks:
    """Stands in for the class `TaskContext`: each thread has its task."""

    @staticmethod
    def get() -> _Task:
        task: _Task = _RUNNING.task
        return task


class _Patch:
    """`_Tasks` in the place of Spark's `TaskContext`, from the first thread that needs it to the last that does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._patch: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._patch = mock.patch.object(spark_frames, "TaskContext", _Tasks)
                self._patch.start()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._patch.stop()


_WORKERS = _Patch()


class FrameExecutor(SparkExecutor):
    """Spark's executor on `LocalFrame`s: all that Spark's workers do, without Spark."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]

    @property
    def parallelism(self) -> int:
        return TASKS

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return in_threads(function, items)

    def progress(self, mode: str) -> Any:
        return WriteProgress(mode)

    def _tasks_by_size(self, slots: int) -> int | None:
        """Each task has several slots, as those of a session with adaptive execution may."""
        return JOINED_TASKS if slots > JOINED_TASKS else None


class FileExecutor(LocalExecutor):
    """A local executor without memory: all rows wait in files, and slots of more than a few rows come in ranges."""

    task_memory = 400

    def __init__(self) -> None:
        super().__init__(TASKS)
        self.memory = 0


EXECUTORS: Mapping[str, Callable[[], Executor]] = {
    "threads": lambda: LocalExecutor(TASKS, memory=1 << 30),
    "files": FileExecutor,
    "spark's workers": FrameExecutor,
}
"""What can run the tasks of a `LocalTable`."""


class LocalTable:
    """A table written by one of `EXECUTORS`, or by the executor given, such as that of a Spark session."""

    def __init__(self, client: TableClient, options: Mapping[str, Any], executor: str | Executor = "threads") -> None:
        self.client = client
        self.executor = EXECUTORS[executor]() if isinstance(executor, str) else executor
        self.options = WriteOptions.of({**options, **_QUIET})

    @classmethod
    def create(
        cls, path: str, schema: pa.Schema | None, options: Mapping[str, Any], executor: str | Executor = "threads"
    ) -> LocalTable:
        properties = new_table_properties(WriteOptions.of(options), schema)
        client = create_table(Storage(path), properties, dict(WriteOptions.of(options).texts))
        return cls(client, options, executor)

    def write(
        self,
        operation: str,
        rows: pa.Table | None = None,
        options: Mapping[str, Any] | None = None,
        partitions: Sequence[str] = (),
    ) -> WriteSummary:
        writer = TableWriter(self.client, self.executor, self.options.with_values(options or {}))
        source: Any = rows
        if rows is not None and isinstance(self.executor, FrameExecutor):
            source = FrameRows(LocalFrame.of(rows))  # type: ignore[arg-type]
        elif rows is not None and isinstance(self.executor, SparkExecutor):
            source = FrameRows(self.executor._session.createDataFrame(rows))
        return writer.write(operation, source, partitions=partitions)
