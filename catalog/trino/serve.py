"""The service for Trino and Presto, put together from its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from catalog.catalog import Catalog
from catalog.option_groups import divided
from catalog.services.beside_status import ServiceBesideStatus
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
from catalog.trino.options import SCAN_KEYS, TrinoOptions
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
        options: by key: `hoodie.catalog.service.*`, `hoodie.catalog.trino.*`, those of tables held open, and of scans
            `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
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


class ServingTrino(ServiceBesideStatus):
    """The service with its port, status page, log and counts.

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
        options = divided(
            settings.options, {"service": SERVICE_KEYS, "trino": (*TRINO_KEYS, *SCAN_KEYS), "table": TABLE_KEYS}
        )
        limits = ServiceOptions.parse(options["service"])
        tls = None if settings.tls is None else server_context(settings.tls)
        warehouse = Catalog(settings.warehouse)
        check_warehouse(warehouse)
        self.metrics = Metrics()
        log = open_log(settings.query_log, self.metrics)
        self.tables = OpenTables(warehouse, limits, table_options=options["table"])
        self.service = TrinoService(
            self.tables, TrinoOptions.parse(options["trino"]), log, settings.secret, metrics=self.metrics
        )
        server = FramedServer(
            self.service.dispatch,
            limits,
            host=settings.host,
            port=settings.port,
            tls=tls,
            refuse=self.service.refuse,
        )
        status = StatusServer(
            _NAME,
            self.metrics,
            log,
            checks={"warehouse": lambda: check_warehouse(warehouse)},
            facts={"warehouse": warehouse.storage.uri},
            host=settings.host,
            port=settings.http_port,
        )
        super().__init__(server, status, log, limits.drain_timeout)
        self._watch(server)

    def busy(self) -> bool:
        """Whether queries are running."""
        return self.service.busy()

    def _watch(self, server: FramedServer) -> None:
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
