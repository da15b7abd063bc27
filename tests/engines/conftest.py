"""The real Apache Hudi releases, each started when a test first asks for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.engines.apache_hudi.client import VERSIONS, ApacheHudi, missing

# scripts with arguments, which collecting documentation examples would run
collect_ignore = ["apache_hudi/session.py", "writer_script.py"]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ApacheHudi]]:
    """Gives the running Apache Hudi of a release."""
    running: dict[str, ApacheHudi] = {}

    def get(version: str) -> ApacheHudi:
        if version not in running:
            reason = missing(version)
            if reason:
                skip_or_fail(reason)
            running[version] = ApacheHudi(version, Path(tmp_path_factory.mktemp(f"apache-{version}")))
        return running[version]

    yield get
    for engine in running.values():
        engine.close()


@pytest.fixture(scope="session", params=VERSIONS)
def apache(request: pytest.FixtureRequest, release: Callable[[str], ApacheHudi]) -> ApacheHudi:
    """A running Apache Hudi; tests that use it run once per release, grouped by release."""
    return release(request.param)
