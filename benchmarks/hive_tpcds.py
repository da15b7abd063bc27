"""TPC-DS' questions on Hive: the storage handler over Hudi tables beside Hive's own reading of plain Parquet.

Questions that Hive cannot run over the plain tables are named and left out.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyhive import exc

from benchmarks import tpcds
from benchmarks.hive import ask, handling, parquet_table
from benchmarks.served import same_rows
from tools.engines.hive.server import HiveServer

SCALE = "0.2"
HANDLER, PLAIN = "storage handler", "plain Parquet"
SIDES = {PLAIN: "plain", HANDLER: "tpcds"}


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
        ask(hive, "CREATE DATABASE plain")
        for name in names:
            ask(hive, parquet_table(f"plain.{name}", folder / "plain" / name))
            ask(hive, f"ANALYZE TABLE plain.{name} COMPUTE STATISTICS FOR COLUMNS")
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
            try:
                _, expected = ask(hive, sql, database=SIDES[PLAIN])
            except exc.OperationalError as error:
                figures.refused[question] = str(error)[:300]
                print(f"{question}: not run by Hive: {figures.refused[question]}", file=sys.stderr)
                continue
            figures.seconds[question] = _seconds(hive, sql, expected, repeats)
            figures.kept[question] = planned.next()
            tpcds.show(question, expected, figures.seconds[question])
    return figures


def _seconds(hive: HiveServer, sql: str, expected: list[Any], repeats: int) -> dict[str, list[float]]:
    """Of each side's runs, once both have answered: the plain tables as expected, the handler uncounted."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for side in [HANDLER, *repeats * list(SIDES)]:
        taken, rows = ask(hive, sql, database=SIDES[side])
        if not same_rows(rows, expected):
            raise RuntimeError(f"{side} gave other rows: {sql}")
        seconds[side].append(taken)
    del seconds[HANDLER][0]
    return seconds


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown."""
    yield "| TPC-DS on Hive 4.0.1 | side | seconds in all | of the time | median of the quotients |"
    yield "|---|---|---|---|---|"
    for group, names in (("all that Hive runs", set(figures.seconds)), ("joined to filtered days", figures.of_days)):
        for side, total, share, quotient in tpcds.compared(figures.seconds, names, PLAIN):
            yield f"| {len(names)} questions, {group} | {side} | {total:.1f} | {share:.2f} | {quotient:.2f} |"
    yield from ("", tpcds.kept_share(figures.kept, figures.of_days))
    if figures.refused:
        yield f"Hive does not run {', '.join(figures.refused)} over the plain tables."
