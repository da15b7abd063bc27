"""The gateway's side to clients: the listening socket, and how many connections there may be."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from hudi_catalog.gateway.proxy_settings import ProxySettings
from hudi_catalog.gateway.relay import drop_added_lines
from hudi_catalog.server.http_listener import HttpListener

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HEADER_SIZE = 1_048_576
_MOST_HEADERS = 1_000
_IDLE_SECONDS = 600.0
_STOP_SECONDS = 1.0
_LINGER_SECONDS = 1.0


class Listening:
    """An HTTP server that hands every request to one function.

    Connections beyond the limit are closed at once. So is one, after a while, in which a request is left unfinished
    (`hudi_catalog.server.http_listener`), and one that has been idle for ten minutes.

    Args:
        handler: answers a request; it is cancelled when the client goes away.
        settings: address and limits.
        tls: None for HTTP.
    """

    def __init__(self, handler: Handler, settings: ProxySettings, tls: ssl.SSLContext | None) -> None:
        self._handler = handler
        self._settings = settings
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._listener: HttpListener | None = None

    @property
    def connections(self) -> int:
        """Of clients, open now."""
        return 0 if self._listener is None else len(self._listener)

    async def start(self) -> int:
        """Listen; the port.

        Raises:
            ServiceError: the address is taken, or not one of this machine.
        """
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._clocked)
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
        settings = self._settings
        self._listener = HttpListener(
            self._runner,
            what="the gateway",
            flag="--port",
            read_seconds=settings.read_timeout,
            connections=settings.connections,
            tls=self._tls,
        )
        try:
            return await self._listener.start(settings.host, settings.port)
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Stop listening and close all connections; open requests get a second."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _clocked(self, request: web.Request) -> web.StreamResponse:
        assert self._listener is not None  # noqa: S101
        self._listener.begun(request)
        try:
            return await self._handler(request)
        finally:
            self._listener.ended(request)


def _http_logger() -> logging.Logger:
    """Aiohttp's messages; a request that is no HTTP is one line, not a traceback."""

    def shorter(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.msg = f"{record.getMessage()}: {' '.join(error.message.split())[:200]}"
            record.args, record.exc_info, record.exc_text = None, None, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True

    logger = logging.getLogger("hudi_catalog.gateway.http")
    logger.filters[:] = [shorter]
    return logger
