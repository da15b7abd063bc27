"""The gateway as a service: proxy, rewriter, status page and query log put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from catalog.concurrency.late_tables import LateTables
from hudi_catalog.gateway.access_rules import NONE
from hudi_catalog.gateway.options import (
    PROXY_KEYS,
    RENEW_KEYS,
    REWRITE_KEYS,
    RULES,
    SCAN_KEYS,
    UPSTREAM,
    GatewayOptions,
    ProxySettings,
    RenewalOptions,
)
from hudi_catalog.gateway.proxy import GatewayProxy
from hudi_catalog.gateway.renewal import EntryRenewal, Event
from hudi_catalog.gateway.rewrite import Rewriter
from hudi_catalog.metastore.metastore import Metastore
from hudi_catalog.metastore.metastore_options import KERBEROS, METASTORE_KEYS, MetastoreOptions
from hudi_catalog.metastore.open_metastore import hive_addresses, open_metastore
from hudi_catalog.metastore.sync_options import SYNC_KEYS, SyncOptions
from hudi_catalog.metastore.trino_tables import SNAPSHOTS, TrinoTables
from hudi_catalog.option_groups import divided
from hudi_catalog.server.endpoints import Endpoint, StatusGuard
from hudi_catalog.server.hosting import BaseService, hosted
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.options import DRAIN_TIMEOUT, READ_TIMEOUT, TABLE_TIMEOUT, ServiceOptions
from hudi_catalog.server.query_log import QueryLog, open_log
from hudi_catalog.server.security import client_context, listening_context
from hudi_catalog.server.status import StatusServer
from hudi_catalog.server.warehouse_service import ServiceSettings

_LOG = logging.getLogger(__name__)
_NAME = "gateway"
_RULES_UNKNOWN = (
    f"Trino's rights, row filters and column masks for a table `s.t` do not apply to `s{SNAPSHOTS}.t__…`, to which "
    f"queries are rewritten, unless its rules match both names. Set {RULES} to the files with Trino's rules, so that "
    f"tables with differing rules are not rewritten, or to {NONE} if Trino has no such rules"
)


@dataclass(frozen=True)
class GatewaySettings(ServiceSettings):
    """Settings of the gateway.

    Its options are `hoodie.catalog.gateway.*`, `hoodie.catalog.sync.*`, `hoodie.catalog.metastore.*`, of scans as for
    services over a warehouse, and `hoodie.catalog.service.` for draining, reading and hung storage.

    Attributes:
        upstream: Trino's coordinator, `http://host:port` or `https://host:port`.
        metastore: that Trino's hive catalog uses, `thrift://host:port` or the URI of a file metastore's folder.
        upstream_ca: authority of Trino's certificate; None for the system's.
    """

    upstream: str
    metastore: str
    upstream_ca: str | None = None


class ServingGateway(BaseService):
    """The gateway with its port, status page, log and metrics.

    Args:
        settings: see `GatewaySettings`.

    Attributes:
        port: for clients, once it has started.
        http_port: of the status page, once it has started.
        log: of planned scans and statements.
        metrics: of requests and plans.
        rewriter: rewrites statements.

    Raises:
        OptionError: an invalid option, certificate or log file.
        MetastoreError: the metastore is unreachable.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        all_options = {UPSTREAM: settings.upstream, **settings.options}
        options = divided(
            all_options,
            {
                "proxy": PROXY_KEYS,
                "rewrite": (*REWRITE_KEYS, *SCAN_KEYS),
                "renewal": RENEW_KEYS,
                "sync": SYNC_KEYS,
                "metastore": METASTORE_KEYS,
                "service": (DRAIN_TIMEOUT, READ_TIMEOUT, TABLE_TIMEOUT),
            },
        )
        limits = ServiceOptions.parse(options["service"])
        proxy = ProxySettings.parse(
            options["proxy"], host=settings.host, port=settings.port, read_timeout=limits.read_timeout
        )
        tls = listening_context(settings.tls)
        upstream_tls = None if settings.upstream_ca is None else client_context(ca=settings.upstream_ca)
        metastore = open_metastore(settings.metastore, options=options["metastore"])
        self.metrics = Metrics()
        log = open_log(settings.query_log, self.metrics)
        late = LateTables(limits.table_timeout)
        tables = TrinoTables(metastore, SyncOptions.parse(options["sync"]), late=late)
        self.metrics.watch(_NAME, "late tables", lambda: len(late))
        self.metrics.watch_total(_NAME, "late", lambda: late.refused)
        self.metrics.watch_tables(_NAME, tables.held)
        self._renewal = EntryRenewal(tables, RenewalOptions.parse(options["renewal"]), _reporting(log))
        counts = self._renewal.counts
        self.metrics.watch(_NAME, "entries", lambda: counts.entries)
        self.metrics.watch(_NAME, "entries behind", lambda: counts.behind)
        self.metrics.watch_total(_NAME, "entries renewed", lambda: counts.moved)
        self.metrics.watch_total(_NAME, "entries not renewed", lambda: counts.failed)
        self.rewriter = Rewriter(tables, GatewayOptions.parse(options["rewrite"]), log)
        self._proxy = GatewayProxy(
            proxy,
            self.rewriter,
            log=log,
            metrics=self.metrics,
            secret=settings.secret,
            tls=tls,
            upstream_tls=upstream_tls,
        )
        status = StatusServer(
            _NAME,
            self.metrics,
            log,
            checks={"trino": self._proxy.check_upstream, "metastore": lambda: _check(metastore)},
            facts={"trino": proxy.upstream, "metastore": settings.metastore},
            host=settings.http_host,
            port=settings.http_port,
            guard=StatusGuard.of(settings.http_host, settings.tls, settings.secret),
            late=late,
            read_seconds=limits.read_timeout,
        )
        self._settings = settings
        self._metastore = MetastoreOptions.parse(options["metastore"])
        super().__init__(self._proxy, status, log, limits.drain_timeout)

    async def start(self) -> None:
        """Listen, and warn if Trino's access rules are not configured.

        Raises:
            ServiceError: an address is in use or not an address of this machine.
        """
        await super().start()
        self._renewal.start()
        if self.rewriter.options.rules is None:
            _LOG.warning("%s", _RULES_UNKNOWN)
            self.log.event(_NAME, "access rules", message=_RULES_UNKNOWN)

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; running requests get this many seconds to finish."""
        end = time.monotonic() + drain_seconds
        await asyncio.to_thread(self._renewal.stop)
        await super().stop(drain_seconds)
        await asyncio.to_thread(self.rewriter.tables.close, max(0.0, end - time.monotonic()))

    def _endpoints(self) -> list[Endpoint]:
        tls, known = self._settings.tls, self._metastore
        own = Endpoint(
            "the gateway",
            self._settings.host,
            self.port,
            encrypted=tls is not None,
            authenticated=self._settings.secret is not None or (tls is not None and tls.client_ca is not None),
            exposure="queries Trino under any name that Trino accepts",
            remedy="give it --tls-certificate, and --secret-file or --tls-client-ca",
        )
        metastores = [
            Endpoint(
                "the metastore",
                host,
                port,
                encrypted=known.tls or known.auth == KERBEROS,  # Kerberos protects messages itself
                authenticated=known.wants_password or known.auth == KERBEROS,
                exposure="changes where tables lie",
                remedy="see hoodie.catalog.metastore.auth and .tls",
            )
            for host, port in hive_addresses(self._settings.metastore)
        ]
        return [own, *metastores]

    def set_ready(self, ready: bool, /) -> None:
        """Set whether queries should be sent here; if not, new statements are refused."""
        super().set_ready(ready)
        if not ready:
            self._proxy.begin_drain()

    def busy(self) -> bool:
        """Whether queries are running."""
        return self._proxy.busy()


@contextlib.contextmanager
def running_gateway(settings: GatewaySettings) -> Iterator[ServingGateway]:
    """Run the gateway in a thread of its own while the `with` block lasts.

    Raises:
        HudiError: it fails to start.
    """
    serving = ServingGateway(settings)
    with hosted(serving):
        yield serving


def _reporting(log: QueryLog) -> Event:
    return lambda event, table, error: log.event(_NAME, event, table=table, error=error)


def _check(metastore: Metastore) -> None:
    metastore.schemas()
