"""The proxy: forwards Trino's client protocol, and has statements rewritten on the way."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict

from hudi_catalog.gateway.client_protocol import RunningQueries
from hudi_catalog.gateway.downstream import ClientListener, UriMapping, query_error, refusal, relay
from hudi_catalog.gateway.headers import forwarded_headers, replace_header, take_credential
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.redaction import redacted
from hudi_catalog.gateway.statement_requests import ForwardedStatement, StatementHandler, StatementRewriter
from hudi_catalog.gateway.upstream import Upstream, UpstreamError
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret

CREDENTIAL = "hudi-catalog-secret"

# Requests that need no credential, since Trino's clients send extra credentials with the statement only. The paths of
# result pages and spooled rows contain a key known to their client alone; the other paths reveal nothing. Dots, percent
# signs and semicolons are excluded, so that Trino cannot resolve such a path to another one.
_OPEN = re.compile(
    r"/v1/statement/(?:queued|executing)/\w+/\w{16,}/\d+"
    r"|/v1/statement/executing/partialCancel/\w+/\d+/\w{16,}/\d+"
    r"|/v1/spooled/[a-z]+/[\w=~-]{16,}(?:/[\w=~-]+)?"
    r"|/v1/info(?:/state)?"
    r"|/oauth2/[\w/-]*",
    re.ASCII,
)


class SecretCheck:
    """Checks the shared secret that clients send as an extra credential.

    Args:
        secret: None to admit everybody.
    """

    def __init__(self, secret: Secret | None) -> None:
        self._secret = secret

    def refused(self, path: str, headers: CIMultiDict[str]) -> web.Response | None:
        """The error response for a client without the right secret; None if it may proceed.

        The credential is removed from the headers, so that neither Trino nor its connectors see it.
        """
        credentials = take_credential(headers, CREDENTIAL)
        if self._secret is None or _OPEN.fullmatch(path):
            return None
        if credentials and all(self._secret.equals(value) for value in credentials):
            return None
        what = "is not the one of this gateway" if credentials else "is missing"
        hint = "--extra-credential hudi-catalog-secret=… (Trino CLI), extraCredentials=hudi-catalog-secret:… (JDBC)"
        return refusal(
            401,
            f"the extra credential {CREDENTIAL} {what}; {hint}",
            {"WWW-Authenticate": f'{CREDENTIAL} realm="the extra credential {CREDENTIAL} {what}"'},
        )


_LOGGER = logging.getLogger(__name__)
_SERVICE = "gateway"
_STATEMENT = "/v1/statement"
_METHODS = {"/v1/statement": "statement", "/v1/spooled": "spooled", "/v1/info": "info", "/ui": "ui"}
_POLL_SECONDS = 0.05
_CLIENT_GONE = 499


class GatewayProxy:
    """Forwards Trino's client protocol byte for byte, except for statements that the rewriter changes.

    Args:
        settings: addresses, timeouts and limits.
        rewriter: rewrites statements; None to forward all of them unchanged.
        log: query log, for statements that the rewriter was not asked about or did not finish; None for no log.
        metrics: counts requests; None for no metrics.
        secret: clients must send it as extra credential `hudi-catalog-secret`; None to admit everybody.
        tls: to serve HTTPS; None for HTTP.
        upstream_tls: how Trino's certificate is checked; None for the system's authorities.
    """

    def __init__(
        self,
        settings: ProxySettings,
        rewriter: StatementRewriter | None,
        *,
        log: QueryLog | None = None,
        metrics: Metrics | None = None,
        secret: Secret | None = None,
        tls: ssl.SSLContext | None = None,
        upstream_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._rewriter = rewriter
        self._log = log
        self._metrics = metrics
        self._access = SecretCheck(secret)
        self._secure = tls is not None
        self._upstream = Upstream(settings, upstream_tls)
        self._queries = RunningQueries(settings.abandoned_after)
        self._listening = ClientListener(self._handle, settings, tls)
        self._statements: StatementHandler | None = None
        self._requests = 0
        self._draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> int:
        """Listen; returns the port.

        Raises:
            ServiceError: the address is in use or not an address of this machine.
        """
        self._statements = None if self._rewriter is None else StatementHandler(self._rewriter, self._settings)
        self._loop = asyncio.get_running_loop()
        await self._upstream.start()
        try:
            port = await self._listening.start()
        except BaseException:
            await self._upstream.stop()
            raise
        if self._metrics is not None:
            self._metrics.watch(_SERVICE, "connections", lambda: self._listening.connections)
            self._metrics.watch(_SERVICE, "requests", lambda: self._requests)
            self._metrics.watch(_SERVICE, "queries", lambda: len(self._queries))
        return port

    def begin_drain(self) -> None:
        """Refuse new statements; running queries continue."""
        self._draining = True

    def busy(self) -> bool:
        """Whether a client is waiting for a response or still has rows to fetch."""
        return self._requests > 0 or self._queries.busy

    async def stop(self, drain_seconds: float = 0.0) -> None:
        """Wait for running queries, at most this long, then close everything."""
        self.begin_drain()
        until = time.monotonic() + drain_seconds
        while self.busy() and time.monotonic() < until:  # noqa: ASYNC110  # queries expire by the clock
            await asyncio.sleep(_POLL_SECONDS)
        await self._listening.stop()
        await self._upstream.stop()
        if self._statements is not None:
            self._statements.close()

    def check_upstream(self) -> None:
        """Check that Trino accepts queries; for threads other than the proxy's own.

        Raises:
            ServiceError: Trino does not answer or is still starting.
        """
        if self._loop is None:
            raise UpstreamError(502, "the gateway has not been started")
        asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result()

    async def _ask(self) -> None:
        where = self._settings.upstream
        headers = CIMultiDict({"Host": self._settings.authority})
        async with self._upstream.exchange("GET", "/v1/info", headers, None) as answer:
            text = await answer.read_whole()
        if answer.status != 200:
            raise UpstreamError(502, f"Trino at {where} answers /v1/info with status {answer.status}")
        if b'"starting":true' in text:
            raise UpstreamError(502, f"Trino at {where} is still starting")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        self._requests += 1
        outcome = "client gone"
        try:
            response = await self._answer(request)
            outcome = "ok" if response.status < 400 else str(response.status)
        except ConnectionResetError:
            return web.Response(status=_CLIENT_GONE)  # for aiohttp; there is no client to receive it
        except web.RequestPayloadError as error:
            outcome = "400"
            return refusal(400, f"the request's body broke off: {error}")
        except TimeoutError:
            outcome = "408"
            return refusal(408, f"the request's body did not arrive within {self._settings.answer_timeout:g} s")
        except UpstreamError as error:
            _LOGGER.warning("%s %s: %s", request.method, request.path, error)
            outcome = str(error.status)
            return refusal(error.status, str(error))
        else:
            return response
        finally:
            self._requests -= 1
            if self._metrics is not None:
                method = next((name for path, name in _METHODS.items() if request.path.startswith(path)), "other")
                self._metrics.request(_SERVICE, method, time.monotonic() - began, outcome)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        target = request.raw_path
        if not target.startswith("/"):
            return refusal(400, "the gateway is not a forward proxy: a request's target has to begin with /")
        headers = forwarded_headers(request.raw_headers, without=("expect",))
        path = unquote(target.partition("?")[0])
        refused = self._access.refused(path, headers)
        if refused is not None:
            return refused
        statement = request.method == "POST" and path.rstrip("/") == _STATEMENT
        if statement and self._draining:
            return refusal(503, "the gateway is shutting down and takes no new statements", {"Retry-After": "1"})
        way = self._way(request, headers)
        passed: ForwardedStatement | None = None
        content = _timed_chunks(request, self._settings.answer_timeout) if request.can_read_body else None
        body: bytes | AsyncIterator[bytes] | None = content
        if statement and content is not None:
            body = await self._read(request, content)
        if isinstance(body, bytes):
            if self._statements is not None:
                passed = await self._statements.for_trino(body, headers)
                body = passed.body
                if passed.refusal:
                    return query_error(passed.refusal)
            headers.popall("Content-Length", None)
        self._queries.saw_request(path)
        async with self._upstream.exchange(
            request.method,
            target,
            headers,
            body,
            # Trino runs a statement only when its first URI is requested, which cannot happen if the response was lost.
            repeatable=isinstance(body, bytes),
        ) as answer:
            head = bytearray()
            try:
                return await relay(request, answer, way, head, () if passed is None else passed.not_understood)
            finally:
                # a client may disconnect before the end of the response is written
                if path.startswith(_STATEMENT):
                    encoding = answer.header("Content-Encoding")
                    identity = self._queries.saw_response(request.method, path, answer.status, bytes(head), encoding)
                    if passed is not None:
                        self._note(passed, identity)

    async def _read(self, request: web.Request, content: AsyncIterator[bytes]) -> bytes | AsyncIterator[bytes]:
        """The body of a statement; as a stream if it is too long to be rewritten."""
        most = self._settings.statement_size
        if (request.content_length or 0) > most:
            return content
        body = bytearray()
        async with asyncio.timeout(self._settings.answer_timeout):
            async for chunk in content:
                body += chunk
                if len(body) > most:
                    return _chained(bytes(body), content)
        return bytes(body)

    def _note(self, passed: ForwardedStatement, identity: str | None) -> None:
        """Log a statement that the rewriter was not asked about or did not finish."""
        if self._log is not None and passed.unplanned is not None:
            self._log.query(
                _SERVICE,
                outcome="unchanged",
                reason=passed.unplanned,
                detail=passed.detail,
                sql=redacted(passed.sql),
                query_id=identity,
            )

    def _way(self, request: web.Request, headers: CIMultiDict[str]) -> UriMapping | None:
        """How to rewrite the response's URIs; sets request headers so that as little as possible needs rewriting."""
        client = "https" if self._secure else "http"
        server = self._settings.scheme
        uris = self._settings.uris
        host = headers.get("Host", "")
        if uris == "auto":
            uris = "rewrite" if client != server or server == "https" else "host"
        if uris == "forwarded":
            peer = request.remote or "unknown"
            earlier = headers.get("X-Forwarded-For")
            headers["X-Forwarded-For"] = f"{earlier}, {peer}" if earlier else peer
            headers.setdefault("X-Forwarded-Proto", client)
            headers.setdefault("X-Forwarded-Host", host)
        if uris != "rewrite" or not host:
            return None
        replace_header(headers, "Host", [self._settings.authority])
        # The start of a response must be readable, so no gzip.
        replace_header(headers, "Accept-Encoding", ["identity"])
        return UriMapping(f"{client}://{host}", self._settings.upstream)


async def _timed_chunks(request: web.Request, seconds: float) -> AsyncIterator[bytes]:
    """Chunks of a request's body, each with a timeout; a client that stalls is disconnected."""
    pieces = request.content.iter_any()
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            # Trino waits for the rest, so there is no response to forward
            if request.transport is not None:
                request.transport.close()
            raise
        yield piece


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
