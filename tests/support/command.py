"""Commands that run until a signal stops them, as separate processes."""

import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

MAIN = (sys.executable, "-c", "from hudi_catalog.cli.main import main; main()")


class Command:
    """A service as a process."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [*MAIN, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        self.lines: list[str] = []
        self._started = threading.Event()
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
        self._reader.start()
        if not self._started.wait(300):  # far more than it takes also on a machine that does other work
            self.process.kill()  # nobody else knows of the process yet
            self._reader.join()
            raise AssertionError(f"it did not start: {self.text}")
        assert self.process.poll() is None, self.text

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines.append(line)
                if "status at" in line:
                    self._started.set()
        self._started.set()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def port(self) -> int:
        port = re.search(r"(?:to (?:Trino|Hive) at |connect to https?://)[\w.]+:(\d+)", self.text)
        assert port, self.text
        return int(port[1])

    def get(self, path: str) -> tuple[int, str]:
        address = re.search(r"status at (http://\S+)/", self.text)
        assert address, self.text
        try:
            with urllib.request.urlopen(f"{address[1]}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def end(self, seconds: float = 60) -> tuple[int, str]:
        """The exit code and standard output."""
        code = self.process.wait(seconds)
        self._reader.join()
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            return code, stream.read()
