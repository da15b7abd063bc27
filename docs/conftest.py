"""Examples in the documentation run in a folder with two small tables, `warehouse/flights` and `lake/readings`."""

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
def _there(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(warehouse)
