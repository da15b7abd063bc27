"""Progress of a write on standard error, while its Spark jobs run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from table_writer.execution.progress import WriteProgress


class SparkProgress(WriteProgress):
    """A progress bar of the tasks of a write's Spark jobs, if wanted; otherwise nothing.

    Args:
        session: whose jobs are watched. Sessions of Spark Connect show phases only.
        mode: `auto` (where standard error is a terminal), `true` or `false`.
    """

    def __init__(self, session: SparkSession, mode: str) -> None:
        super().__init__(mode)
        self._context = _context(session) if self.shown else None
        self._tracker = self._context.statusTracker() if self._context else None
        # Spark's own bar and this one would overwrite each other.
        self._bar_wanted = self.shown and not (mode == "auto" and _has_own_bar(self._context))
        self._group = f"hudi-catalog-{uuid.uuid4().hex[:12]}"

    def _has_bar(self) -> bool:
        return self._bar_wanted

    def _begin(self) -> None:
        if self._context is not None:
            self._context.setJobGroup(self._group, "hudi-catalog write")

    def _end(self) -> None:
        if self._context is not None:
            self._context.setLocalProperty("spark.jobGroup.id", None)
            self._context.setLocalProperty("spark.job.description", None)

    def _counts(self) -> tuple[int, int]:
        done = total = 0
        tracker: Any = self._tracker
        if tracker is None:
            return 0, 0
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                info_of_stage = tracker.getStageInfo(stage)
                if info_of_stage is not None:
                    done += info_of_stage.numCompletedTasks
                    total += info_of_stage.numTasks
        return done, total


def _context(session: SparkSession) -> Any:
    """The session's Spark context, None over Spark Connect, which has none."""
    return _unless_connect(lambda: session.sparkContext)


def _has_own_bar(context: Any) -> bool:
    return context is not None and context.getConf().get("spark.ui.showConsoleProgress", "false") == "true"


def default_parallelism(session: SparkSession) -> int:
    """Cores of the session, as far as it shows them."""
    known = _unless_connect(lambda: session.sparkContext.defaultParallelism)
    return int(known or session.conf.get("spark.sql.shuffle.partitions") or 200)


def master(session: SparkSession) -> str | None:
    """Where the session's tasks run, such as `local[2]`; None over Spark Connect, which does not show it."""
    known: str | None = _unless_connect(lambda: session.sparkContext.master)
    return known


def _unless_connect(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (PySparkException, AttributeError):
        return None
