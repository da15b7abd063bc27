"""Runs a service that was put together: in the foreground for a command, or in a thread for a program."""

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

from hudi_catalog.server.endpoints import Door
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status import StatusServer

_LEAVE_SECONDS = 3.0


class Service(Protocol):
    """What can be started, drained and stopped."""

    @property
    def drain_seconds(self) -> float:
        """How long running queries are waited for at the end."""

    async def start(self) -> None:
        """Listen; raises a HudiError when that fails, with nothing left open."""

    def set_ready(self, ready: bool, /) -> None:
        """Told whether queries are to be sent here."""

    def busy(self) -> bool:
        """Whether queries are running."""

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; requests in work get so many seconds."""

    def reopen_log(self) -> None:
        """Open the log file anew."""


def serve(service: Service, started: Callable[[], None]) -> None:
    """Run a service until SIGTERM or SIGINT; SIGHUP makes it open its log file anew.

    Args:
        service: to run.
        started: called when it listens and a signal would stop it in order.

    Raises:
        HudiError: it cannot be started.
    """

    async def run() -> None:
        allow_many_connections()
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
    _leave()


def _leave() -> None:
    """End the process even if a thread hangs in a request that was given up: Python would wait for it for ever."""
    end = time.monotonic() + _LEAVE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                logging.getLogger(__name__).warning("ending although %s is at work", thread.name)
                logging.shutdown()
                sys.stdout.flush()
                os._exit(0)


@contextlib.contextmanager
def hosted(service: Service, drain_seconds: float = 5.0) -> Iterator[None]:
    """Run a service in a thread of its own for as long as a `with` block lasts.

    Args:
        service: to run.
        drain_seconds: what requests in work get at the end of the block.

    Raises:
        HudiError: it cannot be started.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="service", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result()
        service.set_ready(True)
        try:
            yield
        finally:
            service.set_ready(False)
            asyncio.run_coroutine_threadsafe(service.stop(drain_seconds), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


_LOG = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_LOOK_SECONDS = 0.1


async def run_until_stopped(
    *,
    started: Callable[[], None] | None = None,
    ready: Callable[[bool], None],
    busy: Callable[[], bool],
    stop: Callable[[float], Awaitable[None]],
    drain_seconds: float,
    asked: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT comes, then finish what runs; a second signal ends the waiting.

    Args:
        started: called when signals are heeded, before the service is ready: whoever is told may send one at once.
        ready: told True now, and False as soon as the service is to stop, so that nobody sends new queries.
        busy: whether queries are running.
        stop: closes the service; given the seconds that are left for requests in work.
        drain_seconds: how long running queries are waited for.
        asked: set by the service itself when it wants to stop.
    """
    asked = asked or asyncio.Event()
    hurry = asyncio.Event()
    with _on_signals(asked, hurry):
        if started is not None:
            started()
        ready(True)
        await asked.wait()
        ready(False)
        end = asyncio.get_running_loop().time() + drain_seconds
        if busy():
            _LOG.info("stopping: running queries get %s s", drain_seconds)
        while busy() and not hurry.is_set() and (left := end - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), min(left, _LOOK_SECONDS))
        if busy():
            _LOG.warning("stopping although queries are running")
        await stop(0 if hurry.is_set() else max(0, end - asyncio.get_running_loop().time()))


@contextlib.contextmanager
def _on_signals(first: asyncio.Event, second: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def came(number: signal.Signals) -> None:
        _LOG.info("%s", number.name)
        (second if first.is_set() else first).set()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, came, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            # asyncio puts back its own idea of it, also where the signal was ignored
            signal.signal(number, handler)


def allow_many_connections() -> int:
    """Raise this process's limit of open files as far as it may go; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Server(Protocol):
    """What answers the clients."""

    async def start(self) -> int:
        """Listen; the port."""

    async def stop(self, drain_seconds: float = 0) -> None:
        """Close everything; requests in work get so many seconds."""


class ServiceBesideStatus:
    """All of a `hudi_catalog.server.hosting.Service` but whether it is busy.

    Args:
        server: answers the clients.
        status: tells of it.
        log: is closed at the end.
        drain_seconds: how long running queries are waited for at the end.

    Attributes:
        port: of the server, once it has started.
        http_port: of the status page, once it has started.
        log: what was given.
        drain_seconds: what was given.
        warnings: a line for each door that stands open beyond this machine, once it has started.
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
        """`http` or `https`: how the status page is called."""
        return self._status.scheme

    def _doors(self) -> Sequence[Door]:
        """The service's own doors, once it has started; that of the status page is not among them."""
        return ()

    async def start(self) -> None:
        """Listen.

        Raises:
            ServiceError: an address is taken, or not one of this machine.
        """
        self.port = await self._server.start()
        try:
            self.http_port = await self._status.start()
        except BaseException:
            await self._server.stop()
            raise
        doors = [*self._doors(), _status_door(self._status, self.http_port)]
        self.warnings = tuple(warning for door in doors if (warning := door.warning()) is not None)
        for warning in self.warnings:
            _LOG.warning("%s", warning)
            self.log.event(self._status.service, "open door", message=warning)

    def set_ready(self, ready: bool, /) -> None:
        """Say whether queries are to be sent here."""
        self._status.ready = ready

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; requests in work get so many seconds."""
        self._status.ready = False
        await self._server.stop(drain_seconds)
        await self._status.stop()
        self.log.close()

    def reopen_log(self) -> None:
        """Open the log file anew."""
        self.log.reopen()


def _status_door(status: StatusServer, port: int) -> Door:
    guard = status.guard
    return Door(
        "the status page",
        status.host,
        port,
        encrypted=guard.tls is not None,
        checked=guard.checks,
        anybody="sees queries with their filters",
        remedy="leave out --http-host, or give the service TLS and a secret or clients' certificates, which count here",
    )
