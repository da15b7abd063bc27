"""Calls as Hive's storage handler makes them, decoded by thriftpy2's own reader, and what Hive reads of splits."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import thriftpy2
from thriftpy2.protocol import binary
from thriftpy2.transport import memory

import hudi_catalog.server
from catalog import Catalog
from hudi_catalog.hive.options import HiveOptions
from hudi_catalog.hive.planning import TableFolders
from hudi_catalog.hive.serve import HiveService
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret

IDL = Path(hudi_catalog.server.__file__).parent / "hudi_catalog.thrift"
T: Any = thriftpy2.load(str(IDL), module_name="hive_wire_thrift")
_protocols: Any = binary
_transports: Any = memory
_CALL = 1


class RefusedError(Exception):
    """The service's refusal."""

    def __init__(self, refusal: Any) -> None:
        super().__init__(refusal.message)
        self.retryable = refusal.retryable


class Asking:
    """A service over a warehouse, asked frame by frame."""

    def __init__(self, warehouse: Path | str, secret: Secret | None = None, **options: str) -> None:
        self.warehouse = str(warehouse)
        self.log = QueryLog()
        keys = {f"hoodie.catalog.hive.{key.replace('_', '.')}": value for key, value in options.items()}
        self.tables = TableFolders(Catalog(self.warehouse))
        self.service = HiveService(self.tables, HiveOptions.parse(keys), self.log, secret)

    def request(self, path: str = "trips", query: str = "q", **fields: Any) -> Any:
        fields_sent = {"location": f"file:{self.warehouse}/{path}", "table": f"db.{path}", "timeZone": "UTC", **fields}
        return T.ScanRequest(version=fields_sent.pop("version", 3), queryId=query, **fields_sent)

    def ask(self, method: str, request: Any, credential: Any = None) -> Any:
        parts = self.service.dispatch(frame(method, request, credential))
        assert parts is not None
        result = reply(method, b"".join(parts))
        if result.refusal is not None:
            raise RefusedError(result.refusal)
        return result.success

    def pin(self, path: str = "trips", query: str = "q", **fields: Any) -> str:
        return str(self.ask("pin", self.request(path, query, **fields)))

    def splits(self, path: str = "trips", query: str = "q", **fields: Any) -> Any:
        return self.ask("splits", self.request(path, query, **fields))

    def rows(self, path: str = "trips", query: str = "q", columns: Iterable[str] = ("k",), **fields: Any) -> pa.Table:
        return read(self.splits(path, query, **fields).splits, [*columns])


def encoded(request: Any) -> bytes:
    """The struct alone."""
    buffer = _transports.TMemoryBuffer()
    _protocols.TBinaryProtocol(buffer).write_struct(request)
    return bytes(buffer.getvalue())


def frame(method: str, request: Any, credential: Any = None, sequence: int = 7) -> bytes:
    buffer = _transports.TMemoryBuffer()
    protocol = _protocols.TBinaryProtocol(buffer)
    protocol.write_message_begin(method, _CALL, sequence)
    protocol.write_struct(getattr(T.HudiCatalog, f"{method}_args")(request, credential))
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def reply(method: str, data: bytes, sequence: int = 7) -> Any:
    buffer = _transports.TMemoryBuffer(data)
    protocol = _protocols.TBinaryProtocol(buffer)
    name, kind, number = protocol.read_message_begin()
    assert (name, kind, number) == (method, 2, sequence)
    result = getattr(T.HudiCatalog, f"{method}_result")()
    protocol.read_struct(result)
    assert buffer.read(1) == b""
    return result


def read(splits: Iterable[Any], columns: list[str]) -> pa.Table:
    """What Hive's Parquet readers read of splits: row groups whose first column's first page begins in the range."""
    seen: Counter[tuple[str, int]] = Counter()
    parts = []
    files: dict[str, tuple[Any, list[int]]] = {}
    for split in splits:
        assert split.start >= 0
        assert split.length > 0
        path = split.path.removeprefix("file:")
        if path not in files:
            opened: Any = pq.ParquetFile(path)
            groups = map(opened.metadata.row_group, range(opened.num_row_groups))
            files[path] = opened, [group.column(0).data_page_offset for group in groups]
        file, offsets = files[path]
        for group, offset in enumerate(offsets):
            if split.start <= offset < split.start + split.length:
                seen[path, group] += 1
                parts.append(file.read_row_group(group, columns=columns))
    assert not seen or max(seen.values()) == 1
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in columns})


def tree(function: str, column: str, kind: str, *values: Any) -> str:
    """A function of a column and constants, as the handler sends it."""
    return json.dumps(node(function, column, kind, *values))


def node(function: str, column: str, kind: str, *values: Any) -> dict[str, Any]:
    constants = [{"v": None if value is None else str(value), "t": kind} for value in values]
    return {"f": f"GenericUDF{function}", "t": "boolean", "a": [{"c": column, "t": kind}, *constants]}
