"""A service for Hive's storage handler whose answers tests choose: right, wrong or late."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import thriftpy2
from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TMemoryBuffer

import hudi_catalog.server

_IDL = os.path.join(os.path.dirname(hudi_catalog.server.__file__), "hudi_catalog.thrift")
THRIFT: Any = thriftpy2.load(_IDL, module_name="hudi_hive_of_tests_thrift")
_LENGTH = struct.Struct(">i")


@dataclass
class Call:
    """What the handler asked."""

    method: str
    request: Any
    credential: Any
    frame: bytes = b""


Answer = Callable[[Call], Any]


def parquet_splits(folder: str, location: str | None = None, pin: str = "pin 1") -> Answer:
    """Whole files of a folder, as a right answer; `location` is how Hive spells the folder."""

    def answer(call: Call) -> Any:
        if call.method == "pin":
            return pin
        top = location or call.request.location
        names = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
        splits = [(f"{top.rstrip('/')}/{name}", 0, os.path.getsize(os.path.join(folder, name))) for name in names]
        return splits_of(splits, pin=call.request.pin or pin)

    return answer


def splits_of(splits: list[tuple[str, int, int]], *, pin: str = "pin 1", version: int = 3) -> Any:
    parts = [THRIFT.Split(path=path, start=start, length=length) for path, start, length in splits]
    return THRIFT.Splits(version=version, pin=pin, splits=parts, filesTotal=len(splits), filesKept=len(splits))


@dataclass
class FakeService:
    """A service on its own port.

    Attributes:
        answer: gives for each call a pin, Splits, a Refusal to raise, bytes of a frame to send as they are, or None to
            end the connection.
    """

    answer: Answer
    tls: ssl.SSLContext | None = None
    calls: list[Call] = field(default_factory=list)
    port: int = 0

    def of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def reply(self, frame: bytes) -> bytes | None:
        protocol = TBinaryProtocol(TMemoryBuffer(frame), strict_read=True)
        method, _, sequence = protocol.read_message_begin()
        if method == "statistics":
            return unknown(method, sequence)
        arguments = getattr(THRIFT.HudiCatalog, f"{method}_args")()
        arguments.read(protocol)
        call = Call(method, arguments.request, arguments.credential, frame)
        self.calls.append(call)
        answer = self.answer(call)
        if answer is None or isinstance(answer, bytes):
            return answer
        result = getattr(THRIFT.HudiCatalog, f"{method}_result")()
        if isinstance(answer, THRIFT.Refusal):
            result.refusal = answer
        else:
            result.success = answer
        return message(method, result, sequence)


def message(method: str, result: Any = None, sequence: int = 1) -> bytes:
    """A reply's bytes, without their length; without a result one that says nothing."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin(method, TMessageType.REPLY, sequence)
    (result or getattr(THRIFT.HudiCatalog, f"{method}_result")()).write(protocol)
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def unknown(method: str, sequence: int) -> bytes:
    """What a service of an earlier release answers to a method that it does not have."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin(method, TMessageType.EXCEPTION, sequence)
    TApplicationException(TApplicationException.UNKNOWN_METHOD, f"no method {method}").write(protocol)
    protocol.write_message_end()
    return bytes(buffer.getvalue())


@contextlib.contextmanager
def fake_service(answer: Answer, tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[FakeService]:
    """Run a service until the block ends."""
    service = FakeService(answer, tls)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                connection = self.request if tls is None else tls.wrap_socket(self.request, server_side=True)
                (size,) = _LENGTH.unpack(_read(connection, 4))
                reply = service.reply(_read(connection, size))
                if reply is not None:
                    connection.sendall(_LENGTH.pack(len(reply)) + reply)
                connection.close()

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()


def _read(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = connection.recv(size - len(got))
        if not part:
            raise ConnectionError
        got += part
    return got


def refusal(text: str, *, retryable: bool = False) -> Any:
    return THRIFT.Refusal(message=text, retryable=retryable)
