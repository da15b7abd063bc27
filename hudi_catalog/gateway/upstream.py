"""The proxy's side to Trino: connections, requests and streamed responses.

aiohttp writes header lines as UTF-8 and silently drops what is not. Trino reads them as Latin-1, and its Python client
sends user names with accents that way, so such requests go through the standard library's client, byte for byte.
"""

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

from hudi_catalog.gateway.headers import RawHeaders, is_utf8
from hudi_catalog.gateway.options import ANSWER_TIMEOUT, CONNECT_TIMEOUT, STATEMENT_SIZE, ProxySettings
from table_format.errors import ServiceError


class UpstreamError(ServiceError):
    """Trino did not answer.

    Attributes:
        status: HTTP status for the client: 502 if Trino is unreachable or broke off, 504 on a timeout.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def timeout_error(where: str) -> UpstreamError:
    """Error for a connection or response that exceeded its timeout."""
    return UpstreamError(504, f"Trino at {where} did not answer in time (see {CONNECT_TIMEOUT} and {ANSWER_TIMEOUT})")


class UpstreamResponse(ABC):
    """A response of Trino: its head, and its body as a stream.

    Attributes:
        status: such as 200.
        reason: the reason phrase, None if absent.
        raw_headers: names and values as they arrived.
    """

    def __init__(self, status: int, reason: str | None, raw_headers: RawHeaders) -> None:
        self.status = status
        self.reason = reason
        self.raw_headers = raw_headers

    def header(self, name: str) -> str:
        """A header's first value in lower case, empty if absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1").lower() for key, value in self.raw_headers if key.lower() == wanted), "")

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the body, empty at its end.

        Raises:
            UpstreamError: the connection broke.
        """

    async def read_whole(self) -> bytes:
        """The rest of a short body.

        Raises:
            UpstreamError: the connection broke.
        """
        body = bytearray()
        while chunk := await self.read():
            body += chunk
        return bytes(body)


_THREADS = 64
_PIECE = 65_536
_Result = TypeVar("_Result")


class RawUpstream:
    """Sends requests whose header lines are not UTF-8, byte for byte, each on a connection and a thread of its own.

    Args:
        settings: Trino's address and timeouts.
        tls: how its certificate is checked; None for the system's authorities.
    """

    def __init__(self, settings: ProxySettings, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._tls = tls
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="raw-upstream")

    def close(self) -> None:
        """Accept no more requests, without waiting for those in flight."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Send a request; yields once the response's head has arrived.

        Raises:
            UpstreamError: Trino does not answer, or the request's body exceeds the statement size.
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
            yield _ThreadedResponse(response, self._in_thread)
        finally:
            # Wakes a thread that still waits for Trino after the client has left.
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
                    "a header line is not UTF-8, and requests with such a line are passed on only up to "
                    f"{self._settings.statement_size} bytes: write it in UTF-8, or raise {STATEMENT_SIZE}",
                )
        return bytes(content)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        where = self._settings.upstream
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise timeout_error(where) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UpstreamError(502, f"Trino at {where}: {str(error) or type(error).__name__}") from error


class _ThreadedResponse(UpstreamResponse):
    """A response read by a worker thread."""

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


# Shorter than Trino's own idle timeout, so that pooled connections are still open when reused.
_IDLE_SECONDS = 15.0
_HEADER_SIZE = 1_048_576
_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
Body = bytes | AsyncIterator[bytes] | None


class Upstream:
    """A pool of connections to Trino.

    Args:
        settings: Trino's address and timeouts.
        tls: how its certificate is checked; None for the system's authorities.
    """

    def __init__(self, settings: ProxySettings, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        # not True: to aiohttp before 3.9.2 that meant not to check the certificate
        self._tls = ssl.create_default_context() if tls is None else tls
        self._session: aiohttp.ClientSession | None = None
        self._raw = RawUpstream(settings, tls)

    async def start(self) -> None:
        """Create the pool; connections are opened on demand."""
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
        self._raw.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, headers: CIMultiDict[str], body: Body, *, repeatable: bool = False
    ) -> AsyncIterator[UpstreamResponse]:
        """Send a request; yields once the response's head has arrived.

        Args:
            method: of the request.
            target: path and query exactly as the client sent them.
            headers: all headers to send.
            body: of the request.
            repeatable: whether a POST is harmless if Trino receives it twice, so that it may be retried when a pooled
                connection turns out to be closed. Idempotent methods are always retried.

        Raises:
            UpstreamError: Trino does not answer.
        """
        if not is_utf8(headers):
            async with self._raw.exchange(method, target, headers, body) as answer:
                yield answer
            return
        response = await self._answer(method, target, headers, body, repeatable=repeatable)
        try:
            yield _PooledResponse(response, self._settings.upstream)
        finally:
            # A connection whose body was not read to the end cannot be reused: closing discards it.
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
                raise timeout_error(where) from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                again = attempt + 1 < attempts and not isinstance(error, aiohttp.ClientConnectorError)
                if not again:
                    raise UpstreamError(502, f"Trino at {where}: {_error_text(error)}") from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise UpstreamError(502, f"Trino at {where}: {_error_text(error)}") from error
        raise UpstreamError(502, f"Trino at {where} did not answer")


class _PooledResponse(UpstreamResponse):
    """A response read by aiohttp."""

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


def _error_text(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return f"cannot connect: {os.strerror(number) if number and number > 0 else error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return " ".join(str(error).split())[:300] or type(error).__name__
