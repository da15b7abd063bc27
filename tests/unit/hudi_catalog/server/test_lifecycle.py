"""How a service stops: readiness first, then running queries, then the rest."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from hudi_catalog.server.hosting import raise_open_file_limit, run_until_stopped


class Recorder:
    """A service that notes what is asked of it."""

    def __init__(self, busy_for: float = 0) -> None:
        self.events: list[str] = []
        self.busy_for = busy_for
        self.drain_began: float | None = None
        self.left: float | None = None

    def ready(self, ready: bool) -> None:
        self.events.append("ready" if ready else "not ready")
        if not ready:
            self.drain_began = time.monotonic()

    def busy(self) -> bool:
        assert self.drain_began is not None, "asked before readiness ended"
        return time.monotonic() - self.drain_began < self.busy_for

    async def stop(self, seconds: float) -> None:
        self.events.append("stopped")
        self.left = seconds


def run(service: Recorder, *signals: tuple[float, int], drain: float = 5) -> float:
    """Seconds from the first signal to the end."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        for after, number in signals:
            loop.call_later(after, os.kill, os.getpid(), number)
        begin = loop.time()
        await run_until_stopped(ready=service.ready, busy=service.busy, stop=service.stop, drain_seconds=drain)
        return loop.time() - begin - signals[0][0]

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    took = asyncio.run(main())
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    return took


def test_an_idle_service_stops_at_once() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        service = Recorder()
        assert run(service, (0.05, number)) < 1
        assert service.events == ["ready", "not ready", "stopped"]
        assert service.left is not None
        assert 4 < service.left <= 5


def test_running_queries_are_finished_first() -> None:
    service = Recorder(busy_for=0.5)
    assert 0.45 < run(service, (0.05, signal.SIGTERM)) < 2
    assert service.events == ["ready", "not ready", "stopped"]


def test_queries_that_never_end_are_not_waited_for_longer_than_allowed() -> None:
    service = Recorder(busy_for=1_000)
    assert 0.25 < run(service, (0.05, signal.SIGTERM), drain=0.3) < 2
    assert service.left == 0


def test_a_second_signal_ends_the_waiting() -> None:
    service = Recorder(busy_for=1_000)
    assert run(service, (0.05, signal.SIGINT), (0.3, signal.SIGINT), drain=60) < 3
    assert service.left == 0


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_second_signal_ends_a_stop_that_waits(stubborn: bool) -> None:
    class Slow(Recorder):
        async def stop(self, seconds: float) -> None:
            await super().stop(seconds)
            try:
                await asyncio.sleep(seconds)
            finally:
                self.events.append("closed")
                if stubborn:
                    raise OSError("not closed")

    service = Slow()
    if stubborn:
        with pytest.raises(OSError, match="not closed"):
            run(service, (0.05, signal.SIGTERM), (0.3, signal.SIGTERM), drain=60)
    else:
        assert run(service, (0.05, signal.SIGTERM), (0.3, signal.SIGTERM), drain=60) < 3
    assert service.events == ["ready", "not ready", "stopped", "closed"]


def test_a_service_may_ask_itself() -> None:
    async def main(service: Recorder) -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, asked.set)
        await run_until_stopped(
            ready=service.ready, busy=service.busy, stop=service.stop, drain_seconds=1, stop_requested=asked
        )

    service = Recorder()
    asyncio.run(main(service))
    assert service.events == ["ready", "not ready", "stopped"]


@pytest.mark.slow
def test_open_files_are_allowed_as_far_as_may_be() -> None:
    program = (
        "import resource; from hudi_catalog.server.hosting import raise_open_file_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]));"
        "print(raise_open_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert done.stdout.strip() == f"{hard} ({hard}, {hard})"
    assert raise_open_file_limit() >= 100
