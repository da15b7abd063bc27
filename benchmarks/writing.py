"""bulk_insert and upsert of TPC-H lineitem: this writer on PySpark 4 against Apache Hudi on Spark 3.5."""

import contextlib
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import lineitem
from benchmarks.rival import apache_session
from spark_writer import write_hudi


@dataclass
class Job:
    """Seconds of each counted run of one job, and the bytes that its last run left."""

    name: str
    side: str
    seconds: list[float]
    bytes: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session of the same size as the rival's."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def measure(folder: Path, repeats: int) -> list[Job]:
    """Run both sides in turn, after one uncounted job each."""
    data, changes = lineitem.source(folder / "data"), lineitem.corrections(folder / "data")
    jobs = [
        Job(name, side, [], 0) for name in ("bulk_insert", "upsert 1 %") for side in ("hudi-catalog", "Apache Hudi")
    ]
    with spark_session() as spark, apache_session(folder) as apache:

        def ours(path: Path, source: Path, operation: str) -> None:
            options = {**lineitem.OPTIONS, "hoodie.datasource.write.operation": operation}
            write_hudi(spark.read.parquet(str(source)), str(path), options, mode="append")

        def theirs(path: Path, source: Path, operation: str) -> None:
            options = {**lineitem.OPTIONS, "hoodie.datasource.write.operation": operation}
            apache.write_file(path, source, options)

        sides = {"hudi-catalog": ours, "Apache Hudi": theirs}
        for attempt in range(repeats + 1):
            for name, operation, source in (("bulk_insert", "bulk_insert", data), ("upsert 1 %", "upsert", changes)):
                for side, write in sides.items():
                    # Apache's session remembers files by path, so each round has its own folder
                    path = folder / f"table-{side.replace(' ', '-')}-{attempt}"
                    if operation == "bulk_insert":
                        for old in folder.glob(f"table-{side.replace(' ', '-')}-*"):
                            shutil.rmtree(old)
                    start = time.perf_counter()
                    write(path, source, operation)
                    seconds = time.perf_counter() - start
                    job = next(j for j in jobs if (j.name, j.side) == (name, side))
                    job.bytes = lineitem.bytes_on_disk(path)
                    if attempt:
                        job.seconds.append(seconds)
                    print(f"{side:13} {name:12} {seconds:6.2f} s{'' if attempt else '  (warm-up)'}", flush=True)
    return jobs
