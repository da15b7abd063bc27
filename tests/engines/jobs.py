"""Writes of a kind's steps: here, or by `writer_script.py` in a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark_writer import write_hudi
from table_writer.writer import TableWriter
from tests.engines.kinds import Kind, Step
from tests.support.apache_hudi_client import ROOT


def options_of(kind: Kind, step: Step) -> dict[str, str]:
    """Options of one write through Spark."""
    options = kind.all_options() | {"hoodie.datasource.write.operation": step.operation}
    if step.partitions:
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(step.partitions)
    return options


def write_by_spark(spark: Any, kind: Kind, path: Path, step: Step) -> None:
    write_hudi(spark.createDataFrame(step.table(kind.schema)), str(path), options_of(kind, step), mode="append")


def write_here(kind: Kind, path: Path, step: Step) -> None:
    """The same write without Spark."""
    options = kind.all_options()
    if not path.exists():
        key = options["hoodie.datasource.write.recordkey.field"]
        TableWriter.create(path, kind.schema, record_key=key, options=options)
    rows = None if step.partitions else step.table(kind.schema)
    TableWriter.open(path, options=options).write(step.operation, rows, partitions=step.partitions)


def start(
    folder: Path,
    path: Path,
    kind: Kind,
    steps: list[Step],
    python: str = sys.executable,
    *,
    executor: str = "spark",
    stop_before: str | None = None,
) -> subprocess.Popen[str]:
    """Start a process that carries out these writes, in its own process group.

    Args:
        folder: for the job's files.
        path: of the table.
        kind: of the table.
        steps: the writes.
        python: the interpreter.
        executor: `spark`, `threads` or `processes`.
        stop_before: an expression for the path of a file; the process stops for good before it makes such a file, and
            prints a line with `stopped`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writes = []
    for number, step in enumerate(steps):
        data = folder / f"{number}.parquet"
        pq.write_table(step.table(kind.schema), data, store_schema=False)
        writes.append(
            {
                "data": str(data),
                "operation": step.operation,
                "options": options_of(kind, step) if executor == "spark" else kind.all_options(),
                "partitions": list(step.partitions),
            }
        )
    job = folder / "job.json"
    job.write_text(json.dumps({"path": str(path), "executor": executor, "writes": writes, "stop_before": stop_before}))
    return subprocess.Popen(
        [python, str(Path(__file__).with_name("writer_script.py")), str(job)],
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr.log").open("w"),
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
