"""The gateway's side to clients: the listening socket, and how many connections there may be."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from catalog.gateway.proxy_settings import ProxySettings
from catalog.gateway.relay import drop_added_lines
from catalog.services.addresses import cannot_listen

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HEADER_SIZE = 1_048_576
_MOST_HEADERS = 1_000
_IDLE_SECONDS = 600.0
_SILENT_SECONDS = 60.0
_SWEEP_SECONDS = 5.0
_BACKLOG = 1_024
_STOP_SECONDS = 1.0
_LINGER_SECONDS = 1.0


class Listening:
    """An HTTP server that hands every request to one function.

    Connections beyond the limit are closed at once. One that has not sent a whole request after a minute is closed, and
    one that has been idle for ten minutes.

    Args:
        handler: answers a request; it is cancelled when the client goes away.
        settings: address and limit.
        tls: None for HTTP.
        silent_seconds: in which a new connection has to send a whole request.
    """

    def __init__(
        self,
        handler: Handler,
        settings: ProxySettings,
        tls: ssl.SSLContext | None,
        *,
        silent_seconds: float = _SILENT_SECONDS,
    ) -> None:
        self._handler = handler
        self._settings = settings
        self._tls = tls
        self._silent_seconds = silent_seconds
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._silent: dict[Any, float] = {}

    @property
    def connections(self) -> int:
        """Of clients, open now."""
        server = self._runner.server if self._runner is not None else None
        return len(server.connections) if server is not None else 0

    async def start(self) -> int:
        """Listen; the port.

        Raises:
            ServiceError: the address is taken, or not one of this machine.
        """
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._first_heard)
        app.on_response_prepare.append(drop_added_lines)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_http_logger(),
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=_STOP_SECONDS,
            lingering_time=_LINGER_SECONDS,
            keepalive_timeout=_IDLE_SECONDS,
            auto_decompress=False,
            max_line_size=_HEADER_SIZE,
            max_field_size=_HEADER_SIZE,
            max_headers=_MOST_HEADERS,
        )
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accepted, host, port, ssl=self._tls, backlog=_BACKLOG
            )
        except OSError as error:
            await self._runner.cleanup()
            raise cannot_listen("the gateway", host, port, "--port", error) from error
        self._sweeper = asyncio.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and close all connections; open requests get a second."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _accepted(self) -> asyncio.Protocol:
        assert self._runner is not None  # noqa: S101
        assert self._runner.server is not None  # noqa: S101
        if self.connections >= self._settings.connections:
            return _Refused()
        connection: Any = self._runner.server()
        self._silent[connection] = time.monotonic()
        return connection  # type: ignore[no-any-return]

    async def _first_heard(self, request: web.Request) -> web.StreamResponse:
        self._silent.pop(request.protocol, None)
        return await self._handler(request)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._silent_seconds))
            server = self._runner.server if self._runner is not None else None
            open_ones = set(server.connections) if server is not None else set()
            oldest = time.monotonic() - self._silent_seconds
            for connection, since in list(self._silent.items()):
                if connection not in open_ones:
                    del self._silent[connection]
                elif since < oldest:
                    del self._silent[connection]
                    connection.force_close()


def _http_logger() -> logging.Logger:
    """Aiohttp's messages; a request that is no HTTP is one line, not a traceback."""

    def shorter(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.msg = f"{record.getMessage()}: {' '.join(error.message.split())[:200]}"
            record.args, record.exc_info, record.exc_text = None, None, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True

    logger = logging.getLogger("catalog.gateway.http")
    logger.filters[:] = [shorter]
    return logger


class _Refused(asyncio.Protocol):
    """A connection beyond the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
