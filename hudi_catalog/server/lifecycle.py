"""How a service runs until it is told to stop, and stops without breaking running queries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator

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
