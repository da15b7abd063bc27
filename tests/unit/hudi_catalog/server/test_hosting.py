"""Services in the foreground and in threads."""

import signal
import subprocess
import sys
import threading

import pytest

from hudi_catalog.server.hosting import hosted
from table_format.errors import ServiceError

# A service of which a thread hangs for good, as one that reads from a dead storage does.
HANGING = """
import threading, time
from hudi_catalog.server import hosting

hosting._LEAVE_SECONDS = 0.5

class Service:
    drain_seconds = 1.0
    async def start(self):
        threading.Thread(target=lambda: time.sleep(600), name="request").start()
    def set_ready(self, ready): print("ready", ready, flush=True)
    def busy(self): return False
    async def stop(self, drain_seconds): print("stop", drain_seconds <= 1, flush=True)
    def reopen_log(self): print("reopened", flush=True)

hosting.serve(Service(), lambda: print("started", flush=True))
"""


class Recorder:
    """A service that remembers its calls, and in which thread."""

    drain_seconds = 1.0

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[str] = []
        self.threads: set[str] = set()

    async def start(self) -> None:
        self.threads.add(threading.current_thread().name)
        if self.error:
            raise self.error
        self.calls.append("start")

    def set_ready(self, ready: bool, /) -> None:
        self.calls.append(f"ready {ready}")

    def busy(self) -> bool:
        return False

    async def stop(self, drain_seconds: float, /) -> None:
        self.threads.add(threading.current_thread().name)
        self.calls.append(f"stop {drain_seconds}")

    def reopen_log(self) -> None:
        self.calls.append("reopened")


@pytest.mark.slow
def test_a_process_ends_although_a_thread_hangs() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            assert [output.readline(), output.readline()] == ["started\n", "ready True\n"]
            process.send_signal(signal.SIGHUP)
            assert output.readline() == "reopened\n"
            process.terminate()
            assert output.read() == "ready False\nstop True\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_thread_hosts_a_service_for_a_block() -> None:
    service = Recorder()
    with hosted(service, drain_seconds=2.0):
        assert service.calls == ["start", "ready True"]
    assert service.calls == ["start", "ready True", "ready False", "stop 2.0"]
    assert service.threads == {"service"}
    assert "service" not in {thread.name for thread in threading.enumerate()}


def test_a_service_that_cannot_start_leaves_no_thread() -> None:
    with pytest.raises(ServiceError, match="taken"), hosted(Recorder(ServiceError("port taken"))):
        pytest.fail("it has not started")
    assert "service" not in {thread.name for thread in threading.enumerate()}


def test_an_error_of_the_block_stops_the_service() -> None:
    service = Recorder()
    with pytest.raises(KeyError), hosted(service):
        raise KeyError("x")
    assert service.calls[-1] == "stop 5.0"
