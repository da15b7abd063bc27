"""Reads and changes tables where executors are JVMs of their own, without the classes that the driver compiled.

Usage: `python executors_script.py FOLDER`; prints a line of JSON.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

os.environ |= {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_WORKER_DIR": str(Path(sys.argv[1]) / "worker"),
}

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import create_table, open_table, without_shuffle
from hudi_catalog.spark_table import HudiTable

ROWS = 20_000
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
folder = Path(sys.argv[1])
builder: Any = SparkSession.builder
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark: SparkSession = builder.master("local-cluster[1,2,1024]").getOrCreate()


def made(name: str, columns: str, rows: dict[str, list[Any]], **settings: Any) -> Path:
    path = folder / name
    create_table(path, columns, buckets=2, **settings).bulk_insert(pa.table(rows))
    return path


ids = list(range(ROWS))
sales = made(
    "sales",
    "id bigint, month bigint, amount double, place struct<town: string>",
    {
        "id": ids,
        "month": [number % 4 for number in ids],
        "amount": [number * 0.5 for number in ids],
        "place": [{"town": f"t{number % 7}"} for number in ids],
    },
    record_key="id",
    partition_by="month",
)
texts = [f"k{number:05d}" for number in ids]
left = made("left", "k string, w double", {"k": texts, "w": [1.0] * ROWS}, record_key="k")
right = made("right", "k string, v double", {"k": texts[::2], "v": [2.0] * (ROWS // 2)}, record_key="k")
frame = open_table(sales).to_spark(spark)
report: dict[str, Any] = {
    "one": [row.amount for row in frame.where("id = 77").collect()],
    "some": frame.where("amount >= 100 AND month = 2 AND place.town = 't3'").count(),
    "by executors": frame.where("month = 2 AND id < 1000").groupBy("place.town").count().count(),
}
joined = without_shuffle(open_table(left).to_spark(spark).join(open_table(right).to_spark(spark), "k"))
report["joined"] = joined.agg(F.count("*"), F.sum("v")).collect()[0]
report["exchanges"] = joined._jdf.queryExecution().toString().count("Exchange hashpartitioning")
table = HudiTable.for_path(spark, sales)
table.update({"amount": "amount + 1"}, "id < 10")
table.delete("id = 5")
source = spark.range(ROWS - 10, ROWS + 10).selectExpr(
    "id", "id % 4 AS month", "1.5D AS amount", "named_struct('town', 'new') AS place"
)
merge = table.merge(source, "target.id = source.id")
merge.when_matched_update_all().when_not_matched_insert_all().execute()
after = table.to_df()
report["after"] = [after.count(), after.where("place.town = 'new'").count(), after.where("id < 10").count()]
report["amount"] = after.where("id = 7").collect()[0].amount
spark.stop()
print(json.dumps(report))
