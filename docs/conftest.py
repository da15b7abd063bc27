"""Examples of each page run in a folder of its own with two small tables, `warehouse/flights` and `lake/readings`."""

import shutil
from pathlib import Path

import pytest

from tests.support.sample_flights import make_flights
from tests.support.sample_readings import unpack_readings


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds both."""
    folder = tmp_path_factory.mktemp("docs")
    make_flights(folder / "warehouse" / "flights")
    unpack_readings(folder / "lake" / "readings")
    return folder


@pytest.fixture(autouse=True)
def _there(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(warehouse, tmp_path / "docs"))
