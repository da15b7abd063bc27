"""Runs writes in a separate process: with another PySpark, or to be killed.

Usage: `python writer_script.py JOB.json`. The job names the table's path, the executor (`spark`, `threads` or
`processes`), for each write an operation, a Parquet file, options and partitions, and the change to files before which
the process is to stop for good, as an expression for its path.
"""

import json
import os
import re
import sys
import threading
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

from table_format.storage import Storage


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def stop_before(change: str) -> None:
    """Let the thread that is about to make a change say so, and wait to be killed."""

    def stopping(method):
        def wrapper(self, path, *args, **kwargs):
            if re.search(change, path):
                say(stopped=path)
                threading.Event().wait()
            return method(self, path, *args, **kwargs)

        return wrapper

    for name in ("create", "open_output"):
        setattr(Storage, name, stopping(getattr(Storage, name)))


def write_by_spark(job: dict) -> None:
    import pyspark

    from spark_writer import write_hudi
    from tests.support.spark_session import local_session

    spark = local_session("ERROR")
    say(pyspark=pyspark.__version__)
    for write in job["writes"]:
        summary = write_hudi(spark.read.parquet(write["data"]), job["path"], write["options"], mode="append")
        say(instant=summary.instant if summary else None)
    spark.stop()


def write_here(job: dict) -> None:
    import pyarrow.parquet as pq

    from table_writer.execution.local import LocalExecutor
    from table_writer.writer import TableWriter

    executor = LocalExecutor(2, processes=2 if job["executor"] == "processes" else 0)
    for write in job["writes"]:
        rows = None if write["partitions"] else pq.read_table(write["data"])
        table = TableWriter.open(job["path"], options=write["options"], executor=executor)
        summary = table.write(write["operation"], rows, partitions=write["partitions"])
        say(instant=summary.instant)


job = json.loads(Path(sys.argv[1]).read_text())
# also in the processes that the executor starts, which import this module
if job["stop_before"]:
    stop_before(job["stop_before"])
if __name__ == "__main__":
    (write_by_spark if job["executor"] == "spark" else write_here)(job)
