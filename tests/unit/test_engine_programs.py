"""What `make hive` and `make trino` show: TPC-H, or a warehouse of the user's."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.local_writes import LocalTable
from tools.engines.artifacts import EngineMissingError
from tools.engines.programs import warehouse_of


def test_a_warehouse_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(EngineMissingError, match=f"WAREHOUSE={text}: "):
            warehouse_of(text)
    options = {"hoodie.table.name": "Rides", "hoodie.datasource.write.recordkey.field": "k"}
    LocalTable.create(str(tmp_path / "Shop/Rides"), pa.schema([("k", pa.int64())]), options)
    monkeypatch.chdir(tmp_path.parent)
    made = warehouse_of(tmp_path.name)
    assert (made.table, made.rest) == ("shop.rides", "LIMIT 10")
    assert made.sync_arguments() == ("--all", str(tmp_path)), "each in its own database"
