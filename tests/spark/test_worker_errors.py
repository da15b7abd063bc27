"""Errors of workers as the user of a session meets them, and how their processes are set up."""

import gc
import os
import signal
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_writer import HudiTable
from spark_writer.executor import SparkExecutor
from table_format.errors import ConflictError, CorruptFileError, HudiError, RecordError
from table_format.threads import compute_threads
from tests.spark.test_operations import DDL, OPTIONS, frame

pytestmark = pytest.mark.spark
JVM = ("JVM", "org.apache.spark", "java.lang", "PythonException")


def shown(error: BaseException) -> str:
    """What Python prints of an error that nobody catches."""
    return "".join(traceback.format_exception(error))


def raise_it(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        CorruptFileError("p=1/a [x]\nb.parquet", 2**40, "at org.apache.hudi.X(Y.java:1)\n\n at nothing"),
        ConflictError("file group 1\n   at 2 [hudi-catalog:0:gASV]"),
    ],
)
def test_an_error_of_a_worker_keeps_its_fields_and_shows_no_jvm(spark: SparkSession, error: HudiError) -> None:
    with pytest.raises(HudiError) as raised:
        SparkExecutor(spark).map(raise_it, [error, error])
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    assert raised.value.__dict__ == error.__dict__
    assert not any(word in shown(raised.value).replace(str(error), "") for word in JVM)


def set_up(_: int) -> tuple[str, bool, int]:
    return pa.default_memory_pool().backend_name, gc.get_freeze_count() > 0, compute_threads()


def test_a_worker_keeps_freed_memory_and_sets_its_modules_aside(spark: SparkSession) -> None:
    assert set(SparkExecutor(spark).map(set_up, range(4))) == {("jemalloc", True, 1)}


def test_a_refused_row_is_our_error_and_a_users_own_stays_sparks(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(
        spark, str(tmp_path / "t"), DDL, record_key="id", partition_by="part", buckets=2, options={**OPTIONS}
    )
    table.upsert(frame(spark, range(4)))
    # a row's text that looks like an error of a worker is a row's text
    forged = "x [hudi-catalog:00:gASV] table_format.errors.ConflictError: no"
    with pytest.raises(RecordError, match=r"^1 row") as raised:
        table.upsert(spark.createDataFrame([(None, forged, 1, 1)], DDL))
    assert not any(word in shown(raised.value) for word in JVM)

    @F.udf("string")
    def broken(value):
        raise ValueError(f"table_format.errors.ConflictError: {value} [hudi-catalog:00:gASV]")

    with pytest.raises(PySparkException) as foreign:
        table.upsert(frame(spark, range(4)).withColumn("id", broken("id")))
    assert not isinstance(foreign.value, HudiError)
    assert "ValueError" in str(foreign.value)
    assert "leaves the table as it was" in shown(foreign.value)
    assert table.to_df().count() == 4


def kill_itself(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_stays_sparks_error_with_a_note(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"(?i)worker") as raised:
        SparkExecutor(spark).map(kill_itself, [1])
    assert not isinstance(raised.value, HudiError)
    assert "leaves the table as it was" in shown(raised.value)
