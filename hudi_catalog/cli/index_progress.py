"""Threads whose progress shows on standard error."""

from __future__ import annotations

import concurrent.futures
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS = 8


class ProgressThreads:
    """A mapper of threads with a bar of what is done, where standard error is a terminal.

    Attributes:
        steps: what went on, in words.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tell(self, text: str) -> None:
        """Name what is going on now."""
        self.steps.append(text)
        self._bar.reset(self._task, description=text, total=None)

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply the function to all items; the first error is raised, and what has not begun is left."""
        self._bar.reset(self._task, total=len(items))
        with concurrent.futures.ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
            begun = [pool.submit(function, item) for item in items]
            try:
                for done in concurrent.futures.as_completed(begun):
                    done.result()
                    self._bar.advance(self._task)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [one.result() for one in begun]
