"""Examples in the documentation run in a folder with `warehouse/flights`, a small table."""

from pathlib import Path

import pytest

from tests.sample_flights import make_flights


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds `warehouse/flights`."""
    folder = tmp_path_factory.mktemp("docs")
    make_flights(folder / "warehouse" / "flights")
    return folder


@pytest.fixture(autouse=True)
def _there(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(warehouse)
