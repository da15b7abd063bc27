"""A warehouse that real Trino reads in three ways: by the Thrift connector (A), the gateway (B), our connector (C)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from catalog.table import Table
from hudi_catalog.gateway.options import CATALOGS
from hudi_catalog.gateway.serve import GatewaySettings, ServingGateway, running_gateway
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import TrinoSync, sync_to_trino
from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.trino_engine import Engine

# decimals as doubles, so that SQL written for numbers runs through the connector, which has no decimals
OPTIONS = {"hoodie.catalog.trino.type.decimal": "double"}


class World:
    """One warehouse folder with a folder for each schema, served in all ways.

    Attributes:
        engine: Trino.
        warehouse: The folder.
        service: A and C.
    """

    def __init__(self, engine: Engine, warehouse: Path, stack: ExitStack) -> None:
        self.engine = engine
        self.warehouse = warehouse
        self._stack = stack
        self.service: ServingTrino = stack.enter_context(running_trino(TrinoSettings(str(warehouse), options=OPTIONS)))

    @cached_property
    def served(self) -> str:
        """Name of the catalog over A, made on first use."""
        return self.engine.thrift_catalog("served", self.service.port)

    @cached_property
    def own(self) -> str:
        """Name of the catalog of C, made on first use."""
        return self.engine.connector_catalog("own", self.service.port)

    @cached_property
    def gateway(self) -> ServingGateway:
        """B, started on first use."""
        metastore = f"file://{self.engine.metastore}"
        settings = GatewaySettings(self.engine.uri, metastore, options={CATALOGS: self.engine.hive})
        return self._stack.enter_context(running_gateway(settings))

    def folder(self, schema: str) -> Path:
        """Location of the tables of a schema."""
        made = self.warehouse / schema
        made.mkdir(parents=True, exist_ok=True)
        return made

    def register(self, schema: str, name: str, *, also_hudi: bool = False) -> TrinoSync:
        """Make a table known to Trino's own connectors."""
        table = Table.open(str(self.warehouse / schema / name))
        options = SyncOptions(database=schema, table=name)
        return sync_to_trino(table, FileMetastore(str(self.engine.metastore)), options, also_hudi=also_hudi)

    def through_service(self, sql: str, schema: str, **session: Any) -> list[tuple[Any, ...]]:
        """Rows by way of A."""
        return self.engine.query(sql, catalog=self.served, schema=schema, **session)

    def through_gateway(self, sql: str, schema: str, **session: Any) -> list[tuple[Any, ...]]:
        """Rows by way of B."""
        return self.engine.query(sql, catalog=self.engine.hive, schema=schema, port=self.gateway.port, **session)

    def through_connector(self, sql: str, schema: str, **session: Any) -> list[tuple[Any, ...]]:
        """Rows by way of C."""
        return self.engine.query(sql, catalog=self.own, schema=schema, **session)

    def by_trino(self, sql: str, schema: str, **session: Any) -> list[tuple[Any, ...]]:
        """Rows by Trino's own Hive connector, over the files of the snapshot last registered."""
        return self.engine.query(sql, catalog=self.engine.hive, schema=schema, **session)


@contextmanager
def another_service(
    engine: Engine, name: str, settings: TrinoSettings, **properties: str
) -> Iterator[tuple[ServingTrino, str]]:
    """A service of other options, and its catalog."""
    with running_trino(settings) as service:
        made = engine.thrift_catalog(name, service.port, **properties)
        try:
            yield service, made
        finally:
            engine.drop_catalog(made)


def planned(log: Any, table: str) -> list[Mapping[str, Any]]:
    """Records of scans of a table, oldest first."""
    return [record for record in reversed(log.recent()) if record.get("table") == table]
