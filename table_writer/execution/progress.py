"""Progress of a write on standard error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_PERIOD = 0.3


class WriteProgress:
    """A progress bar of a write's tasks, and its summary, if wanted; otherwise nothing.

    Args:
        mode: `auto` (where standard error is a terminal), `true` or `false`.
    """

    def __init__(self, mode: str) -> None:
        self.shown = mode == "true" or (mode == "auto" and sys.stderr.isatty())
        self._console = Console(stderr=True)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._bar: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if not self._has_bar():
            return self
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None)
        self._begin()
        self._thread = threading.Thread(target=self._watch, name="hudi-catalog-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is None:
            return
        self._done.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._end()
        self._bar.stop()

    def phase(self, text: str) -> None:
        """Show the current phase."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)

    def finish(self, summary: RenderableType) -> None:
        """Print the summary."""
        if self.shown:
            self._console.print(summary)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines below the summary."""
        if self.shown:
            for line in lines:
                self._console.print(line, markup=False, highlight=False)

    def _has_bar(self) -> bool:
        return self.shown

    def _begin(self) -> None:
        """Called when the bar is shown."""

    def _end(self) -> None:
        """Called before the bar is removed."""

    def _counts(self) -> tuple[int, int]:
        """Completed and total tasks; 0 if they are not counted."""
        return 0, 0

    def _watch(self) -> None:
        while self._bar is not None and not self._done.wait(_PERIOD):
            done, total = self._counts()
            if total:
                self._bar.update(self._task, completed=done, total=total)
