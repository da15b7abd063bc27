"""The two stages as one Spark job: `mapInArrow`, a shuffle of blocks, `mapInArrow`."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from spark_writer.decimals import unscaled
from spark_writer.placement import placements
from spark_writer.plans import FilePlan, KeyPlan, SplitPlan, TaskIdentity
from spark_writer.slot_writer import write_blocks
from spark_writer.split import BLOCK_DDL, split_batches, user_rows
from spark_writer.written_file import WRITTEN_DDL, WrittenFile
from table_format import errors
from table_format.mapping import use_one_core

_Batches = Iterable[pa.RecordBatch]
_Worker = Callable[[_Batches], Iterator[pa.RecordBatch]]
_RAISED = re.compile(r"^table_format\.errors\.(\w+): (.*)", re.MULTILINE | re.DOTALL)
_PARTITIONS_DDL = "partition string"


def write_files(df: DataFrame, split: SplitPlan, files: FilePlan) -> list[WrittenFile]:
    """Run a write's job: every slot's rows go to one task, which writes their files.

    Raises:
        HudiError: a worker's error, as it raised it.
    """
    df, decimals = unscaled(df)
    split = dataclasses.replace(split, decimals=decimals)
    blocks = df.mapInArrow(_splitter(split), BLOCK_DDL)
    written = blocks.repartition(split.slots, "slot").mapInArrow(file_writer(files), WRITTEN_DDL)
    with workers_errors():
        return [WrittenFile.from_row(row["stat"], row["statistics"]) for row in written.collect()]


def distinct_partitions(df: DataFrame, keys: KeyPlan, schema: pa.Schema) -> list[str]:
    """The partition paths that some rows fall into."""
    generator = keys.generator

    def run(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                paths = generator.partition_paths(user_rows([batch], schema))
                yield pa.record_batch([paths.unique()], names=["partition"])

    with workers_errors():
        rows = df.mapInArrow(run, _PARTITIONS_DDL).distinct().collect()
    return sorted(row["partition"] for row in rows)


@contextlib.contextmanager
def workers_errors() -> Iterator[None]:
    """Raise a `HudiError` of a worker as itself, rather than inside Spark's report of it."""
    try:
        yield
    except PythonException as error:
        original = _original(str(error))
        if original is None:
            raise
        raise original from error


def _original(report: str) -> errors.HudiError | None:
    found = _RAISED.search(report)
    kind = getattr(errors, found.group(1), None) if found else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, errors.HudiError)):
        return None
    # what follows the message in the report is the JVM's stack
    message = re.split(r"\n\s*(?:at |JVM stacktrace:|\n)", found.group(2), maxsplit=1)[0].strip()
    if issubclass(kind, errors.CorruptFileError):
        return errors.HudiError(message)
    return kind(message)


def _splitter(plan: SplitPlan) -> _Worker:
    numbers = placements(plan.slots)

    def run(batches: _Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from split_batches(plan, numbers, batches, task_context().partitionId())

    return run


def file_writer(plan: FilePlan) -> _Worker:
    """What a writing task does with its blocks."""

    def run(batches: _Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from write_blocks(plan, batches, task_identity())

    return run


def task_identity() -> TaskIdentity:
    """Which attempt of which task this is."""
    context = task_context()
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def prepare_worker() -> None:
    """Set a worker's process up: Arrow takes its memory from the C library, and one thread computes.

    The C library keeps freed blocks for the next column; Arrow's own pool hands them back to the system, and getting
    them again took a sixth of the workers' time. A task has one core; more threads would take those of other tasks.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    use_one_core()


def task_context() -> TaskContext:
    """The task that this runs in."""
    context = TaskContext.get()
    if context is None:
        raise errors.HudiError("this runs in Spark's workers only")
    return context
