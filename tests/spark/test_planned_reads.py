"""DataFrames that the table's index plans, against Spark's own reading of all files.

`HUDI_CATALOG_READ_FILTERS` says how many generated filters are compared.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hudi_catalog import create_table, explain_scan, open_table
from hudi_catalog.spark_table import HudiTable
from spark_writer.read import dataframe
from spark_writer.read.file_index import NativeFiles
from spark_writer.read.jvm import Jvm, why_unreachable
from table_format.errors import OptionError, UnsupportedTableError
from tests.support import golden_slices
from tests.support.generated_reads import check_generated_filters
from tests.support.scripts import printed
from tests.support.spark_driver_rows import DRIVER_CHECKS
from tests.support.spark_reader_filters import READER_CHECKS
from tests.support.spark_reads import CHECKS, ZONES, conf, ids, make_kinds, make_table

pytestmark = pytest.mark.spark
_NIGHTLY = settings.get_current_profile_name() == "nightly"
_COUNT = int(os.environ.get("HUDI_CATALOG_READ_FILTERS", "2000" if _NIGHTLY else "48"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_table(tmp_path_factory.mktemp("reads") / "t")


@pytest.mark.parametrize("name", [*CHECKS, *READER_CHECKS, *DRIVER_CHECKS])
def test_reads(spark: SparkSession, path: str, name: str) -> None:
    {**CHECKS, **READER_CHECKS, **DRIVER_CHECKS}[name](spark, path)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_kinds(tmp_path_factory.mktemp("kinds") / "t")


@pytest.mark.parametrize("zone", ZONES)
def test_generated_filters(spark: SparkSession, kinds: str, zone: str) -> None:
    first, each = 30_000_000 + ZONES.index(zone) * 1_000_000, _COUNT // len(ZONES)
    with conf(spark, spark_sql_session_timeZone=zone):
        counts = check_generated_filters(spark, kinds, range(first, first + each))
    print(counts)
    assert counts.compared + counts.refused == each
    assert counts.pruned >= each // 8


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


def test_actions_on_one_frame_share_a_plan(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    plan = NativeFiles.plan

    def counted(self: NativeFiles, *arguments: Any) -> Any:
        planned.append(arguments)
        return plan(self, *arguments)

    monkeypatch.setattr(NativeFiles, "plan", counted)
    frame = HudiTable.for_path(spark, path).to_df()
    few = frame.where("id = 417")
    for _ in range(2):
        assert ids(few) == [417]
        assert few.collect()[0]["id"] == 417
    assert ids(frame.where("id = 418")) == [418]
    assert len(planned) <= 3  # of two columns, of all, and of another key
    assert "1 of" in explain_scan(few)


def test_partitions_that_look_like_patterns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", buckets=1)
    table.insert([{"id": number, "p": p} for number, p in enumerate(["a[1]", "b{x}", "c*", "cd"])])
    assert ids(table.to_spark(spark)) == [0, 1, 2, 3]
    monkeypatch.setattr(dataframe, "why_unreachable", lambda _: "a reason")
    assert ids(table.to_spark(spark)) == [0, 1, 2, 3]
    assert ids(table.to_spark(spark, "p = 'c*'")) == [2]


def test_bucket_counts_of_options_hold_for_frames(spark: SparkSession, tmp_path: Path) -> None:
    buckets = {"hoodie.bucket.index.num.buckets": "3"}
    make_table(tmp_path / "t")
    table = HudiTable.for_path(spark, tmp_path / "t", options=buckets)
    assert table._current._bucket_options == table._bucket_options == buckets


def test_plans_without_a_scan_are_explained(spark: SparkSession, tmp_path: Path) -> None:
    def made(name: str, rows: int) -> HudiTable:
        table = HudiTable.create(spark, tmp_path / name, f"id bigint, {name} bigint", record_key="id", buckets=2)
        table.upsert(spark.range(rows).selectExpr("id", f"id AS {name}"))
        return table

    few, others, empty = made("a", 9), made("b", 9), made("c", 0)
    for frame in (few.to_df().where("id = 1 AND id = 2"), few.to_df().where("a = NULL"), empty.to_df()):
        assert frame.count() == 0
        assert "nothing is read" in explain_scan(frame)
    cached = few.to_df().cache()
    try:
        assert "it reads rows that Spark has cached" in explain_scan(few.join(others, on="id"))
        with pytest.raises(UnsupportedTableError, match="rows that Spark has cached"):
            explain_scan(few.to_df().where("id = 1"))
    finally:
        cached.unpersist()
    assert "without an exchange" in explain_scan(few.join(others, on="id"))


@pytest.mark.parametrize("text", ["INTO", "OVERWRITE"])
def test_inserts_are_refused_without_a_planner(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The relation of a table of one file has a single path, which is what Spark's INSERT asks for."""
    monkeypatch.setattr(dataframe, "why_unreachable", lambda _: "a reason")
    table = create_table(tmp_path / "t", "id bigint, v bigint", record_key="id", buckets=1)
    table.upsert([{"id": number, "v": number} for number in range(3)])
    table.to_spark(spark).createOrReplaceTempView("one_file")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    with pytest.raises(AnalysisException, match="UNSUPPORTED_INSERT"):
        spark.sql(f"INSERT {text} one_file SELECT * FROM VALUES ('', '', '', '', '', 9L, 9L)")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before
    if not spark.version.startswith(("3.", "4.0.", "4.1.")):  # there a selection hides them
        assert table.to_spark(spark).where("_metadata.file_size > 0 AND v = 1").count() == 1


def test_threads_that_are_not_pinned(path: str) -> None:
    """The query's session is another one than the process's first, whose time zone would be taken."""
    read = json.loads(printed(Path(__file__).with_name("unpinned_script.py"), path, seconds=200)[-1])
    assert "PYSPARK_PIN_THREAD" in read["reason"]
    assert read["ours"] == read["theirs"]
    assert len(read["ours"]) == 81


def test_sessions_that_cannot_ask_are_named() -> None:
    class Context:
        _gateway = object()

    class Session:
        _jsparkSession = object()  # noqa: N815
        sparkContext = Context  # noqa: N815

    assert "PYSPARK_PIN_THREAD" in str(why_unreachable(Session()))  # type: ignore[arg-type]
    assert "Connect" in str(why_unreachable(object()))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTableError, match=r"in another process\. Read by .*to_df\(where=…\)"):
        Jvm(object())  # type: ignore[arg-type]


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
