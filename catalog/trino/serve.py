"""The service for Trino and Presto, put together from its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from catalog.catalog import Catalog
from catalog.option_groups import divided
from catalog.services.framed_server import FramedServer
from catalog.services.hosting import hosted
from catalog.services.metrics import Metrics
from catalog.services.open_tables import OpenTables
from catalog.services.options import KEYS as SERVICE_KEYS
from catalog.services.options import ServiceOptions
from catalog.services.query_log import open_log
from catalog.services.secret import Secret
from catalog.services.status_server import StatusServer
from catalog.services.tls import TlsFiles, server_context
from catalog.table_options import KEYS as TABLE_KEYS
from catalog.trino.options import KEYS as TRINO_KEYS
from catalog.trino.options import TrinoOptions
from catalog.trino.service import TrinoService
from table_format.errors import TableNotFoundError

_NAME = "trino"
_TOTALS = ("accepted", "refused", "requests", "failures", "bytes_in", "bytes_out")


@dataclass(frozen=True)
class TrinoSettings:
    """What the service is told.

    Attributes:
        warehouse: path or URI of the folder under which the tables lie.
        host: address to listen at.
        port: of the service, 0 for a free one.
        http_port: of the status page, 0 for a free one.
        options: by key: `hoodie.catalog.service.*`, `hoodie.catalog.trino.*`, and those of tables held open.
        secret: signs split ids; None for a random one.
        tls: what connections are encrypted with; None for no encryption.
        query_log: file of the query log, `-` for standard output, None to keep the newest records only.
    """

    warehouse: str
    host: str = "127.0.0.1"
    port: int = 0
    http_port: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    secret: Secret | None = None
    tls: TlsFiles | None = None
    query_log: str | None = None


class ServingTrino:
    """The service with its port, status page, log and counts; see `catalog.services.hosting.Service`.

    Args:
        settings: what it is told.

    Attributes:
        port: of the service, once it has started.
        http_port: of the status page, once it has started.
        log: of planned scans.
        metrics: counts.
        tables: that are held open.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
    """

    def __init__(self, settings: TrinoSettings) -> None:
        options = divided(settings.options, {"service": SERVICE_KEYS, "trino": TRINO_KEYS, "table": TABLE_KEYS})
        limits = ServiceOptions.parse(options["service"])
        tls = None if settings.tls is None else server_context(settings.tls)
        warehouse = Catalog(settings.warehouse)
        check_warehouse(warehouse)
        self.port = settings.port
        self.http_port = settings.http_port
        self.metrics = Metrics()
        self.log = open_log(settings.query_log, self.metrics)
        self.tables = OpenTables(warehouse, limits, table_options=options["table"])
        self.service = TrinoService(
            self.tables, TrinoOptions.parse(options["trino"]), self.log, settings.secret, metrics=self.metrics
        )
        self._limits = limits
        self._server = FramedServer(
            self.service.dispatch,
            limits,
            host=settings.host,
            port=settings.port,
            tls=tls,
            refuse=self.service.refuse,
        )
        self._status = StatusServer(
            _NAME,
            self.metrics,
            self.log,
            checks={"warehouse": lambda: check_warehouse(warehouse)},
            facts={"warehouse": warehouse.storage.uri},
            host=settings.host,
            port=settings.http_port,
        )
        self._watch()

    @property
    def drain_seconds(self) -> float:
        """How long running queries are waited for at the end."""
        return float(self._limits.drain_timeout)

    async def start(self) -> None:
        """Listen.

        Raises:
            ServiceError: an address is taken, or not one of this machine.
        """
        self.port = await self._server.start()
        try:
            self.http_port = await self._status.start()
        except BaseException:
            await self._server.stop()
            raise

    def set_ready(self, ready: bool, /) -> None:  # the protocol's
        """Say whether queries are to be sent here."""
        self._status.ready = ready

    def busy(self) -> bool:
        """Whether queries are running."""
        return self.service.busy()

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; requests in work get so many seconds."""
        self._status.ready = False
        await self._server.stop(drain_seconds)
        await self._status.stop()
        self.log.close()

    def reopen_log(self) -> None:
        """Open the log file anew."""
        self.log.reopen()

    def _watch(self) -> None:
        server = self._server
        self.metrics.watch(_NAME, "connections", lambda: server.counts.connections)
        self.metrics.watch(_NAME, "requests", lambda: server.counts.in_work)
        self.metrics.watch(_NAME, "tables", lambda: len(self.tables))
        self.metrics.watch(_NAME, "scans", lambda: self.service.open_scans)
        for name in _TOTALS:
            self.metrics.watch_total(_NAME, name, lambda name=name: getattr(server.counts, name))  # type: ignore[misc]


@contextlib.contextmanager
def running_trino(settings: TrinoSettings) -> Iterator[ServingTrino]:
    """The service in a thread of its own for as long as a `with` block lasts.

    Raises:
        HudiError: it cannot be started.
    """
    serving = ServingTrino(settings)
    with hosted(serving):
        yield serving


def check_warehouse(warehouse: Catalog) -> None:
    """Ask whether the warehouse can be reached.

    Raises:
        TableNotFoundError: there is no such folder.
        StorageError: the storage does not answer.
    """
    entry = warehouse.storage.entry("")
    if entry is None or not entry.is_dir:
        raise TableNotFoundError(f"{warehouse.storage.uri}: there is no such folder")
