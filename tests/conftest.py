"""What all tests share: one PySpark session of the main line, and how Hypothesis runs."""

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.scheduling import GroupScheduling
from tests.support.turns import all_cases, deselect, out_of_turn, shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Modules that run longest begin first, so that no process is left with one of them at the end.
_LONG = re.compile(
    "engines/|spark/|"
    "property/test_(crash|whole_tables|concurrent|filters|spark_filters|record_index|surgery|sync|write|index)"
)

# Tests of limits in seconds and of servers that die: on a busy machine one may come too late, and is run once more. No
# test of rows is.
_IN_TIME = re.compile(
    "unit/(catalog/concurrency|hudi_catalog/(server|gateway))/|"
    "engines/test_(engine_servers|trino_faults|trino_connector_faults|trino_gateway_clients|hive_faults|hive_handler_faults)"
)

#: Linux's file system in memory, and the bytes that it must have free to be used.
_MEMORY = "/dev/shm"
_ROOM = 6 << 30

# The same examples in every run, so that a red test is the change's fault; the larger profiles look for new ones.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
_SEARCH = settings(settings.get_profile("default"), derandomize=False)
settings.register_profile("nightly", _SEARCH, max_examples=20_000)
settings.register_profile("thorough", _SEARCH, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Keep the tables of tests in memory where there is room: most of them live for milliseconds, of many small files.

    PYTEST_DEBUG_TEMPROOT and, for the tables of property tests, TMPDIR name other folders.
    """
    if os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free >= _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)
        os.environ.setdefault("TMPDIR", _MEMORY)
        tempfile.tempdir = None  # to be looked for anew


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is out of turn, put the tests of long modules first, and let those of time limits be late once."""
    if not all_cases():
        deselect(config, items, out_of_turn(shares(items)))
    items.sort(key=lambda item: _LONG.search(item.nodeid) is None)
    for item in items:
        if _IN_TIME.search(item.nodeid):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the garbage collector need not go through them again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the end of the process free them."""
    gc.unfreeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """How tests are shared out among processes (`-n`)."""
    return GroupScheduling(config, log)


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
    from tests.support.spark_session import local_session

    # workers take python3 of the path otherwise, which lacks pyarrow
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = local_session("ERROR", spark_app_name="hudi-catalog-tests", spark_sql_shuffle_partitions="2")
    yield session
    session.stop()
