"""The listening socket of an HTTP server: how many connections it takes, and how long a client may take to ask."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

from aiohttp import web

from hudi_catalog.server.endpoints import cannot_listen

_SWEEP_SECONDS = 5.0
_TLS_HANDSHAKE_SECONDS = 15
_BACKLOG = 1_024
_END_OF_HEAD = b"\r\n\r\n"


class HttpListener:
    """Hands connections to aiohttp, and closes those whose client leaves a request unfinished.

    aiohttp has no time limit for the head of a request. Here a connection is closed when the head of its first request,
    or of one that has begun to arrive behind others, is not there in time. The time of bodies is their handler's.

    Args:
        runner: of the application, set up; its handlers call `begun` and `ended`.
        what: listens, for messages, such as ``the gateway``.
        flag: sets the port.
        read_seconds: in which the head of a request has to arrive, from the connection or its first byte on.
        connections: further ones are closed at once.
        tls: None for HTTP.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        *,
        what: str,
        flag: str,
        read_seconds: float,
        connections: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._runner = runner
        self._what, self._flag = what, flag
        self._read_seconds = read_seconds
        self._most = connections
        self._tls = tls
        self._open: dict[Any, _Connection] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def start(self, host: str, port: int) -> int:
        """Listen; the port.

        Raises:
            ServiceError: the address is taken, or not one of this machine.
        """
        handshake = None if self._tls is None else _TLS_HANDSHAKE_SECONDS
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accepted, host, port, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=_BACKLOG
            )
        except (OSError, OverflowError) as error:
            raise cannot_listen(self._what, host, port, self._flag, error) from error
        self._sweeper = asyncio.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Listen no longer; open connections are the runner's to close."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()

    def begun(self, request: web.Request) -> None:
        """The head of a request has arrived, and its handler begins."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.begun(request)

    def ended(self, request: web.Request) -> None:
        """Its handler has ended."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.ended()

    def _accepted(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None  # noqa: S101
        return _Refused() if len(self._open) >= self._most else _Connection(server(), self._open)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._read_seconds / 2))
            oldest = time.monotonic() - self._read_seconds
            for handler, connection in list(self._open.items()):
                if not connection.handled and connection.heard is not None and connection.heard < oldest:
                    handler.force_close()


class _Connection(asyncio.Protocol):
    """Passes everything on to aiohttp's handler of a connection, and notes when a request begins to arrive.

    Args:
        handler: aiohttp's.
        open_ones: all that are open, by handler.

    Attributes:
        handled: whether a handler is answering a request.
        heard: when the head that has not arrived whole began to arrive; None when there is none.
    """

    def __init__(self, handler: Any, open_ones: dict[Any, _Connection]) -> None:
        self.handled = False
        self.heard: float | None = None
        self._head = bytearray()
        self._body = 0  # bytes that the body of the last request lacks
        self._chunked: Any = None
        self._handler = handler
        self._open = open_ones

    def begun(self, request: web.Request) -> None:
        self.handled, self.heard = True, None
        received = bytes(self._head).lstrip(b"\r\n")
        self._head.clear()
        end = received.find(_END_OF_HEAD)
        # Where a chunked body ends in a piece of data only aiohttp's parser knows. A head that begins in that very
        # piece is not noticed; aiohttp's limit for idle connections ends it.
        self._chunked = request.content if request.can_read_body and request.content_length is None else None
        self._body = request.content_length or 0
        if end >= 0 and self._chunked is None:
            self._note(received[end + len(_END_OF_HEAD) :])

    def ended(self) -> None:
        self.handled = False
        if self.heard is not None:
            self.heard = time.monotonic()  # aiohttp did not look at it before

    def _note(self, data: bytes) -> None:
        """Take bytes for the rest of the last request's body, and those behind it for the next request's head."""
        if self._chunked is not None:
            if not self._chunked.is_eof():
                return
            self._chunked = None
        behind = data[self._body :]
        self._body = max(0, self._body - len(data))
        if behind:
            self._head += behind
            self.heard = self.heard or time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard = time.monotonic()
        self._open[self._handler] = self
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._note(data)
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()  # type: ignore[no-any-return]

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.pop(self._handler, None)
        self._handler.connection_lost(exc)


class _Refused(asyncio.Protocol):
    """A connection beyond the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
