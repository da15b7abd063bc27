"""Progress of a write on standard error, while its Spark job runs."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from table_writer.summary import WriteSummary

_PERIOD = 0.3


class WriteProgress:
    """A bar of the tasks of a write's Spark jobs, where that is wanted; otherwise nothing.

    Args:
        session: whose jobs are watched. Sessions of Spark Connect show phases only.
        mode: `auto` (where standard error is a terminal), `true` or `false`.
    """

    def __init__(self, session: SparkSession, mode: str) -> None:
        self.shown = mode == "true" or (mode == "auto" and sys.stderr.isatty())
        self._console = Console(stderr=True)
        self._context = _context(session) if self.shown else None
        self._tracker = self._context.statusTracker() if self._context else None
        # Spark's own bar and this one would overwrite each other.
        self._bar_wanted = self.shown and not (mode == "auto" and _has_own_bar(self._context))
        self._group = f"hudi-catalog-{uuid.uuid4().hex[:12]}"
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._bar: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if not self._bar_wanted:
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
        if self._context is not None:
            self._context.setJobGroup(self._group, "hudi-catalog write")
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
        if self._context is not None:
            self._context.setLocalProperty("spark.jobGroup.id", None)
            self._context.setLocalProperty("spark.job.description", None)
        self._bar.stop()

    def phase(self, text: str) -> None:
        """Name what is going on now."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)

    def finish(self, summary: WriteSummary) -> None:
        """Print the summary."""
        if self.shown:
            self._console.print(summary)

    def tell(self, lines: Iterable[str]) -> None:
        """Print what followed."""
        if self.shown:
            for line in lines:
                self._console.print(line, markup=False, highlight=False)

    def _watch(self) -> None:
        while self._bar is not None and not self._done.wait(_PERIOD):
            done, total = self._counts()
            if total:
                self._bar.update(self._task, completed=done, total=total)

    def _counts(self) -> tuple[int, int]:
        done = total = 0
        tracker: Any = self._tracker
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                found = tracker.getStageInfo(stage)
                if found is not None:
                    done += found.numCompletedTasks
                    total += found.numTasks
        return done, total


def _context(session: SparkSession) -> Any:
    """The session's Spark context, None over Spark Connect, which has none."""
    return _unless_connect(lambda: session.sparkContext)


def _has_own_bar(context: Any) -> bool:
    return context is not None and context.getConf().get("spark.ui.showConsoleProgress", "false") == "true"


def default_parallelism(session: SparkSession) -> int:
    """Cores of the session, as far as it tells."""
    known = _unless_connect(lambda: session.sparkContext.defaultParallelism)
    return int(known or session.conf.get("spark.sql.shuffle.partitions") or 200)


def _unless_connect(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (PySparkException, AttributeError):
        return None
