"""A metastore's Thrift side over a dictionary, with faults on demand. The real one runs in tests/engines."""

from __future__ import annotations

import copy
import socket
import struct
import threading
from typing import Any

from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TBufferedTransport, TSocket

from hudi_catalog.metastore.thrift_connections import hms as idl
from table_format.keys.partition_values import escape_path_name


class Handler:
    """The service's methods; `old` ones know no `get_table_req`, `new` ones no `get_table`."""

    def __init__(self) -> None:
        self.databases: set[str] = {"default"}
        self.tables: dict[tuple[str, str], Any] = {}
        self.partitions: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {}
        self.statistics: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        self.marked: list[str | None] = []
        self.calls: list[str] = []
        self.refuse: dict[str, Exception] = {}

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.refuse:
            raise self.refuse.pop(name)

    def get_all_databases(self) -> list[str]:
        self._called("get_all_databases")
        return sorted(self.databases)

    def get_database(self, name: str) -> Any:
        self._called("get_database")
        if name not in self.databases:
            raise idl.NoSuchObjectException(name)
        return idl.Database(name=name, locationUri=f"file:/warehouse/{name}.db", managedLocationUri=None)

    def create_database(self, database: Any) -> None:
        self._called("create_database")
        if database.name in self.databases:
            raise idl.AlreadyExistsException(database.name)
        self.databases.add(database.name)

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name for database, name in self.tables if database == db_name]

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        self._called("get_table")
        if (dbname, tbl_name) not in self.tables:
            raise idl.NoSuchObjectException(f"{dbname}.{tbl_name}")
        return self.tables[dbname, tbl_name]

    def get_table_req(self, req: Any) -> Any:
        self._called("get_table_req")
        return idl.GetTableResult(table=self.get_table(req.dbName, req.tblName))

    def create_table_with_environment_context(self, tbl: Any, environment_context: Any) -> None:
        self._called("create_table")
        key = (tbl.dbName, tbl.tableName)
        if tbl.dbName not in self.databases:
            raise idl.InvalidObjectException(f"no database {tbl.dbName}")
        if key in self.tables:
            raise idl.AlreadyExistsException(str(key))
        self.tables[key] = stored(tbl)
        assert environment_context.properties["DO_NOT_UPDATE_STATS"] == "true"

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        self._called("alter_table")
        old = self.tables[dbname, tbl_name]
        kinds = {column.name: column.type for column in old.sd.cols}
        for position, column in enumerate(new_tbl.sd.cols[: len(old.sd.cols)]):
            if old.sd.cols[position].type != column.type:
                raise idl.InvalidOperationException(f"columns have types incompatible with the existing: {kinds}")
        self.tables[dbname, tbl_name] = stored(new_tbl)

    def drop_table_with_environment_context(
        self,
        dbname: str,
        name: str,
        deleteData: bool,  # noqa: N803  # the IDL's name
        environment_context: Any,
    ) -> None:
        self._called("drop_table")
        assert deleteData is False
        if (dbname, name) not in self.tables:
            raise idl.NoSuchObjectException(name)
        del self.tables[dbname, name]

    def get_partitions(self, db_name: str, tbl_name: str, max_parts: int) -> list[Any]:
        assert max_parts == -1
        return [*self.partitions.get((db_name, tbl_name), {}).values()]

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        self._called(f"get_partitions_by_names {len(names)}")
        held = self.partitions[db_name, tbl_name]
        named = dict(zip(self.get_partition_names(db_name, tbl_name, -1), held.values(), strict=True))
        return [named[name] for name in names if name in named]

    def add_partitions(self, new_parts: list[Any]) -> int:
        self._called("add_partitions")
        known = self.partitions.setdefault((new_parts[0].dbName, new_parts[0].tableName), {})
        if any(tuple(one.values) in known for one in new_parts):
            raise idl.AlreadyExistsException("a partition")
        known |= {tuple(one.values): one for one in new_parts}
        return len(new_parts)

    def alter_partitions_with_environment_context(
        self, db_name: str, tbl_name: str, new_parts: list[Any], environment_context: Any
    ) -> None:
        self._called("alter_partitions")
        known = self.partitions[db_name, tbl_name]
        for one in new_parts:
            assert tuple(one.values) in known
            known[tuple(one.values)] = one

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        assert max_parts == -1
        self._called("get_partition_names")
        if (db_name, tbl_name) not in self.tables:
            raise idl.NoSuchObjectException(f"{db_name}.{tbl_name}")
        keys = [column.name for column in self.tables[db_name, tbl_name].partitionKeys]
        partitions = self.partitions.get((db_name, tbl_name), {})
        return [
            "/".join(f"{key}={escape_path_name(v)}" for key, v in zip(keys, one, strict=True)) for one in partitions
        ]

    def drop_partitions_req(self, req: Any) -> Any:
        self._called("drop_partitions")
        assert req.deleteData is False
        assert req.ifExists
        named = dict(
            zip(
                self.get_partition_names(req.dbName, req.tblName, -1),
                self.partitions[req.dbName, req.tblName],
                strict=True,
            )
        )
        for name in req.parts.names:
            if name in named:
                del self.partitions[req.dbName, req.tblName][named[name]]
        return idl.DropPartitionsResult()

    def set_aggr_stats_for(self, request: Any) -> bool:
        self._called("set_aggr_stats_for")
        for one in request.colStats:
            key = (one.statsDesc.dbName, one.statsDesc.tableName)
            if key not in self.tables:
                raise idl.NoSuchObjectException(str(key))
            entry = self.tables[key]
            if not one.statsDesc.isTblLevel:
                names = dict(zip(self.get_partition_names(*key, -1), self.partitions[key].values(), strict=True))
                entry = names[one.statsDesc.partName]
            self.statistics[(*key, one.statsDesc.partName)] = {c.colName: c for c in one.statsObj}
            entry.parameters["COLUMN_STATS_ACCURATE"] = '{"COLUMN_STATS":{"a":"true"}}'
            self.marked.append(one.statsDesc.partName)
        return True


