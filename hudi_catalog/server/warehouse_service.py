"""What services over a warehouse's tables have in common, put together: server, status page, log, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from catalog.catalog import Catalog
from catalog.late_tables import LateTables
from catalog.table_options import KEYS as TABLE_KEYS
from hudi_catalog.option_groups import divided
from hudi_catalog.server.endpoints import LOOPBACK, StatusGuard
from hudi_catalog.server.framed_server import FramedServer
from hudi_catalog.server.hosting import ServiceBesideStatus
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.options import KEYS as SERVICE_KEYS
from hudi_catalog.server.options import ServiceOptions
from hudi_catalog.server.query_log import QueryLog, open_log
from hudi_catalog.server.security import Secret, TlsFiles, server_context
from hudi_catalog.server.status import StatusServer
from hudi_catalog.server.tables import HeldTables
from hudi_catalog.server.thrift_calls import Parts
from table_format.errors import HudiError, ServiceError, TableNotFoundError

_TOTALS = ("accepted", "refused", "requests", "failures", "bytes_in", "bytes_out")


@dataclass(frozen=True)
class WarehouseSettings:
    """What a service over a warehouse is told.

    Attributes:
        warehouse: path or URI of the folder under which the tables lie.
        host: address to listen at.
        port: of the service, 0 for a free one.
        http_port: of the status page, 0 for a free one.
        http_host: address that the status page listens at.
        options: by key: `hoodie.catalog.service.*`, those of the service itself, those of tables held open, and of
            scans `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
        secret: that it shares with others of its kind, and with clients that know one; None for none.
        tls: what connections are encrypted with; None for no encryption.
        query_log: file of the query log, `-` for standard output, None to keep the newest records only.
    """

    warehouse: str
    host: str = LOOPBACK
    port: int = 0
    http_port: int = 0
    http_host: str = LOOPBACK
    options: Mapping[str, str] = field(default_factory=dict)
    secret: Secret | None = None
    tls: TlsFiles | None = None
    query_log: str | None = None


class Handler(Protocol):
    """What answers the requests; see `hudi_catalog.server.thrift_calls.ThriftCalls`."""

    def dispatch(self, frame: bytes) -> Parts | None:
        """The reply to a request."""

    def refuse(self, beginning: bytes, message: str) -> bytes | None:
        """The reply to a request of which only the beginning was taken."""

    def given_up(self, frame: bytes, error: HudiError) -> Parts | None:
        """The reply to a request whose work is not waited for any longer."""


class WarehouseParts:
    """What a service is built from, before there is anything that answers.

    Args:
        name: of the service, such as `trino`.
        settings: what it is told.
        keys: of its own options.

    Attributes:
        name: what was given.
        settings: what was given.
        options: its own ones.
        table_options: as for `Table.open`.
        limits: of the network side.
        warehouse: with the tables.
        metrics: counts.
        log: of planned scans.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
    """

    def __init__(self, name: str, settings: WarehouseSettings, keys: Iterable[str]) -> None:
        groups = divided(settings.options, {"service": SERVICE_KEYS, "own": tuple(keys), "table": TABLE_KEYS})
        self.name = name
        self.settings = settings
        self.options, self.table_options = groups["own"], groups["table"]
        self.limits = ServiceOptions.parse(groups["service"])
        self.tls = None if settings.tls is None else server_context(settings.tls)
        self.warehouse = Catalog(
            settings.warehouse, outside_links=self.limits.outside_links, late=LateTables(self.limits.table_timeout)
        )
        check_warehouse(self.warehouse)
        self.metrics = Metrics()
        self.log: QueryLog = open_log(settings.query_log, self.metrics)


class WarehouseService(ServiceBesideStatus):
    """A service with its port, status page, log and counts.

    Args:
        parts: what it is built from.
        handler: answers the requests.
        tables: that are held open.

    Attributes:
        metrics: counts.
        tables: what was given.
    """

    def __init__(self, parts: WarehouseParts, handler: Handler, tables: HeldTables) -> None:
        settings = parts.settings
        self.metrics = parts.metrics
        self.tables = tables
        self._framed = FramedServer(
            handler.dispatch,
            parts.limits,
            host=settings.host,
            port=settings.port,
            tls=parts.tls,
            refuse=handler.refuse,
            given_up=handler.given_up,
        )
        status = StatusServer(
            parts.name,
            parts.metrics,
            parts.log,
            checks={"warehouse": lambda: check_warehouse(parts.warehouse), "tables": self._check_tables},
            late=tables.late,
            facts={"warehouse": parts.warehouse.storage.uri},
            host=settings.http_host,
            port=settings.http_port,
            guard=StatusGuard.of(settings.http_host, settings.tls, settings.secret),
            read_seconds=parts.limits.read_timeout,
        )
        super().__init__(self._framed, status, parts.log, parts.limits.drain_timeout)
        self._watch(parts.name)

    def busy(self) -> bool:
        """Whether requests are in work."""
        return self._framed.counts.in_work > 0

    def _check_tables(self) -> None:
        self.tables.check_late()
        if self._framed.workers.exhausted:
            raise ServiceError(f"{self._framed.workers.lost} threads wait for storages that do not answer")

    def _watch(self, name: str) -> None:
        server = self._framed
        self.metrics.watch(name, "tables", lambda: len(self.tables))
        self.metrics.watch(name, "late tables", lambda: len(self.tables.late))
        self.metrics.watch_total(name, "late", lambda: self.tables.late.refused)
        self.metrics.watch(name, "connections", lambda: server.counts.connections)
        self.metrics.watch(name, "requests", lambda: server.counts.in_work)
        for total in _TOTALS:
            self.metrics.watch_total(name, total, lambda total=total: getattr(server.counts, total))  # type: ignore[misc]


def check_warehouse(warehouse: Catalog) -> None:
    """Ask whether the warehouse can be reached.

    Raises:
        TableNotFoundError: there is no such folder.
        StorageError: the storage does not answer.
    """
    entry = warehouse.storage.entry("")
    if entry is None or not entry.is_dir:
        raise TableNotFoundError(f"{warehouse.storage.uri}: there is no such folder")
