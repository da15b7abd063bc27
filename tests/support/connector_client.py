"""The service asked as Trino's connector asks it, through thriftpy2's own encoder, and the rows that it gives."""

import itertools
import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import thriftpy2
from thriftpy2.protocol import binary
from thriftpy2.transport import memory

import hudi_catalog.server
from catalog import Catalog
from hudi_catalog.server.admission import IDL
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.serve import TrinoService

T: Any = thriftpy2.load(str(Path(hudi_catalog.server.__file__).parent / IDL), module_name="hudi_connector_thrift")
_protocols: Any = binary
_transports: Any = memory


class RefusedError(Exception):
    """The service's refusal."""


class Asking:
    """A service over a warehouse."""

    def __init__(self, warehouse: Path, secret: Secret | None = None, **options: str) -> None:
        self.log = QueryLog()
        keys = {f"hoodie.catalog.trino.{key.replace('_', '.')}": value for key, value in options.items()}
        tables = WarehouseTables(Catalog(str(warehouse)))
        self.service = TrinoService(tables, TrinoOptions.parse(keys), self.log, secret)

    def bytes(self, method: str, body: Any, credential: Any = None, version: int = 3) -> bytes:
        request = T.ConnectorRequest(version=version, body=body if isinstance(body, str) else json.dumps(body))
        transport = _transports.TMemoryBuffer()
        protocol = _protocols.TBinaryProtocol(transport)
        protocol.write_message_begin(method, 1, 7)
        arguments = getattr(T.HudiCatalog, f"{method}_args")()
        arguments.request, arguments.credential = request, credential
        protocol.write_struct(arguments)
        parts = self.service.dispatch(transport.getvalue())
        assert parts is not None
        protocol = _protocols.TBinaryProtocol(_transports.TMemoryBuffer(b"".join(parts)), decode_response=False)
        assert protocol.read_message_begin()[2] == 7
        result = getattr(T.HudiCatalog, f"{method}_result")()
        protocol.read_struct(result)
        if result.refusal is not None:
            message = result.refusal.message
            raise RefusedError(message.decode() if isinstance(message, bytes) else message)
        assert isinstance(result.success, bytes)
        return result.success

    def ask(self, method: str, body: Any, **more: Any) -> Any:
        return json.loads(self.bytes(method, body, **more))

    def pinned(self, name: str = "t", **more: Any) -> dict[str, Any]:
        """A request for a table by its newest snapshot."""
        table = self.ask("hudiTable", {"schema": "default", "table": name})
        return {"schema": "default", "table": name, "pin": table["pin"], **more}

    def rows(self, request: Any, plan: Any, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """The rows of a plan's splits: pages of the service, and row groups that the connector reads itself.

        Args:
            request: for the plan, with its filter.
            plan: reply to it.
            columns: of texts that are not null.
        """
        made: list[tuple[str, ...]] = []
        root = plan["root"].removeprefix("file://")
        for split in plan["splits"]:
            pages = self._pages({**request, "split": split, "columns": [*columns]}, len(columns))
            made += pages if split[5] else _of_groups(f"{root}/{split[0]}", split, columns)
        return made

    def _pages(self, request: Any, width: int) -> Iterable[tuple[str, ...]]:
        number, last = 0, False
        while not last:
            page = self.bytes("hudiRows", {**request, "page": number})
            yield from _texts(page[1:], width)
            number, last = number + 1, page[0] == 1


def _of_groups(path: str, split: Any, columns: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Those of the row groups whose first page lies in the split's range."""
    file: Any = pq.ParquetFile(path)
    for ordinal in range(file.num_row_groups):
        column = file.metadata.row_group(ordinal).column(0)
        first = column.dictionary_page_offset or column.data_page_offset
        if split[1] <= first < split[1] + split[2] and (split[10] is None or ordinal in split[10]):
            group = file.read_row_group(ordinal, columns=[*columns])
            yield from zip(*(group[name].to_pylist() for name in columns), strict=True)


def _texts(page: bytes, width: int) -> Iterable[tuple[str, ...]]:
    """The rows of a page of texts that are not null."""
    (rows,), at = struct.unpack_from("<i", page), 4
    columns = []
    for _ in range(width if rows else 0):
        assert page[at] == 0
        ends = struct.unpack_from(f"<{rows + 1}i", page, at + 1)
        at += 5 + 4 * rows
        columns.append([page[at + low : at + high].decode() for low, high in itertools.pairwise(ends)])
        at += ends[-1]
    assert at == len(page)
    return zip(*columns, strict=True)
