"""TPC-DS' questions on Hive: the storage handler over Hudi tables beside Hive's own reading of plain Parquet.

Hive reads the same rows twice: in one file a table, and in the very files of the Hudi tables' snapshots; these can be
left out, which takes two thirds of the time. Questions that Hive cannot run over the plain tables are named and left
out. What the handler answers slower than a side of plain tables, by more than `DOUBTED`, is measured more often at the
end of the run; all answers count.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyhive import exc

from benchmarks import tpcds
from benchmarks.hive import ask, handling, parquet_table, plain_table
from benchmarks.served import Tail, Turns
from tools.engines.hive.server import HiveServer

SCALE = "0.2"
HANDLER, PLAIN, SAME = "storage handler", "plain Parquet, one file a table", "plain Parquet, the same files"
DATABASES = {PLAIN: "plain", SAME: "files", HANDLER: "tpcds"}
FINISHED = b"[Event:TASK_FINISHED]"
"""What Tez says in HiveServer2's log of each task that finished."""
DOUBTED, MORE = {PLAIN: 1.15, SAME: 1.1}, 2
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


@contextlib.contextmanager
def server(folder: Path, scale: str, sides: Collection[str]) -> Iterator[tuple[HiveServer, Path, dict[str, str]]]:
    """HiveServer2 with the tables of some sides, the service's query log, and the questions."""
    made = tpcds.generate(folder, scale)
    tpcds.build(folder / "warehouse", made)
    tpcds.plain(folder / "plain", made, partitioned=False)
    names, log = tpcds.tables(made), folder / "hive-tpcds.jsonl"
    places = [folder / "warehouse" / tpcds.SCHEMA / name for name in names]
    with handling(folder, places, tpcds.SCHEMA, log, memory="3g") as hive:
        plain = [DATABASES[side] for side in sides if side != HANDLER]
        for database in plain:
            ask(hive, f"CREATE DATABASE {database}")
        for name, place in zip(names, places, strict=True):
            ask(hive, parquet_table(f"{DATABASES[PLAIN]}.{name}", folder / "plain" / name))
            if SAME in sides:
                ask(hive, plain_table(f"{DATABASES[SAME]}.{name}", place, folder / "files" / name))
            for database in plain:
                ask(hive, f"ANALYZE TABLE {database}.{name} COMPUTE STATISTICS FOR COLUMNS")
        yield hive, log, tpcds.questions(made, "hive")


def run(folder: Path, repeats: int, scale: str = SCALE, sides: Collection[str] = tuple(DATABASES)) -> Figures:
    """Measure all of it; sides take turns.

    Args:
        folder: of the tables, which are made where they are not there yet.
        repeats: answers of each side that count.
        scale: of the generator.
        sides: the handler, plain tables of one file, and if wanted those of the same files.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with server(folder, scale, sides) as (hive, log, questions):
        planned, tail = tpcds.Planned(log), Tail(hive.process.log)
        every: dict[str, Turns] = {}
        figures.days = {name for name, sql in questions.items() if tpcds.filters_days(sql)}
        for question, sql in questions.items():
            tasks = figures.tasks[question] = {}
            turns = Turns(partial(_answer, hive, tail, sql, tasks), {side: [] for side in sides})
            try:
                turns.take(1, counted=False)
            except exc.OperationalError as error:
                if turns.rows is not None:  # Hive's own tables, which are asked first, did answer
                    raise
                figures.refused[question] = str(error)[:300]
                print(f"{question}: not run by Hive: {figures.refused[question]}", file=sys.stderr)
                continue
            turns.take(repeats)
            every[question], figures.seconds[question] = turns, turns.seconds
            figures.kept[question] = planned.next()
            tpcds.show(question, turns.rows or [], turns.seconds)
        for question, turns in every.items():
            if any(quotient(turns.seconds, side) > DOUBTED[side] for side in sides if side != HANDLER):
                turns.take(MORE)
                tpcds.show(question, turns.rows or [], turns.seconds)
    return figures


def _answer(hive: HiveServer, tail: Tail, sql: str, tasks: dict[str, int], side: str) -> tuple[float, list[Any]]:
    """A side's answer: its seconds and rows, and its tasks in `tasks`."""
    answer = ask(hive, sql, database=DATABASES[side])
    tasks[side] = tail.next().count(FINISHED)
    return answer


def quotient(seconds: Mapping[str, Sequence[float]], side: str) -> float:
    """How many times as long as a side of plain tables the handler takes."""
    return statistics.median(seconds[HANDLER]) / statistics.median(seconds[side])


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown."""
    yield "| TPC-DS on Hive 4.0.1 | side | seconds in all | of the time | median of the quotients | tasks |"
    yield "|---|---|---|---|---|---|"
    for group, names in (("all that Hive runs", set(figures.seconds)), ("joined to filtered days", figures.of_days)):
        for side, total, share, median in tpcds.compared(figures.seconds, names, PLAIN):
            tasks = sum(figures.tasks[name][side] for name in names)
            yield f"| {len(names)} questions, {group} | {side} | {total:.1f} | {share:.2f} | {median:.2f} | {tasks} |"
    yield from ("", tpcds.kept_share(figures.kept, figures.of_days))
    measured = next(iter(figures.seconds.values()), {})
    for side in (side for side in DOUBTED if side in measured):
        quotients = {name: quotient(seconds, side) for name, seconds in figures.seconds.items()}
        slowest = sorted(quotients, key=quotients.__getitem__, reverse=True)[:5]
        yield f"The slowest beside {side}: {', '.join(f'{name} {quotients[name]:.2f}' for name in slowest)}."
    if figures.refused:
        yield f"Hive does not run {', '.join(figures.refused)} over the plain tables."
