"""A warehouse that real Hive reads through the storage handler and its service, and as plain Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog.table import Table
from hudi_catalog.hive.serve import HiveSettings, ServingHive, running_hive
from hudi_catalog.metastore.hive_sync import HiveSync, sync_to_hive
from hudi_catalog.metastore.hive_types import hive_columns
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import HiveSyncOptions, SyncOptions
from table_format.meta_columns import META_COLUMNS
from tests.engines.answers import snapshot_files
from tests.engines.hive_engine import Engine

HANDLER = "hudicatalog.hive.HudiStorageHandler"
ROW_HANDLER = "hudicatalog.hive.HudiRowStorageHandler"
SERVICE = "hoodie.catalog.hive.service"


class World:
    """One warehouse folder with a folder for each schema.

    Attributes:
        engine: Hive.
        warehouse: The folder.
        service: What the storage handler asks.
    """

    def __init__(self, engine: Engine, warehouse: Path, stack: ExitStack) -> None:
        self.engine = engine
        self.warehouse = warehouse
        self.service: ServingHive = stack.enter_context(running_hive(HiveSettings(str(warehouse))))

    @cached_property
    def metastore(self) -> str:
        """URI of Hive's metastore."""
        [(setting,)] = self.engine.query("SET hive.metastore.uris")
        return str(setting).partition("=")[2]

    @property
    def address(self) -> str:
        """Where the service listens."""
        return f"127.0.0.1:{self.service.port}"

    def folder(self, schema: str) -> Path:
        """Location of the tables of a schema."""
        made = self.warehouse / schema
        made.mkdir(parents=True, exist_ok=True)
        return made

    def register(self, schema: str, name: str, **more: Any) -> HiveSync:
        """Make a table known to Hive as `hudi-catalog sync` does.

        Args:
            schema: The table's schema.
            name: Of the table's folder, and of the table in Hive.
            more: Options of the sync for Hive.
        """
        hive = HiveSyncOptions(format="handler", service=self.address, **more)
        options = SyncOptions(database=self.engine.create_database(schema), table=name, hive=hive)
        return sync_to_hive(Table.open(str(self.warehouse / schema / name)), open_metastore(self.metastore), options)

    def declare(
        self,
        schema: str,
        name: str,
        columns: str,
        *,
        folder: str | Path | None = None,
        handler: str = HANDLER,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Make a table known to Hive by a statement, as somebody may write it; gives its full name.

        Args:
            schema: The table's schema.
            name: The table's name in Hive.
            columns: As SQL has them.
            folder: The table's folder; the one of its name where none is given.
            handler: Class of the storage handler.
            properties: Of the table, beside the address of the service.
        """
        database = self.engine.create_database(schema)
        location = folder if isinstance(folder, str) else (folder or self.warehouse / schema / name).as_uri()
        settings = ", ".join(
            f"'{key}'='{value}'" for key, value in {SERVICE: self.address, **(properties or {})}.items()
        )
        self.engine.run(f"DROP TABLE IF EXISTS {database}.{name}")
        self.engine.run(
            f"CREATE EXTERNAL TABLE {database}.{name} ({columns}) STORED BY '{handler}' LOCATION '{location}' "
            f"TBLPROPERTIES ({settings})"
        )
        return f"{database}.{name}"

    def declare_plain(self, schema: str, name: str) -> None:
        """The newest snapshot of a table as a plain Hive table over links to its files, in its own database."""
        table = self.warehouse / schema / name
        folder = self.warehouse / "plain" / schema / name
        folder.mkdir(parents=True)
        for number, file in enumerate(map(Path, snapshot_files(table))):
            os.link(file, folder / f"{number}-{file.name}")
        database = self.engine.create_database(f"{schema}_plain")
        self.engine.run(f"DROP TABLE IF EXISTS {database}.{name}")
        self.engine.run(
            f"CREATE EXTERNAL TABLE {database}.{name} ({declared_columns(table)}) STORED AS PARQUET "
            f"LOCATION '{folder.as_uri()}'"
        )

    def query(self, sql: str, schema: str, settings: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
        """Rows through the handler."""
        return self.engine.query(sql, self.engine.create_database(schema), settings)

    def plain(self, sql: str, schema: str, settings: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
        """Rows by Hive's own reading of the same files."""
        return self.engine.query(sql, self.engine.create_database(f"{schema}_plain"), settings)

    def planned(self, table: str) -> list[Mapping[str, Any]]:
        """The service's records of scans of a table (`schema.name`), oldest first."""
        schema, _, name = table.partition(".")
        wanted = f"{self.engine.own}_{schema}.{name}"
        return [record for record in reversed(self.service.log.recent()) if record.get("table") == wanted]


def declared_columns(table: Path) -> str:
    """A table's own columns, as Hive's SQL has them."""
    fields = [field for field in Table.open(str(table)).snapshot().schema if field.name not in META_COLUMNS]
    return ", ".join(f"`{column.name}` {column.type}" for column in hive_columns(pa.schema(fields)))


def each_alone(conditions: Sequence[str], table: str, select: str = "id") -> str:
    """One query that scans a table once for every condition: rows of the condition's number and a column."""
    parts = (f"SELECT {number} AS form, {select} FROM {table} WHERE {text}" for number, text in enumerate(conditions))
    return "\nUNION ALL ".join(parts)
