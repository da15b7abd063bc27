"""What `make trino` and `make hive` share: a warehouse, our commands beside an engine, the wait for Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tools.engines.artifacts import EngineMissingError
from tools.engines.process import ServerProcess

WORK = Path(__file__).parents[2] / ".work"
SCHEMA = "tpch"
_START_SECONDS = 60.0
_PROGRAM = str(Path(sys.executable).with_name("hudi-catalog"))


def warehouse(scale: str) -> Path:
    """TPC-H as bucketed tables in the folder `tpch`; written once for each scale factor."""
    from tests.engines.tpch_tables import build

    folder = WORK / f"warehouse-{scale}"
    if not folder.exists():
        print(f"writing TPC-H at scale factor {scale} …", flush=True)
        partial = folder.with_suffix(".part")
        build(partial / SCHEMA, WORK / f"generated-{scale}", scale)
        partial.rename(folder)
    return folder


def serving(folder: Path, status: int, *arguments: str) -> ServerProcess:
    """One of our commands that serve, once it says that it is ready.

    Args:
        folder: For its log; the last part names it.
        status: Port of its status page.
        arguments: Of `hudi-catalog`.

    Raises:
        EngineMissingError: It did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = ServerProcess(folder.name, [_PROGRAM, *arguments], folder)
    process.wait_until(lambda: _is_ready(status), _START_SECONDS)
    return process


def run(*arguments: str) -> None:
    """One of our commands that end.

    Raises:
        EngineMissingError: It failed, and has said why.
    """
    if subprocess.run([_PROGRAM, *arguments], check=False).returncode:
        raise EngineMissingError(f"hudi-catalog {arguments[0]} failed")


def until_interrupted(start: Callable[[], tuple[str, Callable[[], None]]]) -> int:
    """Start something, say how to use it, and stop it at Ctrl-C; gives the exit code.

    Args:
        start: Starts it; gives what to say, and what stops it.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        told, stop = start()
    except EngineMissingError as error:
        print(error, file=sys.stderr)
        return 1
    print(told, flush=True)
    stopped.wait()
    stop()
    return 0


def _is_ready(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2).close()
    except OSError:
        return False
    return True
