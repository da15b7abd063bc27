"""TPC-DS' questions on Hive: the storage handler over Hudi tables beside Hive's own reading of plain Parquet.

Hive reads the same rows twice: in one file a table, and in the very files of the Hudi tables' snapshots. Questions that
Hive cannot run over the plain tables are named and left out. A question that the handler answers slower than the plain
tables of the same files, by more than `DOUBTED`, is measured more often; all of its runs count.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyhive import exc

from benchmarks import tpcds
from benchmarks.hive import ask, handling, parquet_table, plain_table
from benchmarks.served import Turns
from tools.engines.hive.server import HiveServer

SCALE = "0.2"
HANDLER, PLAIN, SAME = "storage handler", "plain Parquet, one file a table", "plain Parquet, the same files"
SIDES = {SAME: "files", HANDLER: "tpcds", PLAIN: "plain"}
DOUBTED, MORE = 1.1, 4
"""The quotient from which a question is measured so many times more."""


@dataclass
class Figures:
    """What was measured, by question.

    Attributes:
        seconds: by side, of each counted run.
        kept: bytes of the fact tables' files, all and planned for the handler.
        refused: why Hive did not run a question over the plain tables.
        days: questions that filter the dimension of days.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)

    @property
    def of_days(self) -> set[str]:
        """The questions that ran and filter the dimension of days."""
        return self.days & self.seconds.keys()


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
        planned = tpcds.Planned(log)
        figures.days = {name for name, sql in questions.items() if tpcds.filters_days(sql)}
        for question, sql in questions.items():
            turns = Turns(lambda side, sql=sql: ask(hive, sql, database=SIDES[side]), {side: [] for side in SIDES})  # type: ignore[misc]
            try:
                turns.take(1, counted=False)
            except exc.OperationalError as error:
                if turns.rows is not None:  # Hive's own tables, which are asked first, did answer
                    raise
                figures.refused[question] = str(error)[:300]
                print(f"{question}: not run by Hive: {figures.refused[question]}", file=sys.stderr)
                continue
            turns.take(repeats)
            if quotient(turns.seconds) > DOUBTED:
                turns.take(MORE)
            figures.seconds[question] = turns.seconds
            figures.kept[question] = planned.next()
            tpcds.show(question, turns.rows or [], turns.seconds)
    return figures


def quotient(seconds: Mapping[str, Sequence[float]]) -> float:
    """How many times as long as the plain tables of the same files the handler takes."""
    return statistics.median(seconds[HANDLER]) / statistics.median(seconds[SAME])


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown."""
    yield "| TPC-DS on Hive 4.0.1 | side | seconds in all | of the time | median of the quotients |"
    yield "|---|---|---|---|---|"
    for group, names in (("all that Hive runs", set(figures.seconds)), ("joined to filtered days", figures.of_days)):
        for side, total, share, median in tpcds.compared(figures.seconds, names, SAME):
            yield f"| {len(names)} questions, {group} | {side} | {total:.1f} | {share:.2f} | {median:.2f} |"
    yield from ("", tpcds.kept_share(figures.kept, figures.of_days))
    slowest = sorted(figures.seconds, key=lambda name: quotient(figures.seconds[name]))[-5:]
    listed = ", ".join(f"{name} {quotient(figures.seconds[name]):.2f}" for name in reversed(slowest))
    yield f"The handler's slowest beside the same files: {listed}."
    if figures.refused:
        yield f"Hive does not run {', '.join(figures.refused)} over the plain tables."
