"""Answers the frames of a Thrift service: reads the call, has it answered, and turns errors into its exceptions."""

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
)

UNKNOWN_METHOD = int(TApplicationException.UNKNOWN_METHOD)

INVALID_MESSAGE_TYPE = int(TApplicationException.INVALID_MESSAGE_TYPE)

INTERNAL_ERROR = int(TApplicationException.INTERNAL_ERROR)

PROTOCOL_ERROR = int(TApplicationException.PROTOCOL_ERROR)

_CALL, _REPLY, _EXCEPTION = 1, 2, 3

_VERSION = 0x80010000

_HEAD = struct.Struct(">II")

_SEQUENCE = struct.Struct(">i")

_LONGEST_NAME = 200

_OTHER_PROTOCOLS = {
    b"\x0f": "a Thrift header; set the client's transport to FRAMED and its protocol to BINARY",
    b"\x82": "the compact protocol; set the client's protocol to BINARY",
}

_SUCCESS = b"\x0c\x00\x00"  # the field of a result that holds a struct

_LONGEST_MESSAGE = 10_000

_protocol: Any = TCyBinaryProtocol


@dataclass(frozen=True)
class Call:
    """A call of a method.

    Attributes:
        name: of the method.
        sequence: number that the reply repeats.
        arguments: object with the method's arguments as attributes.
    """

    name: str
    sequence: int
    arguments: Any


