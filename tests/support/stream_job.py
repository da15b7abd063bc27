"""A job that reads a folder of JSON files as a stream into a table; run as a script in a process that may be killed.

Usage: `python stream_job.py FOLDER TASKS`: reads `FOLDER/source`, one file a batch, notes its progress in
`FOLDER/checkpoint`, and writes the table `FOLDER/t`, by Spark's tasks if TASKS is 1. Prints `begins N` before and
`written N` after it writes batch N, `replayed N` if the batch was in the table already, and `drained` at the end of the
source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

DDL = "id bigint, v bigint"
ROWS = 3


def make(folder: Path) -> None:
    """The empty table of a job, and its empty source."""
    from hudi_catalog.table import create_table

    (folder / "source").mkdir(parents=True)
    create_table(folder / "t", DDL, record_key="id", buckets=1)


def feed(folder: Path, files: range) -> None:
    """Add files to the source, `ROWS` rows each; a file appears whole."""
    for number in files:
        rows = [json.dumps({"id": number * ROWS + row, "v": number}) for row in range(ROWS)]
        hidden = folder / f"{number}.part"
        hidden.write_text("\n".join(rows))
        hidden.rename(folder / f"source/{number}.json")


def start(folder: Path, log: Path, *, tasks: bool) -> subprocess.Popen[str]:
    """Start the job in its own process group, with the JVM and its workers."""
    return subprocess.Popen(
        [sys.executable, __file__, str(folder), str(int(tasks))],
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def run(folder: Path, *, tasks: bool) -> None:
    """The job."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import DataFrame

    from spark_writer import HudiTable
    from tests.support.spark_session import local_session

    spark = local_session("ERROR", spark_driver_memory="512m", spark_sql_shuffle_partitions="1")
    table = HudiTable.for_path(spark, folder / "t")
    options = {"hoodie.catalog.write.driver.bytes": "0"} if tasks else {}
    # inserts as they are: a batch that is written twice shows
    write = table.stream_writer("readings", "bulk_insert", options)

    def one(batch: DataFrame, number: int) -> None:
        print(f"begins {number}", flush=True)
        summary = write(batch, number)
        print(f"{'replayed' if summary.replayed else 'written'} {number}", flush=True)

    lines = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(folder / "source"))
    stream = lines.writeStream.foreachBatch(one).option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()
    print("drained", flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), tasks=sys.argv[2] == "1")
