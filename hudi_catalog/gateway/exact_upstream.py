"""Requests whose header lines are not UTF-8, sent to Trino byte for byte.

Trino reads header lines as Latin-1, and its Python client sends names of users with accents like that. aiohttp sends
UTF-8 only and leaves out what is none, which would make another user of the name. Such requests go through the standard
library, one thread each while they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

from multidict import CIMultiDict

from hudi_catalog.gateway.answer import Answer, UpstreamError, too_slow
from hudi_catalog.gateway.proxy_settings import STATEMENT_SIZE, ProxySettings

_THREADS = 64
_PIECE = 65_536
_Result = TypeVar("_Result")


class ExactUpstream:
    """Sends single requests, each on a connection of its own.

    Args:
        settings: where Trino is, and how long to wait.
        tls: how its certificate is checked; None for the system's authorities.
    """

    def __init__(self, settings: ProxySettings, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._tls = tls
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="exact")

    def close(self) -> None:
        """Send no more; what is under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[Answer]:
        """Send a request; the answer's head has arrived, its body has not.

        Raises:
            UpstreamError: there is no answer, or the request's body is too long for this way.
        """
        content = await self._whole(body)
        connection = self._connection()

        def ask() -> http.client.HTTPResponse:
            connection.connect()
            connection.sock.settimeout(self._settings.answer_timeout)
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() != "content-length":
                    connection.putheader(name, value.encode("utf-8", "surrogateescape"))
            if content is not None:
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            return connection.getresponse()

        try:
            response = await self._in_thread(ask)
            yield _Threaded(response, self._in_thread)
        finally:
            # A thread that still waits for Trino, after the client has left, is woken by that.
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._settings.upstream)
        host, port, seconds = str(parts.hostname), parts.port, self._settings.connect_timeout
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    async def _whole(self, body: bytes | AsyncIterator[bytes] | None) -> bytes | None:
        if body is None or isinstance(body, bytes):
            return body
        content = bytearray()
        async for chunk in body:
            content += chunk
            if len(content) > self._settings.statement_size:
                raise UpstreamError(
                    502,
                    "a header line is no UTF-8, and requests with such a line are passed on only up to "
                    f"{self._settings.statement_size} bytes: write it in UTF-8, or raise {STATEMENT_SIZE}",
                )
        return bytes(content)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        where = self._settings.upstream
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise too_slow(where) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UpstreamError(502, f"Trino at {where}: {str(error) or type(error).__name__}") from error


class _Threaded(Answer):
    """An answer that a thread reads."""

    def __init__(
        self,
        response: http.client.HTTPResponse,
        in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    ) -> None:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.getheaders()]
        super().__init__(response.status, response.reason, raw)
        self._response = response
        self._in_thread = in_thread
        self._ended = False

    async def read(self) -> bytes:
        chunk = b"" if self._ended else await self._in_thread(self._piece)
        self._ended = not chunk
        return chunk

    def _piece(self) -> bytes:
        chunk = self._response.read1(_PIECE)
        if not chunk and self._response.length:
            raise http.client.IncompleteRead(b"", self._response.length)
        return chunk
