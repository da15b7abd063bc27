"""Asks for synced tables by name in a plain session with Hive's catalog, in a separate process.

Usage: `python metastore_script.py METASTORE_URI FOLDER HANDLER_JAR`; the metastore has the table in FOLDER as
`shop.orders` and `apache.orders`, and by an entry of the storage handler as `handled.orders`. Prints a line of JSON:
PySpark's version, and the names that were answered for.
"""

import json
import os
import sys
import warnings

os.environ["PYSPARK_PYTHON"] = sys.executable

import pyarrow as pa
import pyspark

from hudi_catalog import WriteSummary, explain_scan, open_table, register, sql
from tests.support.spark_names import check_writes_are_refused
from tests.support.spark_reads import ROWS, error_of, kept, rows
from tests.support.spark_session import local_session

URI, FOLDER, JAR = sys.argv[1:]
PLAIN = ["apache.orders", "shop.orders"]
spark = local_session(
    spark_sql_catalogImplementation="hive",
    spark_hadoop_hive_metastore_uris=URI,
    spark_sql_shuffle_partitions="2",
)


def count(text: str) -> int:
    return spark.sql(f"SELECT count(*) FROM {text}").first()[0]


def registered() -> list[str]:
    """Names of the tables of this test that are registered; those of others may be there, too."""
    return [name for name in register(spark) if name.split(".")[0] in {"shop", "apache", "handled"}]


assert "data source: hudi" in str(error_of(lambda: count("shop.orders")))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert registered() == PLAIN
assert any("handled.orders is not registered" in str(one.message) and "ADD JAR" in str(one.message) for one in caught)
assert "storage handler" in str(error_of(lambda: count("handled.orders")))
spark.sql(f"ADD JAR '{JAR}'")
assert register(spark, ["handled.orders"]) == ["handled.orders"]
for name in (*PLAIN, "handled.orders"):
    assert count(f"{name} o WHERE o.month = 3 AND o.id < 350") == 50
    assert kept(spark.table(name).where("id = 417 AND month = 4")) == 1
    assert "2 of 24 files" in explain_scan(spark.sql(f"SELECT v FROM {name} WHERE month = 3"))
    check_writes_are_refused(spark, name, FOLDER)
assert count("shop.orders a JOIN apache.orders b USING (id) JOIN (SELECT 3 AS m) ON b.month = m") == 100
spark.sql("CREATE VIEW shop.spring AS SELECT id, v FROM shop.orders WHERE month BETWEEN 3 AND 5")
held = spark.table("shop.orders")
open_table(FOLDER).upsert(rows(range(1200, 1210)).append_column("extra", pa.array([1] * 10)))
for name in (*PLAIN, "handled.orders"):
    newest = spark.table(name)
    assert (newest.count(), newest.columns[-1]) == (ROWS + 10, "extra"), name
assert held.count() == ROWS
merge = "MERGE INTO shop.orders t USING (SELECT id, month FROM apache.orders WHERE month = 4) s ON t.id = s.id"
summary = sql(spark, f"{merge} WHEN MATCHED AND t.id < 410 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1")
assert isinstance(summary, WriteSummary)
assert (summary.rows_deleted, summary.rows_updated) == (10, 90)
assert count("shop.spring WHERE v = -1") == count("apache.orders WHERE v = -1") == 90
error_of(lambda: spark.sql("REFRESH TABLE shop.orders"))
assert "data source: hudi" in str(error_of(lambda: count("shop.orders")))
assert sql(spark, "SELECT count(*) FROM shop.orders").first()[0] == ROWS
spark.sql("DROP VIEW shop.spring")
names = registered()
assert count("shop.orders") == ROWS
spark.stop()
print(json.dumps({"pyspark": pyspark.__version__, "names": names}))
