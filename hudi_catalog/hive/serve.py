"""The service for Hive, put together from its parts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from hudi_catalog.hive.options import KEYS, SCAN_KEYS, HiveOptions
from hudi_catalog.hive.service import HiveService
from hudi_catalog.hive.tables import TableFolders
from hudi_catalog.server.endpoints import Door
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.warehouse_service import WarehouseParts, WarehouseService, WarehouseSettings

_NAME = "hive"


class HiveSettings(WarehouseSettings):
    """What the service is told; its secret is that which callers have to know, and None lets everybody in."""


class ServingHive(WarehouseService):
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

    def __init__(self, settings: HiveSettings) -> None:
        parts = WarehouseParts(_NAME, settings, (*KEYS, *SCAN_KEYS))
        options = HiveOptions.parse(parts.options)
        tables = TableFolders(parts.warehouse, parts.limits, table_options=parts.table_options)
        self.service = HiveService(tables, options, parts.log, settings.secret, parts.metrics)
        super().__init__(parts, self.service, tables)
        self._settings = settings

    def _doors(self) -> list[Door]:
        tls, secret = self._settings.tls, self._settings.secret
        return [
            Door(
                "the service for Hive",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                checked=secret is not None or (tls is not None and tls.client_ca is not None),
                anybody="learns the files of all tables of the warehouse and what filters keep of them",
                remedy="give it --tls-certificate, and --secret-file or --tls-client-ca",
            )
        ]

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; requests in work get so many seconds."""
        await super().stop(drain_seconds)
        await asyncio.to_thread(self.service.close)


@contextlib.contextmanager
def running_hive(settings: HiveSettings) -> Iterator[ServingHive]:
    """The service in a thread of its own for as long as a `with` block lasts.

    Raises:
        HudiError: it cannot be started.
    """
    serving = ServingHive(settings)
    with hosted(serving):
        yield serving
