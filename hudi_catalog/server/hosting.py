"""Starts, drains and stops a service: in the foreground for a command, or in a background thread for a program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from hudi_catalog.server.endpoints import Endpoint
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status import StatusServer

_LOG = logging.getLogger(__name__)
_EXIT_SECONDS = 3.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.1


class Service(Protocol):
    """What `serve` and `hosted` can run."""

    @property
    def drain_seconds(self) -> float:
        """How long to wait for running queries before stopping."""

    async def start(self) -> None:
        """Start to listen; raises a HudiError on failure, with nothing left open."""

    def set_ready(self, ready: bool, /) -> None:
        """Announce whether clients should send queries here."""

    def busy(self) -> bool:
        """Whether queries are running."""

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; running requests get this many seconds to finish."""

    def reopen_log(self) -> None:
        """Reopen the log file after a rotation."""


class Server(Protocol):
    """The listening part of a service."""

    async def start(self) -> int:
        """Start to listen; returns the port."""

    async def stop(self, drain_seconds: float = 0) -> None:
        """Close everything; running requests get this many seconds to finish."""


class BaseService:
    """Base service: a server, its status page and its query log. Subclasses implement `busy()`.

    Args:
        server: answers clients.
        status: serves the status page.
        log: closed when the service stops.
        drain_seconds: how long to wait for running queries before stopping.

    Attributes:
        port: the server's port, set by `start`.
        http_port: the status page's port, set by `start`.
        log: the query log.
        drain_seconds: see Args.
        warnings: one line for each unsecured endpoint that other machines can reach, set by `start`.
    """

    def __init__(self, server: Server, status: StatusServer, log: QueryLog, drain_seconds: float) -> None:
        self.port = self.http_port = 0
        self.log = log
        self.drain_seconds = drain_seconds
        self.warnings: tuple[str, ...] = ()
        self._server = server
        self._status = status

    @property
    def status_scheme(self) -> str:
        """URL scheme of the status page: `http` or `https`."""
        return self._status.scheme

    def _endpoints(self) -> Sequence[Endpoint]:
        """The service's endpoints without the status page; called after `start`."""
        return ()

    async def start(self) -> None:
        """Start to listen, and warn of unsecured endpoints.

        Raises:
            ServiceError: an address is taken or does not belong to this machine.
        """
        self.port = await self._server.start()
        try:
            self.http_port = await self._status.start()
        except BaseException:
            await self._server.stop()
            raise
        endpoints = [*self._endpoints(), _status_endpoint(self._status, self.http_port)]
        self.warnings = tuple(warning for one in endpoints if (warning := one.warning()) is not None)
        for warning in self.warnings:
            _LOG.warning("%s", warning)
            self.log.event(self._status.service, "open door", message=warning)

    def set_ready(self, ready: bool, /) -> None:
        """Announce whether clients should send queries here."""
        self._status.ready = ready

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; running requests get this many seconds to finish."""
        self._status.ready = False
        try:
            await self._server.stop(drain_seconds)
            await self._status.stop()
        finally:
            self.log.close()

    def reopen_log(self) -> None:
        """Reopen the log file after a rotation."""
        self.log.reopen()


def _status_endpoint(status: StatusServer, port: int) -> Endpoint:
    guard = status.guard
    return Endpoint(
        "the status page",
        status.host,
        port,
        encrypted=guard.tls is not None,
        authenticated=guard.authenticates,
        exposure="sees queries with their filters",
        remedy="leave out --http-host, or give the service TLS and a secret or client certificates, which it uses too",
    )


def serve(service: Service, started: Callable[[], None]) -> None:
    """Run a service until SIGTERM or SIGINT; SIGHUP reopens its log file.

    Args:
        service: to run.
        started: called once it listens and handles signals.

    Raises:
        HudiError: it cannot be started.
    """

    async def run() -> None:
        raise_open_file_limit()
        await service.start()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, service.reopen_log)
        await run_until_stopped(
            started=started,
            ready=service.set_ready,
            busy=service.busy,
            stop=service.stop,
            drain_seconds=service.drain_seconds,
        )

    asyncio.run(run())
    _exit_despite_hung_threads()


def _exit_despite_hung_threads() -> None:
    """End the process even if an abandoned request hangs in a thread, which Python would wait for forever."""
    end = time.monotonic() + _EXIT_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                _LOG.warning("exiting although thread %s is still running", thread.name)
                logging.shutdown()
                sys.stdout.flush()
                os._exit(0)


async def run_until_stopped(
    *,
    started: Callable[[], None] | None = None,
    ready: Callable[[bool], None],
    busy: Callable[[], bool],
    stop: Callable[[float], Awaitable[None]],
    drain_seconds: float,
    stop_requested: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain running queries; a second signal ends the drain.

    Args:
        started: called once signals are handled, before `ready`: its receiver may send a signal at once.
        ready: called with True at the start and with False when draining begins.
        busy: whether queries are running.
        stop: closes the service; takes the seconds left for running requests.
        drain_seconds: how long to wait for running queries.
        stop_requested: set by the service itself to stop without a signal.
    """
    stop_requested = stop_requested or asyncio.Event()
    hurry = asyncio.Event()
    with _signals_handled(stop_requested, hurry):
        if started is not None:
            started()
        ready(True)
        await stop_requested.wait()
        ready(False)
        end = asyncio.get_running_loop().time() + drain_seconds
        if busy():
            _LOG.info("stopping: waiting up to %s s for running queries", drain_seconds)
        while busy() and not hurry.is_set() and (left := end - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), min(left, _POLL_SECONDS))
        if busy():
            _LOG.warning("stopping although queries are running")
        if hurry.is_set():
            await stop(0)
        else:
            await _stopped(stop(max(0, end - asyncio.get_running_loop().time())), hurry)


async def _stopped(stop: Awaitable[None], hurry: asyncio.Event) -> None:
    """Wait for a stop; a signal meanwhile abandons it, with what is open left to the end of the process."""
    stopping, hurried = asyncio.ensure_future(stop), asyncio.ensure_future(hurry.wait())
    await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not stopping.done():
        _LOG.warning("stopping at once")
        stopping.cancel()
        await asyncio.wait({stopping})
    if not stopping.cancelled():
        stopping.result()


@contextlib.contextmanager
def _signals_handled(first: asyncio.Event, second: asyncio.Event) -> Iterator[None]:
    """Set one event on the first signal and the other on each further one; handlers are restored afterwards."""
    loop = asyncio.get_running_loop()

    def handle(number: signal.Signals) -> None:
        _LOG.info("%s", number.name)
        (second if first.is_set() else first).set()

    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            # asyncio restores the default handler, even where the signal was ignored before
            signal.signal(number, handler)


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard one, for many connections; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@contextlib.contextmanager
def hosted(service: Service, drain_seconds: float = 5.0) -> Iterator[None]:
    """Run a service in a background thread for the duration of a `with` block.

    Args:
        service: to run.
        drain_seconds: time for running requests at the end of the block.

    Raises:
        HudiError: it cannot be started.
    """
    with event_loop_thread("service") as loop:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result()
        service.set_ready(True)
        try:
            yield
        finally:
            service.set_ready(False)
            asyncio.run_coroutine_threadsafe(service.stop(drain_seconds), loop).result()


@contextlib.contextmanager
def event_loop_thread(name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of that name for the duration of a `with` block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
