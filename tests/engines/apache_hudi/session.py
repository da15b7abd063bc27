"""Serves one Apache Hudi release over lines of JSON; runs in the Spark 3.5 environment, without this project.

Usage: `python session.py HUDI_VERSION CLASS_PATH [METASTORE_URI]`. Each line on standard input is
`{"command": …, …}`; each answer is one line on standard output that starts with `@@`.
"""

import contextlib
import decimal
import functools
import json
import os
import shutil
import sys
import time
import traceback

os.environ["PYSPARK_PYTHON"] = sys.executable

import hbase_files
import tagging
import timelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

VERSION, CLASS_PATH, *METASTORE = sys.argv[1:4]
# A 1.x release upgrades a version 6 table on its first write unless it is told not to.
STAY_ON_SIX = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}

#: Whether the session is to run for minutes only, as in tests: see `save_time`.
BRIEF = "BRIEF_SESSION" in os.environ
#: Kryo copies Hudi's metadata table, with its locks, to look bloom filters up.
LOCKS = "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
JAVA = f"-Djol.skipHotspotSAAttach=true -Duser.timezone=UTC {LOCKS}"
#: Hadoop's settings of what a table on this machine's disk does not use.
REMOTE = (
    *("dfs.", "fs.azure.", "fs.ftp.", "fs.s3a.", "fs.viewfs.", "ftp.", "ha.", "ipc."),
    *("hadoop.http.", "hadoop.kerberos.", "hadoop.registry.", "hadoop.rpc.", "hadoop.security.", "hadoop.service."),
    *("hadoop.ssl.", "hadoop.system.", "hadoop.user.", "hadoop.zk.", "mapred.", "mapreduce.", "net.", "s3.", "seq."),
    *("tfile.", "yarn.", "adl.", "fs.adl.", "fs.abfs.", "fs.wasb."),
)
#: A Bloom filter of 60,000 keys, the default, takes longer to write than the rows of a test.
SMALL_FILTERS = {"hoodie.index.bloom.num_entries": "1000"}

#: Without the last one, 1.x reads leave the statistics aside.
SKIPPING = {
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


def start_session() -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(f"apache-hudi-{VERSION}")
        # on the class path, not --jars: deletes in log blocks fail otherwise
        .config("spark.driver.extraClassPath", CLASS_PATH)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.catalogImplementation", "hive" if METASTORE else "in-memory")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        # null elements of arrays need the three-level form
        .config("spark.hadoop.parquet.avro.write-old-list-structure", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"{JAVA} -Xms1g -Xmn400m" if BRIEF else JAVA)
    )
    if METASTORE:
        builder = builder.config("spark.hadoop.hive.metastore.uris", METASTORE[0])
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if BRIEF:
        save_time(session)
    return session


def save_time(session: SparkSession) -> None:
    """Unset what each task gets a copy of and no task uses: a task of a test takes longer to read it than to run."""
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    for prefix in REMOTE:
        for name in list(hadoop.getPropsWithPrefix(prefix)):
            hadoop.unset(prefix + name)


def load(path: str, options: dict, where: str | None = None) -> DataFrame:
    frame = spark.read.format("hudi").options(**options).load(path)
    return frame.where(where) if where else frame


def read(path: str, out: str, where: str | None = None, options: dict | None = None) -> dict:
    frame = load(path, {**SKIPPING, **(options or {})}, where)
    shutil.rmtree(out, ignore_errors=True)
    frame.coalesce(1).write.parquet(out)
    return {"columns": frame.columns}


def read_each(path: str, out: str, filters: list[str]) -> dict:
    """The rows of each filter, in one job: column `filter` has the number of the filter."""
    frame = load(path, SKIPPING)
    frames = [frame.where(where).withColumn("filter", lit(number)) for number, where in enumerate(filters)]
    shutil.rmtree(out, ignore_errors=True)
    functools.reduce(DataFrame.union, frames).coalesce(1).write.parquet(out)
    return {}


def write(path: str, data: str | None, options: dict, mode: str = "append") -> dict:
    extra = STAY_ON_SIX if VERSION.startswith("1.") and "hoodie.write.table.version" not in options else {}
    frame = spark.read.parquet(data) if data else spark.createDataFrame([], load(path, {}).schema)
    base = {
        "hoodie.embed.timeline.server": "false",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        **(SMALL_FILTERS if BRIEF else {}),
    }
    frame.write.format("hudi").options(**{**base, **extra, **options}).mode(mode).save(path)
    return {}


def planned_files(path: str, filters: list, options: dict | None = None) -> dict:
    """The data files that the release's own data skipping keeps for each filter; None if it cannot parse one."""
    frame = load(path, {**SKIPPING, **(options or {})})
    return {"files": [_planned(frame, where) for where in filters]}


def _planned(frame: DataFrame, where: str) -> list | None:
    try:
        return _files_of_plan(frame.where(where))
    except Exception as error:
        # what it cannot parse; 1.2.0 also fails on partition statistics of binary columns
        known = ("PARSE", "ANALYSIS", "CLASSCASTEXCEPTION")
        if any(name in f"{type(error).__name__} {error}".upper() for name in known):
            return None
        raise


def _files_of_plan(frame: DataFrame) -> list | None:
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    names = []
    for position in range(leaves.size()):
        leaf = leaves.apply(position)
        if leaf.getClass().getSimpleName() != "FileSourceScanExec":
            if leaf.getClass().getSimpleName() == "LocalTableScanExec":
                continue  # the optimiser saw that no row can match
            return None
        for partition in leaf.selectedPartitions():
            files = partition.files()
            names += [files.apply(i).getPath().getName() for i in range(files.size())]
    return names


