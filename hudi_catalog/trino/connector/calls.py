"""The calls of Trino's connector: their contract, who is admitted, and what answers them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from hudi_catalog.server.admission import Admission, Callers
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.server.thrift_calls import Buffers, Call, encode_reply
from hudi_catalog.trino.base.names import TableNames
from hudi_catalog.trino.connector.metadata import ConnectorMetadata, system_columns
from hudi_catalog.trino.connector.pages import encoded_page
from hudi_catalog.trino.connector.requests import Body
from hudi_catalog.trino.connector.scans import ConnectorOptions, ConnectorRows, ConnectorScans
from table_format.errors import HudiError, ServiceError

CALLERS: Final = Callers(
    earlier=dict.fromkeys((1, 2), "trino connector 1"),
    name="Trino's connector",
    possessive="Trino's",
    update="lay out the plugin's folder anew by `hudi-catalog trino-plugin` of the service's installation",
    setting="hudi-catalog.secret-file in Trino's catalog file",
)


class ConnectorCalls:
    """Answers the connector's calls. Thread-safe.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        options: of the service.
        log: of planned scans.
        secret: that callers have to know; None admits everybody.
        metrics: counts served rows; may be None.
    """

    def __init__(
        self,
        tables: WarehouseTables,
        names: TableNames,
        options: ConnectorOptions,
        log: QueryLog,
        *,
        secret: Secret | None,
        metrics: Metrics | None,
    ) -> None:
        self._tables = tables
        self._names = names
        self._log = log
        self._metrics = metrics
        self._admission = Admission(CALLERS, secret)
        scans = ConnectorScans(tables, names, options, log)
        self._rows = ConnectorRows(scans, options)
        self._metadata = ConnectorMetadata(tables, names, scans)
        self._of_warehouse: Mapping[str, Callable[[Body], Any]] = {
            "hudiTables": self._metadata.tables,
            "hudiColumns": self._metadata.columns,
        }
        self._of_table: Mapping[str, Callable[[Body], Any]] = {
            "hudiTable": self._metadata.table,
            "hudiPlan": scans.splits,
            "hudiBuckets": scans.buckets,
            "hudiEnforced": self._metadata.enforced,
            "hudiAggregates": self._metadata.aggregates,
            "hudiStatistics": self._metadata.statistics,
            "hudiRows": self._page,
            "hudiSystemTable": self._system_table,
        }

    def answer(self, contract: ModuleType, call: Call) -> Buffers:
        """The reply to a call.

        Raises:
            HudiError: the call is refused, and why.
        """
        request = call.arguments.request
        if call.name not in self._of_warehouse and call.name not in self._of_table:
            raise ServiceError(f"{call.name}: this port is Trino's; Hive's handler asks `hudi-catalog serve hive`")
        try:
            self._admission.check(call.name, request, call.arguments.credential)
            result = self._result(call.name, Body(request.body))
        except HudiError as error:
            body = "" if request is None else request.body
            self._log.event("trino", "refused", method=call.name, message=str(error), request=body)
            raise
        return [encode_reply(contract, call, result if isinstance(result, bytes) else json.dumps(result).encode())]

    def close(self) -> None:
        """Close partly read files."""
        self._rows.close()

    def _result(self, method: str, body: Body) -> Any:
        if method in self._of_warehouse:
            return self._of_warehouse[method](body)
        named = self._names.find(body.table)
        if named is None:
            return self._of_table[method](body)
        with self._tables.watched(named.name):
            return self._of_table[method](body)

    def _page(self, body: Body) -> bytes:
        page, rows = self._rows.page(body)
        if self._metrics is not None:
            self._metrics.served("trino", rows, len(page))
        return page

    def _system_table(self, body: Body) -> Any:
        table = self._metadata.system_table(body)
        if body.text_or_none("wanted") == "rows" and table is not None:
            return encoded_page(table)
        return None if table is None else {"columns": system_columns(table)}
