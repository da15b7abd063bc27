"""The two stages as one Spark job: `mapInArrow`, a shuffle of blocks, `mapInArrow`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from spark_writer.decimals import unscaled
from spark_writer.placement import placements
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.errors import HudiError
from table_format.meta_columns import PARTITION_PATH
from table_writer.execution.blocks import BLOCK_DDL, keyed_rows, split_batches, user_rows
from table_writer.files.written import WRITTEN_DDL, WrittenFile
from table_writer.plan.plan import BUCKET_COLUMN, FilePlan, KeyPlan, SplitPlan, TaskIdentity
from table_writer.slots.slot import write_blocks

_PARTITIONS_DDL = "partition string"
_SLOTS_DDL = "partition string, bucket int"


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

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                paths = generator.partition_paths(user_rows([batch], schema))
                yield pa.record_batch([paths.unique()], names=["partition"])

    with workers_errors():
        rows = df.mapInArrow(in_worker(run), _PARTITIONS_DDL).distinct().collect()
    return sorted(row["partition"] for row in rows)


def distinct_slots(df: DataFrame, keys: KeyPlan, schema: pa.Schema) -> set[tuple[str, int]]:
    """The partition paths and buckets that some rows fall into."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                rows = keyed_rows(keys, user_rows([batch], schema), ())
                paths = rows[PARTITION_PATH] if keys.spec.is_partitioned else pa.repeat("", len(rows))
                slots = pa.table([paths.cast(pa.string()), rows[BUCKET_COLUMN]], names=["partition", "bucket"])
                yield from slots.group_by(["partition", "bucket"]).aggregate([]).to_batches()

    with workers_errors():
        rows = df.mapInArrow(in_worker(run), _SLOTS_DDL).distinct().collect()
    return {(row["partition"], row["bucket"]) for row in rows}


def _splitter(plan: SplitPlan) -> Worker:
    numbers = placements(plan.slots)
    return in_worker(lambda batches: split_batches(plan, numbers, batches, task_context().partitionId()))


def file_writer(plan: FilePlan) -> Worker:
    """What a writing task does with its blocks."""
    return in_worker(lambda batches: write_blocks(plan, batches, task_identity()))


def task_identity() -> TaskIdentity:
    """Which attempt of which task this is."""
    context = task_context()
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def task_context() -> TaskContext:
    """The task that this runs in."""
    context = TaskContext.get()
    if context is None:
        raise HudiError("this runs in Spark's workers only")
    return context
