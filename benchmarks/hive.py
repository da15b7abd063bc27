"""Hive queries through the storage handler beside Hive's own reading of the same files, one table of 512 files.

Both sides are tables of one HiveServer2 4.0.1 (Tez in local mode) and take turns, query by query: the Hudi table by the
handler, and a plain Parquet table whose folder holds the very files of the same snapshot.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyhive import hive

from benchmarks import shipments
from benchmarks.served import Turns, command, last_planning
from catalog.table import Table
from hudi_catalog.hive.handler import handler_jar
from hudi_catalog.metastore.hive_types import hive_columns
from tools.engines.hive.server import HiveMetastore, HiveServer
from tools.engines.process import free_port

PLAIN, HANDLER = "plain Parquet table", "storage handler"
TABLES = {PLAIN: "tpch.plain", HANDLER: "tpch.lineitem"}
QUESTIONS = {
    **shipments.SELECTIVE,
    "full scan and aggregate": f"SELECT l_returnflag, l_linestatus, {shipments.AGGREGATE} FROM {{}} "
    "GROUP BY l_returnflag, l_linestatus",
    "full scan, one column": "SELECT sum(l_extendedprice) FROM {}",
    "count": "SELECT count(*) FROM {}",
    "on MapReduce, full scan": "SELECT sum(l_extendedprice) FROM {}",
}
# CombineHiveInputFormat, Hive's default there, combines files of Hive's own tables only
SETTINGS = {"on MapReduce, full scan": {"hive.execution.engine": "mr", "hive.fetch.task.conversion": "none"}}
WARMING = 3  # rounds of the first question, until the server has compiled what it runs


@dataclass
class Figures:
    """What was measured.

    Attributes:
        seconds: by question, by table, of each counted run.
        planning: milliseconds of planning by question, as the service's log tells them.
        round_trip: milliseconds of `getSplits` by question, as the handler's log line in HiveServer2 tells them.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    planning: dict[str, float] = field(default_factory=dict)
    round_trip: dict[str, float] = field(default_factory=dict)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[HiveServer, Path]]:
    """HiveServer2 with both tables, and the service's query log."""
    path, log = shipments.build(folder), folder / "hive-service.jsonl"
    with handling(folder, [path], "tpch", log, memory="2g") as made:
        ask(made, plain_table(TABLES[PLAIN], path, folder / "plain"))
        yield made, log


@contextlib.contextmanager
def handling(folder: Path, tables: Sequence[Path], schema: str, log: Path, *, memory: str) -> Iterator[HiveServer]:
    """A new HiveServer2 whose storage handler has tables of the folder's warehouse.

    Args:
        folder: has the folder `warehouse`, and gets one for the server.
        tables: their folders.
        schema: of their entries.
        log: the service's query log, begun anew.
        memory: of the server.
    """
    log.unlink(missing_ok=True)
    port, run = free_port(), folder / "hive"
    service = f"127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        arguments = ("serve", "hive", str(folder / "warehouse"), "--port", str(port), "--query-log", str(log))
        stack.enter_context(command(*arguments, ready=free_port(), log=log.with_suffix(".log")))
        shutil.rmtree(run, ignore_errors=True)
        for name in ("metastore", "server"):
            (run / name).mkdir(parents=True)
        metastore = HiveMetastore(run / "metastore")
        stack.callback(metastore.stop)
        program = Path(sys.executable).with_name("hudi-catalog")
        where = ["--metastore", metastore.uri, "--schema", schema, "--service", service]
        for table in tables:
            subprocess.run([program, "sync", str(table), *where], check=True, stdout=subprocess.DEVNULL)
        made = HiveServer(run / "server", metastore, service=service, classes=[Path(handler_jar())], memory=memory)
        stack.callback(made.stop)
        yield made


def plain_table(name: str, path: Path, folder: Path) -> str:
    """The statement that makes a plain table of the very files of a Hudi table's newest snapshot.

    Args:
        name: of the plain table.
        path: of the Hudi table.
        folder: that gets hard links to its files, anew.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [Path(split.path.removeprefix("file:")) for split in Table.open(str(path)).scan().plan().splits]
    for file in files:
        os.link(file, folder / file.name)
    size = sum(file.stat().st_size for file in files)
    # as in the other table's entry: without it Hive lists the folder to guess it, while it compiles
    return f"{parquet_table(name, folder)} TBLPROPERTIES ('totalSize' = '{size}')"


def parquet_table(name: str, folder: Path) -> str:
    """The statement that makes a table of the Parquet files of a folder."""
    columns = hive_columns(pq.read_schema(next(folder.glob("*.parquet"))).remove_metadata())
    listed = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    return f"CREATE EXTERNAL TABLE {name} ({listed}) STORED AS PARQUET LOCATION '{folder.as_uri()}'"


def ask(
    made: HiveServer, statement: str, settings: Mapping[str, str] | None = None, database: str = "default"
) -> tuple[float, list[Any]]:
    """Seconds from sending a statement to its last row, and the rows."""
    connected = hive.connect(
        "127.0.0.1", made.port, auth="NOSASL", configuration=dict(settings or {}), database=database
    )
    with contextlib.closing(connected) as connection:
        cursor = connection.cursor()
        begin = time.perf_counter()
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
        return time.perf_counter() - begin, rows


def compare(
    made: HiveServer, question: str, tables: Mapping[str, str], repeats: int, settings: Mapping[str, str] | None = None
) -> Turns:
    """What each side's table, whose name stands for `{}` in a question, took in so many rounds after one uncounted.

    Raises:
        RuntimeError: the tables gave different rows.
    """
    turns = Turns(lambda side: ask(made, question.format(tables[side]), settings), {side: [] for side in tables})
    turns.take(1, counted=False)
    turns.take(repeats)
    return turns


def run(folder: Path, repeats: int) -> Figures:
    """Measure all of it.

    Raises:
        RuntimeError: the two tables gave different rows.
    """
    figures = Figures()
    with server(folder) as (made, log):
        compare(made, next(iter(QUESTIONS.values())), TABLES, WARMING)
        for name, question in QUESTIONS.items():
            turns = compare(made, question, TABLES, repeats, SETTINGS.get(name))
            figures.seconds[name] = turns.seconds
            figures.planning[name] = last_planning(log)
            figures.round_trip[name] = last_round_trip(made.process.log)
    return figures


def last_round_trip(log: Path) -> float:
    """Milliseconds of the last `getSplits` that HiveServer2 logged."""
    times = re.findall(r"Hudi table .* splits, ([0-9]+) ms", log.read_text(errors="replace"))
    return float(times[-1]) if times else math.nan


def table(figures: Figures) -> Iterator[str]:
    """The figures as a Markdown table."""
    yield "| query on Hive 4.0.1 | table | runs (s) | median (s) | times as fast | planning (ms) | getSplits (ms) |"
    yield "|---|---|---|---|---|---|---|"
    for question, runs_by_side in figures.seconds.items():
        own = statistics.median(runs_by_side[PLAIN])
        for side in TABLES:
            median = statistics.median(runs_by_side[side])
            runs = ", ".join(f"{seconds:.2f}" for seconds in runs_by_side[side])
            service_times = (
                f"{figures.planning[question]:.1f} | {figures.round_trip[question]:.0f}" if side == HANDLER else "- | -"
            )
            yield f"| {question} | {side} | {runs} | {median:.2f} | {own / median:.1f} | {service_times} |"
