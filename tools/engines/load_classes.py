"""Runs what tests do with Spark, so that its Java loads the classes, and ends it in good order; see `brief_java`.

Usage: `python load_classes.py JAVA_OPTIONS CLASS_PATH`, in an empty folder; needs PySpark alone. With the class path of
an Apache Hudi release it also writes and reads a table.
"""

import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark import SparkContext
from pyspark.sql import SparkSession

OPTIONS, CLASS_PATH = sys.argv[1:]
HUDI = {
    "spark.driver.extraClassPath": CLASS_PATH,
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "number",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.embed.timeline.server": "false",
}
COLUMNS = ("cast(id AS string) AS id", "id AS number", "id % 3 AS part", "array(id) AS many", "struct(id AS of) AS one")


def main() -> None:
    """Run Spark's readers, writers and joins, and with a class path Hudi's."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{OPTIONS} --add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **(HUDI if CLASS_PATH else {}),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, text in settings.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    rows = session.range(100).selectExpr(*COLUMNS)
    rows.write.parquet("rows")
    read = session.read.parquet("rows").where("number > 3")
    counts = read.groupBy("part").count()
    read.join(counts, "part").orderBy("id").collect()
    if not CLASS_PATH:
        read.mapInArrow(lambda batches: batches, read.schema).count()
    else:
        table = os.path.abspath("table")  # Hudi takes no relative path
        for mode in ("overwrite", "append"):
            rows.write.format("hudi").options(**TABLE).mode(mode).save(table)
        session.read.format("hudi").load(table).where("number = 7").collect()
    session.stop()
    gateway = SparkContext._gateway  # noqa: SLF001  # the only way to wait for its end
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


main()
