"""Queries through our connector, the Thrift service and the gateway beside Trino's own Hudi connector, over 512 files.

A side is a place where the same query is sent: Trino with its Hudi connector, Trino with ours, Trino with the Thrift
catalog of `hudi-catalog serve trino`, and `hudi-catalog gateway` before Trino. Sides take turns, query by query, on one
warm server.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import trino

from benchmarks import shipments
from benchmarks.served import Turns, command, last_planning, same_rows
from tools.engines.process import free_port
from tools.engines.statements import run_statement
from tools.engines.trino import VERSION, TrinoServer

OWN, CONNECTOR, SERVICE, GATEWAY = "Trino's Hudi connector", "our connector", "service", "gateway"
SIDES = (OWN, CONNECTOR, SERVICE, GATEWAY)
QUESTIONS = {
    **shipments.SELECTIVE,
    "full scan and aggregate": f"SELECT l_returnflag, l_linestatus, {shipments.AGGREGATE} FROM {{}} "
    "GROUP BY 1, 2 ORDER BY 1, 2",
    "full scan, one column": "SELECT sum(l_extendedprice) FROM {}",
    "count": "SELECT count(*) FROM {}",
}
CLIENTS, LOAD_SECONDS = 32, 60
WARMING = 15  # rounds of the first question, until the server has compiled what it runs


@dataclass
class Side:
    """Where queries are sent, and what the table is called there."""

    name: str
    port: int
    table: str
    process: psutil.Process | None = None

    def connect(self) -> Any:
        return trino.dbapi.connect(host="127.0.0.1", port=self.port, user="benchmark")

    def ask(self, question: str) -> tuple[float, list[Any]]:
        """Seconds from sending a query to its last row, and the rows."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            begin = time.perf_counter()
            cursor.execute(question.format(self.table))
            rows = cursor.fetchall()
            return time.perf_counter() - begin, rows


@dataclass
class Figures:
    """What was measured.

    Attributes:
        seconds: by question, by side, of each counted run.
        planning: milliseconds of planning by question and side, as the query logs tell them.
        load: by side: queries answered, errors, seconds at the median and the 99th percentile, MiB resident at a third
            of the time and at its end.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    planning: dict[str, dict[str, float]] = field(default_factory=dict)
    load: dict[str, dict[str, float]] = field(default_factory=dict)


@contextlib.contextmanager
def sides(folder: Path) -> Iterator[tuple[list[Side], dict[str, Path]]]:
    """All of them, on one Trino; and the query logs of the services and the gateway."""
    path = shipments.build(folder)
    warehouse = folder / "warehouse"
    metastore = folder / "metastore"
    logs = {name: folder / f"{name.replace(' ', '-')}.jsonl" for name in (CONNECTOR, SERVICE, GATEWAY)}
    for log in logs.values():
        log.unlink(missing_ok=True)
    service, connector, gateway = free_port(), free_port(), free_port()
    server = TrinoServer(folder / "server", service=f"127.0.0.1:{service}", metastore=metastore)
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        served = stack.enter_context(serving(warehouse, service, logs[SERVICE]))
        planning = stack.enter_context(serving(warehouse, connector, logs[CONNECTOR]))
        make_catalog(server.uri, "lake", connector)
        program = Path(sys.executable).with_name("hudi-catalog")
        registering = ["sync", str(path), "--metastore", metastore.as_uri(), "--schema", "tpch", "--also-hudi"]
        subprocess.run([program, *registering], check=True, stdout=subprocess.DEVNULL)
        before = ("gateway", server.uri, "--metastore", metastore.as_uri(), "--port", str(gateway))
        log = ("--query-log", str(logs[GATEWAY]))
        proxy = stack.enter_context(command(*before, *log, ready=free_port(), log=folder / "gateway.log"))
        yield (
            [
                Side(OWN, server.port, "hudi.tpch.lineitem_hudi"),
                Side(CONNECTOR, server.port, "lake.tpch.lineitem", planning),
                Side(SERVICE, server.port, "hudi_catalog.tpch.lineitem", served),
                Side(GATEWAY, gateway, "hive.tpch.lineitem", proxy),
            ],
            logs,
        )


def serving(warehouse: Path, port: int, log: Path) -> contextlib.AbstractContextManager[psutil.Process]:
    """A service for Trino's connectors."""
    arguments = ("serve", "trino", str(warehouse), "--port", str(port), "--query-log", str(log))
    return command(*arguments, ready=free_port(), log=log.with_suffix(".log"))


