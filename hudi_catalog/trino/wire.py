"""The Thrift contract of Trino's connector, loaded once; PrestoDB's is the same with other names."""

from __future__ import annotations

import functools
import posixpath
from types import ModuleType
from typing import Any

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from hudi_catalog.server.thrift_messages import load_service
from hudi_catalog.server.thrift_reader import ReadStruct, Source, read_otherwise, read_struct
from hudi_catalog.trino.packed_ranges import read_packed

IDL = "trino_thrift_service.thrift"


@functools.cache
def trino_service() -> ModuleType:
    """The structs and methods with Trino's names."""
    return _with_readers("Trino", load_service(_path()))


@functools.cache
def presto_service() -> ModuleType:
    """The same with PrestoDB's names. Their layout is equal: a reply to Presto may be made of Trino's structs."""
    return _with_readers("Presto", load_service(_path(), rename={"Trino": "Presto", "trino": "presto"}))


def _with_readers(prefix: str, service: ModuleType) -> ModuleType:
    read_otherwise(getattr(service, f"{prefix}ThriftRangeValueSet"), read_packed)
    read_otherwise(getattr(service, f"{prefix}ThriftTupleDomain"), _read_domain)
    return service


def _read_domain(kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:  # noqa: ARG001
    found, end = read(source, at)
    found.encoded = source.data[at:end]
    return found, end


def domain_bytes(domain: Any) -> bytes:
    """A TupleDomain in the binary protocol: what was read, for one that was read."""
    encoded: bytes | None = getattr(domain, "encoded", None)
    return struct_bytes(domain) if encoded is None else encoded


def struct_bytes(struct: Any) -> bytes:
    """A struct in the binary protocol."""
    buffer = TCyMemoryBuffer()
    protocol: Any = TCyBinaryProtocol  # thriftpy2 has types for its interpreted half only
    protocol(buffer).write_struct(struct)
    written: bytes = buffer.getvalue()
    return written


def domain_of(content: bytes) -> Any:
    """The TupleDomain that `struct_bytes` wrote.

    Raises:
        MalformedStructError: it is none.
    """
    return read_struct(trino_service().TrinoThriftTupleDomain, content, 0)


def _path() -> str:
    return posixpath.join(posixpath.dirname(__file__), IDL)
