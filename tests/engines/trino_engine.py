"""What engine tests need of a Trino server, whoever started it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trino

from hudi_catalog.trino.connector.plugin import catalog_lines as connector_lines
from hudi_catalog.trino.serve import catalog_lines
from tests.conftest import skip_or_fail
from tools.engines import trino_assembly, trino_jar
from tools.engines.artifacts import EngineMissingError
from tools.engines.trino import ASSEMBLED, VERSION


class Engine:
    """A running Trino with catalogs of this test session.

    The server reads this machine's files by `file:///` paths.

    Attributes:
        metastore: Folder of the file metastore that `hive` and `hudi` read.
        version: Release of Trino. Tests that use connectors which a later release lacks here are skipped on it.
    """

    def __init__(self, uri: str, metastore: Path, version: str = VERSION) -> None:
        self.uri = uri
        self.version = version
        self.host, self.port = str(urlsplit(uri).hostname), int(urlsplit(uri).port or 8080)
        self.metastore = metastore
        self._catalogs: list[str] = []
        self.own = f"t{os.getpid()}"
        self._of_metastore = {
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": f"file://{metastore}",
            "fs.hadoop.enabled": "true",
        }

    @cached_property
    def hudi(self) -> str:
        """Name of a catalog of Trino's connector hudi, made on first use."""
        return self.create_catalog("hudi", "hudi", self._of_metastore)

    @cached_property
    def hive(self) -> str:
        """Name of a catalog of Trino's connector hive, made on first use."""
        more = {"hive.hudi-catalog-name": self.hudi, "hive.domain-compaction-threshold": "100000"}
        return self.create_catalog("hive", "hive", {**self._of_metastore, **more})

    def create_catalog(self, name: str, connector: str, properties: Mapping[str, str]) -> str:
        """Make a catalog, dropped at the end of the session; gives its name, which has this session's prefix."""
        if self.version in ASSEMBLED and connector not in {"hudi_catalog", *trino_assembly.PLUGINS}:
            pytest.skip(f"Trino {self.version} is here without the connector {connector}")
        made = f"{self.own}_{name}"
        pairs = ", ".join(f""""{key}" = '{value}'""" for key, value in properties.items())
        self.query(f"CREATE CATALOG {made} USING {connector}" + (f" WITH ({pairs})" if pairs else ""))
        self._catalogs.append(made)
        return made

    def thrift_catalog(self, name: str, port: int, **properties: str) -> str:
        """A catalog over `hudi-catalog serve trino` on a port of this machine, as its command says to make it.

        Args:
            name: Of the catalog.
            port: Of the service.
            properties: More of the client's properties, with `_` for `-`.
        """
        lines = catalog_lines("127.0.0.1", port)
        settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        settings |= {f"trino.thrift.client.{key.replace('_', '-')}": value for key, value in properties.items()}
        return self.create_catalog(name, settings.pop("connector.name"), settings)

    def connector_catalog(self, name: str, port: int, files: Mapping[str, str] | None = None, **properties: str) -> str:
        """A catalog of our connector over `hudi-catalog serve trino` on a port of this machine.

        Args:
            name: Of the catalog.
            port: Of the service.
            files: Properties of Trino's file systems.
            properties: More of the connector's, without `hudi-catalog.` and with `_` for `-`.
        """
        try:
            trino_jar.build(self.version)
        except EngineMissingError as error:
            skip_or_fail(str(error))
        lines = connector_lines("127.0.0.1", port)
        settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        settings |= {f"hudi-catalog.{key.replace('_', '-')}": value for key, value in properties.items()}
        settings |= files or {}
        return self.create_catalog(name, settings.pop("connector.name"), settings)

    def drop_catalog(self, name: str) -> None:
        """Drop a catalog that this session made."""
        self._catalogs.remove(name)
        self.query(f'DROP CATALOG "{name}"')

    def drop_catalogs(self) -> None:
        """Drop all that this session made."""
        for name in reversed(tuple(self._catalogs)):
            self.drop_catalog(name)

    @contextmanager
    def connection(self, **session: Any) -> Iterator[trino.dbapi.Connection]:
        """A connection of Trino's Python client; `port=` reaches a gateway instead."""
        arguments = {"host": self.host, "port": self.port, "user": "test", **session}
        with closing(trino.dbapi.connect(**arguments)) as made:  # type: ignore[no-untyped-call]
            yield made

    def query(self, sql: str, **session: Any) -> list[tuple[Any, ...]]:
        """Rows of one statement; arguments of `trino.dbapi.connect` as keywords, such as catalog and schema."""
        with self.connection(**session) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def statistics(self, sql: str, **session: Any) -> dict[str, Any]:
        """What the server counted while it ran a statement: rows, bytes and splits read, times."""
        with self.connection(**session) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            cursor.fetchall()
            return dict(cursor.stats)
