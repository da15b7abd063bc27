"""The proxy's side to Trino: one HTTP exchange, its failures told apart in words for the client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from hudi_catalog.gateway.headers import RawHeaders, exact
from hudi_catalog.gateway.options import ANSWER_TIMEOUT, CONNECT_TIMEOUT, STATEMENT_SIZE, ProxySettings
from table_format.errors import ServiceError


class UpstreamError(ServiceError):
    """Trino did not answer.

    Attributes:
        status: for the client: 502 when Trino cannot be reached or broke off, 504 when it is too slow.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def too_slow(where: str) -> UpstreamError:
    """The error for a Trino that cannot be connected to, or does not answer, in the time that the options give it."""
    return UpstreamError(504, f"Trino at {where} did not answer in time (see {CONNECT_TIMEOUT} and {ANSWER_TIMEOUT})")


class Answer(ABC):
    """The head of an answer, and its body as it comes.

    Attributes:
        status: such as 200.
        reason: the words behind it, None for none.
        raw_headers: names and values as they arrived.
    """

    def __init__(self, status: int, reason: str | None, raw_headers: RawHeaders) -> None:
        self.status = status
        self.reason = reason
        self.raw_headers = raw_headers

    def header(self, name: str) -> str:
        """A header's first value in lower case, empty when it is absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1").lower() for key, value in self.raw_headers if key.lower() == wanted), "")

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the body, none at its end.

        Raises:
            UpstreamError: it broke off.
        """

    async def read_whole(self) -> bytes:
        """The rest of a short body.

        Raises:
            UpstreamError: it broke off.
        """
        body = bytearray()
        while chunk := await self.read():
            body += chunk
        return bytes(body)


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


# Trino's own connections close after longer idle times: one taken from the pool is then still open.
_IDLE_SECONDS = 15.0

_HEADER_SIZE = 1_048_576

_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

Body = bytes | AsyncIterator[bytes] | None


class Upstream:
    """A pool of connections to Trino.

    Args:
        settings: where it is, and how long to wait.
        tls: how its certificate is checked; None for the system's authorities.
    """

    def __init__(self, settings: ProxySettings, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._session: aiohttp.ClientSession | None = None
        self._exact = ExactUpstream(settings, tls)

    async def start(self) -> None:
        """Make the pool; no connection is opened yet."""
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self._settings.connect_timeout,
            sock_read=self._settings.answer_timeout,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=timeout,
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            max_line_size=_HEADER_SIZE,
            max_field_size=_HEADER_SIZE,
        )

    async def stop(self) -> None:
        """Close all connections."""
        self._exact.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, headers: CIMultiDict[str], body: Body, *, repeatable: bool = False
    ) -> AsyncIterator[Answer]:
        """Send a request; the answer's head has arrived, its body has not.

        Args:
            method: of the request.
            target: path and query, spelled as the client did.
            headers: all that are sent.
            body: of the request.
            repeatable: a POST of which nothing comes when Trino gets it twice, so that it may be sent again when a
                connection of the pool turns out to have been closed by Trino meanwhile. Methods that are idempotent
                are anyway.

        Raises:
            UpstreamError: there is no answer.
        """
        if not exact(headers):
            async with self._exact.exchange(method, target, headers, body) as answer:
                yield answer
            return
        response = await self._answer(method, target, headers, body, repeatable=repeatable)
        try:
            yield _Streamed(response, self._settings.upstream)
        finally:
            # A body that was not read to its end makes the connection useless: it is closed, not kept.
            response.close()

    async def _answer(
        self, method: str, target: str, headers: CIMultiDict[str], body: Body, *, repeatable: bool
    ) -> aiohttp.ClientResponse:
        where = self._settings.upstream
        if self._session is None:
            raise UpstreamError(502, f"Trino at {where}: the gateway is not connected")
        url = URL(where + target, encoded=True)
        attempts = 2 if repeatable else 1
        for attempt in range(attempts):
            try:
                return await self._session.request(method, url, headers=headers, data=body, allow_redirects=False)
            except (TimeoutError, aiohttp.ServerTimeoutError) as error:
                raise too_slow(where) from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                again = attempt + 1 < attempts and not isinstance(error, aiohttp.ClientConnectorError)
                if not again:
                    raise UpstreamError(502, f"Trino at {where}: {_reason(error)}") from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise UpstreamError(502, f"Trino at {where}: {_reason(error)}") from error
        raise UpstreamError(502, f"Trino at {where} did not answer")


class _Streamed(Answer):
    """An answer that aiohttp reads."""

    def __init__(self, response: aiohttp.ClientResponse, where: str) -> None:
        super().__init__(response.status, response.reason, response.raw_headers)
        self._content = response.content
        self._where = where

    async def read(self) -> bytes:
        try:
            return await self._content.readany()
        except TimeoutError as error:
            raise UpstreamError(504, f"Trino at {self._where} stopped in the middle of an answer") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(502, f"Trino at {self._where} broke off an answer") from error


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return f"cannot connect: {os.strerror(number) if number and number > 0 else error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return " ".join(str(error).split())[:300] or type(error).__name__
