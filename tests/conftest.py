"""What all tests share: one PySpark session of the main line, and how Hypothesis runs."""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests that share a server run in one process, so that it is started once; the first one named counts.
_GROUPS = (
    ("trino", {"trino", "start_presto"}),
    ("hive", {"hive", "hive_world"}),
    ("pyspark", {"spark"}),
    ("apache", {"apache", "release"}),
)

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("default"), max_examples=20_000)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests into groups for `--dist loadgroup`; those that share nothing go by file."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        shared = next((group for group, names in _GROUPS if names & fixtures), None)
        item.add_marker(pytest.mark.xdist_group(shared or item.path.name))


def skip_or_fail(reason: str) -> None:
    """Skip with a reason; where engines are required, as in continuous integration, fail instead."""
    if os.environ.get("HUDI_CATALOG_REQUIRE_ENGINES"):
        pytest.fail(f"an engine is required here: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """PySpark on two cores, of the version installed beside this project."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        skip_or_fail("no JDK: neither JAVA_HOME nor java on the path")
    from pyspark.sql import SparkSession

    # workers take python3 of the path otherwise, which lacks pyarrow
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("hudi-catalog-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
