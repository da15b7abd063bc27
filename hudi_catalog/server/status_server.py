"""The HTTP side of a service: is it alive, is it ready, what has it done. `/` is a page for people."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from catalog.late_tables import LateTables
from hudi_catalog.server.doors import StatusGuard
from hudi_catalog.server.http_listener import HttpListener
from hudi_catalog.server.metrics import CONTENT_TYPE, Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status_page import status_page

_CHECK_SECONDS = 5.0
_CHECK_AGE = 2.0
_STOP_SECONDS = 2.0
_IDLE_SECONDS = 75.0
_READ_SECONDS = 60.0
_MOST_CONNECTIONS = 200
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

Check = Callable[[], None]
"""Returns, or raises what is wrong; it may take its time, as a thread runs it."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StatusServer:
    """Serves `/health`, `/ready`, `/metrics` and a page of the last queries; `guard` says to whom.

    `/health` answers as long as the process does. `/ready` is 200 while the service takes queries and each check
    passes, else 503: before `ready` is set, and from the moment at which it is taken back to drain.

    Args:
        service: its name, as in the log.
        metrics: shown at `/metrics`.
        log: its newest records are shown at `/`.
        checks: what has to work, by name, such as `warehouse`; each is asked at most every two seconds.
        facts: what the page says of the service, such as its address, by name.
        host: address to listen at.
        port: 0 for a free one.
        guard: what is asked of clients.
        late: tables whose storage does not answer, which `/ready` and the page name; None where there are no tables.
        read_seconds: in which the head of a request has to arrive.

    Attributes:
        service: what was given.
        host: what was given.
        guard: what was given.
        ready: whether the service takes queries; set it after the start and take it back before draining.
    """

    def __init__(
        self,
        service: str,
        metrics: Metrics,
        log: QueryLog,
        *,
        checks: Mapping[str, Check] | None = None,
        facts: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        guard: StatusGuard | None = None,
        late: LateTables | None = None,
        read_seconds: float = _READ_SECONDS,
    ) -> None:
        self.ready = False
        self.host = host
        self.guard = guard or StatusGuard()
        self.service = service
        self._metrics = metrics
        self._log = log
        self._facts = dict(facts or {})
        self._port = port
        self._late = LateTables() if late is None else late
        self._read_seconds = read_seconds
        self._checks = {name: _Remembered(check) for name, check in (checks or {}).items()}
        self._runner: web.AppRunner | None = None
        self._listener: HttpListener | None = None

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "http" if self.guard.tls is None else "https"

    async def start(self) -> int:
        """Listen; the port.

        Raises:
            ServiceError: the address is taken, or not one of this machine.
        """
        app = web.Application(middlewares=[self._clocked])
        app.router.add_get("/", self._page)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._text)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            keepalive_timeout=_IDLE_SECONDS,
        )
        await runner.setup()
        self._listener = HttpListener(
            runner,
            what="the status page",
            flag="--http-port",
            read_seconds=self._read_seconds,
            connections=_MOST_CONNECTIONS,
            tls=self.guard.tls,
        )
        try:
            port = await self._listener.start(self.host, self._port)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        return port

    async def stop(self) -> None:
        """Stop listening; open requests get two seconds."""
        self.ready = False
        runner, self._runner = self._runner, None
        if self._listener is not None:
            self._listener.close()
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _clocked(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        assert self._listener is not None  # noqa: S101
        self._listener.begun(request)
        try:
            return await handler(request)
        finally:
            self._listener.ended(request)

    def _late_tables(self) -> dict[str, str]:
        return {late.name: str(late) for late in self._late.late()}

    def _refused(self, request: web.Request) -> web.Response | None:
        refusal = self.guard.refusal(request)
        if refusal is None:
            return None
        status, reason = refusal
        asks = {"WWW-Authenticate": 'Basic realm="hudi-catalog"'} if status == 401 else {}
        return web.Response(text=f"{reason}\n", status=status, headers={**_HEADERS, **asks})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"service": self.service, "alive": True}, headers=_HEADERS)

    async def _ready(self, request: web.Request) -> web.Response:
        problems = await asyncio.gather(*(check.problem() for check in self._checks.values()))
        checks = dict(zip(self._checks, problems, strict=True))
        # Read after the checks: draining may have begun while they ran.
        ready = self.ready and not any(problems)
        body: dict[str, Any] = {"service": self.service, "ready": ready}
        if self.guard.refusal(request) is None:
            body["takes_queries"] = self.ready
            body["late_tables"] = self._late_tables()
            body["checks"] = {name: problem or "ok" for name, problem in checks.items()}
        return web.json_response(body, status=200 if ready else 503, headers=_HEADERS)

    async def _text(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        text = await asyncio.to_thread(self._metrics.text)
        return web.Response(body=text, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})

    async def _page(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        records = self._log.recent()
        late = {f"late table {name}": text for name, text in self._late_tables().items()}
        text = await asyncio.to_thread(status_page, self.service, {**self._facts, **late}, records, ready=self.ready)
        return web.Response(text=text, content_type="text/html", headers=_HEADERS)


class _Remembered:
    """A check whose answer holds for two seconds, so that probes put no load on what they probe."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._lock = asyncio.Lock()
        self._asked = -_CHECK_AGE
        self._problem: str | None = None
        self._running: asyncio.Future[str | None] | None = None

    async def problem(self) -> str | None:
        """What is wrong, None for nothing."""
        async with self._lock:
            if time.monotonic() - self._asked < _CHECK_AGE:
                return self._problem
            # One that hangs is waited for again, not started again: each start would hold a thread.
            if self._running is None:
                self._running = self._in_thread()
            done, _ = await asyncio.wait({self._running}, timeout=_CHECK_SECONDS)
            if done:
                self._problem = self._running.result()
                self._running = None
            else:
                self._problem = f"no answer within {_CHECK_SECONDS:.0f} s"
            self._asked = time.monotonic()
            return self._problem

    def _in_thread(self) -> asyncio.Future[str | None]:
        """Start the check in a thread that does not hold up the end of the process."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str | None] = loop.create_future()

        def run() -> None:
            problem = None
            try:
                self._check()
            except Exception as error:  # noqa: BLE001  # whatever it is, it is why the service is not ready
                problem = " ".join(str(error).split())[:500] or type(error).__name__
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(_settle, future, problem)

        threading.Thread(target=run, name="check", daemon=True).start()
        return future


def _settle(future: asyncio.Future[str | None], problem: str | None) -> None:
    if not future.done():
        future.set_result(problem)
