"""The proxy's side to Trino: one HTTP exchange, its failures told apart in words for the client."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from hudi_catalog.gateway.answer import Answer, UpstreamError, too_slow
from hudi_catalog.gateway.exact_upstream import ExactUpstream
from hudi_catalog.gateway.headers import exact
from hudi_catalog.gateway.proxy_settings import ProxySettings

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
