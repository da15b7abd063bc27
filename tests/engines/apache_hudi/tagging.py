"""The look-up of a write's rows in the table's index, by the release's own client and without the write (1.2.0)."""

import time

from pyspark.sql import DataFrame, SparkSession


def tag_seconds(spark: SparkSession, frame: DataFrame, path: str, options: dict, repeats: int) -> dict:
    """Seconds of finding the file groups of all rows, run by run, and how many rows have one.

    The rows are in memory before the clock starts. What is timed is making records of them, as a write does, and
    `tagLocation` of the index that the options name, with a client that knows nothing of the table yet.

    Args:
        spark: the session.
        frame: rows as a write would get them.
        path: of the table.
        options: of the write.
        repeats: runs.
    """
    hudi = spark._jvm.org.apache.hudi
    chosen = hudi.HoodieWriterUtils.parametersWithWriteDefaults(
        spark._jvm.PythonUtils.toScalaMap(spark._jvm.java.util.HashMap(options))
    )
    name = options["hoodie.table.name"]
    names = (f"{name}_record", f"hoodie.{name}")
    partitions = spark.sparkContext.defaultParallelism
    cached = frame.repartition(partitions).cache()
    count, rows = cached.count(), cached._jdf
    schema = _module(spark, "org.apache.hudi.HoodieSchemaConversionUtils").convertStructTypeToHoodieSchema(
        rows.schema(), *names
    )
    parameters = spark._jvm.scala.collection.JavaConverters.mapAsJavaMapConverter(chosen).asJava()
    config = hudi.DataSourceUtils.createHoodieConfig(schema.toString(), path, name, parameters)
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    table = hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build().getTableConfig()
    instant = "29990101000000000"  # of no commit: none is made
    kind = hudi.common.model.WriteOperationType.UPSERT
    flags = (False, False, False)
    arguments = _module(spark, "org.apache.hudi.HoodieCreateRecordUtils$createHoodieRecordRddArgs").apply(
        rows, config, chosen, *names, schema, schema, kind, instant, *flags, table
    )
    make = _module(spark, "org.apache.hudi.HoodieCreateRecordUtils")
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        engine = hudi.client.common.HoodieSparkEngineContext(spark.sparkContext._jsc)
        client = hudi.client.SparkRDDReadClient(engine, config)
        records = make.createHoodieRecordRdd(arguments)
        client.tagLocation(records).count()
        seconds.append(time.perf_counter() - start)
        records.unpersist()  # which the index keeps for the write
    located = count - client.filterExists(make.createHoodieRecordRdd(arguments)).count()
    cached.unpersist()
    return {"seconds": seconds, "found": located}


def _module(spark: SparkSession, name: str) -> object:
    """A Scala object."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass(f"{name}$").getField("MODULE$").get(None)
