"""Asks for rows where calls of Spark's planner would run in any thread: `PYSPARK_PIN_THREAD=false`.

Usage: `python unpinned_script.py FOLDER`, of the table of `tests.support.spark_reads`; prints a line of JSON. There the
settings of the query's session cannot be asked for, of which the time zone decides what its text means.
"""

import json
import os
import sys

os.environ |= {"PYSPARK_PIN_THREAD": "false", "PYSPARK_PYTHON": sys.executable}

from hudi_catalog.spark_table import HudiTable
from spark_writer.read.jvm import why_unreachable
from tests.support.spark_reads import full, ids
from tests.support.spark_session import local_session

spark = local_session()
frames = {"ours": HudiTable.for_path(spark, sys.argv[1]).to_df(), "theirs": full(spark, sys.argv[1])}
other = spark.newSession()
other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
report: dict[str, object] = {"reason": why_unreachable(spark)}
for name, frame in frames.items():
    frame.createOrReplaceGlobalTempView(name)
    asked = other.table(f"global_temp.{name}").where("at BETWEEN '2024-11-03 00:00:00' AND '2024-11-03 04:00:00'")
    report[name] = ids(asked)
print(json.dumps(report))
