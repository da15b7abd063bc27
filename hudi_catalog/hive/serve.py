"""The service that Hive's storage handler calls: Thrift contract, authentication, replies, port and status page."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from hudi_catalog.hive.options import SCAN_KEYS, SECRET_FILE, SERVICE_KEYS, HiveOptions
from hudi_catalog.hive.planning import HivePlanner, TableFolders
from hudi_catalog.server.admission import VERSION, Admission, Callers, own_service
from hudi_catalog.server.endpoints import Endpoint
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.thrift_calls import Buffers, Call, ThriftCalls, encode_reply
from hudi_catalog.server.warehouse_service import WarehouseComponents, WarehouseService, WarehouseSettings
from table_format.errors import HudiError, ServiceError

HIVE_CALLERS: Final = Callers(
    earlier={2: "hive 2"},
    name="the storage handler",
    possessive="Hive's",
    update=(
        f"put the handler's jar of version {VERSION} into Hive, which `hudi-catalog hive-jar` of the service's "
        "installation names"
    ),
    setting=f"{SECRET_FILE} in Hive's configuration",
)


_NAME = "hive"
_POLL_SECONDS: Final = 0.05


class HiveService(ThriftCalls):
    """Answers the storage handler's calls; thread-safe.

    Args:
        tables: of the warehouse.
        options: splits, leases.
        log: query log; None to keep it in memory only.
        secret: shared with callers; None admits everybody.
        metrics: counts requests and planned scans; None for no metrics.
    """

    def __init__(
        self,
        tables: TableFolders,
        options: HiveOptions | None = None,
        log: QueryLog | None = None,
        secret: Secret | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(_NAME, metrics)
        self._log = log or QueryLog()
        self._admission = Admission(HIVE_CALLERS, secret)
        self._planner = HivePlanner(tables, options or HiveOptions(), self._log)
        self._structs: Any = own_service()
        self._answers = {
            "pin": self._planner.pin,
            "splits": self._splits,
            "statistics": self._statistics,
            "values": self._values,
        }

    def close(self, seconds: float | None = None) -> bool:
        """Start no work that outlives a request.

        Args:
            seconds: to wait at most for what was started; None until it is finished.

        Returns:
            Whether it is finished.
        """
        return self._planner.close(seconds)

    def _contract(self, frame: bytes) -> ModuleType:  # noqa: ARG002
        return own_service()

    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        request = call.arguments.request
        if call.name not in self._answers:
            raise ServiceError(
                f"{call.name}: this service is for Hive; Trino's connector asks `hudi-catalog serve trino`"
            )
        try:
            self._admission.check(call.name, request, call.arguments.credential)
            result = self._answers[call.name](request)
        except HudiError as error:
            details = (
                {}
                if request is None
                else {"table": request.table, "query": request.queryId, "location": request.location}
            )
            self._log.event(_NAME, "refused", method=call.name, message=str(error), **details)
            raise
        return [encode_reply(contract, call, result)]

    def _splits(self, request: Any) -> Any:
        scan = self._planner.splits(request)
        root = request.location.rstrip("/")
        split = self._structs.Split
        return self._structs.Splits(
            request.version,
            scan.pin,
            [split(f"{root}/{one.base}", one.start, one.length) for one in scan.splits],
            scan.files_total,
            scan.files_kept,
        )

    def _statistics(self, request: Any) -> Any:
        summary = self._planner.statistics(request)
        columns = [self._column(name, known, summary.rows) for name, known in summary.columns.items() if known]
        return self._structs.TableStatistics(
            request.version, summary.files, summary.bytes, summary.rows, summary.exact, columns
        )

    def _values(self, request: Any) -> Any:
        return self._structs.ColumnValues(request.version, self._planner.values(request))

    def _column(self, name: str, known: Mapping[str, float], rows: int | None) -> Any:
        nulls = None if rows is None or "nulls" not in known else math.ceil(known["nulls"] * rows)
        filled = None if rows is None else rows - (nulls or 0)
        distinct, length = known.get("distinct"), known.get("bytes")
        return self._structs.ColumnStatistics(
            name,
            nulls,
            known.get("low"),
            known.get("high"),
            None if distinct is None else round(distinct),
            length / filled if length is not None and filled else None,
            known.get("spread"),
        )

    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:  # noqa: ARG002
        refusal: Any = contract
        return refusal.Refusal(message, retryable)


class HiveSettings(WarehouseSettings):
    """Settings of the service; its secret authenticates callers, None admits everybody."""


class ServingHive(WarehouseService):
    """The service with its port, status page, log and metrics.

    Args:
        settings: see `HiveSettings`.

    Attributes:
        port: of the service, once it has started.
        http_port: of the status page, once it has started.
        log: of planned scans.
        metrics: counts.

    Raises:
        OptionError: an invalid option, certificate or log file.
        TableNotFoundError: the warehouse does not exist.
    """

    def __init__(self, settings: HiveSettings) -> None:
        parts = WarehouseComponents(_NAME, settings, (*SERVICE_KEYS, *SCAN_KEYS))
        options = HiveOptions.parse(parts.options)
        tables = TableFolders(parts.warehouse, parts.limits, table_options=parts.table_options)
        self.service = HiveService(tables, options, parts.log, settings.secret, parts.metrics)
        super().__init__(parts, self.service, tables)
        self._settings = settings

    def _endpoints(self) -> list[Endpoint]:
        tls, secret = self._settings.tls, self._settings.secret
        return [
            Endpoint(
                "the service for Hive",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                authenticated=secret is not None or (tls is not None and tls.client_ca is not None),
                exposure="learns the files of all tables of the warehouse, and values of their columns",
                remedy="give it --tls-certificate, and --secret-file or --tls-client-ca",
            )
        ]

    async def stop(self, drain_seconds: float, /) -> None:
        """Stop, giving requests in progress this many seconds."""
        end = time.monotonic() + drain_seconds
        await super().stop(drain_seconds)
        while not self.service.close(0) and time.monotonic() < end:  # noqa: ASYNC110  # threads know no event loop
            await asyncio.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def running_hive(settings: HiveSettings) -> Iterator[ServingHive]:
    """Run the service in a thread of its own while the `with` block lasts.

    Raises:
        HudiError: it fails to start.
    """
    serving = ServingHive(settings)
    with hosted(serving):
        yield serving
