"""The Spark examples of the documentation run unchanged."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


def blocks(text: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```", text)


def run(codes: list[str], warehouse: Path, names: dict) -> dict:
    """Execute examples one after the other, in one namespace."""
    assert codes
    for number, code in enumerate(codes):
        exec(compile(code.replace("/warehouse", str(warehouse)), f"example {number}", "exec"), names)
    return names


def test_guide_to_writing(spark: "SparkSession", tmp_path: Path) -> None:
    run(blocks((ROOT / "docs/guide/writing.md").read_text()), tmp_path, {"spark": spark})


def test_guide_to_reading_with_spark(spark: "SparkSession", tmp_path: Path) -> None:
    run(blocks((ROOT / "docs/guide/spark-reading.md").read_text()), tmp_path, {"spark": spark})


def test_write_section_of_the_readme(spark: "SparkSession", tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().split("## Write with Spark\n")[1].split("\n## ")[0]
    flights = spark.createDataFrame(
        [(hour % 2 + 1, hour, "HA", 51, 3.0) for hour in range(6)],
        "month int, time_hour int, carrier string, flight int, dep_delay double",
    )
    names = {
        "spark": spark,
        "flights": flights,
        "corrections": flights.where("time_hour < 2"),
        "cancelled": flights.where("time_hour = 5"),
        "df": flights,
        "path": str(tmp_path / "moved"),
        "options": {
            "hoodie.table.name": "moved",
            "hoodie.datasource.write.recordkey.field": "time_hour,carrier,flight",
            "hoodie.datasource.write.partitionpath.field": "month",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.upsert.shuffle.parallelism": "2",
        },
    }
    table = run(blocks(section), tmp_path, names)["table"]
    assert table.to_df().count() == 5


def test_line_of_the_guide_to_moving(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_writer import write_hudi

    text = (ROOT / "docs/guide/moving-from-apache.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("write_hudi("))
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    names = {"df": spark.range(3), "path": str(tmp_path / "t"), "options": options, "write_hudi": write_hudi}
    run([f"summary = {line}"], tmp_path, names)
    assert names["summary"].rows_inserted == 3
