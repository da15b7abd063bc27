"""Calls and replies in Thrift's strict binary protocol, and the base class that dispatches calls to a service."""

from __future__ import annotations

import abc
import io
import logging
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from thriftpy2.parser import parser
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TCyMemoryBuffer

from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.thrift_structs import MalformedStructError, read_struct
from table_format.errors import (
    AlreadyExistsError,
    HudiError,
    LateTableError,
    MissingFileError,
    ServiceError,
    StorageError,
    UnusablePathError,
)

UNKNOWN_METHOD = int(TApplicationException.UNKNOWN_METHOD)
INVALID_MESSAGE_TYPE = int(TApplicationException.INVALID_MESSAGE_TYPE)
INTERNAL_ERROR = int(TApplicationException.INTERNAL_ERROR)
PROTOCOL_ERROR = int(TApplicationException.PROTOCOL_ERROR)
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_VERSION = 0x80010000
_HEAD = struct.Struct(">II")
_SEQUENCE = struct.Struct(">i")
_MAX_NAME_BYTES = 200
_OTHER_PROTOCOLS = {
    b"\x0f": "a Thrift header; set the client's transport to FRAMED and its protocol to BINARY",
    b"\x82": "the compact protocol; set the client's protocol to BINARY",
}

_SUCCESS = b"\x0c\x00\x00"  # head of a result's `success` field, a struct
_MAX_MESSAGE = 10_000

_protocol: Any = TCyBinaryProtocol


@dataclass(frozen=True)
class Call:
    """A call of a method.

    Attributes:
        name: the method's name.
        sequence: sequence number, repeated by the reply.
        arguments: object with the method's arguments as attributes.
    """

    name: str
    sequence: int
    arguments: Any


