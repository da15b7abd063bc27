"""Bytes that Spark reads of a star's fact table, where a query filters the date dimension: TPC-DS' queries of one star.

The fact table is partitioned by day, as the Hudi table and as plain Parquet files that Spark wrote and lists.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_catalog import create_table, open_table

DAYS, SALES, ITEMS = 360, 1_000_000, 2_000
DDL = (
    "ticket bigint, ss_item_sk int, ss_customer_sk int, ss_quantity int, ss_sales_price double, "
    "ss_ext_sales_price double, ss_sold_date_sk int"
)
# shapes of TPC-DS' queries 3, 42, 52, 55 and 98, and a range of days by a subquery
QUERIES = {
    "brands of a month (3, 52)": """
        SELECT d_year, i_brand, sum(ss_ext_sales_price) AS total FROM {sales}
        JOIN dates ON ss_sold_date_sk = d_date_sk JOIN items ON ss_item_sk = i_item_sk
        WHERE d_moy = 11 AND i_manufact = 28 GROUP BY d_year, i_brand ORDER BY total DESC, i_brand""",
    "categories of a month (42)": """
        SELECT i_category, sum(ss_ext_sales_price) AS total FROM {sales}
        JOIN dates ON ss_sold_date_sk = d_date_sk JOIN items ON ss_item_sk = i_item_sk
        WHERE d_moy = 11 AND d_year = 2000 GROUP BY i_category ORDER BY total DESC, i_category""",
    "items of a week (98)": """
        SELECT i_category, count(*) AS sold FROM {sales}
        JOIN dates ON ss_sold_date_sk = d_date_sk JOIN items ON ss_item_sk = i_item_sk
        WHERE d_dom BETWEEN 1 AND 7 AND d_moy = 3 GROUP BY i_category ORDER BY i_category""",
    "one ticket of a month": """
        SELECT ticket, ss_quantity, ss_ext_sales_price FROM {sales} JOIN dates ON ss_sold_date_sk = d_date_sk
        WHERE d_moy = 11 AND ticket = 850013""",
}


@dataclass(frozen=True)
class Reading:
    """What one query read of the fact table."""

    query: str
    files: int
    megabytes: float
    plain_files: int
    plain_megabytes: float


def measure(spark: SparkSession, folder: Path) -> list[Reading]:
    """Each query on both tables; their answers must be equal."""
    path, plain = folder / "star", folder / "star-plain"
    if not path.exists():
        table = create_table(path, DDL, record_key="ticket", partition_by="ss_sold_date_sk", buckets=4)
        table.bulk_insert(_sales())
    ours = open_table(path).to_spark(spark)
    if not plain.exists():
        columns = [name for name in ours.columns if not name.startswith("_hoodie_")]
        few = ours.select(*columns).repartition(8, "ss_sold_date_sk").sortWithinPartitions("ss_sold_date_sk", "ticket")
        few.write.partitionBy("ss_sold_date_sk").parquet(str(plain))
    ours.createOrReplaceTempView("our_sales")
    spark.read.parquet(str(plain)).createOrReplaceTempView("plain_sales")
    _dimensions(spark)
    return [*_readings(spark)]


def _readings(spark: SparkSession) -> Iterator[Reading]:
    for name, text in QUERIES.items():
        answers, read = [], []
        for sales in ("our_sales", "plain_sales"):
            frame = spark.sql(text.format(sales=sales))
            answers.append(
                [tuple(round(one, 3) if isinstance(one, float) else one for one in row) for row in frame.collect()]
            )
            read.append(_files_read(frame, sales))
        assert answers[0] == answers[1], name
        (files, size), (plain_files, plain_size) = read
        yield Reading(name, files, size / 1e6, plain_files, plain_size / 1e6)


def _rounded(value: Any) -> Any:
    """A sum of floating point numbers depends on the order of the rows."""
    return round(value, 3) if isinstance(value, float) else value


def _files_read(frame: DataFrame, sales: str) -> tuple[int, int]:
    """Number and bytes of the files that the scan of the fact table was given, dynamic pruning applied."""
    pending: list[Any] = [frame._jdf.queryExecution().executedPlan()]  # noqa: SLF001 - PySpark has no other way
    while pending:
        node = pending.pop()
        kind = node.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            pending.append(node.executedPlan())
        elif kind.endswith("QueryStageExec"):
            pending.append(node.plan())
        elif kind == "FileSourceScanExec":
            metrics = node.metrics()
            return int(metrics.apply("numFiles").value()), int(metrics.apply("filesSize").value())
        else:
            children = node.children()
            pending += [children.apply(position) for position in range(children.size())]
    raise AssertionError(f"no scan of {sales}")


def _sales() -> pa.Table:
    chance = np.random.default_rng(7)
    numbers = np.arange(SALES)
    price = chance.integers(100, 20_000, SALES) / 100
    quantity = chance.integers(1, 100, SALES).astype(np.int32)
    return pa.table({
        "ticket": numbers,
        "ss_item_sk": chance.integers(0, ITEMS, SALES).astype(np.int32),
        "ss_customer_sk": chance.integers(0, 50_000, SALES).astype(np.int32),
        "ss_quantity": quantity,
        "ss_sales_price": price,
        "ss_ext_sales_price": np.round(price * quantity, 2),
        "ss_sold_date_sk": (numbers * DAYS // SALES).astype(np.int32),
    })  # fmt: skip


def _dimensions(spark: SparkSession) -> None:
    spark.range(DAYS).selectExpr(
        "CAST(id AS INT) AS d_date_sk", "2000 AS d_year", "CAST(id DIV 30 + 1 AS INT) AS d_moy",
        "CAST(id % 30 + 1 AS INT) AS d_dom",
    ).localCheckpoint().createOrReplaceTempView("dates")  # fmt: skip
    spark.range(ITEMS).selectExpr(
        "CAST(id AS INT) AS i_item_sk", "CAST(id % 100 AS INT) AS i_manufact", "concat('brand ', id % 37) AS i_brand",
        "concat('category ', id % 10) AS i_category",
    ).localCheckpoint().createOrReplaceTempView("items")  # fmt: skip


def table(readings: list[Reading]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| query of a star of 1,000,000 sales in 360 days | files read | MB | plain Parquet: files | MB |"
    yield "|---|---|---|---|---|"
    for one in readings:
        yield f"| {one.query} | {one.files} | {one.megabytes:.2f} | {one.plain_files} | {one.plain_megabytes:.2f} |"
