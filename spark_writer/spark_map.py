"""Spark's tasks as a `Mapper`: a function on each of some items, results back on the driver."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_writer.interpreter import use_this_interpreter
from spark_writer.placement import placements
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.mapping import Mapper

T = TypeVar("T")
R = TypeVar("R")

_MOST_TASKS = 1000
_DDL = "number int, result binary"


def spark_mapper(session: SparkSession) -> Mapper:
    """A mapper whose items are Spark tasks, one task an item up to 1,000 tasks.

    Results travel through the driver: they should be small, such as the names of files that a task wrote.
    """

    def run(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        if not items:
            return []
        use_this_interpreter(session)
        tasks = min(len(items), _MOST_TASKS)
        places = placements(tasks).tolist()
        rows = [(number, places[number % tasks], pickle.dumps(item)) for number, item in enumerate(items)]
        frame = session.createDataFrame(rows, "number int, place int, item binary")
        with workers_errors():
            found = frame.repartition(tasks, "place").mapInArrow(_applied(function), _DDL).collect()
        # pickles of our own workers, as all that Spark's Python sends
        results = {row["number"]: pickle.loads(row["result"]) for row in found}  # noqa: S301
        return [results[number] for number in range(len(items))]

    return run


def _applied(function: Callable[[T], R]) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                item = pickle.loads(row["item"])  # noqa: S301  # of our own driver
                result = pa.array([pickle.dumps(function(item))], pa.binary())
                yield pa.record_batch([pa.array([row["number"]], pa.int32()), result], names=["number", "result"])

    return in_worker(run)
