"""The listening socket of an aiohttp server, with a limit on connections and a time-out for request heads."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, cast

from aiohttp import web

from hudi_catalog.server.endpoints import cannot_listen

_SWEEP_SECONDS = 5.0
_TLS_HANDSHAKE_SECONDS = 15
_BACKLOG = 1_024
_END_OF_HEAD = b"\r\n\r\n"


class HttpListener:
    """Passes connections to aiohttp, and closes those whose request head does not arrive in time.

    aiohttp has no time-out for request heads. Here it covers the head of a connection's first request and those of
    pipelined ones; the time-out of bodies is up to the handlers.

    Args:
        runner: of the application, set up; its handlers call `request_started` and `request_finished`.
        what: listener's name for messages, such as ``the gateway``.
        flag: command-line flag that sets the port.
        read_seconds: time-out of a request head, from the connection or its first byte on.
        connections: limit; further connections are closed at once.
        tls: None for plain HTTP.
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
        self._limit = connections
        self._tls = tls
        self._open: dict[Any, _Connection] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Number of open connections."""
        return len(self._open)

    async def start(self, host: str, port: int) -> int:
        """Start to listen; returns the port.

        Raises:
            ServiceError: the address is taken or does not belong to this machine.
        """
        handshake = None if self._tls is None else _TLS_HANDSHAKE_SECONDS
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accepted, host, port, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=_BACKLOG
            )
        except (OSError, OverflowError, UnicodeError) as error:
            raise cannot_listen(self._what, host, port, self._flag, error) from error
        self._sweeper = asyncio.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening; the runner closes open connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()

    def request_started(self, request: web.Request) -> None:
        """Called by a handler when it starts: the request's head has arrived."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.request_started(request)

    def request_finished(self, request: web.Request) -> None:
        """Called by a handler when it ends."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.request_finished()

    def _accepted(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None  # noqa: S101
        return _Connection(server(), self._open, self._limit)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._read_seconds / 2))
            oldest = time.monotonic() - self._read_seconds
            for handler, connection in list(self._open.items()):
                if not connection.handling and connection.head_since is not None and connection.head_since < oldest:
                    handler.force_close()


class _Connection(asyncio.Protocol):
    """Forwards all events to aiohttp's protocol of a connection, and notes when a request begins to arrive.

    Args:
        handler: aiohttp's protocol of the connection.
        connections: all open connections by their handler.
        limit: so many of them; a connection beyond it is closed.

    Attributes:
        handling: whether a request is being handled.
        head_since: when the incomplete head began to arrive; None when there is none.
    """

    def __init__(self, handler: Any, connections: dict[Any, _Connection], limit: int) -> None:
        self.handling = False
        self.head_since: float | None = None
        self._head = bytearray()
        self._body_left = 0
        self._chunked: Any = None
        self._handler = handler
        self._open = connections
        self._limit = limit

    def request_started(self, request: web.Request) -> None:
        self.handling, self.head_since = True, None
        received = bytes(self._head).lstrip(b"\r\n")
        self._head.clear()
        end = received.find(_END_OF_HEAD)
        # Only aiohttp's parser knows where a chunked body ends. A head that begins in the same piece of data goes
        # unnoticed; aiohttp's idle time-out ends such a connection.
        self._chunked = request.content if request.can_read_body and request.content_length is None else None
        self._body_left = request.content_length or 0
        if end >= 0 and self._chunked is None:
            self._note(received[end + len(_END_OF_HEAD) :])

    def request_finished(self) -> None:
        self.handling = False
        if self.head_since is not None:
            self.head_since = time.monotonic()  # aiohttp parses a pipelined head only now

    def _note(self, data: bytes) -> None:
        """Attribute bytes to the rest of the last request's body, and those after it to the next request's head."""
        if self._chunked is not None:
            if not self._chunked.is_eof():
                return
            self._chunked = None
        head = data[self._body_left :]
        self._body_left = max(0, self._body_left - len(data))
        if head:
            self._head += head
            self.head_since = self.head_since or time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self._open) >= self._limit:  # only now: several may be accepted before the first of them is open
            cast("asyncio.Transport", transport).set_protocol(asyncio.Protocol())
            transport.close()
            return
        self.head_since = time.monotonic()
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