def stored(table: Any) -> Any:
    """What the metastore makes of a definition."""
    kept = copy.deepcopy(table)
    kept.sd.location = kept.sd.location.replace("file:///", "file:/")
    kept.parameters["transient_lastDdlTime"] = "1"
    return kept


class HiveServer:
    """Serves one connection a thread on a free port of 127.0.0.1.

    Attributes:
        unknown: names of methods that this release does not have.
        lost: names of methods whose next answer is lost after the call was carried out.
        silent: answers never come.
    """

    def __init__(self) -> None:
        self.handler = Handler()
        self.unknown: set[str] = set()
        self.lost: set[str] = set()
        self.silent = False
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def transport(self, connection: socket.socket) -> Any:
        """What messages come over."""
        return TBufferedTransport(TSocket(sock=connection))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # else a client that waits for a connection still gets one
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Break all connections, as a restart does."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            protocol = TBinaryProtocol(self.transport(connection))
        except (OSError, struct.error):
            connection.close()
            return
        processor = TProcessor(idl.ThriftHiveMetastore, self.handler)
        try:
            while True:
                name, sequence, result, call = processor.process_in(protocol)
                if name in self.unknown or isinstance(result, Exception):
                    text = f"Invalid method name: '{name}'"
                    error = TApplicationException(TApplicationException.UNKNOWN_METHOD, text)
                    processor.send_exception(protocol, name, error, sequence)
                    continue
                try:
                    result.success = call()
                except Exception as error:
                    processor.handle_exception(error, result)
                if self.silent:
                    threading.Event().wait(5)
                if name in self.lost:
                    self.lost.remove(name)
                    connection.close()
                    return
                processor.send_result(protocol, name, result, sequence)
        except Exception:
            connection.close()