def plan_seconds(path: str, where: str, repeats: int) -> dict:
    """How long this release plans a query: in a table that it just opened, then again with the index in memory."""
    cold, warm, files = [], [], 0
    for _ in range(repeats):
        started = time.perf_counter()
        frame = load(path, SKIPPING)
        files = len(_planned(frame, where) or [])
        cold.append(time.perf_counter() - started)
        started = time.perf_counter()
        _planned(frame, where)
        warm.append(time.perf_counter() - started)
    return {"cold": cold, "warm": warm, "kept": files}


def tag_seconds(path: str, data: str, options: dict, repeats: int) -> dict:
    """How long this release takes to find the file groups of all rows of a Parquet file."""
    all_options = {"hoodie.metadata.enable": "true", **STAY_ON_SIX, **options}
    return tagging.tag_seconds(spark, spark.read.parquet(data), path, all_options, repeats)


def write_hfile(path: str, entries: list, block_size: int, index_size: int | None, codec: str) -> dict:
    """An HFile by HBase's own writer; 0.15.0 only."""
    return {"levels": hbase_files.write_hfile(spark, path, entries, block_size, index_size, codec)}


def configure(key: str, value: str) -> dict:
    """Set a property of Hadoop's configuration, by which files are written."""
    spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
    return {}


def sql(text: str) -> dict:
    return {"rows": [row.asDict(recursive=True) for row in spark.sql(text).collect()]}


def query(text: str, out: str) -> dict:
    shutil.rmtree(out, ignore_errors=True)
    spark.sql(text).coalesce(1).write.parquet(out)
    return {}


def validate_files(path: str) -> dict:
    """The release's own comparison of the metadata table's listing with the file system's."""
    name = "validated"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    try:
        rows = spark.sql(f"CALL validate_metadata_table_files(table => '{name}', verbose => true)").collect()
    finally:
        spark.sql(f"DROP TABLE {name}")
    return {"rows": [row.asDict() for row in rows]}


def metadata_reader(path: str):
    jvm = spark._jvm
    engine = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark.sparkContext._jsc)
    config = jvm.org.apache.hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    storage = jvm.org.apache.hudi.storage.hadoop.HoodieHadoopStorage(
        jvm.org.apache.hudi.storage.StoragePath(path), conf
    )
    return jvm.org.apache.hudi.metadata.HoodieBackedTableMetadata(engine, storage, config, path)


def files(path: str) -> dict:
    """Every file that the release's own metadata table reader lists: partition → {file name: size}."""
    reader, jvm = metadata_reader(path), spark._jvm
    listing = {}
    for partition in reader.getAllPartitionPaths():
        base = jvm.org.apache.hudi.storage.StoragePath(path)
        folder = jvm.org.apache.hudi.storage.StoragePath(base, partition) if partition else base
        listing[partition] = {
            info.getPath().getName(): info.getLength() for info in reader.getAllFilesInPartition(folder)
        }
    return {"files": listing}


def column_stats(path: str, columns: list[str], entries: list[list[str]]) -> dict:
    """The statistics that the release reads for (partition, file) pairs: column → file → record."""
    reader, jvm = metadata_reader(path), spark._jvm
    pairs = jvm.java.util.ArrayList()
    for partition, file_name in entries:
        pairs.add(jvm.org.apache.hudi.common.util.collection.Pair.of(partition, file_name))
    answer: dict = {}
    for column in columns:
        statistics = reader.getColumnStats(pairs, column)
        for stats in statistics.values():
            answer.setdefault(column, {})[str(stats.getFileName())] = {
                "min": _plain(stats.getMinValue()),
                "max": _plain(stats.getMaxValue()),
                "null_count": stats.getNullCount(),
                "value_count": stats.getValueCount(),
                "total_size": stats.getTotalSize(),
                "total_uncompressed_size": stats.getTotalUncompressedSize(),
                "deleted": stats.getIsDeleted(),
            }
    return {"stats": answer}


def record_index(path: str, keys: list[str]) -> dict:
    """Where the release's own look-up in the record index finds keys: key → [partition, file id, instant]."""
    reader, jvm = metadata_reader(path), spark._jvm
    wanted = jvm.java.util.ArrayList()
    for key in keys:
        wanted.add(key)
    if VERSION.startswith("0."):
        locations = reader.readRecordIndex(wanted)
        pairs = [(key, locations[key]) for key in locations]
    else:
        data = jvm.org.apache.hudi.common.data.HoodieListData.eager(wanted)
        answers = reader.readRecordIndexLocationsWithKeys(data).collectAsList()
        pairs = [(answer.getKey(), answer.getValue()) for answer in answers]
    places = {str(key): [at.getPartitionPath(), at.getFileId(), at.getInstantTime()] for key, at in pairs}
    return {"places": places}


def timeline(path: str, partitions: list[str]) -> dict:
    """The properties, instants and latest file slices of a table."""
    return timelines.timeline(spark, path, partitions)


def _plain(wrapper) -> object:
    if wrapper is None:
        return None
    value = wrapper.get(0) if hasattr(wrapper, "get") else wrapper
    with contextlib.suppress(Exception):
        if value.getClass().getName() == "java.nio.HeapByteBuffer":
            return bytes(value.array()).hex()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _encode(value) -> object:
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return str(value)


COMMANDS = {
    f.__name__: f
    for f in (
        read,
        read_each,
        write,
        planned_files,
        plan_seconds,
        tag_seconds,
        write_hfile,
        configure,
        sql,
        query,
        validate_files,
        files,
        column_stats,
        record_index,
        timeline,
    )
}

spark = start_session()
print("@@" + json.dumps({"ready": VERSION}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = COMMANDS[request.pop("command")](**request)
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {str(error)[:4000]}", "trace": traceback.format_exc()[-4000:]}
    print("@@" + json.dumps(answer, default=_encode), flush=True)
spark.stop()
