"""A server as a child process, ended when this process ends."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.engines.artifacts import EngineMissingError


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A started program, its log, and how to wait for it and end it."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it.

        Args:
            name: What messages call it.
            command: Program and arguments.
            folder: Its working directory; `server.log` is written there.
            environment: Variables beside those of this process.
        """
        self.name = name
        self.log = folder / "server.log"
        with self.log.open("ab") as out:
            # a session of its own: an interrupt from the keyboard reaches this process only, which then stops it
            self.process = subprocess.Popen(
                list(command),
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        atexit.register(self.stop)

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until it is ready.

        Raises:
            EngineMissingError: It ended, or was not ready in time; the message has the end of its log.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise EngineMissingError(f"{self.name} ended with {self.process.returncode}: {self.last_lines()}")
            if ready():
                return
            time.sleep(0.2)
        self.stop()
        raise EngineMissingError(f"{self.name} was not ready after {seconds:.0f} s: {self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        errors = [line for line in text.splitlines() if "ERROR" in line or "Caused by" in line]
        return "\n".join([str(self.log), *errors[:5], *text.splitlines()[-15:]])

    def stop(self, seconds: float = 20.0) -> None:
        """End it: politely first, then surely."""
        atexit.unregister(self.stop)
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def kill(self) -> None:
        """End it at once: a server of tests has nothing to keep, and takes seconds to say goodbye."""
        self.stop(0.0)