def make_catalog(uri: str, name: str, port: int) -> None:
    """A catalog of our connector, in place of one that an earlier run left in the server's folder."""
    run_statement(uri, f"DROP CATALOG IF EXISTS {name}")
    run_statement(uri, f"CREATE CATALOG {name} USING hudi_catalog WITH (\"hudi-catalog.service\" = '127.0.0.1:{port}')")


def run(
    folder: Path,
    repeats: int,
    load_seconds: int = LOAD_SECONDS,
    names: Sequence[str] = SIDES,
    questions: Mapping[str, str] = QUESTIONS,
) -> Figures:
    """Measure all of it, or some sides and questions; without seconds of load, none.

    Raises:
        RuntimeError: two sides gave different rows.
    """
    figures = Figures()
    with sides(folder) as (prepared, logs):
        every = [side for side in prepared if side.name in names]
        by_name = {side.name: side for side in every}
        for _ in range(WARMING):
            for side in every:
                side.ask(next(iter(QUESTIONS.values())))
        for name, question in questions.items():
            turns = Turns(
                lambda side, question=question: by_name[side].ask(question),  # type: ignore[misc]
                {side: [] for side in by_name},
            )
            turns.take(2, counted=False)
            turns.take(repeats)
            figures.seconds[name] = turns.seconds
            figures.planning[name] = {side: last_planning(log) for side, log in logs.items() if side in names}
        for side in every[1:] if load_seconds else ():
            figures.load[side.name] = load(side, load_seconds)
    return figures


def load(side: Side, seconds: int) -> dict[str, float]:
    """Clients that ask one after the other for a time: every answer is checked."""
    question = f"SELECT {shipments.AGGREGATE} FROM {{}} WHERE l_shipdate = DATE '1995-03-15'"
    expected = side.ask(question)[1]
    until = time.monotonic() + seconds
    times: list[float] = []
    errors: list[str] = []

    def client() -> None:
        while time.monotonic() < until:
            try:
                taken, rows = side.ask(question)
            except (trino.exceptions.Error, OSError) as error:
                errors.append(str(error))
                continue
            times.append(taken)
            if not same_rows(rows, expected):
                errors.append("other rows")

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 3)
    early = resident(side)
    for thread in threads:
        thread.join()
    for text in sorted(set(errors))[:5]:
        print(f"{side.name}: {text}", file=sys.stderr)
    tail = sorted(times)[int(len(times) * 0.99)] if times else math.nan
    return {
        "answers": len(times),
        "errors": len(errors),
        "median": statistics.median(times) if times else math.nan,
        "p99": tail,
        "MiB early": early,
        "MiB late": resident(side),
    }


def resident(side: Side) -> float:
    return math.nan if side.process is None else side.process.memory_info().rss / 2**20


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown tables."""
    yield f"| query on Trino {VERSION} | side | runs (s) | median (s) | times as fast | planning (ms) |"
    yield "|---|---|---|---|---|---|"
    for question, values in figures.seconds.items():
        own = statistics.median(values[OWN])
        for side in values:
            median = statistics.median(values[side])
            runs = ", ".join(f"{seconds:.2f}" for seconds in values[side])
            planning = figures.planning[question].get(side)
            shown = "-" if planning is None or math.isnan(planning) else f"{planning:.1f}"
            yield f"| {question} | {side} | {runs} | {median:.3f} | {own / median:.1f} | {shown} |"
    if not figures.load:
        return
    yield ""
    yield f"{CLIENTS} clients ask for one day, one query after the other:"
    yield ""
    yield "| side | answers | errors | median (s) | 99 % (s) | MiB after a third | MiB at the end |"
    yield "|---|---|---|---|---|---|---|"
    for side, row in figures.load.items():
        yield (
            f"| {side} | {row['answers']:.0f} | {row['errors']:.0f} | {row['median']:.2f} | {row['p99']:.2f} | "
            f"{row['MiB early']:.0f} | {row['MiB late']:.0f} |"
        )
