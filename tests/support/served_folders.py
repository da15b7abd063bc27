"""A small warehouse to be served, and Thrift's own client for the services over it."""

import ssl
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TFramedTransportFactory

from tests.support.local_writes import LocalTable
from tests.support.trino_wire import SERVICE as T

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string())])


def build_trips(folder: Path) -> None:
    """The table `trips`: keys 0 to 19, in the partitions a and b by turns."""
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.bucket.index.num.buckets": "2",
    }
    table = LocalTable.create(str(folder / "trips"), SCHEMA, options)
    table.write("insert", pa.table({"k": list(range(20)), "day": ["a", "b"] * 10}, SCHEMA))


def thrift_client(service: Any, port: int, tls: ssl.SSLContext | None = None) -> Any:
    """A client of a framed service on this machine."""
    return make_client(
        service,
        "localhost" if tls else "127.0.0.1",
        port,
        proto_factory=TBinaryProtocolFactory(),
        trans_factory=TFramedTransportFactory(),
        timeout=60_000,
        ssl_context=tls,
    )


def keys(port: int, table: str) -> list[int]:
    """All keys of a table, by Thrift's own client."""
    client = thrift_client(T.TrinoThriftService, port)
    try:
        name, first = T.TrinoThriftSchemaTableName("default", table), T.TrinoThriftNullableToken(None)
        columns, every = T.TrinoThriftNullableColumnSet({"k"}), T.TrinoThriftTupleDomain({})
        numbers = []
        for split in client.trinoGetSplits(name, columns, every, 100, first).splits:
            page = client.trinoGetRows(split.splitId, ["k"], 1 << 20, first)
            numbers += page.columnBlocks[0].bigintData.longs
        return sorted(numbers)
    finally:
        client.close()


def listed(port: int) -> list[str]:
    client = thrift_client(T.TrinoThriftService, port)
    try:
        return sorted(one.tableName for one in client.trinoListTables(T.TrinoThriftNullableSchemaName(None)))
    finally:
        client.close()


def refusal(port: int, table: str) -> str:
    with pytest.raises(T.TrinoThriftServiceException) as refused:
        keys(port, table)
    return str(refused.value.message)
