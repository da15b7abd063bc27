"""An answer of Trino on its way to the client, as it is: status, header lines, and the bytes as they arrive."""

from __future__ import annotations

import json
import logging
import socket
import struct

from aiohttp import web
from multidict import CIMultiDict

from hudi_catalog.gateway.answer import Answer, UpstreamError
from hudi_catalog.gateway.exact_response import ExactResponse
from hudi_catalog.gateway.headers import exact, passed_on, replace_all, values_of
from hudi_catalog.gateway.uris import HEAD, lead_back, lead_segments_back, moved

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
