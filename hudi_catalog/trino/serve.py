"""The service that Trino asks: methods of our connector and of the Thrift connectors, port and status page."""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

from catalog.table import Table
from hudi_catalog.server.admission import own_methods, own_service
from hudi_catalog.server.endpoints import Endpoint, address_for_clients
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.server.thrift_calls import RAW_REPLY_TAIL, Buffers, Call, ThriftCalls, encode_reply, raw_reply_head
from hudi_catalog.server.warehouse_service import WarehouseComponents, WarehouseService, WarehouseSettings
from hudi_catalog.trino.base.names import TableName, TableNames
from hudi_catalog.trino.base.scans import newest_schema, table_comment
from hudi_catalog.trino.batches import OpenScans, SplitBatch, SplitBatches
from hudi_catalog.trino.connector.calls import ConnectorCalls
from hudi_catalog.trino.options import KEYS, SCAN_KEYS, THRIFT_CONNECTORS, TrinoOptions
from hudi_catalog.trino.planning import IndexPlanner, SplitPlanner
from hudi_catalog.trino.rows import RowServer
from hudi_catalog.trino.split_id import Purpose, SplitCodec
from hudi_catalog.trino.types import Form, ServedColumn, columns_of
from hudi_catalog.trino.wire import presto_service, trino_service
from table_format.config.table_config import PROPERTIES_PATH
from table_format.errors import ServiceError, SplitError
from table_format.meta_columns import RECORD_KEY


class Metadata:
    """Reports metadata from tables' properties and timelines alone, without listing files.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        options: of the service.
    """

    def __init__(self, tables: WarehouseTables, names: TableNames, options: TrinoOptions) -> None:
        self._tables = tables
        self._names = names
        self._options = options
        self._structs: Any = trino_service()

    def schema_names(self) -> list[str]:
        """Names of the schemas that have tables."""
        return self._names.schemas()

    def table_names(self, schema: str | None) -> list[Any]:
        """A ``TrinoThriftSchemaTableName`` for each readable table, of one schema or of all."""
        return [self._structs.TrinoThriftSchemaTableName(*name) for name in self._names.readable(schema)]

    def table(self, name: TableName, *, presto: bool = False) -> Any:
        """A ``TrinoThriftNullableTableMetadata``, empty when there is no such table.

        Args:
            name: of the table.
            presto: use Presto's type names; its ``timestamp`` has milliseconds.

        Raises:
            HudiError: the table cannot be read, or not as of the instant in its name.
        """
        named = self._names.find(name)
        if named is None:
            return self._structs.TrinoThriftNullableTableMetadata()
        table = self._tables.table(named.name)
        if not table.client.storage.exists(PROPERTIES_PATH):  # dropped, but still open here
            return self._structs.TrinoThriftNullableTableMetadata()
        schema = newest_schema(table) if named.when is None else self._names.snapshot(named).schema
        columns = columns_of(schema, self._options.types)
        keys = indexable_keys(table, columns) if self._joins_by_index(named.name) else ()
        metadata = self._structs.TrinoThriftTableMetadata(
            self._structs.TrinoThriftSchemaTableName(*name),
            [self._column(column, presto=presto) for column in columns],
            table_comment(table, named.when),
            [sorted(names) for names in keys] or None,
        )
        return self._structs.TrinoThriftNullableTableMetadata(metadata)

    def _column(self, column: ServedColumn, *, presto: bool) -> Any:
        comment = "; ".join(text for text in (column.comment, column.problem) if text)
        kind = _PRESTO_TYPES.get(column.trino_type, column.trino_type) if presto else column.trino_type
        return self._structs.TrinoThriftColumnMetadata(column.name, kind, comment or None, column.hidden)

    def _joins_by_index(self, name: str) -> bool:
        return any(fnmatchcase(str(TableName.of(name)), pattern.lower()) for pattern in self._options.index_joins)


def indexable_keys(table: Table, columns: Sequence[ServedColumn]) -> list[frozenset[str]]:
    """The sets of columns, by their names in Trino, that rows can be looked up by.

    These are the record key, its part that buckets are hashed from, and the meta column of record keys, each with and
    without the partition columns. All columns must be served unconverted, because other values do not round-trip.
    """
    by_source = {column.source: column for column in columns}
    keys: dict[frozenset[str], None] = {}
    for sources in _key_sets(table):
        served = [by_source.get(source) for source in sources]
        if all(one is not None and one.form is Form.PLAIN and one.trino_type in _KEY_TYPES for one in served):
            keys[frozenset(one.name for one in served if one is not None)] = None
    return list(keys)


_PRESTO_TYPES = {"timestamp(3)": "timestamp"}

# Without double, which has two zeros and NaN, and without lists.
_KEY_TYPES = frozenset({"integer", "bigint", "varchar", "date", "boolean"})


