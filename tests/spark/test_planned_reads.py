"""DataFrames that the table's index plans, against Spark's own reading of all files."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hudi_catalog import explain_scan, open_table
from hudi_catalog.spark_table import HudiTable
from spark_writer.read import dataframe
from spark_writer.read.jvm import why_unreachable
from table_format.errors import OptionError, UnsupportedTableError
from tests.property.spark_rows import write_table
from tests.support import golden_slices
from tests.support.spark_reads import CHECKS, check_generated_filters, conf, ids, make_table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_table(tmp_path_factory.mktemp("reads") / "t")


@pytest.mark.parametrize("name", CHECKS)
def test_reads(spark: SparkSession, path: str, name: str) -> None:
    CHECKS[name](spark, path)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_generated_filters(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    write_table(str(tmp_path / "kinds"))
    first = 30_000_000 if zone == "UTC" else 40_000_000
    with conf(spark, spark_sql_session_timeZone=zone):
        pruned = check_generated_filters(spark, str(tmp_path / "kinds"), range(first, first + 25))
    assert pruned > 3


@pytest.mark.parametrize("name", ["0.15.0__mor_event_time", "1.2.0__mor_log_compacted"])
def test_slices_with_logs_are_read_beside_native_ones(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = golden_slices.unpack(tmp_path)
    expected = pq.read_table(Path(folder) / name / "expected.parquet")
    table = open_table(str(Path(folder) / name / "table"))
    ours = table.to_spark(spark)
    keys = sorted(expected.column("_hoodie_record_key").to_pylist())
    assert sorted(row[0] for row in ours.select("_hoodie_record_key").collect()) == keys
    python = {row["_hoodie_record_key"]: row for row in table.scan().to_arrow().to_pylist()}
    assert {row["_hoodie_record_key"] for row in ours.collect()} == set(python)
    key = keys[0]
    assert ours.where(f"_hoodie_record_key = '{key}'").count() == 1
    assert table.to_spark(spark, f"_hoodie_record_key = '{key}'").count() == 1
    base = table.to_spark(spark, read_optimized=True)
    assert base.count() == table.scan(query_type="read_optimized").count()
    assert "MapInArrow" not in base._jdf.queryExecution().optimizedPlan().toString()


def test_without_a_planner_files_are_chosen_at_once(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over Spark Connect, and with threads that are not pinned."""
    monkeypatch.setattr(dataframe, "why_unreachable", lambda _: "a reason")
    table = HudiTable.for_path(spark, path)
    frame = table.to_df("id = 417")
    assert ids(frame) == [417]
    assert len(frame.inputFiles()) <= 2
    assert table.to_df().count() == 1200
    with pytest.raises(UnsupportedTableError, match="chosen when it was made"):
        explain_scan(frame)


def test_sessions_that_cannot_ask_are_named() -> None:
    class Context:
        _gateway = object()

    class Session:
        _jsparkSession = object()  # noqa: N815
        sparkContext = Context  # noqa: N815

    assert "PYSPARK_PIN_THREAD" in str(why_unreachable(Session()))  # type: ignore[arg-type]
    assert "Connect" in str(why_unreachable(object()))  # type: ignore[arg-type]


def test_paths_that_tell_the_partition_columns_of_files_without_them(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    shutil.copytree(path, tmp_path / "t")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    text = "".join(line for line in properties.read_text().splitlines(True) if "checksum" not in line)
    properties.write_text(f"{text}\nhoodie.datasource.write.drop.partition.columns=true\n")
    frame = HudiTable.for_path(spark, tmp_path / "t").to_df()
    assert frame.where("month = 3").count() == 100


def test_misuse(spark: SparkSession, path: str) -> None:
    table = HudiTable.for_path(spark, path)
    with pytest.raises(OptionError, match="cannot be combined"):
        table.to_df(as_of="20240101000000", incremental=("earliest", None))
    with pytest.raises(OptionError, match="did you mean"):
        table.to_df(options={"hoodie.catalog.scan.footer.limits": "3"})
    with pytest.raises(TypeError, match="takes a Spark DataFrame"):
        explain_scan("select")  # type: ignore[arg-type]
