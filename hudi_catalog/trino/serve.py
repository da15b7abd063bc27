"""Runs the service for Trino and Presto, and prints the catalog properties that connect them to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hudi_catalog.server.endpoints import Endpoint, address_for_clients
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.server.warehouse_service import WarehouseComponents, WarehouseService, WarehouseSettings
from hudi_catalog.trino.options import KEYS, SCAN_KEYS, TrinoOptions
from hudi_catalog.trino.service import TrinoService

_NAME = "trino"


class TrinoSettings(WarehouseSettings):
    """Settings of the service; its secret signs split ids and is random when None."""


class ServingTrino(WarehouseService):
    """The Thrift connector's service with its status page, query log and metrics.

    Args:
        settings: of the service.

    Attributes:
        service: handles the connector's calls.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
    """

    def __init__(self, settings: TrinoSettings) -> None:
        parts = WarehouseComponents(_NAME, settings, (*KEYS, *SCAN_KEYS))
        tables = WarehouseTables(parts.warehouse, parts.limits, table_options=parts.table_options)
        options = TrinoOptions.parse(parts.options)
        self.service = TrinoService(tables, options, parts.log, settings.secret, metrics=parts.metrics)
        super().__init__(parts, self.service, tables)
        self.metrics.watch(_NAME, "scans", lambda: self.service.open_scans)
        self._settings = settings

    def _endpoints(self) -> list[Endpoint]:
        tls = self._settings.tls
        return [
            Endpoint(
                "the service for Trino",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                authenticated=tls is not None and tls.client_ca is not None,
                exposure="reads all tables of the warehouse",
                remedy="give it --tls-certificate and --tls-client-ca",
            )
        ]

    def busy(self) -> bool:
        """Whether queries are running."""
        return self.service.busy()


@contextlib.contextmanager
def running_trino(settings: TrinoSettings) -> Iterator[ServingTrino]:
    """The service in a background thread for the duration of a `with` block.

    Raises:
        HudiError: it cannot be started.
    """
    serving = ServingTrino(settings)
    with hosted(serving):
        yield serving


def catalog_lines(host: str, port: int, *, tls: bool = False, presto: bool = False) -> list[str]:
    """The lines of a catalog properties file for Trino or Presto.

    Args:
        host: address that the service listens at; a wildcard becomes this machine's name.
        port: the service's port.
        tls: whether connections are encrypted.
        presto: whether they are for Presto, whose client needs its transport and protocol set.
    """
    address = address_for_clients(host, port)
    engine = "presto" if presto else "trino"
    client = f"{engine}.thrift.client"
    lines = [
        f"connector.name={'presto-thrift' if presto else 'trino_thrift'}",
        f"{client}.addresses={address}",
        f"{client}.max-frame-size=64MB",
        f"{engine}-thrift.max-response-size=32MB",
        # by default the client retries for 80 seconds before a query fails because the service is gone
        f"{client}.max-retry-time=20s",
    ]
    if presto:
        lines += [f"{client}.transport=FRAMED", f"{client}.protocol=BINARY"]
    if tls:
        lines.append(f"{client}.ssl.enabled=true")
        lines.append(f"# {client}.ssl.trust-certificate=<file with the certificate of the service's authority>")
    return lines
