"""An answer whose header lines are not UTF-8, sent to the client byte for byte.

Trino writes header lines as Latin-1, such as the schema that USE has chosen. aiohttp writes UTF-8 and leaves out what
is none, which would make another schema of it. Such an answer is written to the connection directly, which then ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from hudi_catalog.gateway.client_protocol import HEAD, lead_back, lead_segments_back, moved
from hudi_catalog.gateway.headers import exact, passed_on, replace_all, values_of
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.upstream import Answer, UpstreamError
from hudi_catalog.server.http_listener import HttpListener

_MOST_WAITING = 1_048_576

_POLL_SECONDS = 0.01


class ExactResponse:
    """Written like aiohttp's `StreamResponse`.

    Args:
        answer: of Trino.
        headers: lines for the client; bytes that are no UTF-8 stand as lone surrogates.

    Attributes:
        headers: as given.
        prepared: whether the head has been sent.
    """

    def __init__(self, answer: Answer, headers: CIMultiDict[str]) -> None:
        self.headers = headers
        self.prepared = False
        self._status = f"HTTP/1.1 {answer.status} {answer.reason or ''}"
        self._transport: asyncio.WriteTransport | None = None

    async def prepare(self, request: web.Request) -> None:
        """Send the head; without a length of the body, its end is that of the connection."""
        transport = request.transport
        if not isinstance(transport, asyncio.WriteTransport):
            raise ConnectionResetError("the client is gone")
        self._transport = transport
        self.prepared = True
        lines = [self._status, *(f"{name}: {value}" for name, value in self.headers.items()), "Connection: close"]
        await self.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, once the client has taken most of those before.

        Raises:
            ConnectionResetError: the client is gone.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(data)
        while transport.get_write_buffer_size() > _MOST_WAITING and not transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    async def write_eof(self) -> None:
        """Send what is left, then end the connection."""
        if self._transport is not None:
            self._transport.close()


_LOGGER = logging.getLogger(__name__)

_ADDED = ("Server", "Date", "Content-Type")

_MOVED_HEADERS = ("Location", "WWW-Authenticate")

_SPOOLED_MOST = 8_000_000


class Relayed(web.StreamResponse):
    """An answer whose header lines are Trino's alone."""

    def own_lines_only(self) -> None:
        """Take back what aiohttp adds to an answer by itself; called when its header is ready to go."""
        for name in self.added:
            self.headers.popall(name, None)

    def __init__(self, answer: Answer, headers: CIMultiDict[str]) -> None:
        super().__init__(status=answer.status, reason=answer.reason, headers=headers)
        self.added = [name for name in _ADDED if name not in headers]


async def drop_added_lines(_request: web.Request, response: web.StreamResponse) -> None:
    """Signal handler of the application: see `Relayed.own_lines_only`."""
    if isinstance(response, Relayed):
        response.own_lines_only()


class Way:
    """The beginnings of URIs on both sides of the gateway, where answers have to be changed.

    Args:
        own: `https://host:port` by which the client called the gateway.
        theirs: the beginning that Trino puts before its paths.
    """

    def __init__(self, own: str, theirs: str) -> None:
        self.own = own
        self.theirs = theirs


async def relay(request: web.Request, answer: Answer, way: Way | None, head: bytearray) -> web.StreamResponse:
    """Pass an answer on.

    Args:
        request: of the client.
        answer: of Trino; its body has not been read yet.
        way: None to change nothing.
        head: gets the first bytes of the body, also when the client leaves before the end of it.

    Returns:
        The answer to the client.

    Raises:
        UpstreamError: Trino broke off before the client got anything.
        ConnectionResetError: the client is gone, or Trino broke off later: then the connection to the client ends.
    """
    headers = passed_on(answer.raw_headers)
    if way is not None:
        _move_headers(headers, way)
    if way is not None and _has_uris(request.path, answer):
        chunk = await _changed_beginning(answer, headers, way)
    else:
        chunk = await answer.read()
    response = Relayed(answer, headers) if exact(headers) else ExactResponse(answer, headers)
    try:
        await response.prepare(request)
        while chunk:
            if len(head) < HEAD:
                head += chunk[: HEAD - len(head)]
            await response.write(chunk)
            chunk = await answer.read()
    except UpstreamError as error:
        # Neither a shorter body nor an end that looks like one: the client must see that rows are missing.
        _LOGGER.warning("%s %s: %s", request.method, request.path, error)
        _reset(request)
        raise ConnectionResetError(str(error)) from error
    await response.write_eof()
    if isinstance(response, Relayed):
        return response
    # The connection ends: what aiohttp would send on it finds nobody.
    return web.Response(status=answer.status)


def _reset(request: web.Request) -> None:
    """End a client's connection in a way that no client takes for the end of a body."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _changed_beginning(answer: Answer, headers: CIMultiDict[str], way: Way) -> bytes:
    """The first bytes of an answer, all of it unless it is large, with the URIs exchanged."""
    body = bytearray()
    while len(body) <= _SPOOLED_MOST and (chunk := await answer.read()):
        body += chunk
    changed = lead_back(bytes(body), way.own, way.theirs)
    headers.popall("Content-Length", None)
    if len(body) <= _SPOOLED_MOST:
        changed = lead_segments_back(changed, way.own, way.theirs) if b'"segments"' in changed else changed
        headers["Content-Length"] = str(len(changed))
    return changed


def _has_uris(path: str, answer: Answer) -> bool:
    plain = answer.header("Content-Encoding") in {"", "identity"}
    return plain and "json" in answer.header("Content-Type") and path.startswith(("/v1/statement", "/oauth2/"))


def _move_headers(headers: CIMultiDict[str], way: Way) -> None:
    for name in _MOVED_HEADERS:
        uris = [moved(value, way.own, way.theirs) for value in values_of(headers, name)]
        replace_all(headers, name, [uri.replace(f'"{way.theirs}/', f'"{way.own}/') for uri in uris])


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer of the gateway's own, a JSON object with the reason."""
    body = json.dumps({"error": {"source": "hudi-catalog gateway", "message": message}}) + "\n"
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)


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
        self._listener.request_started(request)
        try:
            return await self._handler(request)
        finally:
            self._listener.request_finished(request)


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
