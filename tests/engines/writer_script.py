"""Runs writes in a process of its own: with another PySpark, or to be killed.

Usage: `python writer_script.py JOB.json`; the job names the table's path and, for each write, a Parquet file, options.
"""

import json
import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

import pyspark
from pyspark.sql import SparkSession

from spark_writer import write_hudi

job = json.loads(Path(sys.argv[1]).read_text())
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.memory", "1g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
print(json.dumps({"pyspark": pyspark.__version__}), flush=True)
for write in job["writes"]:
    summary = write_hudi(spark.read.parquet(write["data"]), job["path"], write["options"], mode="append")
    print(json.dumps({"instant": summary.instant if summary else None}), flush=True)
spark.stop()
