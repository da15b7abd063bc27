"""Base of the services over a warehouse's tables: settings, Thrift server, status page, query log, metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from catalog.catalog import Catalog
from catalog.concurrency.late_tables import LateTables
from catalog.table import KEYS as TABLE_KEYS
from hudi_catalog.option_groups import divided
from hudi_catalog.server.endpoints import LOOPBACK, StatusGuard
from hudi_catalog.server.framed_server import FramedServer
from hudi_catalog.server.hosting import BaseService
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.options import KEYS as SERVICE_KEYS
from hudi_catalog.server.options import ServiceOptions
from hudi_catalog.server.query_log import QueryLog, open_log
from hudi_catalog.server.security import Secret, TlsFiles, listening_context
from hudi_catalog.server.status import StatusServer
from hudi_catalog.server.tables import TableCache
from hudi_catalog.server.thrift_calls import Buffers
from table_format.errors import HudiError, ServiceError

_TOTALS = ("accepted", "refused", "requests", "failures", "bytes_in", "bytes_out")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Settings that all services have; those of each service add its own.

    Attributes:
        host: address to listen at.
        port: the service's port, 0 for any free one.
        http_port: the status page's port, 0 for any free one.
        http_host: address that the status page listens at.
        options: values by key.
        secret: shared with other instances, and with clients where the service requires it; may be None.
        tls: the server's TLS files; None for unencrypted connections.
        query_log: path of the query log, `-` for standard output, None to keep the newest records in memory only.
    """

    host: str = LOOPBACK
    port: int = 0
    http_port: int = 0
    http_host: str = LOOPBACK
    options: Mapping[str, str] = field(default_factory=dict)
    secret: Secret | None = None
    tls: TlsFiles | None = None
    query_log: str | None = None


@dataclass(frozen=True)
class WarehouseSettings(ServiceSettings):
    """Settings of a service over a warehouse.

    Its options are `hoodie.catalog.service.*`, the service's own, those of open tables, and of scans
    `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.

    Attributes:
        warehouse: path or URI of the folder under which the tables lie.
    """

    warehouse: str


class Handler(Protocol):
    """Handles requests; see `hudi_catalog.server.thrift_calls.ThriftCalls`."""

    def dispatch(self, frame: bytes) -> Buffers | None:
        """The reply to a request."""

    def refuse(self, head: bytes, message: str) -> bytes | None:
        """The reply to a request of which only the first bytes were read."""

    def late_reply(self, frame: bytes, error: HudiError) -> Buffers | None:
        """The reply to a request that was abandoned."""


class WarehouseComponents:
    """What a service is built from: parsed options, warehouse, metrics and query log.

    Args:
        name: the service's name, such as `trino`.
        settings: of the service.
        keys: of the service's own options.

    Attributes:
        name: see Args.
        settings: see Args.
        options: the service's own options, by key.
        table_options: options for `Table.open`, by key.
        limits: limits and time-outs.
        tls: TLS context; None without TLS.
        warehouse: catalog of the tables.
        metrics: of the service.
        log: the query log.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
        StorageError: the warehouse cannot be listed.
    """

    def __init__(self, name: str, settings: WarehouseSettings, keys: Iterable[str]) -> None:
        groups = divided(settings.options, {"service": SERVICE_KEYS, "own": tuple(keys), "table": TABLE_KEYS})
        self.name = name
        self.settings = settings
        self.options, self.table_options = groups["own"], groups["table"]
        self.limits = ServiceOptions.parse(groups["service"])
        self.tls = listening_context(settings.tls)
        self.warehouse = Catalog(
            settings.warehouse, outside_links=self.limits.outside_links, late=LateTables(self.limits.table_timeout)
        )
        self.warehouse.check()
        self.metrics = Metrics()
        self.log: QueryLog = open_log(settings.query_log, self.metrics)


class WarehouseService(BaseService):
    """A Thrift service with its status page, query log and metrics.

    Args:
        parts: what it is built from.
        handler: handles the requests.
        tables: the open tables.

    Attributes:
        metrics: of the service.
        tables: see Args.
    """

    def __init__(self, parts: WarehouseComponents, handler: Handler, tables: TableCache) -> None:
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
            late_reply=handler.late_reply,
        )
        status = StatusServer(
            parts.name,
            parts.metrics,
            parts.log,
            checks={"warehouse": parts.warehouse.check, "tables": self._check_tables},
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
        """Whether requests are in progress."""
        return self._framed.counts.in_work > 0

    def _check_tables(self) -> None:
        self.tables.check_late()
        if self._framed.workers.exhausted:
            raise ServiceError(f"{self._framed.workers.lost} threads wait for storages that do not respond")

    def _watch(self, name: str) -> None:
        server = self._framed
        self.metrics.watch(name, "tables", lambda: len(self.tables))
        self.metrics.watch(name, "late tables", lambda: len(self.tables.late))
        self.metrics.watch_tables(name, self.tables.held)
        self.metrics.watch_total(name, "late", lambda: self.tables.late.refused)
        self.metrics.watch(name, "connections", lambda: server.counts.connections)
        self.metrics.watch(name, "requests", lambda: server.counts.in_work)
        for total in _TOTALS:
            self.metrics.watch_total(name, total, lambda total=total: getattr(server.counts, total))  # type: ignore[misc]
