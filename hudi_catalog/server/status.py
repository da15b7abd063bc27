"""The HTTP status server of a service: liveness, readiness, metrics, and a page with the latest queries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from typing import Any

from aiohttp import web

from catalog.amounts import bytes_text, share_text
from catalog.concurrency.late_tables import LateTables
from hudi_catalog.server.endpoints import StatusGuard
from hudi_catalog.server.http_listener import HttpListener
from hudi_catalog.server.metrics import CONTENT_TYPE, Metrics
from hudi_catalog.server.query_log import QueryLog

_CHECK_SECONDS = 5.0
_CHECK_AGE = 2.0
_STOP_SECONDS = 2.0
_IDLE_SECONDS = 75.0
_READ_SECONDS = 60.0
_MAX_CONNECTIONS = 200
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

Check = Callable[[], None]
"""A readiness check: raises an exception on a problem. Runs in a thread, so it may block."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StatusServer:
    """Serves `/health`, `/ready`, `/metrics` and a page of the latest queries at `/`.

    `/health` is 200 while the process is alive. `/ready` is 200 while the service accepts queries and all checks pass,
    else 503: before `ready` is set, and again once it is cleared for draining.

    Args:
        service: the service's name, as in the query log.
        metrics: served at `/metrics`.
        log: its newest records are shown at `/`.
        checks: readiness checks by name, such as `warehouse`; each runs at most every two seconds.
        facts: what the page says about the service, such as its address, by name.
        host: address to listen at.
        port: 0 for any free one.
        guard: access control.
        late: tables whose storage does not respond, named by `/ready` and the page; None for a service without tables.
        read_seconds: time-out of a request's head.

    Attributes:
        service: see Args.
        host: see Args.
        guard: see Args.
        ready: whether the service accepts queries; set it after the start and clear it before draining.
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
        self._checks = {name: _CachedCheck(check) for name, check in (checks or {}).items()}
        self._runner: web.AppRunner | None = None
        self._listener: HttpListener | None = None

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "http" if self.guard.tls is None else "https"

    async def start(self) -> int:
        """Start to listen; returns the port.

        Raises:
            ServiceError: the address is taken or does not belong to this machine.
        """
        app = web.Application(middlewares=[self._tracked])
        app.router.add_get("/", self._page)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics_text)
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
            connections=_MAX_CONNECTIONS,
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
        """Stop listening; running requests get two seconds."""
        self.ready = False
        runner, self._runner = self._runner, None
        if self._listener is not None:
            self._listener.close()
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _tracked(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        assert self._listener is not None  # noqa: S101
        self._listener.request_started(request)
        try:
            return await handler(request)
        finally:
            self._listener.request_finished(request)

    def _late_tables(self) -> dict[str, str]:
        return {late.name: str(late) for late in self._late.late()}

    def _refusal(self, request: web.Request) -> web.Response | None:
        refusal = self.guard.refusal(request)
        if refusal is None:
            return None
        status, reason = refusal
        challenge = {"WWW-Authenticate": 'Basic realm="hudi-catalog"'} if status == 401 else {}
        return web.Response(text=f"{reason}\n", status=status, headers={**_HEADERS, **challenge})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"service": self.service, "alive": True}, headers=_HEADERS)

    async def _ready(self, request: web.Request) -> web.Response:
        problems = await asyncio.gather(*(check.problem() for check in self._checks.values()))
        checks = dict(zip(self._checks, problems, strict=True))
        # Read after the checks, because draining may have begun meanwhile.
        ready = self.ready and not any(problems)
        body: dict[str, Any] = {"service": self.service, "ready": ready}
        if self.guard.refusal(request) is None:
            body["takes_queries"] = self.ready
            body["late_tables"] = self._late_tables()
            body["checks"] = {name: problem or "ok" for name, problem in checks.items()}
        return web.json_response(body, status=200 if ready else 503, headers=_HEADERS)

    async def _metrics_text(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        text = await asyncio.to_thread(self._metrics.text)
        return web.Response(body=text, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})

    async def _page(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        records = self._log.recent()
        late = {f"late table {name}": text for name, text in self._late_tables().items()}
        text = await asyncio.to_thread(status_page, self.service, {**self._facts, **late}, records, ready=self.ready)
        return web.Response(text=text, content_type="text/html", headers=_HEADERS)


class _CachedCheck:
    """A check whose result is reused for two seconds, so that probes cause no load."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._lock = asyncio.Lock()
        self._checked_at = -_CHECK_AGE
        self._problem: str | None = None
        self._running: asyncio.Future[str | None] | None = None

    async def problem(self) -> str | None:
        """The problem that the check found; None when it passed."""
        async with self._lock:
            if time.monotonic() - self._checked_at < _CHECK_AGE:
                return self._problem
            # A hung check is awaited again rather than restarted, since each start takes a thread.
            if self._running is None:
                self._running = self._in_thread()
            done, _ = await asyncio.wait({self._running}, timeout=_CHECK_SECONDS)
            if done:
                self._problem = self._running.result()
                self._running = None
            else:
                self._problem = f"no answer within {_CHECK_SECONDS:.0f} s"
            self._checked_at = time.monotonic()
            return self._problem

    def _in_thread(self) -> asyncio.Future[str | None]:
        """Start the check in a daemon thread, which does not delay the end of the process."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str | None] = loop.create_future()

        def run() -> None:
            problem = None
            try:
                self._check()
            except Exception as error:  # noqa: BLE001  # any exception means that the service is not ready
                problem = " ".join(str(error).split())[:500] or type(error).__name__
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, future, problem)

        threading.Thread(target=run, name="check", daemon=True).start()
        return future


def _settle(future: asyncio.Future[str | None], problem: str | None) -> None:
    if not future.done():
        future.set_result(problem)


_STYLE = """
:root { --bg:#fff; --ink:#1c2430; --dim:#667085; --rule:#e3e7ee; --kept:#1f6feb; --gone:#e3e7ee; --good:#12805c;
  --bad:#b42318; --odd:#b54708; }
@media (prefers-color-scheme: dark) { :root { --bg:#12161c; --ink:#e6eaf0; --dim:#98a2b3; --rule:#2a313c;
  --kept:#6cb0ff; --gone:#2a313c; --good:#4cc38a; --bad:#f97066; --odd:#fdb022; } }
body { font:15px/1.5 system-ui,sans-serif; background:var(--bg); color:var(--ink); margin:2rem auto; max-width:1080px;
  padding:0 1rem; }
h1 { font-size:1.35rem; margin:0; } h2 { font-size:1.05rem; margin:2rem 0 .5rem; }
.dim { color:var(--dim); } .good { color:var(--good); } .bad { color:var(--bad); } .odd { color:var(--odd); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; margin:.8rem 0; }
dt { color:var(--dim); } dd { margin:0; overflow-wrap:anywhere; }
details { border-bottom:1px solid var(--rule); }
summary { display:grid; cursor:pointer; list-style:none; gap:.2rem 1rem;
  grid-template-columns:6.5rem minmax(6rem,14rem) 9rem 9rem 5.5rem minmax(0,1fr); padding:.35rem 0; }
summary::-webkit-details-marker { display:none; } summary:hover { background:var(--rule); }
summary > * { overflow:hidden; text-overflow:ellipsis; white-space:nowrap; }
.head { color:var(--dim); border-bottom:1px solid var(--rule); display:grid; gap:.2rem 1rem; padding:.35rem 0;
  grid-template-columns:6.5rem minmax(6rem,14rem) 9rem 9rem 5.5rem minmax(0,1fr); }
.n { text-align:right; font-variant-numeric:tabular-nums; } code { font-size:.9em; overflow-wrap:anywhere; }
pre { white-space:pre-wrap; margin:.3rem 0; } a { color:inherit; }
.bar { height:.7rem; border-radius:3px; background:var(--gone); margin-top:.4rem; }
.bar i { display:block; height:100%; border-radius:3px; background:var(--kept); min-width:2px; }
.bar i[style="width:0.00%"] { display:none; }
.more { padding:.2rem 0 1rem 7.5rem; } .more table { border-collapse:collapse; }
.more td,.more th { text-align:left; padding:.15rem 1rem .15rem 0; vertical-align:top; font-weight:normal; }
.more th { color:var(--dim); } .more .n { text-align:right; }
@media (max-width:760px) { summary,.head { grid-template-columns:5rem 1fr 5rem; } .wide { display:none; }
  .more { padding-left:0; } }
"""


def status_page(service: str, facts: Mapping[str, str], records: Sequence[Mapping[str, Any]], *, ready: bool) -> str:
    """The status page as self-contained HTML.

    Args:
        service: the service's name.
        facts: what to show about the service, by name.
        records: of the query log, newest first.
        ready: whether the service accepts queries.
    """
    title = f"hudi-catalog {escape(service)}"
    state = '<span class="good">takes queries</span>' if ready else '<span class="bad">takes no queries</span>'
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1><dl><dt>state</dt><dd>{state}</dd>{rows}</dl>",
        "<h2>Last queries</h2>",
        _HEAD if records else '<p class="dim">None yet.</p>',
        *(_record(record) for record in records),
        _FOOT,
    ]
    return "\n".join(parts)


_FOOT = (
    '<p class="dim"><a href="/metrics">metrics</a> · <a href="/ready">ready</a> · <a href="/health">health</a></p>'
    "</body></html>"
)

_HEAD = (
    '<div class="head"><span>time (UTC)</span><span>table</span><span class="wide">files</span>'
    '<span class="n">read</span><span class="n wide">planned in</span><span class="wide">filter</span></div>'
)


def _record(record: Mapping[str, Any]) -> str:
    try:
        return _planned(record) if record.get("event") == "planned" else _other(record)
    except (KeyError, TypeError, ValueError, AttributeError):  # a field that was too long is a truncated text
        return _other(record)


def _planned(record: Mapping[str, Any]) -> str:
    selected, total = int(record["files_out"]), int(record["files_in"])
    share = 100 * selected / total if total else 0
    condition = record["expression"] or "all rows"
    return (
        f"<details><summary><span>{_time(record)}</span><b>{escape(str(record['table']))}</b>"
        f'<span class="wide" title="{share_text(selected, total)} of the files"><div class="bar">'
        f'<i style="width:{share:.2f}%"></i></div></span>'
        f'<span class="n">{selected:,} of {total:,}</span><span class="n wide">{float(record["ms"]):,.1f} ms</span>'
        f'<code class="wide">{escape(condition)}</code></summary>{_funnel(record)}</details>'
    )


def _funnel(record: Mapping[str, Any]) -> str:
    stages = "".join(
        f'<tr><td>{escape(stage["name"])}</td><td class="n">{stage["in"]:,}</td><td class="n">{stage["out"]:,}</td>'
        f'<td class="{"" if stage["pruned"] else "dim"}">{escape(stage["reason"])}</td></tr>'
        for stage in record["stages"]
    )
    unknown = "".join(f'<div class="odd">not understood: {escape(str(reason))}</div>' for reason in record["unknown"])
    sizes = f"{bytes_text(int(record['bytes_out']))} of {bytes_text(int(record['bytes_in']))}"
    return (
        f'<div class="more"><div class="dim">instant {escape(str(record["instant"]))}, {sizes}</div>'
        f"<div><code>{escape(record['expression'] or 'no filter')}</code></div>{unknown}"
        '<table><tr><th>stage</th><th class="n">files in</th><th class="n">files out</th><th>why</th></tr>'
        f"{stages}</table></div>"
    )


def _other(record: Mapping[str, Any]) -> str:
    outcome = str(record.get("outcome", record.get("event", "")))
    reason = str(record.get("reason", ""))
    reason = "" if reason == outcome else reason
    subject = str(record.get("sql") or record.get("error") or record.get("table") or "")
    style = {"rewritten": "good", "unchanged": "dim"}.get(outcome, "odd")
    elapsed = record.get("ms")
    shown = f"{elapsed:,.1f} ms" if isinstance(elapsed, int | float) else ""
    body = escape(json.dumps(record, ensure_ascii=False, indent=1, default=str))
    return (
        f'<details><summary><span>{_time(record)}</span><span class="{style}">{escape(outcome)}</span>'
        f'<span class="wide dim" style="grid-column:span 2">{escape(reason)}</span><span class="n wide">{shown}</span>'
        f'<code class="wide">{escape(subject)}</code></summary><div class="more"><pre><code>{body}</code></pre></div>'
        "</details>"
    )


def _time(record: Mapping[str, Any]) -> str:
    return escape(str(record.get("time", ""))[11:19])
