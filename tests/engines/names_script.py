"""Looks tables up by name in a plain PySpark session, without Apache Hudi's bundle, in a separate process.

Usage: `python names_script.py METASTORE_URI NAME…`; prints for each name a line of JSON: how many rows
`HudiTable.for_name` reads, or its error, and how Spark SQL itself fails.
"""

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from spark_writer import HudiTable
from tests.support.spark_session import local_session

URI, *NAMES = sys.argv[1:]
spark = local_session(spark_sql_catalogImplementation="hive", spark_hadoop_hive_metastore_uris=URI)


def tried(what) -> dict[str, object]:
    try:
        return {"rows": what()}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:2000]}


for name in NAMES:
    ours = tried(lambda name=name: HudiTable.for_name(spark, name).to_df().count())
    theirs = tried(lambda name=name: spark.sql(f"SELECT * FROM {name}").count())
    print(json.dumps({"name": name, "ours": ours, "theirs": theirs}), flush=True)
spark.stop()
