"""The real Apache Hudi releases, one after the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.engines.apache_hudi.client import VERSIONS, ApacheHudi, missing

# scripts with arguments, which collecting documentation examples would run
collect_ignore = ["apache_hudi/session.py", "writer_script.py"]


@pytest.fixture(scope="session", params=VERSIONS)
def apache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheHudi]:
    """A running Apache Hudi; tests that use it run once per release, grouped by release."""
    reason = missing(request.param)
    if reason:
        skip_or_fail(reason)
    engine = ApacheHudi(request.param, Path(tmp_path_factory.mktemp(f"apache-{request.param}")))
    yield engine
    engine.close()
