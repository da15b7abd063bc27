"""A small warehouse to be served, and Thrift's own client for the services over it."""

import ssl
from pathlib import Path
from typing import Any

import pyarrow as pa
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TFramedTransportFactory

from tests.support.local_writes import LocalTable

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
        timeout=20_000,
        ssl_context=tls,
    )
