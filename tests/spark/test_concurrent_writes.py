"""Writers at the same time through Spark: DataFrames that are computed again, and those that must not be."""

import threading
from typing import Any

import pytest
from pyspark.sql import functions as f

from spark_writer import HudiTable, write_hudi
from table_format.errors import ConflictError
from tests.support.faults import overtaken

pytestmark = pytest.mark.spark
DDL = "id string, v int"


def frame(spark: Any, **values: int) -> Any:
    return spark.createDataFrame(list(values.items()), DDL)


def content(spark: Any, path: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in HudiTable.for_path(spark, path).to_df().collect()}


@pytest.fixture
def path(spark: Any, tmp_path: Any) -> str:
    place = str(tmp_path / "t")
    table = HudiTable.create(spark, place, DDL, record_key="id", buckets=1)
    table.upsert(frame(spark, a=1, b=2, c=3))
    return place


def test_two_threads_upsert_and_create_at_once(spark: Any, tmp_path: Any) -> None:
    place = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.bucket.index.num.buckets": "1",
    }
    for value in (1, 2):
        errors: list[BaseException] = []
        frames = [frame(spark, a=value), frame(spark, b=value)]

        def work(df: Any, errors: list[BaseException] = errors) -> None:
            try:
                write_hudi(df, place, options, mode="append")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(df,)) for df in frames]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert content(spark, place) == {"a": value, "b": value}


def test_a_condition_is_evaluated_again(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaken(monkeypatch, lambda: HudiTable.for_path(spark, path).upsert(frame(spark, a=9, c=1)))
    HudiTable.for_path(spark, path).delete("v >= 3")
    assert content(spark, path) == {"b": 2, "c": 1}


def test_rows_of_other_sources_are_written_again(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaken(monkeypatch, lambda: HudiTable.for_path(spark, path).upsert(frame(spark, b=20)))
    HudiTable.for_path(spark, path).upsert(frame(spark, a=10).cache())
    assert content(spark, path) == {"a": 10, "b": 20, "c": 3}


@pytest.mark.parametrize("how", ["plain", "cached", "files", "widened"])
def test_rows_of_the_table_itself_are_not(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    table = HudiTable.for_path(spark, path)
    if how == "widened":  # then the snapshot is read by workers of ours
        table.upsert(spark.createDataFrame([("c", 3)], "id string, v long"))
    source = spark.read.parquet(*table.to_df().inputFiles()) if how == "files" else table.to_df()
    raised = source.where("id = 'a'").select("id", (f.col("v") + 1).alias("v"))
    if how == "cached":
        raised = raised.cache()
        assert raised.count() == 1
    overtaken(monkeypatch, lambda: HudiTable.for_path(spark, path).upsert(frame(spark, a=100)))
    with pytest.raises(ConflictError) as error:
        table.upsert(raised)
    assert "read it again" in error.value.__notes__[-1]
    assert content(spark, path)["a"] == 100
