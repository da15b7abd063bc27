"""Our services as separate processes, for tests that kill them."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until
from tools.engines.process import free_port


@contextmanager
def served(engine: str, warehouse: Path, port: int, secret: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`hudi-catalog serve trino` or `hive`, once it is ready.

    Args:
        engine: Which of them.
        warehouse: That it serves.
        port: Of the service.
        secret: File of the shared secret.
    """
    status = free_port()
    command = [str(Path(sys.executable).with_name("hudi-catalog")), "serve", engine, str(warehouse)]
    command += ["--port", str(port), "--http-port", str(status)]
    command += ["--secret-file", str(secret)] if secret else []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_ready(status, process)
            yield process
        finally:
            process.kill()


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    def ready() -> bool:
        assert process.poll() is None
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1).close()
        except OSError:
            return False
        return True

    until(ready, 60)
