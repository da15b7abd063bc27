"""Runs a service that was put together: in the foreground for a command, or in a thread for a program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from hudi_catalog.server.lifecycle import allow_many_connections, run_until_stopped

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
