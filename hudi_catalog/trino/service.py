"""The service that Trino's and PrestoDB's Thrift connectors talk to: one call in, one reply out."""

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
_METHOD = slice(8, 8 + len(_PRESTO))  # behind the version and the length of the method's name
_POSITION = struct.Struct(">Q")
_DIGEST_BYTES = 16


class TrinoService(ThriftCalls):
    """Answers the calls of the connectors; threads may share it.

    Args:
        tables: of the warehouse.
        options: types, splits, index look-ups.
        log: of planned scans; kept in memory alone when None.
        secret: signs split ids, so that other instances of the service and later ones know them; a random one when
            None.
        metrics: counts requests, planned scans and served rows; None for nobody.
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
        given = options or TrinoOptions()
        kept_log = log or QueryLog()
        self._metrics = metrics
        self._scans = OpenScans()
        self._codec = SplitCodec(secret, given.split_lifetime)
        self._structs: Any = trino_service()
        self._tables = tables
        self._names = names = TableNames(tables)
        batches = SplitBatches(self._codec, self._scans, given.split_size)
        self._metadata = Metadata(tables, names, given)
        self._planner = SplitPlanner(tables, names, given, batches, kept_log)
        self._index = IndexPlanner(tables, names, given, batches, kept_log)
        self._rows = RowServer(tables, given)
        self._methods: Mapping[str, Callable[[Any], Any]] = {
            "ListSchemaNames": lambda _: self._metadata.schema_names(),
            "ListTables": lambda asked: self._metadata.table_names(_lower(asked.schemaNameOrNull.schemaName)),
            "GetSplits": self._splits,
            "GetIndexSplits": self._index_splits,
        }

    def _contract(self, frame: bytes) -> ModuleType:
        return presto_service() if frame[_METHOD] == _PRESTO else trino_service()

    def busy(self) -> bool:
        """Whether scans are under way, for which a service that is to stop should wait."""
        return self.open_scans > 0

    @property
    def open_scans(self) -> int:
        """How many scans are not read to their end."""
        return self._scans.count()

    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        method = self._method(call)
        if method == "GetRows":
            asked = call.arguments
            token = asked.nextToken.token
            page = self._page(asked.splitId.id, asked.columns, asked.maxBytes, token.id if token else None)
            return [raw_reply_head(call.name, call.sequence), *page, RAW_REPLY_TAIL]
        if method == "GetTableMetadata":
            name = _table_name(call.arguments)
            with self._watched(name):
                metadata = self._metadata.table(name, presto=contract is presto_service())
            return [encode_reply(contract, call, metadata)]
        return [encode_reply(contract, call, self._methods[method](call.arguments))]

    def _watched(self, said: TableName) -> AbstractContextManager[None]:
        named = self._names.find(said)
        return nullcontext() if named is None else self._tables.watched(named.name)

    def _splits(self, asked: Any) -> Any:
        token, name = asked.nextToken.token, _table_name(asked)
        with self._watched(name):
            batch = self._planner.splits(
                name,
                desired=asked.desiredColumns.columns,
                constraint=asked.outputConstraint,
                most=asked.maxSplitCount,
                token=token.id if token else None,
            )
        return self._batch(batch)

    def _index_splits(self, asked: Any) -> Any:
        token, name = asked.nextToken.token, _table_name(asked)
        with self._watched(name):
            batch = self._index.splits(
                name,
                index_columns=asked.indexColumnNames,
                output_columns=asked.outputColumnNames,
                keys=asked.keys,
                constraint=asked.outputConstraint,
                most=asked.maxSplitCount,
                token=token.id if token else None,
            )
        return self._batch(batch)

    def _batch(self, batch: SplitBatch) -> Any:
        identity = self._structs.TrinoThriftId
        splits = [self._structs.TrinoThriftSplit(identity(split), []) for split in batch.split_ids]
        token = None if batch.next_token is None else identity(batch.next_token)
        return self._structs.TrinoThriftSplitBatch(splits, token)

    def _page(self, split_id: bytes, columns: Sequence[str], most: int, token: bytes | None) -> Buffers:
        """A page of rows, as the parts of its encoded struct."""
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


def _table_name(asked: Any) -> TableName:
    name = asked.schemaTableName
    return TableName(name.schemaName.lower(), name.tableName.lower())


def _lower(name: str | None) -> str | None:
    return None if name is None else name.lower()


def _page_digest(split_id: bytes, columns: Sequence[str]) -> bytes:
    told = hashlib.sha256(split_id)
    for column in columns:
        name = column.encode("utf-8", "surrogatepass")
        told.update(len(name).to_bytes(4, "big") + name)
    return told.digest()[:_DIGEST_BYTES]
