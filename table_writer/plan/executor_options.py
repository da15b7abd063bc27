"""Options of executors: where rows are, and how many of them are held."""

from __future__ import annotations

from typing import Final

from table_writer.plan.option import Kind, Option, Origin

DRIVER_BYTES: Final = Option(
    "hoodie.catalog.write.driver.bytes",
    Kind.COUNT,
    str(32 << 20),
    "DataFrames that Spark estimates at this many bytes or fewer are written by the driver into few files; 0 for none.",
    Origin.OURS,
)
DIRECT_SCAN: Final = Option(
    "hoodie.catalog.write.direct.scan",
    Kind.FLAG,
    "true",
    "Local Parquet files that a DataFrame scans without computing anything are read by Arrow, so that no row crosses "
    "from the JVM.",
    Origin.OURS,
)
TASK_MEMORY: Final = Option(
    "hoodie.catalog.write.task.memory",
    Kind.NUMBER,
    str(512 << 20),
    "Approximate bytes that a Spark writing task takes, at least 1 MiB, besides some 30 MiB of its process. Rows that "
    "do not fit are spilled to temporary files, and files are written one range of record keys at a time.",
    Origin.OURS,
)
THREADS: Final = Option(
    "hoodie.catalog.executor.threads",
    Kind.NUMBER,
    None,
    "Concurrent tasks of a write without Spark; fewer where memory has less than 12 MiB for each. Unset: one per core.",
    Origin.OURS,
)
PROCESSES: Final = Option(
    "hoodie.catalog.executor.processes",
    Kind.COUNT,
    "0",
    "Processes for the tasks that write files, without Spark; 0 runs them in threads. Processes are started for each "
    "write and import the program's main module.",
    Origin.OURS,
)
MEMORY: Final = Option(
    "hoodie.catalog.executor.memory",
    Kind.NUMBER,
    None,
    "Approximate bytes of Arrow data that a write without Spark holds; the rest is spilled to files. At least 16 "
    "MiB. Unset: a quarter of the machine's memory.",
    Origin.OURS,
)
TEMPORARY_FOLDER: Final = Option(
    "hoodie.catalog.executor.folder",
    Kind.TEXT,
    None,
    "A folder for the temporary files of writes without Spark; what killed writers left there is removed by the next. "
    "Unset: the system's own.",
    Origin.OURS,
)

EXECUTOR_OPTIONS: Final = (DRIVER_BYTES, DIRECT_SCAN, TASK_MEMORY, THREADS, PROCESSES, MEMORY, TEMPORARY_FOLDER)
"""All of them, in the order of the reference."""
