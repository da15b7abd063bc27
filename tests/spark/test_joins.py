"""Joins and group-bys bucket by bucket, against Spark's own."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudi_catalog import explain_scan
from spark_writer.read import shuffle_free
from table_format.errors import ArgumentError, UnsupportedTableError
from tests.support.spark_joins import JOIN_CHECKS, bare, make_joined, rows, table, works
from tests.support.spark_order import ORDER_CHECKS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_joined(tmp_path_factory.mktemp("joins"))


@pytest.mark.parametrize("name", JOIN_CHECKS)
def test_joins(spark: SparkSession, folder: Path, name: str) -> None:
    JOIN_CHECKS[name](spark, folder)


@pytest.mark.parametrize("name", ORDER_CHECKS)
def test_joins_in_the_order_of_files(spark: SparkSession, folder: Path, name: str) -> None:
    ORDER_CHECKS[name](spark, folder)


def test_large_buckets_are_sorted(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle_free, "BUILD_BYTES", 0)
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    frame = orders.join(parts, "id")
    assert "with a sort, since" in explain_scan(frame)
    [work] = works(frame)
    assert "SortMergeJoin" in work.plan
    assert "Exchange" not in work.plan
    assert rows(frame) == rows(bare(orders.to_df()).join(bare(parts.to_df()), "id"))


def test_a_placement_that_spark_does_not_take_is_its_own_join(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedTableError("not taken")

    monkeypatch.setattr(shuffle_free, "frozen", refuse)
    orders = table(spark, folder, "orders")
    frame = orders.group_by("id").count()
    assert "Spark's own plan: not taken" in explain_scan(frame)
    assert frame.count() == 240


def test_misuse(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(ArgumentError, match=r"HudiTable\.join takes a Spark DataFrame"):
        table(spark, folder, "orders").join("parts", "id")  # type: ignore[arg-type]
