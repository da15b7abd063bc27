"""A Hive Metastore, releases 2.3 to 4.0, over Thrift."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TSocket, TTransportException

from catalog.sync.locations import normal_uri
from catalog.sync.metastore import HiveColumn, HivePartition, HiveTable, StorageFormat
from table_format.errors import MetastoreError

_IDL: Final = os.path.join(os.path.dirname(__file__), "hive_metastore.thrift")
_MOST_IDLE: Final = 8
_BATCH: Final = 500
_BROKEN: Final = (TTransportException, TProtocolException, OSError, EOFError)
_NO_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}
_socket: Any = TSocket  # thriftpy2 is typed here and there only
_protocol: Any = TCyBinaryProtocol
_hms: Any = thriftpy2.load(_IDL, "hudi_catalog_hive_metastore_thrift")

Connect = Callable[[str, int, float, ModuleType], Any]
"""Opens a connection: host, port, seconds to wait for an answer, the IDL's module; gives a `TClient`."""


def connect_plainly(host: str, port: int, timeout: float, idl: ModuleType) -> Any:
    """A connection without authentication, as a metastore without Kerberos has it."""
    socket = _socket(host, port)
    socket.set_timeout(int(timeout * 1000))
    transport = TCyBufferedTransport(socket)
    transport.open()
    return TClient(idl.ThriftHiveMetastore, _protocol(transport))


class ThriftMetastore:
    """A Hive Metastore. Threads share a few connections; a broken one is made anew, at the next address if need be.

    Args:
        addresses: hosts and ports of servers of one metastore.
        timeout: seconds to wait for an answer.
        connect: opens a connection.
    """

    def __init__(
        self, addresses: Sequence[tuple[str, int]], *, timeout: float = 30.0, connect: Connect = connect_plainly
    ) -> None:
        self._addresses = list(addresses)
        self._timeout = timeout
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._old_get_table = False

    @property
    def uri(self) -> str:
        """The addresses."""
        return "thrift://" + ",".join(_address(host, port) for host, port in self._addresses)

    def schemas(self) -> list[str]:
        """Names of the databases."""
        return sorted(self._call("get_all_databases"))

    def create_schema(self, name: str) -> bool:
        """Make a database, where the metastore puts it; False when it is there already."""
        if name.lower() in self.schemas():
            return False
        try:
            self._call("create_database", _hms.Database(name=name.lower(), parameters={}))
        except _hms.AlreadyExistsException:
            return False
        return True

    def tables(self, schema: str) -> list[str]:
        """Names of a database's tables."""
        return sorted(self._call("get_all_tables", schema.lower()))

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None when there is none of that name."""
        found = self._get(schema.lower(), name.lower())
        return None if found is None else _table(found)

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition.

        A metastore refuses some changes of a column's type, of the columns' order, and of partition columns, on account
        of Hive's own tables; then the entry is dropped and made anew, and for that moment there is none.
        """
        schema, name = table.schema.lower(), table.name.lower()
        found = self._get(schema, name)
        if found is None:
            try:
                self._call("create_table_with_environment_context", _thrift(table, None), _context())
            except _hms.AlreadyExistsException:
                found = self._get(schema, name)  # somebody was faster, or a first try came through after all
            else:
                return
        same_keys = found is None or tuple(_columns(found.partitionKeys)) == table.partition_columns
        wanted = _thrift(table, found)
        try:
            self._call("alter_table_with_environment_context", schema, name, wanted, _context())
        except _hms.InvalidOperationException as error:
            if same_keys and "incompatible" not in str(error.message):
                raise _refused(self.uri, f"alter_table {schema}.{name}", error) from error
            self.drop_table(schema, name)
            self._call("create_table_with_environment_context", wanted, _context())

    def drop_table(self, schema: str, name: str) -> bool:
        """Take a table out; its files stay. False when there was none."""
        try:
            self._call("drop_table_with_environment_context", schema.lower(), name.lower(), False, _context())
        except _hms.NoSuchObjectException:
            return False
        return True

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions."""
        found = self._call("get_partitions", table.schema.lower(), table.name.lower(), -1)
        return [HivePartition(tuple(one.values), _spelled(one.sd.location or "")) for one in found]

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table, or replace those that have the same values; some hundreds at a time."""
        there = {partition.values for partition in self.partitions(table)}
        new = [_partition(table, one) for one in partitions if one.values not in there]
        old = [_partition(table, one) for one in partitions if one.values in there]
        names = (table.schema.lower(), table.name.lower())
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            try:
                self._call("add_partitions", batch)
            except _hms.AlreadyExistsException:  # somebody was faster, or a first try came through after all
                old += batch
                self._add_missing(batch)
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            self._call("alter_partitions_with_environment_context", *names, batch, _context())

    def _add_missing(self, batch: Sequence[Any]) -> None:
        for one in batch:
            with contextlib.suppress(_hms.AlreadyExistsException):
                self._call("add_partitions", [one])

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Take partitions out of a table; their files stay."""
        names = (table.schema.lower(), table.name.lower())
        for one in values:
            with contextlib.suppress(_hms.NoSuchObjectException):
                self._call("drop_partition_with_environment_context", *names, list(one), False, _context())

    def close(self) -> None:
        """Close connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            _close(client)

    def _get(self, schema: str, name: str) -> Any:
        try:
            if not self._old_get_table:
                with contextlib.suppress(_UnknownMethodError):
                    request = _hms.GetTableRequest(dbName=schema, tblName=name)
                    return self._call("get_table_req", request).table
                self._old_get_table = True
            return self._call("get_table", schema, name)
        except _hms.NoSuchObjectException:
            return None

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call a method; once more when the connection broke. All methods used here may be repeated."""
        for last in (False, True):
            client = self._client(fresh=last)
            try:
                result = getattr(client, method)(*arguments)
            except _BROKEN as error:
                _close(client)
                if last:
                    raise MetastoreError(f"{self.uri}: {method}: the connection broke: {error}") from error
                continue
            except TApplicationException as error:
                self._give_back(client)
                if error.type == TApplicationException.UNKNOWN_METHOD:
                    raise _UnknownMethodError(f"{self.uri}: the metastore has no method {method}") from error
                raise _refused(self.uri, method, error) from error
            except (_hms.NoSuchObjectException, _hms.AlreadyExistsException, _hms.InvalidOperationException):
                self._give_back(client)
                raise
            except TException as error:
                self._give_back(client)
                raise _refused(self.uri, method, error) from error
            self._give_back(client)
            return result
        raise AssertionError(method)

    def _client(self, *, fresh: bool) -> Any:
        with self._lock:
            if self._idle and not fresh:
                return self._idle.pop()
            addresses = list(self._addresses)
        problems = []
        for address in addresses:
            try:
                client = self._connect(*address, self._timeout, _hms)
            except _BROKEN as error:
                problems.append(f"{_address(*address)}: {error}")
                continue
            with self._lock:  # the next ones begin with the address that answers
                self._addresses.sort(key=lambda other: other != address)
            return client
        raise MetastoreError(f"no Hive Metastore can be reached: {'; '.join(problems)}")

    def _give_back(self, client: Any) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(client)
                return
        _close(client)


class _UnknownMethodError(MetastoreError):
    """The metastore's release does not have a method."""


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _close(client: Any) -> None:
    with contextlib.suppress(*_BROKEN):
        client.close()


