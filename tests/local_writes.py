"""Writing tables through the Spark writer's own job, with its worker functions called here instead of by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from spark_writer import option_registry, write_job
from spark_writer.operations import Operation
from spark_writer.options import WriteOptions
from spark_writer.placement import placements
from spark_writer.plans import FilePlan, SplitPlan, TaskIdentity
from spark_writer.slot_writer import WrittenFile, write_blocks
from spark_writer.split import split_batches
from spark_writer.summary import WriteSummary
from spark_writer.table_properties import new_table_properties
from table_format.meta_client import TableClient
from table_format.storage import Storage
from table_format.transaction.create import create_table

TASKS = 3
_QUIET = {option_registry.PROGRESS.key: "false", option_registry.PARALLELISM.key: str(TASKS)}


@dataclass(frozen=True)
class LocalFrame:
    """What a write job asks of a DataFrame: its schema, and its rows in batches, one a task."""

    batches: Sequence[pa.RecordBatch]
    arrow: pa.Schema

    @classmethod
    def of(cls, table: pa.Table, tasks: int = 2) -> LocalFrame:
        rows = max(1, -(-table.num_rows // tasks))
        return cls(table.combine_chunks().to_batches(max_chunksize=rows), table.schema)

    @property
    def schema(self) -> Any:
        return from_arrow_schema(self.arrow)


class LocalTable:
    """A table that is written without Spark, as `HudiTable` writes it with it."""

    def __init__(self, client: TableClient, options: Mapping[str, Any]) -> None:
        self.client = client
        self.options = WriteOptions.of({**options, **_QUIET})

    @classmethod
    def create(cls, path: str, schema: pa.Schema | None, options: Mapping[str, Any]) -> LocalTable:
        given = WriteOptions.of(options)
        client = create_table(Storage(path), new_table_properties(given, schema), dict(given.texts))
        return cls(client, options)

    def write(
        self,
        operation: str,
        rows: pa.Table | None = None,
        options: Mapping[str, Any] | None = None,
        partitions: Sequence[str] = (),
    ) -> WriteSummary:
        self.client.reload()
        job = write_job.WriteJob(
            session=None,  # type: ignore[arg-type]
            client=self.client,
            operation=Operation(operation),
            options=self.options.with_values(options or {}),
            df=None if rows is None else LocalFrame.of(rows),  # type: ignore[arg-type]
            partitions=partitions,
        )
        with mock.patch.object(write_job, "write_files", write_files):
            return job.run()


def write_files(frame: LocalFrame, split: SplitPlan, files: FilePlan) -> list[WrittenFile]:
    """Both stages, and between them what Spark's shuffle does."""
    numbers = placements(split.slots)
    slot_of = {int(number): slot for slot, number in enumerate(numbers)}
    blocks: dict[int, list[pa.RecordBatch]] = {}
    for task, batch in enumerate(frame.batches):
        for made in split_batches(split, numbers, [batch], task):
            sent: list[Any] = made.column("slot").to_pylist()
            for row, number in enumerate(sent):
                blocks.setdefault(slot_of[number], []).append(made.slice(row, 1))
    written = []
    for slot, rows in sorted(blocks.items()):
        # A shuffle mixes what comes from several tasks.
        for made in write_blocks(files, rows[::-1], TaskIdentity(slot, f"{slot}-0-{slot}")):
            written += [WrittenFile.from_row(row["stat"], row["statistics"]) for row in made.to_pylist()]
    return written
