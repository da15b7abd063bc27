"""The proxy's side to clients: the listening socket, and Trino's responses relayed as they are.

Status, header lines and body bytes pass unchanged, except for URIs that must lead back through the gateway. aiohttp
writes header lines as UTF-8 and drops what is not, but Trino writes Latin-1 (such as the schema that USE has set), so
a response with such lines is written to the socket directly, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import struct
import uuid
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from hudi_catalog.gateway.client_protocol import HEAD, rebased, rewrite_segment_uris, rewrite_uris
from hudi_catalog.gateway.headers import forwarded_headers, header_values, is_utf8, replace_header
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.upstream import UpstreamError, UpstreamResponse
from hudi_catalog.server.http_listener import HttpListener

_MOST_WAITING = 1_048_576
_POLL_SECONDS = 0.01


class RawResponse:
    """A response with header lines that are not UTF-8; has the interface of aiohttp's `StreamResponse`.

    Args:
        answer: of Trino.
        headers: for the client; bytes that are not UTF-8 are lone surrogates.

    Attributes:
        headers: of the response.
        prepared: whether the head has been sent.
    """

    def __init__(self, answer: UpstreamResponse, headers: CIMultiDict[str]) -> None:
        self.headers = headers
        self.prepared = False
        self._status = f"HTTP/1.1 {answer.status} {answer.reason or ''}"
        self._transport: asyncio.WriteTransport | None = None

    async def prepare(self, request: web.Request) -> None:
        """Send the head; the body ends with the connection."""
        transport = request.transport
        if not isinstance(transport, asyncio.WriteTransport):
            raise ConnectionResetError("the client is gone")
        self._transport = transport
        self.prepared = True
        lines = [self._status, *(f"{name}: {value}" for name, value in self.headers.items()), "Connection: close"]
        await self.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))

    async def write(self, data: bytes) -> None:
        """Send part of the body, waiting while the client is slow to read.

        Raises:
            ConnectionResetError: the client has disconnected.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(data)
        while transport.get_write_buffer_size() > _MOST_WAITING and not transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    async def write_eof(self) -> None:
        """Flush and close the connection."""
        if self._transport is not None:
            self._transport.close()


_LOGGER = logging.getLogger(__name__)
_ADDED = ("Server", "Date", "Content-Type")
_MOVED_HEADERS = ("Location", "WWW-Authenticate")
_SPOOLED_MOST = 8_000_000
_PERMISSION_DENIED = 4
_HEADER_TEXT = 1_000
_IN_HEADER = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
NOT_UNDERSTOOD_HEADER = "X-Hudi-Catalog-Not-Understood"
"""Header of the response to a statement: a condition on a Hudi table by which no file was left out."""


class RelayedResponse(web.StreamResponse):
    """A response with only Trino's headers."""

    def own_lines_only(self) -> None:
        """Remove the headers that aiohttp adds by itself; called just before the head is sent."""
        for name in self.added:
            self.headers.popall(name, None)

    def __init__(self, answer: UpstreamResponse, headers: CIMultiDict[str]) -> None:
        super().__init__(status=answer.status, reason=answer.reason, headers=headers)
        self.added = [name for name in _ADDED if name not in headers]


