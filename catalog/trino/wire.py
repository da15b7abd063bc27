"""The Thrift contract of Trino's connector, loaded once; PrestoDB's is the same with other names."""

from __future__ import annotations

import functools
import posixpath
from types import ModuleType
from typing import Any

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from catalog.services.thrift_messages import load_service
from catalog.services.thrift_reader import read_struct

IDL = "trino_thrift_service.thrift"


@functools.cache
def trino_service() -> ModuleType:
    """The structs and methods with Trino's names."""
    return load_service(_path())


@functools.cache
def presto_service() -> ModuleType:
    """The same with PrestoDB's names. Their layout is equal: a reply to Presto may be made of Trino's structs."""
    return load_service(_path(), rename={"Trino": "Presto", "trino": "presto"})


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