def _key_sets(table: Table) -> Iterator[tuple[str, ...]]:
    config = table.config
    keys, partitions = config.record_key_fields, config.partition_fields
    sets = [keys, config.bucket_hash_fields or (), (RECORD_KEY,) if config.populate_meta_fields else ()]
    for one in sets:
        if one:
            yield tuple(dict.fromkeys(one))
            if partitions:
                yield tuple(dict.fromkeys([*one, *partitions]))


_NAME = "trino"
_PRESTO = b"presto"
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
        self._connector = ConnectorCalls(tables, names, options.connector, log, secret=secret, metrics=metrics)
        self._has_thrift = options.thrift_connectors
        self._rows = RowServer(tables, options)
        self._methods: Mapping[str, Callable[[Any], Any]] = {
            "ListSchemaNames": lambda _: self._metadata.schema_names(),
            "ListTables": lambda request: self._metadata.table_names(_lower(request.schemaNameOrNull.schemaName)),
            "GetSplits": self._splits,
            "GetIndexSplits": self._index_splits,
        }

    def _contract(self, frame: bytes) -> ModuleType:
        name = frame[8 : 8 + int.from_bytes(frame[4:8])]  # after version and length
        if name in own_methods():
            return own_service()
        return presto_service() if name.startswith(_PRESTO) else trino_service()

    def busy(self) -> bool:
        """Whether scans are in progress, which a stopping service should let finish."""
        return self.open_scans > 0

    @property
    def open_scans(self) -> int:
        """Number of scans in progress."""
        return self._scans.count()

    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        if contract is own_service():
            return self._connector.answer(contract, call)
        if not self._has_thrift:
            raise ServiceError(f"this service answers our own connector alone: {THRIFT_CONNECTORS} is false")
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
        if contract is own_service():
            refusal: Any = contract
            return refusal.Refusal(message, retryable)
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


class TrinoSettings(WarehouseSettings):
    """Settings of the service; its secret signs split ids and is random when None."""


class ServingTrino(WarehouseService):
    """The Thrift connector's service with its status page, query log and metrics.

    Args:
        settings: of the service.

    Attributes:
        service: handles the connector's calls.

    Raises:
        OptionError: an option, a certificate or the log file cannot be used.
        TableNotFoundError: there is no such warehouse.
    """

    def __init__(self, settings: TrinoSettings) -> None:
        parts = WarehouseComponents(_NAME, settings, (*KEYS, *SCAN_KEYS))
        tables = WarehouseTables(parts.warehouse, parts.limits, table_options=parts.table_options)
        options = TrinoOptions.parse(parts.options)
        self.service = TrinoService(tables, options, parts.log, settings.secret, metrics=parts.metrics)
        super().__init__(parts, self.service, tables)
        self.metrics.watch(_NAME, "scans", lambda: self.service.open_scans)
        self._settings = settings

    def _endpoints(self) -> list[Endpoint]:
        tls = self._settings.tls
        return [
            Endpoint(
                "the service for Trino",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                authenticated=tls is not None and tls.client_ca is not None,
                exposure="reads all tables of the warehouse",
                remedy="give it --tls-certificate and --tls-client-ca",
            )
        ]

    def busy(self) -> bool:
        """Whether queries are running."""
        return self.service.busy()


@contextlib.contextmanager
def running_trino(settings: TrinoSettings) -> Iterator[ServingTrino]:
    """The service in a background thread for the duration of a `with` block.

    Raises:
        HudiError: it cannot be started.
    """
    serving = ServingTrino(settings)
    with hosted(serving):
        yield serving


def catalog_lines(
    host: str, port: int, *, tls: bool = False, presto: bool = False, frame_size: int = TrinoOptions.frame_size
) -> list[str]:
    """The lines of a catalog properties file for Trino or Presto.

    Args:
        host: address that the service listens at; a wildcard becomes this machine's name.
        port: the service's port.
        tls: whether connections are encrypted.
        presto: whether they are for Presto, whose client needs its transport and protocol set.
        frame_size: see `TrinoOptions`.
    """
    address = address_for_clients(host, port)
    engine = "presto" if presto else "trino"
    client = f"{engine}.thrift.client"
    lines = [
        f"connector.name={'presto-thrift' if presto else 'trino_thrift'}",
        f"{client}.addresses={address}",
        f"{client}.max-frame-size={_data_size(frame_size)}",
        f"{engine}-thrift.max-response-size=32MB",
        # by default the client retries for 80 seconds before a query fails because the service is gone
        f"{client}.max-retry-time=20s",
    ]
    if presto:
        lines += [f"{client}.transport=FRAMED", f"{client}.protocol=BINARY"]
    if tls:
        lines.append(f"{client}.ssl.enabled=true")
        lines.append(f"# {client}.ssl.trust-certificate=<file with the certificate of the service's authority>")
    return lines


def _data_size(count: int) -> str:
    """A number of bytes as Trino's properties have it."""
    return f"{count}B" if count % (1 << 20) else f"{count >> 20}MB"