class MessageError(ServiceError):
    """A frame that is not a valid call of the service.

    Attributes:
        kind: type of the `TApplicationException`.
        name: the method's name; empty when it could not be read.
        sequence: the call's sequence number; None when it could not be read, which makes a reply impossible.
    """

    def __init__(self, message: str, kind: int, name: str = "", sequence: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name
        self.sequence = sequence


def load_service(path: str, *, rename: Mapping[str, str] | None = None) -> ModuleType:
    """Load an IDL file with one service.

    Args:
        path: of the file.
        rename: replacements to make in the text of the IDL, such as a prefix of names.

    Returns:
        A new module with a class for each struct, and the service under its name.

    Raises:
        ServiceError: the file cannot be read, or does not have exactly one service.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}") from error
    for old, new in (rename or {}).items():
        text = text.replace(old, new)
    parse: Any = parser.parse_fp
    module: ModuleType = parse(io.StringIO(text), "hudi_catalog_service_thrift", enable_cache=False)
    if len(module.__thrift_meta__["services"]) != 1:
        raise ServiceError(f"{path}: there must be one service, not {len(module.__thrift_meta__['services'])}")
    return module


def read_call(service: ModuleType, frame: bytes) -> Call:
    """Decode a call.

    Args:
        service: module returned by `load_service`.
        frame: the message without its length.

    Raises:
        MessageError: the frame is not a call of one of the service's methods, or its arguments are malformed.
    """
    kind, name, sequence, at = _read_head(frame)
    if kind != _CALL:
        raise MessageError(
            f"a message of type {kind}; only calls (1) are accepted", INVALID_MESSAGE_TYPE, name, sequence
        )
    owner = _methods_of(service)
    if name not in owner.thrift_services:
        raise MessageError(f"there is no method {name}", UNKNOWN_METHOD, name, sequence)
    try:
        arguments = read_struct(getattr(owner, f"{name}_args"), frame, at)
    except MalformedStructError as error:
        raise MessageError(f"{name}: {error}", PROTOCOL_ERROR, name, sequence) from error
    return Call(name, sequence, arguments)


def encode_reply(service: ModuleType, call: Call, result: Any) -> bytes:
    """The reply with a method's result; None for a void method."""
    reply = getattr(_methods_of(service), f"{call.name}_result")()
    if result is not None:
        reply.success = result
    return _message(_REPLY, call.name, call.sequence, reply)


def encode_failure(service: ModuleType, call: Call, failure: Any) -> bytes:
    """The reply with an exception declared by the method.

    Args:
        service: module returned by `load_service`.
        call: the call to reply to.
        failure: exception struct of one of the method's declared classes.

    Raises:
        ServiceError: the method does not declare such an exception.
    """
    reply = getattr(_methods_of(service), f"{call.name}_result")()
    for _, name, *spec in reply.thrift_spec.values():
        if name != "success" and spec[0] is type(failure):
            setattr(reply, name, failure)
            return _message(_REPLY, call.name, call.sequence, reply)
    raise ServiceError(f"{call.name} declares no {type(failure).__name__}")


def encode_application_error(name: str, sequence: int, kind: int, message: str) -> bytes:
    """The reply to a call that did not reach its method: a `TApplicationException`.

    Args:
        name: the method's name.
        sequence: the call's sequence number.
        kind: `UNKNOWN_METHOD`, `PROTOCOL_ERROR` and so on.
        message: human-readable; truncated when long.
    """
    return _message(_EXCEPTION, name, sequence, TApplicationException(kind, message[:_MAX_MESSAGE]))


def encode_message_error(error: MessageError) -> bytes | None:
    """The reply to an invalid frame; None when its sequence number is unknown."""
    if error.sequence is None:
        return None
    return encode_application_error(error.name, error.sequence, error.kind, str(error))


def encode_refusal(head: bytes, message: str) -> bytes | None:
    """The reply to a call of which only the first bytes were read; None when they are not those of a call.

    Args:
        head: first bytes of the frame; 300 suffice.
        message: why it is refused.
    """
    try:
        _, name, sequence, _ = _read_head(head)
    except MessageError:
        return None
    return encode_application_error(name, sequence, INTERNAL_ERROR, message)


def raw_reply_head(name: str, sequence: int) -> bytes:
    """The bytes of a reply before the encoded struct that the method returns; `RAW_REPLY_TAIL` follows the struct."""
    text = name.encode()
    return _HEAD.pack(_VERSION | _REPLY, len(text)) + text + _SEQUENCE.pack(sequence) + _SUCCESS


RAW_REPLY_TAIL = b"\x00"


def _methods_of(service: ModuleType) -> Any:
    return service.__thrift_meta__["services"][0]


def _read_head(frame: bytes) -> tuple[int, str, int, int]:
    """Type, name and sequence number of a message, and the offset of its struct."""
    if len(frame) < _HEAD.size:
        raise MessageError(f"a frame of {len(frame)} bytes is not a message", PROTOCOL_ERROR)
    version, size = _HEAD.unpack_from(frame)
    if version & 0xFFFFFF00 != _VERSION:
        reason = _OTHER_PROTOCOLS.get(frame[:1], "no strict binary protocol")
        raise MessageError(f"a frame that begins with {frame[:4].hex()}: {reason}", PROTOCOL_ERROR)
    end = _HEAD.size + size
    if size > _MAX_NAME_BYTES or end + _SEQUENCE.size > len(frame):
        raise MessageError(f"a method's name of {size} bytes in a frame of {len(frame)}", PROTOCOL_ERROR)
    try:
        name = frame[_HEAD.size : end].decode()
    except UnicodeDecodeError:
        raise MessageError("a method's name that is not UTF-8", PROTOCOL_ERROR) from None
    (sequence,) = _SEQUENCE.unpack_from(frame, end)
    return version & 0xFF, name, sequence, end + _SEQUENCE.size


def _message(kind: int, name: str, sequence: int, body: Any) -> bytes:
    buffer = TCyMemoryBuffer()
    protocol: Any = _protocol(buffer)
    protocol.write_message_begin(name, kind, sequence)
    protocol.write_struct(body)
    protocol.write_message_end()
    written: bytes = buffer.getvalue()
    return written


_LOG = logging.getLogger(__name__)

Buffers: TypeAlias = "Sequence[bytes | memoryview]"


class ThriftCalls(abc.ABC):
    """Base class of a Thrift service: one call in, one reply out. Thread-safe.

    Args:
        name: the service's name in metrics.
        metrics: counts requests; may be None.
    """

    def __init__(self, name: str, metrics: Metrics | None = None) -> None:
        self._name = name
        self._counted = metrics

    @abc.abstractmethod
    def _contract(self, frame: bytes) -> ModuleType:
        """The loaded service module that a frame is addressed to."""

    @abc.abstractmethod
    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        """The reply to a call; a HudiError refuses the call."""

    @abc.abstractmethod
    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:
        """The exception struct, as the contract declares it, for a refused or failed call."""

    def _method(self, call: Call) -> str:
        """Name of the method in metrics."""
        return call.name

    def dispatch(self, frame: bytes) -> Buffers | None:
        """The reply to a request, as buffers to be sent in order.

        Args:
            frame: the message without its length.

        Returns:
            None for a malformed frame without a sequence number; the connection should be closed.
        """
        contract = self._contract(frame)
        begin = time.perf_counter()
        try:
            call = read_call(contract, frame)
        except MessageError as error:
            _LOG.warning("malformed request: %s", error)
            self._count("unknown", begin, "refused")
            reply = encode_message_error(error)
            return None if reply is None else [reply]
        outcome = "ok"
        try:
            return self._answer(contract, call)
        except HudiError as error:
            outcome = "late" if isinstance(error, LateTableError) else "refused"
            _LOG.warning("%s: %s", call.name, error)
            return self._failure(contract, call, str(error), retryable=_may_pass(error))
        except Exception:  # noqa: BLE001  # the client gets a reply in any case
            outcome = "failed"
            _LOG.exception("%s failed", call.name)
            return self._failure(contract, call, "the service failed; its log says why", retryable=False)
        finally:
            self._count(self._method(call), begin, outcome)

    def late_reply(self, frame: bytes, error: HudiError) -> Buffers | None:
        """The reply to a request that was abandoned because the table's storage does not respond."""
        contract = self._contract(frame)
        try:
            call = read_call(contract, frame)
        except MessageError:
            return None
        return self._failure(contract, call, str(error), retryable=_may_pass(error))

    @staticmethod
    def refuse(head: bytes, message: str) -> bytes | None:
        """The reply to a request of which only the first bytes were read; None when they do not identify the call."""
        return encode_refusal(head, message)

    def _failure(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Buffers:
        return [encode_failure(contract, call, self._exception(contract, call, message, retryable=retryable))]

    def _count(self, method: str, begin: float, outcome: str) -> None:
        if self._counted is not None:
            self._counted.request(self._name, method, time.perf_counter() - begin, outcome)


def _may_pass(error: HudiError) -> bool:
    """Whether the same request may succeed later, with nothing changed in the warehouse."""
    lasting = MissingFileError | AlreadyExistsError | UnusablePathError
    return isinstance(error, StorageError) and not isinstance(error, lasting)
