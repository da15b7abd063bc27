"""TupleDomains as Trino sends them, and calls of the service as its clients make them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from thriftpy2.protocol import binary
from thriftpy2.thrift import TApplicationException, TType
from thriftpy2.transport import memory

from hudi_catalog.server.thrift_calls import _message  # calls are written as replies are
from hudi_catalog.trino.wire import trino_service

T: Any = trino_service()
BELOW, EXACTLY, ABOVE = 1, 2, 3


def block(kind: str, values: list[Any]) -> Any:
    """A block of a type, of any values; None is null."""
    nulls = [value is None for value in values] if None in values else None
    if kind == "varchar":
        encoded = [(value or "").encode() for value in values]
        return T.TrinoThriftBlock(
            varcharData=T.TrinoThriftVarchar(nulls, [len(one) for one in encoded], b"".join(encoded))
        )
    filled = [0 if value is None else value for value in values]
    struct = getattr(T, f"TrinoThrift{kind.title()}")
    return T.TrinoThriftBlock(**{f"{kind}Data": struct(nulls, filled)})


def between(kind: str, low: Any = None, high: Any = None, *, open_ends: bool = False) -> Any:
    """A range; None is no limit."""

    def end(value: Any, beyond: int) -> Any:
        if value is None:
            return T.TrinoThriftMarker(None, beyond)
        return T.TrinoThriftMarker(block(kind, [value]), beyond if open_ends else EXACTLY)

    return T.TrinoThriftRange(end(low, ABOVE), end(high, BELOW))


def ranges(*members: Any, null: bool = False) -> Any:
    values = T.TrinoThriftValueSet(rangeValueSet=T.TrinoThriftRangeValueSet(list(members)))
    return T.TrinoThriftDomain(values, null)


def points(kind: str, *values: Any, null: bool = False) -> Any:
    return ranges(*(between(kind, value, value) for value in sorted(values)), null=null)


def domain(**columns: Any) -> Any:
    return T.TrinoThriftTupleDomain(dict(columns))


NOTHING = T.TrinoThriftTupleDomain(None)
EVERYTHING = T.TrinoThriftTupleDomain({})


def call(service: ModuleType, name: str, sequence: int, *arguments: Any) -> bytes:
    """A call as its frame."""
    owner = service.__thrift_meta__["services"][0]
    struct = getattr(owner, f"{name}_args")()
    for (_, field, *_), value in zip(struct.thrift_spec.values(), arguments, strict=True):
        setattr(struct, field, value)
    return _message(1, name, sequence, struct)


def decoded_reply(service: ModuleType, reply: bytes) -> tuple[str, int, Any]:
    """Name, sequence number and result (or application exception) of a reply, all of whose bytes are read."""
    buffer: Any = memory.TMemoryBuffer(reply)
    protocol: Any = binary.TBinaryProtocol(buffer, decode_response=False)
    name, kind, sequence = protocol.read_message_begin()
    name = name.decode() if isinstance(name, bytes) else name
    owner = service.__thrift_meta__["services"][0]
    result = TApplicationException() if kind == 3 else getattr(owner, f"{name}_result")()
    protocol.read_struct(result)
    assert buffer.read(1) == b""
    return name, sequence, texts_of(result)


def texts_of(value: Any, spec: Any = (TType.STRUCT, "")) -> Any:
    """The same with strings as texts, where the reader leaves bytes for binary and string alike."""
    if isinstance(value, bytes):
        return value.decode() if spec[0] == TType.STRING else value
    if isinstance(value, list):
        member = spec[2]
        inner = (member, "") if isinstance(member, int) else (member[0], "", member[1])
        return [texts_of(one, inner) for one in value]
    for inner in getattr(value, "thrift_spec", {}).values():
        member = getattr(value, inner[1])
        if isinstance(member, set):
            member = list(member)
        if isinstance(member, bytes | list) or hasattr(member, "thrift_spec"):
            setattr(value, inner[1], texts_of(member, inner))
    return value
