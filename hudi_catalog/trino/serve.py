"""The service for Trino and Presto, put together from its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hudi_catalog.server.doors import Door
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.open_tables import OpenTables
from hudi_catalog.server.warehouse_service import WarehouseParts, WarehouseService, WarehouseSettings
from hudi_catalog.trino.options import KEYS, SCAN_KEYS, TrinoOptions
from hudi_catalog.trino.service import TrinoService

_NAME = "trino"


class TrinoSettings(WarehouseSettings):
    """What the service is told; its secret signs split ids, and is a random one when None is given."""


class ServingTrino(WarehouseService):
    """The service with its port, status page, log and counts.

    Args:
        settings: what it is told.

    Attributes:
        port: of the service, once it has started.
        http_port: of the status page, once it has started.
        log: of planned scans.
        metrics: counts.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
    """

    def __init__(self, settings: TrinoSettings) -> None:
        parts = WarehouseParts(_NAME, settings, (*KEYS, *SCAN_KEYS))
        tables = OpenTables(parts.warehouse, parts.limits, table_options=parts.table_options)
        options = TrinoOptions.parse(parts.options)
        self.service = TrinoService(tables, options, parts.log, settings.secret, metrics=parts.metrics)
        super().__init__(parts, self.service, tables)
        self.metrics.watch(_NAME, "scans", lambda: self.service.open_scans)
        self._settings = settings

    def _doors(self) -> list[Door]:
        tls = self._settings.tls
        return [
            Door(
                "the service for Trino",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                checked=tls is not None and tls.client_ca is not None,
                anybody="reads all tables of the warehouse",
                remedy="give it --tls-certificate and --tls-client-ca",
            )
        ]

    def busy(self) -> bool:
        """Whether queries are running."""
        return self.service.busy()


@contextlib.contextmanager
def running_trino(settings: TrinoSettings) -> Iterator[ServingTrino]:
    """The service in a thread of its own for as long as a `with` block lasts.

    Raises:
        HudiError: it cannot be started.
    """
    serving = ServingTrino(settings)
    with hosted(serving):
        yield serving
