"""A job of PySpark that syncs: options of the job, settings of its session."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudi_catalog.metastore.file_metastore import FileMetastore
from spark_writer import write_hudi
from spark_writer.session import hadoop_setting, refuse_encryption
from table_format.errors import AfterCommitError, UnsupportedTableError

pytestmark = pytest.mark.spark
SYNC = "hoodie.datasource.hive_sync."


def options(**sync: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.bucket.index.num.buckets": "1",
        **{SYNC + key: value for key, value in {"enable": "true", "mode": "hms", **sync}.items()},
    }


def test_a_job_registers_its_table(spark: SparkSession, tmp_path: Path) -> None:
    metastore = FileMetastore(str(tmp_path / "metastore"))
    with_sync = options(**{"metastore.uris": metastore.uri, "database": "shop"})
    summary = write_hudi(spark.range(3), str(tmp_path / "orders"), with_sync)
    entry = metastore.table("shop", "orders")
    assert summary is not None
    assert entry is not None
    assert entry.parameters["last_commit_time_sync"] == summary.instant


def test_settings_of_the_session_name_the_metastore(spark: SparkSession, tmp_path: Path) -> None:
    assert hadoop_setting(spark, "fs.defaultFS") == "file:///"
    assert hadoop_setting(spark, "no.such.setting") is None
    refuse_encryption(spark)
    spark.conf.set("hive.metastore.uris", "thrift://127.0.0.1:9")
    try:
        with pytest.raises(AfterCommitError, match=r"no Hive Metastore can be reached: 127\.0\.0\.1:9"):
            write_hudi(spark.range(3), str(tmp_path / "orders"), options())
    finally:
        spark.conf.unset("hive.metastore.uris")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("parquet.encryption.column.keys", "k1:id"), ("parquet.crypto.factory.class", "com.example.Factory")],
)
def test_a_session_that_encrypts_is_refused_rather_than_written_in_plain(
    spark: SparkSession, tmp_path: Path, setting: str, value: str
) -> None:
    plain = {key: text for key, text in options().items() if not key.startswith(SYNC)}
    spark.conf.set(setting, value)
    try:
        with pytest.raises(UnsupportedTableError, match=setting.replace(".", r"\.")):
            write_hudi(spark.range(3), str(tmp_path / "orders"), plain)
    finally:
        spark.conf.unset(setting)
    assert not list((tmp_path / "orders").glob("*.parquet"))
