"""A warehouse for the service of Trino and Presto, and a client that calls it as their connectors do."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from catalog import Catalog
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.serve import TrinoService
from hudi_catalog.trino.wire import presto_service, trino_service
from tests.support.local_writes import LocalTable
from tests.support.trino_calls import EVERYTHING, T, call, decoded_reply
from tests.support.trino_wire import block_values

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), metadata={"comment": "the key"}),
        pa.field("day", pa.string()),
        pa.field("Größe", pa.float32()),
        pa.field("price", pa.decimal128(10, 2)),
    ]
)
SECRET = Secret(b"of the service's tests")
ROWS = 600
NAMES = ["trino", "presto"]


def rows(keys: range) -> pa.Table:
    days = [f"2026-01-0{key % 3 + 1}" for key in keys]
    prices = pa.array([f"{key}.25" for key in keys]).cast(pa.decimal128(10, 2))
    sizes = pa.array([key / 4 for key in keys], pa.float32())
    return pa.table([pa.array(list(keys)), pa.array(days), sizes, prices], schema=SCHEMA)


def make_warehouse(folder: Path) -> Path:
    """A warehouse with the table `Db/Trips-1`, and one that cannot be read."""
    (folder / "Db").mkdir()
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "true",
    }
    table = LocalTable.create(str(folder / "Db" / "Trips-1"), SCHEMA, options)
    table.write("insert", rows(range(ROWS - 10)))
    table.write("upsert", rows(range(ROWS - 20, ROWS)))
    odd = folder / "broken" / ".hoodie"
    odd.mkdir(parents=True)
    (odd / "hoodie.properties").write_text("hoodie.table.name=broken\nhoodie.table.version=99\n")
    return folder


def served(
    warehouse: Path, secret: Secret | None = SECRET, metrics: Metrics | None = None, **options: str
) -> TrinoClient:
    parsed = TrinoOptions.parse({f"hoodie.catalog.trino.{key.replace('_', '.')}": v for key, v in options.items()})
    return TrinoClient(TrinoService(WarehouseTables(Catalog(str(warehouse))), parsed, secret=secret, metrics=metrics))


class FailedError(Exception):
    """The exception struct that the service answered with."""

    def __init__(self, struct: Any) -> None:
        super().__init__(struct.message)
        self.struct = struct


class TrinoClient:
    """A client of the service."""

    def __init__(self, service: TrinoService) -> None:
        self.service = service
        self.sequence = 100

    def ask(self, method: str, *arguments: Any, name: str = "trino") -> Any:
        module: ModuleType = presto_service() if name == "presto" else trino_service()
        self.sequence += 1
        reply = b"".join(self.service.dispatch(call(module, f"{name}{method}", self.sequence, *arguments)))
        called, sequence, result = decoded_reply(module, reply)
        assert (called, sequence) == (f"{name}{method}", self.sequence)
        if getattr(result, "ex1", None) is not None:
            raise FailedError(result.ex1)
        return result.success

    def splits(self, constraint: Any = EVERYTHING, most: int = 1000, token: bytes | None = None, **more: Any) -> Any:
        name = T.TrinoThriftSchemaTableName("db", more.pop("table", "trips_1"))
        columns = T.TrinoThriftNullableColumnSet(more.pop("columns", None))
        return self.ask("GetSplits", name, columns, constraint, most, nullable(token), **more)

    def page(
        self, split: bytes, columns: list[str], most: int = 1 << 20, token: bytes | None = None, **more: Any
    ) -> Any:
        return self.ask("GetRows", T.TrinoThriftId(split), columns, most, nullable(token), **more)

    def rows(self, batch: Any, columns: list[str], most: int = 1 << 20) -> list[tuple[Any, ...]]:
        values: list[tuple[Any, ...]] = []
        for split in batch.splits:
            token = None
            while True:
                page = self.page(split.splitId.id, columns, most, token)
                values += zip(*(block_values(one) for one in page.columnBlocks), strict=True)
                if page.nextToken is None:
                    break
                token = page.nextToken.id
        return sorted(values)


def nullable(token: bytes | None) -> Any:
    return T.TrinoThriftNullableToken(None if token is None else T.TrinoThriftId(token))
