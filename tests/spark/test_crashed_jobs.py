"""Whole write jobs of a Spark session and of local processes meet faults at the changes that publish."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_writer.executor import SparkExecutor
from table_writer.execution.local import LocalExecutor
from tests.support.crashed_jobs import FAULTS, JOBS, CrashSite, Job, publishes

pytestmark = pytest.mark.spark
BY_BUCKETS, BY_INDEX = JOBS[0], JOBS[-1]


@pytest.mark.parametrize(
    ("engine", "job", "share"),
    [
        ("spark", BY_BUCKETS, slice(0, None, 2)),
        ("spark", BY_INDEX, slice(1, None, 2)),
        ("processes", BY_BUCKETS, slice(1, None, 4)),
    ],
    ids=["spark by buckets", "spark by index", "processes"],
)
def test_a_fault_at_what_publishes_leaves_all_or_nothing(
    engine: str, job: Job, share: slice, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case takes its share of these changes; `tests/property` has all of them, on executors of this process."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # the machine does not die in these tests
    executor = SparkExecutor(spark) if engine == "spark" else LocalExecutor(processes=1)
    site = CrashSite(job, tmp_path)
    publishing = [at for at, step in enumerate(site.changes(executor), 1) if publishes(step)]
    assert len(publishing) >= 16
    for turn, at in enumerate(publishing[share]):
        site.fail(at, FAULTS[turn % len(FAULTS)], executor)
