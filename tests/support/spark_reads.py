"""Checks of DataFrames that the table's index plans, for any PySpark: tests run them, and a script on the oldest."""

from __future__ import annotations

import datetime as dt
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import create_table, explain_scan, open_table
from hudi_catalog.spark_table import HudiTable
from spark_writer.read import file_index
from spark_writer.read.file_index import NativeFiles, PlannedScan, native_frame, scan_log
from spark_writer.read.generations import Generation, promotions
from spark_writer.read.jvm import Jvm, elements
from tests.property.spark_rows import NOT_IN_HUDI, ROW, write_table
from tests.property.spark_rows import rows as rows_of_kinds

MONTHS, ROWS = 12, 1200
DDL = (
    "id bigint, month int, v bigint, file_size bigint, day date, at timestamp, s struct<a: bigint, b: string>, t string"
)
NEW_YORK = ZoneInfo("America/New_York")
#: Zones of sessions. Each but the first has daylight saving, the last one of half an hour.
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe")


def rows(numbers: range, shift: int = 0) -> pa.Table:
    """Rows in order of time, so that each file holds few hours of a month; one hour of New York's clock twice."""
    start = dt.datetime(2024, 11, 2, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": [*numbers],
            "month": pa.array([n // 100 % MONTHS for n in numbers], pa.int32()),
            "v": [n * n + shift for n in numbers],
            "file_size": [n % 7 for n in numbers],
            "day": [dt.date(2024, 1, 1) + dt.timedelta(n // 5) for n in numbers],
            "at": pa.array([start + dt.timedelta(minutes=3 * n) for n in numbers], pa.timestamp("us", "UTC")),
            "s": [{"a": n, "b": f"b{n % 3}"} if n % 11 else None for n in numbers],
            "t": [f"t{n:05d}" for n in numbers],
        }
    )


def make_table(path: Path) -> str:
    """A table of 12 partitions and 24 files."""
    table = create_table(path, DDL, record_key="id", partition_by="month", buckets=2)
    table.bulk_insert(rows(range(ROWS)))
    return str(path)


def make_kinds(path: Path) -> str:
    """A table with a column of every type; its newest state lacks rows of the one before, and two types are wider."""
    write_table(str(path))
    table = open_table(str(path))
    table.delete(f"{ROW} IN ({', '.join(map(str, range(3, 96, 7)))})")
    wider = rows_of_kinds({"i32": pa.int64(), "f32": pa.float64()}).drop_columns(list(NOT_IN_HUDI))
    table.upsert(wider.filter(pc.is_in(wider["part"], pa.array(["p2", "p6"]))))
    return str(path)


def full(spark: SparkSession, path: str) -> DataFrame:
    """All rows by Spark alone."""
    files = [split.path for split in open_table(path).scan().plan().splits]
    return spark.read.parquet(*map(str, files))


def last_scans(df: DataFrame) -> list[PlannedScan]:
    """How the scans of a DataFrame are planned."""
    plan: Any = df._jdf.queryExecution().sparkPlan()
    scans = []
    for leaf in elements(plan.collectLeaves()):
        log = None
        if leaf.getClass().getSimpleName() == "FileSourceScanExec":
            log = scan_log(leaf.relation().location().toString())
        if log is not None:
            leaf.selectedPartitions()
            scans.append(log.scans[-1])
    return scans


def kept(df: DataFrame) -> int:
    """How many files a DataFrame's only scan gets."""
    [scan] = last_scans(df)
    return scan.kept


@contextmanager
def conf(spark: SparkSession, **values: str) -> Iterator[None]:
    """Settings of a session, by key with `_` for `.`."""
    keys = {name.replace("_", "."): value for name, value in values.items()}
    before = {key: spark.conf.get(key) for key in keys}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, text in before.items():
            spark.conf.set(key, str(text))


def error_of(call: Callable[[], Any]) -> Exception | None:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def ids(df: DataFrame) -> list[int]:
    return sorted(row[0] for row in df.select("id").collect())


def check_queries_of_every_form(spark: SparkSession, path: str) -> None:
    frame, everything = HudiTable.for_path(spark, path).to_df(), full(spark, path)
    assert frame.schema.names[5:] == rows(range(1)).schema.names
    assert kept(frame) == 24
    frame.createOrReplaceTempView("planned")
    everything.createOrReplaceTempView("read")
    texts = {
        "id = 417": 2,
        "month = 4 AND id = 417": 1,
        "v BETWEEN 90000 AND 91000 OR v < 100": 4,
        "day = DATE '2024-02-01'": 2,
        "to_date(at) = DATE '2024-11-03'": 24,
        "s.a > 1100": None,
        "t LIKE 't0041%'": 2,
        "month % 4 = 1": 6,
        "NOT (month < 11) AND s.b = 'b1'": 2,
        "id IN (3, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)": 2,
        "month IN (SELECT max(month) FROM read)": None,
        "v > (SELECT max(v) - 1 FROM read)": None,
        "id IS NULL": 0,
    }
    for text, files in texts.items():
        for column in ("id", "s.b"):
            ours, wanted = (
                spark.sql(f"SELECT x.id, x.{column} AS c FROM {view} AS x WHERE {text}").collect()
                for view in ("planned", "read")
            )
            assert sorted(map(tuple, ours), key=str) == sorted(map(tuple, wanted), key=str), text
        if files is not None:
            assert kept(frame.where(text)) <= files, text
    named = spark.sql("SELECT s.id FROM planned AS s WHERE s.s.a = 500")  # alias and struct of one name
    assert ids(named) == [500]
    assert ids(frame.where(F.col("id") < 3).join(frame.where("v < 10"), "id")) == [0, 1, 2]
    assert frame.groupBy("month").count().where("month = 3").collect() == [(3, 100)]


def check_inserts_are_refused(spark: SparkSession, path: str) -> None:
    HudiTable.for_path(spark, path).to_df().createOrReplaceTempView("target")
    before = sorted(Path(path).rglob("*.parquet"))
    for insert in (
        lambda: spark.sql("INSERT INTO target SELECT * FROM target"),
        lambda: spark.table("target").write.insertInto("target"),
    ):
        assert "single path" in str(error_of(insert))
    assert sorted(Path(path).rglob("*.parquet")) == before


def check_metadata_fields_are_no_columns(spark: SparkSession, path: str) -> None:
    frame = HudiTable.for_path(spark, path).to_df()
    assert frame.where("_metadata.file_size > 500").count() == ROWS
    assert frame.where("file_size > 500").count() == 0
    [name] = frame.where("id = 3").select("_metadata.file_name").collect()[0]
    assert name.endswith(".parquet")


def check_time_zones(spark: SparkSession, path: str) -> None:
    """The clock of the session that asks decides, and New York's shows 01:30 of 2024-11-03 twice."""
    pairs = {"ours": HudiTable.for_path(spark, path).to_df(), "theirs": full(spark, path)}
    for name, frame in pairs.items():
        frame.createOrReplaceGlobalTempView(name)
    texts = [
        "at >= '2024-11-03 00:00:00' AND at < '2024-11-03 04:00:00'",
        "at = TIMESTAMP '2024-11-03 01:30:00'",
        "at > TIMESTAMP '2024-11-03 01:30:00' AND at < TIMESTAMP '2024-11-03 01:40:00'",
        "CAST(at AS DATE) = DATE '2024-11-03'",
        "hour(at) = 1",
        "hour(at) BETWEEN 1 AND 3 AND minute(at) < 45 AND dayofweek(at) = 1",
        "date_trunc('DAY', at) = TIMESTAMP '2024-11-04 00:00:00'",
    ]
    for zone in ("America/New_York", "Asia/Tokyo"):
        other = spark.newSession()
        other.conf.set("spark.sql.session.timeZone", zone)
        for text in texts:
            ours, theirs = (ids(other.table(f"global_temp.{name}").where(text)) for name in pairs)
            assert ours == theirs, (zone, text)
            assert ours or "11-03 01" in text
        assert kept(other.table("global_temp.ours").where(texts[0])) < 24
        with conf(spark, spark_sql_session_timeZone=zone):
            for name in pairs:  # these views keep the zone in which they are made
                spark.sql(
                    f"CREATE OR REPLACE TEMP VIEW of_{name} AS SELECT id, CAST(at AS DATE) AS d FROM global_temp.{name}"
                )
        for later in ("Asia/Kolkata", zone):
            with conf(spark, spark_sql_session_timeZone=later):
                ours, theirs = (ids(spark.table(f"of_{name}").where("d = '2024-11-03'")) for name in pairs)
                assert ours == theirs, (zone, later)
    # Spark prints both as 01:30
    for zone in ("America/New_York", "UTC"):
        with conf(spark, spark_sql_session_timeZone=zone):
            for fold, number in enumerate((590, 610)):
                moment = dt.datetime(2024, 11, 3, 1, 30, fold=fold, tzinfo=NEW_YORK).astimezone(dt.UTC)
                ours, theirs = (ids(frame.where(F.col("at") == F.lit(moment))) for frame in pairs.values())
                assert ours == theirs == [number], (zone, fold)


def check_states_and_caches(spark: SparkSession, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = HudiTable.for_path(spark, make_table(Path(folder) / "t"))
        first = table.to_df()
        again = table.to_df()
        first.cache()
        assert first.count() == ROWS
        assert "InMemory" in again._jdf.queryExecution().optimizedPlan().toString()  # of one state
        instant = table.history()[-1].instant
        table.upsert(rows(range(100, 300), shift=1))
        table.delete("id >= 1100")
        second = table.to_df()
        assert second.count() == 1100
        assert "InMemory" not in second._jdf.queryExecution().optimizedPlan().toString()
        first.unpersist()
        for old in (
            first,
            table.to_df(as_of=instant),
            open_table(table.client.storage.uri).to_spark(spark, as_of=instant),
        ):
            assert old.where("month >= 1").agg(F.sum("v")).first()[0] == sum(n * n for n in range(100, ROWS))
        assert second.where("month = 1").agg(F.sum("v")).first()[0] == sum(n * n + 1 for n in range(100, 200))
        both = first.alias("a").join(second.alias("b"), F.expr("a.id = b.id AND a.v + 1 = b.v"))
        assert both.count() == 200
        changed = table.to_df(incremental=(instant, None))
        assert ids(changed) == [*range(100, 300)]
        assert last_scans(changed)[0].kept < 24
        assert ids(changed.where("v < 100 * 100 + 2")) == [100]
        scan = open_table(table.client.storage.uri).scan()
        some = NativeFiles(scan, Generation(scan.snapshot.live_rows[:4]), second.schema)
        whole = NativeFiles(scan, Generation(scan.snapshot.live_rows), second.schema)
        cached = native_frame(spark, some).cache()
        # a slow writer's commit makes another state of the same newest instant
        assert cached.count() < native_frame(spark, whole).count() == 1100
        cached.unpersist()
        for file in Path(folder).glob("t/5/*.parquet"):
            file.unlink()
        with conf(spark, spark_sql_files_ignoreMissingFiles="true"):  # a cleaned file is an error, not fewer rows
            assert error_of(lambda: second.where("month = 5").count()) is not None


def check_joins_choose_partitions(spark: SparkSession, path: str) -> None:
    frame = HudiTable.for_path(spark, path).to_df()
    star = spark.createDataFrame([(3, "x"), (4, "y")], "m int, n string").where("n = 'x'")
    joined = frame.join(F.broadcast(star), F.col("month") == F.col("m"))
    assert joined.count() == 100
    with conf(spark, spark_sql_adaptive_enabled="false"):
        joined = frame.join(F.broadcast(star), F.col("month") == F.col("m"))
        assert len(joined.collect()) == 100
        plan: Any = joined._jdf.queryExecution().executedPlan()
        leaves = [*elements(plan.collectLeaves())]
        [scan] = [leaf for leaf in leaves if leaf.getClass().getSimpleName() == "FileSourceScanExec"]
        assert scan.metrics().apply("numFiles").value() == 2


def check_errors_of_the_planner(spark: SparkSession, path: str) -> None:
    frame = HudiTable.for_path(spark, path).to_df()
    real = file_index.from_catalyst

    def broken(*_: Any) -> Any:
        raise OSError("the store cannot be reached\nand more lines")

    file_index.from_catalyst = broken
    try:
        error = error_of(lambda: frame.where("id = 3").count())
    finally:
        file_index.from_catalyst = real
    assert type(error).__name__ == "IllegalArgumentException"
    [line] = str(error).split("\n\nJVM stacktrace")[0].strip().splitlines()
    assert "hudi-catalog cannot plan" in line
    assert line.endswith("OSError: the store cannot be reached")
    assert frame.where("id = 3").count() == 1


def check_threads(spark: SparkSession, path: str) -> None:
    """Adaptive execution and broadcasts plan in threads of their own, while others use the same table."""
    table = open_table(path)
    frame = table.to_spark(spark)
    wrong: list[Any] = []

    def ask(number: int) -> None:
        try:
            for month in range(2):
                small = frame.where(f"month = {month} AND id % 100 = {number}")
                table.refresh()
                joined = ids(frame.select("id", "v").join(F.broadcast(small.select("id")), "id"))
                if joined != [100 * month + number]:
                    wrong.append(joined)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def check_no_lock_is_held_across_spark(spark: SparkSession, path: str) -> None:
    """Two queries on one DataFrame are planned at once, each in a call from Spark, while the table's lock is held.

    Their partitions are those that Spark's evaluation of the partition filter leaves.
    """
    table = open_table(path)
    frame = table.to_spark(spark)
    both, real, results = threading.Barrier(2), NativeFiles.listed, list[Any]()

    def meets(*arguments: Any) -> Any:
        both.wait(60)
        return real(*arguments)

    def ask(month: int) -> None:
        results.append(error_of(lambda: results.append(frame.where(of_month % month**2).count())))

    of_month = "month * month = %s"  # only Spark evaluates it
    threads = [threading.Thread(target=ask, args=(month,), daemon=True) for month in (3, 4)]
    NativeFiles.listed = meets  # type: ignore[method-assign]
    try:
        with table._lock:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(90)
    finally:
        NativeFiles.listed = real  # type: ignore[method-assign]
    assert sorted(map(str, results)) == ["100", "100", "None", "None"]


def check_spark_lists_no_folder(spark: SparkSession, path: str) -> None:
    """Nor does it cache listings: what it evicts it lists again, replaced files and all."""
    metrics: Any = spark.sparkContext._jvm
    counts = metrics.org.apache.spark.metrics.source.HiveCatalogMetrics
    listed = counts.METRIC_FILES_DISCOVERED().getCount(), counts.METRIC_FILE_CACHE_HITS().getCount()
    frame = HudiTable.for_path(spark, path).to_df()
    assert frame.where("month = 3 AND id > 0").count() == 100
    assert frame.count() == ROWS
    assert (counts.METRIC_FILES_DISCOVERED().getCount(), counts.METRIC_FILE_CACHE_HITS().getCount()) == listed


def check_generations(spark: SparkSession, path: str) -> None:
    """Columns of earlier types: read natively, converted by Spark, equal to what Python reads."""
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(
            Path(folder) / "t",
            "id int, p int, n int, f float, x int, s struct<a: int>, l array<struct<a: int>>, m map<string, int>",
            record_key="id",
            partition_by="p",
            buckets=1,
        )

        def batch(first: int, part: int, numbers: pa.DataType, reals: pa.DataType, *, grown: bool) -> pa.Table:
            of = range(first, first + 6)
            one = [{"a": n, **({"b": f"b{n}"} if grown else {})} if n % 3 else None for n in of]
            return pa.table(
                {
                    "id": pa.array(of, pa.int32()),
                    "p": pa.array([part] * 6, pa.int32()),
                    "n": pa.array([n if n % 4 else None for n in of], numbers),
                    "f": pa.array([n + 0.1 for n in of], reals),
                    "x": pa.array(of, pa.int64() if not grown else pa.float64()).cast(
                        pa.int32() if not grown else pa.float64()
                    ),
                    "s": one,
                    "l": [[item] for item in one],
                    "m": pa.array([[("k", n)] for n in of], pa.map_(pa.string(), numbers)),
                    **({"extra": [f"e{n}" for n in of]} if grown else {}),
                }
            )

        table.upsert(batch(0, 0, pa.int32(), pa.float32(), grown=False))
        table.upsert(batch(100, 1, pa.int64(), pa.float64(), grown=True))
        frame = table.to_spark(spark)
        python = _of_python(spark, table).cache()
        text = frame._jdf.queryExecution().optimizedPlan().toString()
        assert "mapInArrow" not in text
        assert "MapInArrow" not in text
        for where in ("true", "n > 3", "n = 101", "f < 3.1", "f > 2.0999999", "x = 4", "s.b IS NULL", "s IS NOT NULL",
                      "s.a > 2", "extra = 'e101'", "l[0].a = 5", "m['k'] >= 4", "p = 0", "n > 3000000000"):  # fmt: skip
            ours, wanted = (
                [row.asDict(recursive=True) for row in one.where(where).collect()] for one in (frame, python)
            )
            assert sorted(map(str, ours)) == sorted(map(str, wanted)), where
        assert not any(scan.kept for scan in last_scans(frame.where("n > 3000000000")))
        # of a comparison that Spark makes with the earlier type only that of an int with a long is trusted
        for where in ("f > 3000", "x > 3000"):
            assert sum(scan.kept for scan in last_scans(frame.where(where))) == (not promotions(spark.version)), where
        assert sorted(row.b for row in frame.where("s.b IS NOT NULL").select("s.b").collect()) == [
            f"b{n}" for n in range(100, 106) if n % 3
        ]


def check_promotions(spark: SparkSession, path: str) -> None:
    """Numbers that files hold under a narrower type: where Spark's reader widens them, one scan reads all files.

    Literals that the narrower type does not hold must not be compared with it inside files.
    """
    with tempfile.TemporaryDirectory() as folder:
        ddl = "id int, p int, n int, x int, f float"
        table = create_table(Path(folder) / "t", ddl, record_key="id", partition_by="p", buckets=1)
        kinds_of = [pa.int32(), pa.int32(), pa.float32()], [pa.int64(), pa.float64(), pa.float64()]
        for part, kinds in enumerate(kinds_of):
            numbers = range(6 * part, 6 * part + 6)
            integers = [n % 6 - 2 if n % 4 else None for n in numbers]
            values = [integers, integers, [n % 6 * 0.1 for n in numbers]]
            columns = [pa.array(one).cast(kind) for one, kind in zip(values, kinds, strict=True)]
            whole = [pa.array(numbers, pa.int32()), pa.array([part] * 6, pa.int32())]
            table.insert(pa.table([*whole, *columns], ["id", "p", "n", "x", "f"]))
        frame = table.to_spark(spark)
        assert len(last_scans(frame)) == (1 if promotions(spark.version) else 2)
        python = _of_python(spark, table).cache()
        wheres = ("true", "n = 3", "n = 4294967299", "n < 3000000000", "n > -3000000000", "n IN (1, 4294967297)",
                  "n <=> null", "x = 1", "x = 1.5", "x > 0.5", "x < 3000000000", "x <> 1", "f = 0.1D", "f > 0.2D",
                  "f = CAST(0.1 AS FLOAT)", "f <= CAST(0.2 AS FLOAT)", "f IN (0.1D, 0.7D)", "f < 1e300")  # fmt: skip
        for vectorised in ("true", "false"):
            with conf(spark, spark_sql_parquet_enableVectorizedReader=vectorised):
                for where in wheres:
                    ours, wanted = (sorted(map(str, one.where(where).collect())) for one in (frame, python))
                    assert ours == wanted, (vectorised, where)


def _of_python(spark: SparkSession, table: Any) -> DataFrame:
    scan = table.scan()
    names = scan.schema.names
    listed = [tuple(row[name] for name in names) for row in scan.to_arrow().to_pylist(maps_as_pydicts="strict")]
    return spark.createDataFrame(listed, table.to_spark(spark).schema)


def check_functions_of_users(spark: SparkSession, path: str) -> None:
    """A function of the JVM prints as its name: here `upper`, and it returns its argument."""
    frame, jvm = HudiTable.for_path(spark, path).to_df(), Jvm(spark)
    returned = getattr(getattr(getattr(jvm.root.scala, "Predef$"), "MODULE$"), "$conforms")()
    texts = jvm.root.org.apache.spark.sql.types.DataType.fromJson('"string"')
    with conf(spark, spark_sql_legacy_allowUntypedScalaUDF="true"):
        named = jvm.root.org.apache.spark.sql.functions.udf(returned, texts).withName("upper")
    condition: Any = type(F.col("t"))(named.apply(jvm.seq([frame.t._jc])))  # type: ignore[call-arg]
    selected = frame.where(condition == "t00417")
    assert ids(selected) == [417]
    assert "ScalaUDF in" in explain_scan(selected)
    assert frame.where(F.upper("t") == "t00417").count() == 0


def check_collations(spark: SparkSession, path: str) -> None:
    """Text is compared without regard to case, which statistics and record keys know nothing of."""
    if spark.version.startswith("3."):
        return
    for text in (
        "t = 'T00417' COLLATE UTF8_LCASE",
        "CAST(t AS STRING COLLATE UTF8_LCASE) >= 'T00417' AND CAST(t AS STRING COLLATE UTF8_LCASE) < 'T00418'",
        "startswith(t, 'T00417' COLLATE UTF8_LCASE)",
    ):
        assert ids(HudiTable.for_path(spark, path).to_df().where(text)) == [417], text


def check_explanations(spark: SparkSession, path: str) -> None:
    table = HudiTable.for_path(spark, path)
    frame = table.to_df(where="month >= 6")
    text = explain_scan(frame.where("v < 600 * 601 AND crc32(t) > 0"))
    assert "partition" in text
    assert "column statistics" in text
    assert "not understood, and so not used: Crc32 in" in text
    assert "of 24 files" in text
    assert "earlier scans of this state:" in explain_scan(frame)
    assert len(frame.inputFiles()) == 12
    for other in (spark.range(3), frame.limit(1).localCheckpoint()):
        assert "no scan of a Hudi table" in str(error_of(lambda other=other: explain_scan(other)))


def check_samples(spark: SparkSession, path: str) -> None:
    table = HudiTable.for_path(spark, path)
    sampled = table.to_df(sample="1/2")
    assert (ids(sampled), kept(sampled)) == (sorted(table.scan(sample="1/2").to_arrow()["id"].to_pylist()), 12)
    assert ids(table.to_spark(spark, "v < 0", sample="2/2")) == ids(table.to_df("v < 0"))
    assert "1 of every 2 buckets: 1 of 2" in explain_scan(sampled.where("month = 3"))
    assert "3 does not divide" in str(error_of(lambda: table.to_df(sample="1/3")))


CHECKS: dict[str, Callable[[SparkSession, str], None]] = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}
__all__ = ["CHECKS", "ZONES", "make_kinds", "make_table"]
