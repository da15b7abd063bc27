"""The service that Hive's storage handler talks to: one call in, one reply out."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hudi_catalog.hive.options import HiveOptions
from hudi_catalog.hive.planning import HivePlanner
from hudi_catalog.hive.tables import TableFolders
from hudi_catalog.hive.wire import Admission, hive_service
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.thrift_calls import Call, Parts, ThriftCalls, encode_reply
from table_format.errors import HudiError

_NAME = "hive"


class HiveService(ThriftCalls):
    """Answers the calls of the storage handler; threads may share it.

    Args:
        tables: of the warehouse.
        options: splits, leases.
        log: of planned scans; kept in memory alone when None.
        secret: that callers have to know; None lets everybody in.
        metrics: counts requests and planned scans; None for nobody.
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
        self._admission = Admission(secret)
        self._planner = HivePlanner(tables, options or HiveOptions(), self._log)
        self._structs: Any = hive_service()

    def close(self) -> None:
        """Begin nothing more that outlives a request."""
        self._planner.close()

    def _contract(self, frame: bytes) -> ModuleType:  # noqa: ARG002
        return hive_service()

    def _answer(self, contract: ModuleType, call: Call) -> Parts:
        asked = call.arguments.request
        try:
            self._admission.check(call.name, asked, call.arguments.credential)
            result = self._planner.pin(asked) if call.name == "pin" else self._splits(asked)
        except HudiError as error:
            told = {} if asked is None else {"table": asked.table, "query": asked.queryId, "location": asked.location}
            self._log.event(_NAME, "refused", method=call.name, message=str(error), **told)
            raise
        return [encode_reply(contract, call, result)]

    def _splits(self, asked: Any) -> Any:
        scan = self._planner.splits(asked)
        root = asked.location.rstrip("/")
        split = self._structs.Split
        return self._structs.Splits(
            asked.version,
            scan.pin,
            [split(f"{root}/{one.path}", one.start, one.length) for one in scan.splits],
            scan.files_total,
            scan.files_kept,
        )

    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:  # noqa: ARG002
        refusal: Any = contract
        return refusal.Refusal(message, retryable)
