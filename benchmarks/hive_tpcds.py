"""TPC-DS' questions on Hive: the storage handler over Hudi tables beside Hive's own reading of plain Parquet.

Questions that Hive cannot run over the plain tables are named and left out.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyhive import exc

from benchmarks import tpcds
from benchmarks.hive import ask
from benchmarks.served import command, same_rows
from hudi_catalog.hive.handler import handler_jar
from hudi_catalog.metastore.hive_types import hive_columns
from tools.engines.hive.server import HiveMetastore, HiveServer
from tools.engines.process import free_port

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
    log, port = folder / "hive-tpcds.jsonl", free_port()
    log.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        arguments = ("serve", "hive", str(folder / "warehouse"), "--port", str(port), "--query-log", str(log))
        stack.enter_context(command(*arguments, ready=free_port(), log=folder / "hive-tpcds.log"))
        run = folder / "hive"
        shutil.rmtree(run, ignore_errors=True)
        for name in ("metastore", "server"):
            (run / name).mkdir(parents=True)
        metastore = HiveMetastore(run / "metastore")
        stack.callback(metastore.stop)
        program = Path(sys.executable).with_name("hudi-catalog")
        places = [str(folder / "warehouse" / tpcds.SCHEMA / name) for name in tpcds.tables(made)]
        where = ["--metastore", metastore.uri, "--schema", tpcds.SCHEMA, "--service", f"127.0.0.1:{port}"]
        for place in places:
            subprocess.run([program, "sync", place, *where], check=True, stdout=subprocess.DEVNULL)
        at = f"127.0.0.1:{port}"
        hive = HiveServer(run / "server", metastore, service=at, classes=[Path(handler_jar())], memory="3g")
        stack.callback(hive.stop)
        ask(hive, "CREATE DATABASE plain")
        for name in tpcds.tables(made):
            ask(hive, _plain_table(name, folder / "plain" / name))
            ask(hive, f"ANALYZE TABLE plain.{name} COMPUTE STATISTICS FOR COLUMNS")
        yield hive, log, tpcds.questions(made, "hive")


def _plain_table(name: str, files: Path) -> str:
    columns = hive_columns(pq.read_schema(next(files.glob("*.parquet"))).remove_metadata())
    listed = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    return f"CREATE EXTERNAL TABLE plain.{name} ({listed}) STORED AS PARQUET LOCATION '{files.as_uri()}'"


def run(folder: Path, repeats: int, scale: str = SCALE) -> Figures:
    """Measure all of it; sides take turns.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with server(folder, scale) as (hive, log, questions):
        figures.days = {name for name, sql in questions.items() if tpcds.filters_days(sql)}
        for question, sql in questions.items():
            begin = log.stat().st_size if log.exists() else 0
            try:
                _, expected = ask(hive, sql, database=SIDES[PLAIN])
            except exc.OperationalError as error:
                figures.refused[question] = str(error)[:300]
                print(f"{question}: not run by Hive: {figures.refused[question]}", file=sys.stderr)
                continue
            figures.seconds[question] = _seconds(hive, sql, expected, repeats)
            figures.kept[question] = tpcds.kept(log, begin)
            shown = ", ".join(f"{statistics.median(runs):.2f} s" for runs in figures.seconds[question].values())
            print(f"{question}: {len(expected)} rows, {shown}", file=sys.stderr)
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
