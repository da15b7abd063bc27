"""The service for the Thrift connectors of Trino and PrestoDB: the methods of their contract."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.server.thrift_calls import RAW_REPLY_TAIL, Buffers, Call, ThriftCalls, encode_reply, raw_reply_head
from hudi_catalog.trino.batches import OpenScans, SplitBatch, SplitBatches
from hudi_catalog.trino.metadata import Metadata
from hudi_catalog.trino.names import TableName, TableNames
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.planning import IndexPlanner, SplitPlanner
from hudi_catalog.trino.rows import RowServer
from hudi_catalog.trino.split_id import Purpose, SplitCodec
from hudi_catalog.trino.wire import presto_service, trino_service
from table_format.errors import SplitError

_NAME = "trino"
_PRESTO = b"presto"
_METHOD = slice(8, 8 + len(_PRESTO))  # start of the method's name, after version and length
_POSITION = struct.Struct(">Q")
_DIGEST_BYTES = 16


class TrinoService(ThriftCalls):
    """Handles the calls of the connectors. Thread-safe.

    Args:
        tables: of the warehouse.
        options: of types, splits and index look-ups.
        log: of planned scans; None to keep records in memory only.
        secret: signs split ids, so that other and later instances of the service accept them; random when None.
        metrics: counts requests, planned scans and served rows; may be None.
    """

    def __init__(
        self,
        tables: WarehouseTables,
        options: TrinoOptions | None = None,
        log: QueryLog | None = None,
        secret: Secret | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(_NAME, metrics)
        options = options or TrinoOptions()
        log = log or QueryLog()
        self._metrics = metrics
        self._scans = OpenScans()
        self._codec = SplitCodec(secret, options.split_lifetime)
        self._structs: Any = trino_service()
        self._tables = tables
        self._names = names = TableNames(tables)
        batches = SplitBatches(self._codec, self._scans, options.split_size)
        self._metadata = Metadata(tables, names, options)
        self._planner = SplitPlanner(tables, names, options, batches, log)
        self._index = IndexPlanner(tables, names, options, batches, log)
        self._rows = RowServer(tables, options)
        self._methods: Mapping[str, Callable[[Any], Any]] = {
            "ListSchemaNames": lambda _: self._metadata.schema_names(),
            "ListTables": lambda request: self._metadata.table_names(_lower(request.schemaNameOrNull.schemaName)),
            "GetSplits": self._splits,
            "GetIndexSplits": self._index_splits,
        }

    def _contract(self, frame: bytes) -> ModuleType:
        return presto_service() if frame[_METHOD] == _PRESTO else trino_service()

    def busy(self) -> bool:
        """Whether scans are in progress, which a stopping service should let finish."""
        return self.open_scans > 0

    @property
    def open_scans(self) -> int:
        """Number of scans in progress."""
        return self._scans.count()

    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        method = self._method(call)
        if method == "GetRows":
            request = call.arguments
            token = request.nextToken.token
            page = self._page(request.splitId.id, request.columns, request.maxBytes, token.id if token else None)
            return [raw_reply_head(call.name, call.sequence), *page, RAW_REPLY_TAIL]
        if method == "GetTableMetadata":
            name = _table_name(call.arguments)
            with self._watched(name):
                metadata = self._metadata.table(name, presto=contract is presto_service())
            return [encode_reply(contract, call, metadata)]
        return [encode_reply(contract, call, self._methods[method](call.arguments))]

    def _watched(self, requested: TableName) -> AbstractContextManager[None]:
        named = self._names.find(requested)
        return nullcontext() if named is None else self._tables.watched(named.name)

    def _splits(self, request: Any) -> Any:
        token, name = request.nextToken.token, _table_name(request)
        with self._watched(name):
            batch = self._planner.splits(
                name,
                desired=request.desiredColumns.columns,
                constraint=request.outputConstraint,
                limit=request.maxSplitCount,
                token=token.id if token else None,
            )
        return self._batch(batch)

    def _index_splits(self, request: Any) -> Any:
        token, name = request.nextToken.token, _table_name(request)
        with self._watched(name):
            batch = self._index.splits(
                name,
                index_columns=request.indexColumnNames,
                output_columns=request.outputColumnNames,
                keys=request.keys,
                constraint=request.outputConstraint,
                limit=request.maxSplitCount,
                token=token.id if token else None,
            )
        return self._batch(batch)

    def _batch(self, batch: SplitBatch) -> Any:
        identity = self._structs.TrinoThriftId
        splits = [self._structs.TrinoThriftSplit(identity(split), []) for split in batch.split_ids]
        token = None if batch.next_token is None else identity(batch.next_token)
        return self._structs.TrinoThriftSplitBatch(splits, token)

    def _page(self, split_id: bytes, columns: Sequence[str], most: int, token: bytes | None) -> Buffers:
        """A page of rows, as the buffers of its encoded struct."""
        split = self._codec.unpack(split_id)
        digest = _page_digest(split_id, columns)
        position = 0 if token is None else self._position(token, digest)

        def seal(after: int) -> bytes:
            return self._codec.seal(Purpose.PAGE_TOKEN, _POSITION.pack(after) + digest)

        with self._tables.watched(split.table):
            page = self._rows.page(split, columns, most, position, seal)
        self._scans.page_served(split.scan, is_last=page.is_last)
        if split.key_columns:
            self._index.reading(split.scan)
        if self._metrics is not None:
            self._metrics.served(_NAME, page.rows, sum(memoryview(part).nbytes for part in page.parts))
        return page.parts

    def _position(self, token: bytes, digest: bytes) -> int:
        payload = self._codec.open(Purpose.PAGE_TOKEN, token)
        if len(payload) != _POSITION.size + _DIGEST_BYTES or payload[_POSITION.size :] != digest:
            raise SplitError("a page token of another split, or for other columns")
        return int(_POSITION.unpack_from(payload)[0])

    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:
        prefix = "Presto" if call.name.startswith("presto") else "Trino"
        return getattr(contract, f"{prefix}ThriftServiceException")(message, retryable)

    def _method(self, call: Call) -> str:
        return call.name.removeprefix("presto").removeprefix("trino")


def _table_name(request: Any) -> TableName:
    name = request.schemaTableName
    return TableName(name.schemaName.lower(), name.tableName.lower())


def _lower(name: str | None) -> str | None:
    return None if name is None else name.lower()


def _page_digest(split_id: bytes, columns: Sequence[str]) -> bytes:
    digest = hashlib.sha256(split_id)
    for column in columns:
        name = column.encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(4, "big") + name)
    return digest.digest()[:_DIGEST_BYTES]