class MessageError(ServiceError):
    """A frame that is no call of the service.

    Attributes:
        kind: Thrift's number for such a fault.
        name: of the method, as far as it could be read.
        sequence: of the call; None when it could not be read, so that no reply finds its way.
    """

    def __init__(self, message: str, kind: int, name: str = "", sequence: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name
        self.sequence = sequence


def load_service(path: str, *, rename: Mapping[str, str] | None = None) -> ModuleType:
    """Load an IDL file that has one service.

    Args:
        path: of the file.
        rename: parts of names, and what stands in their place in the names of this load.

    Returns:
        A module with a class for each struct, and the service under its name. Each call makes a module of its own.

    Raises:
        ServiceError: the file cannot be read, or has not exactly one service.
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
    """Read a call.

    Args:
        service: as loaded.
        frame: without its length.

    Raises:
        MessageError: the frame is no call of a method of the service, or its arguments are not as declared.
    """
    kind, name, sequence, at = _read_head(frame)
    if kind != _CALL:
        raise MessageError(
            f"a message of type {kind}; only calls (1) are answered", INVALID_MESSAGE_TYPE, name, sequence
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
    """The reply that returns a value; None for a method without one."""
    reply = getattr(_methods_of(service), f"{call.name}_result")()
    if result is not None:
        reply.success = result
    return _message(_REPLY, call.name, call.sequence, reply)


def encode_failure(service: ModuleType, call: Call, failure: Any) -> bytes:
    """The reply that throws an exception.

    Args:
        service: as loaded.
        call: as read.
        failure: an exception that the method declares.

    Raises:
        ServiceError: the method declares no such exception.
    """
    reply = getattr(_methods_of(service), f"{call.name}_result")()
    for _, name, *spec in reply.thrift_spec.values():
        if name != "success" and spec[0] is type(failure):
            setattr(reply, name, failure)
            return _message(_REPLY, call.name, call.sequence, reply)
    raise ServiceError(f"{call.name} declares no {type(failure).__name__}")


def encode_application_error(name: str, sequence: int, kind: int, message: str) -> bytes:
    """The reply to a call that never came to its method.

    Args:
        name: of the method.
        sequence: of the call.
        kind: `UNKNOWN_METHOD`, `PROTOCOL_ERROR` and so on.
        message: for people; cut off when it is long.
    """
    return _message(_EXCEPTION, name, sequence, TApplicationException(kind, message[:_LONGEST_MESSAGE]))


def encode_message_error(error: MessageError) -> bytes | None:
    """The reply to a frame that is no call; None when nothing tells which call it should be."""
    if error.sequence is None:
        return None
    return encode_application_error(error.name, error.sequence, error.kind, str(error))


def encode_refusal(beginning: bytes, message: str) -> bytes | None:
    """The reply to a call of which only the beginning was read; None when that is no call's.

    Args:
        beginning: of the frame, 300 bytes are plenty.
        message: why it is refused.
    """
    try:
        _, name, sequence, _ = _read_head(beginning)
    except MessageError:
        return None
    return encode_application_error(name, sequence, INTERNAL_ERROR, message)


def raw_reply_head(name: str, sequence: int) -> bytes:
    """What stands before the encoded struct that a method returns; after it, `RAW_REPLY_TAIL` follows."""
    text = name.encode()
    return _HEAD.pack(_VERSION | _REPLY, len(text)) + text + _SEQUENCE.pack(sequence) + _SUCCESS


RAW_REPLY_TAIL = b"\x00"


def _methods_of(service: ModuleType) -> Any:
    return service.__thrift_meta__["services"][0]


def _read_head(frame: bytes) -> tuple[int, str, int, int]:
    """Type, name and sequence number of a message, and the offset at which its struct begins."""
    if len(frame) < _HEAD.size:
        raise MessageError(f"a frame of {len(frame)} bytes is no message", PROTOCOL_ERROR)
    version, size = _HEAD.unpack_from(frame)
    if version & 0xFFFFFF00 != _VERSION:
        why = _OTHER_PROTOCOLS.get(frame[:1], "no strict binary protocol")
        raise MessageError(f"a frame that begins with {frame[:4].hex()}: {why}", PROTOCOL_ERROR)
    end = _HEAD.size + size
    if size > _LONGEST_NAME or end + _SEQUENCE.size > len(frame):
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

Parts: TypeAlias = "Sequence[bytes | memoryview]"


class ThriftCalls(abc.ABC):
    """One call in, one reply out; threads may share it.

    Args:
        name: of the service, for its metrics.
        metrics: counts requests; None for nobody.
    """

    def __init__(self, name: str, metrics: Metrics | None = None) -> None:
        self._name = name
        self._counted = metrics

    @abc.abstractmethod
    def _contract(self, frame: bytes) -> ModuleType:
        """The service, as loaded, that a frame calls."""

    @abc.abstractmethod
    def _answer(self, contract: ModuleType, call: Call) -> Parts:
        """The reply to a call.

        Raises:
            HudiError: the call is refused.
        """

    @abc.abstractmethod
    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:
        """The exception that a method of the contract declares, for a call that is refused or failed."""

    def _method(self, call: Call) -> str:
        """Under which name a call is counted."""
        return call.name

    def dispatch(self, frame: bytes) -> Parts | None:
        """The reply to a request, in parts to be sent one behind the other.

        Args:
            frame: a message without its length.

        Returns:
            None for a frame that is no call, and does not tell which reply it waits for: the connection is of no use.
        """
        contract = self._contract(frame)
        begin = time.perf_counter()
        try:
            call = read_call(contract, frame)
        except MessageError as error:
            _LOG.warning("a request that is not understood: %s", error)
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
        except Exception:  # noqa: BLE001  # whatever it is, the client gets an answer
            outcome = "failed"
            _LOG.exception("%s failed", call.name)
            return self._failure(contract, call, "the service failed; its log says why", retryable=False)
        finally:
            self._count(self._method(call), begin, outcome)

    def given_up(self, frame: bytes, error: HudiError) -> Parts | None:
        """The reply to a request whose work is not waited for any longer."""
        contract = self._contract(frame)
        try:
            call = read_call(contract, frame)
        except MessageError:
            return None
        return self._failure(contract, call, str(error), retryable=_may_pass(error))

    @staticmethod
    def refuse(beginning: bytes, message: str) -> bytes | None:
        """The reply to a request of which only the beginning was taken; None when that tells nothing."""
        return encode_refusal(beginning, message)

    def _failure(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Parts:
        return [encode_failure(contract, call, self._exception(contract, call, message, retryable=retryable))]

    def _count(self, method: str, begin: float, outcome: str) -> None:
        if self._counted is not None:
            self._counted.request(self._name, method, time.perf_counter() - begin, outcome)


def _may_pass(error: HudiError) -> bool:
    """Whether the same request may succeed a little later."""
    return isinstance(error, StorageError) and not isinstance(error, MissingFileError | AlreadyExistsError)
