"""TPC-DS' questions on Hive: the storage handler over Hudi tables beside Hive's own reading of plain Parquet.

Hive reads the same rows twice: in one file a table, and in the very files of the Hudi tables' snapshots. Questions that
Hive cannot run over the plain tables are named and left out. A question that the handler answers slower than plain
tables, by more than `DOUBTED`, is measured more often; all of its runs count.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyhive import exc

from benchmarks import tpcds
from benchmarks.hive import ask, handling, parquet_table, plain_table
from benchmarks.served import Turns
from tools.engines.hive.server import HiveServer

SCALE = "0.2"
HANDLER, PLAIN, SAME = "storage handler", "plain Parquet, one file a table", "plain Parquet, the same files"
SIDES = {SAME: "files", HANDLER: "tpcds", PLAIN: "plain"}
DOUBTED, MORE = {SAME: 1.1, PLAIN: 1.15}, 4
"""Quotients, beside each side, from which a question is measured so many times more."""


@dataclass
class Figures:
    """What was measured, by question.

    Attributes:
        seconds: by side, of each counted run.
        tasks: that Tez ran for the last answer of each side, by question.
        kept: bytes of the fact tables' files, all and planned for the handler.
        refused: why Hive did not run a question over the plain tables.
        days: questions that filter the dimension of days.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)

    @property
    def of_days(self) -> set[str]:
        """The questions that ran and filter the dimension of days."""
        return self.days & self.seconds.keys()


class Tasks:
    """The tasks that Tez says in HiveServer2's log to have finished."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0

    def next(self) -> int:
        """How many finished since this was asked before."""
        with self._log.open("rb") as stream:
            stream.seek(self._read)
            new = stream.read()
            self._read += len(new)
        return new.count(b"[Event:TASK_FINISHED]")


@contextlib.contextmanager
def server(folder: Path, scale: str) -> Iterator[tuple[HiveServer, Path, dict[str, str]]]:
    """HiveServer2 with the tables of both sides, the service's query log, and the questions."""
    made = tpcds.generate(folder, scale)
    tpcds.build(folder / "warehouse", made)
    tpcds.plain(folder / "plain", made, partitioned=False)
    names, log = tpcds.tables(made), folder / "hive-tpcds.jsonl"
    places = [folder / "warehouse" / tpcds.SCHEMA / name for name in names]
    with handling(folder, places, tpcds.SCHEMA, log, memory="3g") as hive:
        for side in (PLAIN, SAME):
            ask(hive, f"CREATE DATABASE {SIDES[side]}")
        for name, place in zip(names, places, strict=True):
            ask(hive, parquet_table(f"{SIDES[PLAIN]}.{name}", folder / "plain" / name))
            ask(hive, plain_table(f"{SIDES[SAME]}.{name}", place, folder / "files" / name))
            for side in (PLAIN, SAME):
                ask(hive, f"ANALYZE TABLE {SIDES[side]}.{name} COMPUTE STATISTICS FOR COLUMNS")
        yield hive, log, tpcds.questions(made, "hive")


def run(folder: Path, repeats: int, scale: str = SCALE) -> Figures:
    """Measure all of it; sides take turns.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with server(folder, scale) as (hive, log, questions):
        planned, finished = tpcds.Planned(log), Tasks(hive.process.log)
        figures.days = {name for name, sql in questions.items() if tpcds.filters_days(sql)}
        for question, sql in questions.items():
            tasks = figures.tasks[question] = {}
            turns = Turns(partial(_answer, hive, finished, sql, tasks), {side: [] for side in SIDES})
            try:
                turns.take(1, counted=False)
            except exc.OperationalError as error:
                if turns.rows is not None:  # Hive's own tables, which are asked first, did answer
                    raise
                figures.refused[question] = str(error)[:300]
                print(f"{question}: not run by Hive: {figures.refused[question]}", file=sys.stderr)
                continue
            turns.take(repeats)
            if any(quotient(turns.seconds, side) > doubted for side, doubted in DOUBTED.items()):
                turns.take(MORE)
            figures.seconds[question] = turns.seconds
            figures.kept[question] = planned.next()
            tpcds.show(question, turns.rows or [], turns.seconds)
    return figures


def _answer(hive: HiveServer, finished: Tasks, sql: str, tasks: dict[str, int], side: str) -> tuple[float, list[Any]]:
    """A side's answer: its seconds and rows, and its tasks in `tasks`."""
    answer = ask(hive, sql, database=SIDES[side])
    tasks[side] = finished.next()
    return answer


def quotient(seconds: Mapping[str, Sequence[float]], side: str) -> float:
    """How many times as long as a side of plain tables the handler takes."""
    return statistics.median(seconds[HANDLER]) / statistics.median(seconds[side])


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown."""
    yield "| TPC-DS on Hive 4.0.1 | side | seconds in all | of the time | median of the quotients | tasks |"
    yield "|---|---|---|---|---|---|"
    for group, names in (("all that Hive runs", set(figures.seconds)), ("joined to filtered days", figures.of_days)):
        for side, total, share, median in tpcds.compared(figures.seconds, names, SAME):
            tasks = sum(figures.tasks[name][side] for name in names)
            yield f"| {len(names)} questions, {group} | {side} | {total:.1f} | {share:.2f} | {median:.2f} | {tasks} |"
    yield from ("", tpcds.kept_share(figures.kept, figures.of_days))
    for side in DOUBTED:
        quotients = {name: quotient(seconds, side) for name, seconds in figures.seconds.items()}
        slowest = sorted(quotients, key=quotients.__getitem__, reverse=True)[:5]
        yield f"The slowest beside {side}: {', '.join(f'{name} {quotients[name]:.2f}' for name in slowest)}."
    if figures.refused:
        yield f"Hive does not run {', '.join(figures.refused)} over the plain tables."