async def drop_added_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Signal handler of the application: see `RelayedResponse.own_lines_only`."""
    if isinstance(response, RelayedResponse):
        response.own_lines_only()


class UriMapping:
    """URI prefixes on both sides of the gateway, for responses whose URIs are rewritten.

    Args:
        gateway: `https://host:port` by which the client called the gateway.
        trino: the prefix of the URIs that Trino writes.
    """

    def __init__(self, gateway: str, trino: str) -> None:
        self.gateway = gateway
        self.trino = trino


async def relay(
    request: web.Request,
    answer: UpstreamResponse,
    mapping: UriMapping | None,
    head: bytearray,
    not_understood: Sequence[str] = (),
) -> web.StreamResponse:
    """Forward a response to the client.

    Args:
        request: of the client.
        answer: of Trino; its body has not been read yet.
        mapping: how URIs are rewritten; None to change nothing.
        head: receives the first bytes of the body, even if the client disconnects early.
        not_understood: parts of the statement by which nothing was left out, for a header each.

    Returns:
        The response to the client.

    Raises:
        UpstreamError: Trino broke off before anything was sent to the client.
        ConnectionResetError: the client has disconnected, or Trino broke off later, which ends the client's connection.
    """
    headers = forwarded_headers(answer.raw_headers)
    for text in not_understood:
        headers.add(NOT_UNDERSTOOD_HEADER, quote(text, safe=_IN_HEADER)[:_HEADER_TEXT])
    if mapping is not None:
        _move_headers(headers, mapping)
    if mapping is not None and _has_uris(request.path, answer):
        chunk = await _changed_beginning(answer, headers, mapping)
    else:
        chunk = await answer.read()
    response = RelayedResponse(answer, headers) if is_utf8(headers) else RawResponse(answer, headers)
    try:
        await response.prepare(request)
        while chunk:
            if len(head) < HEAD:
                head += chunk[: HEAD - len(head)]
            await response.write(chunk)
            chunk = await answer.read()
    except UpstreamError as error:
        # The client must notice that rows are missing: neither a short body nor a regular end.
        _LOGGER.warning("%s %s: %s", request.method, request.path, error)
        _reset(request)
        raise ConnectionResetError(str(error)) from error
    await response.write_eof()
    if isinstance(response, RelayedResponse):
        return response
    # aiohttp must return something; the connection is closed already.
    return web.Response(status=answer.status)


def _reset(request: web.Request) -> None:
    """Reset a client's connection, so that no client takes this for the end of the body."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _changed_beginning(answer: UpstreamResponse, headers: CIMultiDict[str], mapping: UriMapping) -> bytes:
    """The first bytes of a response with its URIs rewritten; the whole body unless it is large."""
    body = bytearray()
    while len(body) <= _SPOOLED_MOST and (chunk := await answer.read()):
        body += chunk
    changed = rewrite_uris(bytes(body), mapping.gateway, mapping.trino)
    headers.popall("Content-Length", None)
    if len(body) <= _SPOOLED_MOST:
        changed = rewrite_segment_uris(changed, mapping.gateway, mapping.trino) if b'"segments"' in changed else changed
        headers["Content-Length"] = str(len(changed))
    return changed


def _has_uris(path: str, answer: UpstreamResponse) -> bool:
    plain = answer.header("Content-Encoding") in {"", "identity"}
    return plain and "json" in answer.header("Content-Type") and path.startswith(("/v1/statement", "/oauth2/"))


def _move_headers(headers: CIMultiDict[str], mapping: UriMapping) -> None:
    for name in _MOVED_HEADERS:
        uris = [rebased(value, mapping.gateway, mapping.trino) for value in header_values(headers, name)]
        replace_header(headers, name, [uri.replace(f'"{mapping.trino}/', f'"{mapping.gateway}/') for uri in uris])


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An error response of the gateway itself: a JSON object with the message."""
    body = json.dumps({"error": {"source": "hudi-catalog gateway", "message": message}}) + "\n"
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)


def query_error(message: str) -> web.Response:
    """The error of a statement that Trino does not get, as its clients expect one of Trino's."""
    identity = f"hudi_catalog_{uuid.uuid4().hex[:16]}"
    failure = {"type": "io.trino.spi.TrinoException", "message": message, "suppressed": [], "stack": []}
    body = {
        "id": identity,
        "infoUri": f"http://hudi-catalog/{identity}",
        "stats": {"state": "FAILED", "queued": False, "scheduled": False},
        "error": {
            "message": message,
            "errorCode": _PERMISSION_DENIED,
            "errorName": "PERMISSION_DENIED",
            "errorType": "USER_ERROR",
            "failureInfo": failure,
        },
        "warnings": [],
    }
    return web.Response(text=json.dumps(body), content_type="application/json")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HEADER_SIZE = 1_048_576
_MOST_HEADERS = 1_000
_IDLE_SECONDS = 600.0
_STOP_SECONDS = 1.0
_LINGER_SECONDS = 1.0


class ClientListener:
    """An HTTP server that passes every request to one handler.

    Connections beyond the limit are closed at once; those with an unfinished request after a timeout
    (`hudi_catalog.server.http_listener`), idle ones after ten minutes.

    Args:
        handler: answers a request; cancelled when the client disconnects.
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
        """Number of open client connections."""
        return 0 if self._listener is None else len(self._listener)

    async def start(self) -> int:
        """Listen; returns the port.

        Raises:
            ServiceError: the address is in use or not an address of this machine.
        """
        app = web.Application(middlewares=[self._tracked])
        app.router.add_route("*", "/{path:.*}", self._handler)
        app.on_response_prepare.append(drop_added_headers)
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
        """Stop listening and close all connections; open requests get one second."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _tracked(self, request: web.Request, handler: Handler) -> web.StreamResponse:  # noqa: ARG002
        """Handle every request, also one whose target matches no route, such as that of CONNECT."""
        assert self._listener is not None  # noqa: S101
        self._listener.request_started(request)
        try:
            return await self._handler(request)
        finally:
            self._listener.request_finished(request)


def _http_logger() -> logging.Logger:
    """Aiohttp's logger; a malformed request is logged as one line instead of a traceback."""

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