def _context() -> Any:
    return _hms.EnvironmentContext(properties=dict(_NO_STATISTICS))


def _refused(uri: str, what: str, error: Any) -> MetastoreError:
    return MetastoreError(f"{uri}: {what}: {getattr(error, 'message', None) or error}")


def _table(found: Any) -> HiveTable:
    storage = found.sd or _hms.StorageDescriptor()
    serde = storage.serdeInfo
    return HiveTable(
        schema=found.dbName,
        name=found.tableName,
        columns=tuple(_columns(storage.cols)),
        location=_spelled(storage.location or ""),
        format=StorageFormat(
            (serde.serializationLib if serde else None) or "",
            storage.inputFormat or "",
            storage.outputFormat or "",
            (serde.parameters if serde else None) or {},
        ),
        parameters=found.parameters or {},
        partition_columns=tuple(_columns(found.partitionKeys)),
        table_type=found.tableType or "",
        owner=found.owner or "",
    )


def _spelled(location: str) -> str:
    """Hadoop writes file:/a where engines write file:///a."""
    return normal_uri(location) if location.startswith("file:") else location


def _columns(fields: Any) -> Iterator[HiveColumn]:
    for field in fields or ():
        yield HiveColumn(field.name, field.type, field.comment or None)


def _thrift(table: HiveTable, found: Any) -> Any:
    """The definition as Thrift has it; what it doesn't tell is as it was, or as Hive makes new tables."""
    result = found if found is not None else _hms.Table(createTime=0, lastAccessTime=0, retention=0)
    result.dbName, result.tableName = table.schema.lower(), table.name.lower()
    result.tableType, result.owner = table.table_type, table.owner
    result.parameters = dict(table.parameters)
    result.partitionKeys = _fields(table.partition_columns)
    result.sd = _storage(table, table.location)
    return result


def _partition(table: HiveTable, partition: HivePartition) -> Any:
    return _hms.Partition(
        values=list(partition.values),
        dbName=table.schema.lower(),
        tableName=table.name.lower(),
        createTime=0,
        lastAccessTime=0,
        sd=_storage(table, partition.location),
        parameters={},
    )


def _storage(table: HiveTable, location: str) -> Any:
    return _hms.StorageDescriptor(
        cols=_fields(table.columns),
        location=location,
        inputFormat=table.format.input_format,
        outputFormat=table.format.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=_serde(table.format.serde, table.format.serde_parameters),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _serde(library: str, parameters: Mapping[str, str]) -> Any:
    return _hms.SerDeInfo(serializationLib=library, parameters={"serialization.format": "1", **parameters})


def _fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [_hms.FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in columns]
