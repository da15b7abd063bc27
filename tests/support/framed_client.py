"""A client of framed requests that may also misbehave."""

import socket
import ssl
import struct
import threading
from types import TracebackType
from typing import Self


class FramedClient:
    """One connection.

    Args:
        port: on 127.0.0.1.
        tls: to encrypt with.
        timeout: seconds after which anything that blocks fails.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, timeout: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next reply; fails when the connection ends."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, frame: bytes) -> bytes:
        self.send(frame)
        return self.receive()

    def ended(self) -> bool:
        """Whether the server has closed the connection, or does so within the time-out."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Reset the connection, without closing it properly."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            part = self.socket.recv(min(size - len(got), 1 << 20))
            if not part:
                raise EOFError(f"the connection ended {size - len(got)} bytes too early")
            got += part
        return bytes(got)


def echo(frame: bytes) -> list[bytes | memoryview]:
    return [b"re: ", memoryview(frame)]


class Gate:
    """Answers `wait…` when it is opened, anything else at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)

    def __call__(self, frame: bytes) -> list[bytes | memoryview]:
        if frame.startswith(b"wait"):
            self.entered.release()
            assert self.opened.wait(30)
        return [frame]
