"""The peak Arrow memory of the tasks of a Spark write, run here in turn, with 20 times their limit of rows."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_catalog import open_table
from spark_writer.blocks import SPLIT_SCHEMA, split_batches
from spark_writer.received import slot_rows
from table_writer.execution.executor import RowSource
from table_writer.execution.local import LocalExecutor
from table_writer.execution.task_memory import TaskMemory
from table_writer.plan.plan import TaskIdentity
from table_writer.writer import TableWriter

LIMIT = 16 << 20
WIDTH = 1024
ROWS = 20 * LIMIT // WIDTH
BATCH = 512
OPTIONS = {"hoodie.catalog.write.progress": "false", "hoodie.table.name": "t", "hoodie.clean.automatic": "false"}


class Numbered(RowSource):
    """Rows whose texts do not compress, in random order; `version` is in each."""

    def __init__(self, version: int) -> None:
        self.version = version

    @property
    def schema(self) -> pa.Schema:
        return pa.table({"id": [0], "v": [0], "t": [""]}).schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        draw = np.random.default_rng(self.version)
        ids = draw.permutation(ROWS)
        for start in range(0, ROWS, BATCH):
            letters = draw.integers(48, 112, BATCH * WIDTH, np.uint8)
            ends = pa.py_buffer((np.arange(BATCH + 1) * WIDTH).astype(np.int32).tobytes())
            texts = pa.Array.from_buffers(pa.string(), BATCH, [None, ends, pa.py_buffer(letters.tobytes())])
            columns: list[Any] = [
                pa.array(ids[start : start + BATCH]),
                pa.array(np.full(BATCH, self.version)),
                texts,
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


class TaskByTask(LocalExecutor):
    """Runs what Spark's workers run: one task that splits the rows, then one that gets all of their blocks."""

    def __init__(self, blocks: Path) -> None:
        super().__init__(1)
        self.blocks = str(blocks)
        self.peaks: list[int] = []

    @property
    def task_memory(self) -> int:
        return TaskMemory(LIMIT).rows

    def exchange(self, rows: Any, split: Any, slots: int) -> Any:
        return rows, split, slots

    def collect(self, rows: Any, stage: Any) -> list[Any]:
        source, split, slots = rows
        with pa.OSFile(self.blocks, "wb") as file, pa.ipc.new_stream(file, SPLIT_SCHEMA) as writer:
            for batch in split_batches(split(source.batches(), TaskIdentity(0, "0-0-0")), slots, 1, LIMIT):
                writer.write_batch(batch)
        self.peaks.append(pa.default_memory_pool().max_memory() or 0)
        with pa.OSFile(self.blocks, "rb") as file:
            batches = iter(pa.ipc.open_stream(file))
            results = list(stage(slot_rows(batches, LIMIT), TaskIdentity(1, "1-0-0")))
        self.peaks.append(pa.default_memory_pool().max_memory() or 0)
        return results


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, 40], ids=["one large slot", "slots that fit"])
def test_arrow_memory_of_a_task_is_about_its_limit(tmp_path: Path, buckets: int) -> None:
    # a pool's peak is that of its process since it began
    arguments = [sys.executable, "-m", __name__, str(tmp_path), str(buckets)]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    split, bulk_insert, _, upsert = json.loads(output)
    assert 0 < split <= LIMIT / 2
    assert split < bulk_insert <= upsert <= 1.25 * LIMIT
    rows = open_table(tmp_path / "table").scan(columns=["id", "v"]).to_arrow()
    assert rows.sort_by("id")["id"].to_pylist() == list(range(ROWS))
    assert rows["v"].unique().to_pylist() == [2]


def main(folder: Path, buckets: int) -> None:
    """Write all rows twice, and print the process's peak after each task."""
    executor = TaskByTask(folder / "blocks.arrow")
    path = folder / "table"
    table = TableWriter.create(path, None, record_key="id", buckets=buckets, options=OPTIONS, executor=executor)
    table.bulk_insert(Numbered(1))
    table.upsert(Numbered(2))
    sys.stdout.write(json.dumps(executor.peaks))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
