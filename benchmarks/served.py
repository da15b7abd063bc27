"""Shared by the benchmarks of services: running commands, their logs, and comparing answers."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@contextlib.contextmanager
def command(*arguments: str, ready: int, log: Path) -> Iterator[psutil.Process]:
    """A command of hudi-catalog that serves until the block ends, once its status port reports that it is ready."""
    program = Path(sys.executable).with_name("hudi-catalog")
    with log.open("w") as stream:
        process = subprocess.Popen(
            [program, *arguments, "--http-port", str(ready)], stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            wait_until_ready(f"http://127.0.0.1:{ready}/ready", process)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"not ready: {url}")


class Tail:
    """What is appended to a log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0

    def next(self) -> bytes:
        """What was appended since this was asked before."""
        with self._log.open("rb") as stream:
            stream.seek(self._read)
            new = stream.read()
            self._read += len(new)
        return new


@dataclass
class Turns:
    """Sides that answer one question in turn, all with the same rows.

    Attributes:
        ask: seconds of a side's answer, and its rows.
        seconds: of each counted answer, by side.
        rows: those of the first answer.
    """

    ask: Callable[[str], tuple[float, list[Any]]]
    seconds: dict[str, list[float]]
    rows: list[Any] | None = None

    def take(self, rounds: int, *, counted: bool = True) -> None:
        """Ask each side so many times; one round that is not counted warms caches and compilers.

        Raises:
            RuntimeError: the sides gave different rows.
        """
        for side in rounds * list(self.seconds):
            seconds, rows = self.ask(side)
            self.rows = rows if self.rows is None else self.rows
            if not same_rows(rows, self.rows):
                raise RuntimeError(f"{side} gave other rows than {next(iter(self.seconds))}")
            if counted:
                self.seconds[side].append(seconds)


def same_rows(left: list[Any], right: list[Any]) -> bool:
    """The same rows in any order; sums of doubles may differ in their last digits."""
    if len(left) != len(right):
        return False
    pairs = zip(sorted(left, key=_order), sorted(right, key=_order), strict=True)
    return all(same_value(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))


def _order(row: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Exact values first, so that sums that differ in their last digits do not change the order."""
    exact = [str(value) for value in row if not isinstance(value, float)]
    return exact, [f"{value:.6g}" for value in row if isinstance(value, float)]


def same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def last_planning(log: Path) -> float:
    """Milliseconds of the last planned query of a log."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    planned = [line for line in lines if "files_out" in line]
    return float(planned[-1]["ms"]) if planned else math.nan
