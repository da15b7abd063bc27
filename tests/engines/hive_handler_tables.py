"""Tables of Hive's storage handler over a folder of Parquet files, for its tests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engines.hive_engine import ON_TEZ, Engine
from tests.engines.hive_fake_service import (
    Answer,
    parquet_splits,
)

KEY = "hoodie.catalog.hive."
COLUMNS = "id bigint, name string, k int"
WITHOUT_TASKS = {"hive.fetch.task.conversion": "more"}
ON_MAPREDUCE = {"hive.execution.engine": "mr", **ON_TEZ}
SOON = {f"{KEY}timeout.seconds": "2"}
NAMES = count()


class Tables:
    """Makes tables of the handler over a folder of Parquet files."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.database = engine.create_database("handler")

    def make(
        self,
        port: int | str,
        *,
        columns: str = COLUMNS,
        folder: Path | None = None,
        handler: str = "HudiStorageHandler",
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """A table that asks a port of this machine, or any addresses."""
        name = f"{self.database}.h{next(NAMES)}"
        service = f"127.0.0.1:{port}" if isinstance(port, int) else port
        settings = {f"{KEY}service": service, **(properties or {})}
        self.engine.run(
            f"CREATE EXTERNAL TABLE {name} ({columns}) STORED BY 'hudicatalog.hive.{handler}' "
            f"LOCATION '{located(folder or self.folder)}' TBLPROPERTIES ({texts(settings)})"
        )
        return name


def located(folder: Path) -> str:
    """A folder as Hive's LOCATION has it: nothing in it is escaped."""
    return f"file://{folder}"


def texts(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in properties.items())


def write(folder: Path, number: int) -> None:
    """A file of a hundred rows."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = range(number * 100, number * 100 + 100)
    rows = {"id": list(ids), "name": [f"n{i}" for i in ids], "k": pa.array([i % 7 for i in ids], pa.int32())}
    pq.write_table(pa.table(rows), folder / f"f{number}.parquet")


def handled_folder(made: pytest.TempPathFactory) -> Path:
    """Three files of a hundred rows."""
    folder = made.mktemp("handled")
    for number in range(3):
        write(folder, number)
    return folder


def answering(tables: Tables, splits: Answer) -> Answer:
    """Right but for the splits."""
    whole = parquet_splits(str(tables.folder))
    return lambda call: whole(call) if call.method == "pin" else splits(call)
