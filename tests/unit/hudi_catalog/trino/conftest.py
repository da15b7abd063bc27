"""The warehouse that the tests of the service share."""

from pathlib import Path

import pytest

from tests.support.trino_client import make_warehouse


@pytest.fixture(scope="package")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_warehouse(tmp_path_factory.mktemp("warehouse"))
