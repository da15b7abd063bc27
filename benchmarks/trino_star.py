"""Joins with a filtered date dimension: our connector over Hudi tables beside Trino's hive connector over Parquet.

Both sides hold the same rows of TPC-H lineitem on the same Trino: ours as 512 files in the order of ship dates, the
other one as plain, unpartitioned Parquet in the order of the generator, which is that of order keys.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import trino as client

import hudi_catalog
from benchmarks import lineitem, shipments
from benchmarks.served import Turns
from benchmarks.trino import make_catalog, serving
from tools.engines.process import free_port
from tools.engines.statements import run_statement
from tools.engines.trino import VERSION, TrinoServer

CONNECTOR, HIVE = "our connector", "Trino's hive connector, plain Parquet"
PLAIN_FILES = 8
_FACTS = "sum(f.l_extendedprice * (1 - f.l_discount)), count(*)"
QUESTIONS = {
    "one month": f"SELECT {_FACTS} FROM {{facts}} f JOIN {{days}} d ON f.l_shipdate = d.day "
    "WHERE d.year = 1995 AND d.month = 3",
    "one quarter by return flag": f"SELECT f.l_returnflag, {_FACTS} FROM {{facts}} f "
    "JOIN {days} d ON f.l_shipdate = d.day WHERE d.year = 1996 AND d.quarter = 2 GROUP BY 1",
    "Mondays of a month": f"SELECT d.day, {_FACTS} FROM {{facts}} f JOIN {{days}} d ON f.l_shipdate = d.day "
    "WHERE d.year = 1994 AND d.month = 11 AND d.weekday = 1 GROUP BY 1",
    "all rows by year": f"SELECT d.year, {_FACTS} FROM {{facts}} f JOIN {{days}} d ON f.l_shipdate = d.day GROUP BY 1",
}
WARMING = 10


@dataclass
class Figures:
    """What was measured, by question and side.

    Attributes:
        seconds: of each counted run.
        megabytes: that Trino read of files in the last one.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    megabytes: dict[str, dict[str, float]] = field(default_factory=dict)


def days() -> pa.Table:
    """A dimension of all days from 1992 to 1998."""
    first = dt.date(1992, 1, 1)
    every = [first + dt.timedelta(days=number) for number in range((dt.date(1999, 1, 1) - first).days)]
    return pa.table(
        {
            "day": pa.array(every, pa.date32()),
            "year": pa.array([day.year for day in every], pa.int32()),
            "quarter": pa.array([(day.month + 2) // 3 for day in every], pa.int32()),
            "month": pa.array([day.month for day in every], pa.int32()),
            "weekday": pa.array([day.isoweekday() for day in every], pa.int32()),
        }
    )


def build(folder: Path) -> None:
    """Both sides' tables, where they are not there yet."""
    shipments.build(folder)
    target = folder / "warehouse/tpch/days"
    if not target.exists():
        hudi_catalog.create_table(str(target), days(), record_key="day", buckets=1).insert(days())
    if not (folder / "plain").exists():
        for name in ("facts", "days"):
            (folder / "plain" / name).mkdir(parents=True)
        pq.write_table(days(), folder / "plain/days/0.parquet")
        rows = shipments.plain(pq.read_table(lineitem.source(folder / "source", shipments.SCALE)))
        each = -(-rows.num_rows // PLAIN_FILES)
        for number in range(PLAIN_FILES):
            part = rows.slice(number * each, each)
            pq.write_table(part, folder / f"plain/facts/{number}.parquet", compression="snappy", row_group_size=300_000)


@contextlib.contextmanager
def sides(folder: Path) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """Trino's address, and by side what the tables are called."""
    build(folder)
    port = free_port()
    server = TrinoServer(folder / "server", metastore=folder / "star-metastore")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        stack.enter_context(serving(folder / "warehouse", port, folder / "star.jsonl"))
        make_catalog(server.uri, "lake", port)
        run_statement(server.uri, "CREATE SCHEMA IF NOT EXISTS hive.plain")
        for name in ("facts", "days"):
            listed = ", ".join(f"{column} {kind}" for column, kind, *_ in run_statement(server.uri, _describe(name)))
            layout = f"external_location = '{(folder / 'plain' / name).as_uri()}', format = 'PARQUET'"
            run_statement(server.uri, f"DROP TABLE IF EXISTS hive.plain.{name}")
            run_statement(server.uri, f"CREATE TABLE hive.plain.{name} ({listed}) WITH ({layout})")
            run_statement(server.uri, f"ANALYZE hive.plain.{name}")
        yield (
            server.uri,
            {
                CONNECTOR: {"facts": "lake.tpch.lineitem", "days": "lake.tpch.days"},
                HIVE: {"facts": "hive.plain.facts", "days": "hive.plain.days"},
            },
        )


def _describe(name: str) -> str:
    return f"DESCRIBE lake.tpch.{'lineitem' if name == 'facts' else name}"


def run(folder: Path, repeats: int) -> Figures:
    """Measure all of it; sides take turns.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with sides(folder) as (uri, names):
        for _ in range(WARMING):
            for tables in names.values():
                ask(uri, QUESTIONS["one month"].format(**tables))
        for question, sql in QUESTIONS.items():
            last: dict[str, Answer] = {}
            turns = Turns(partial(_ask, uri, sql, names, last), {side: [] for side in names})
            turns.take(2, counted=False)
            turns.take(repeats)
            figures.seconds[question] = turns.seconds
            figures.megabytes[question] = {side: answer.megabytes for side, answer in last.items()}
    return figures


def _ask(
    uri: str, sql: str, names: Mapping[str, Mapping[str, str]], last: dict[str, Answer], side: str
) -> tuple[float, list[Any]]:
    """A side's answer, which is its last one then."""
    last[side] = ask(uri, sql.format(**names[side]))
    return last[side].seconds, last[side].rows


@dataclass
class Answer:
    """What Trino says of a query.

    Attributes:
        seconds: from its beginning to its end, as Trino counts them.
        processors: seconds of them, of the tasks.
        megabytes: that were read of files.
        rows: the result.
    """

    seconds: float
    processors: float
    megabytes: float
    rows: list[Any]


def ask(uri: str, sql: str, catalog: str | None = None, schema: str | None = None) -> Answer:
    """The answer to a query."""
    host, _, port = uri.removeprefix("http://").partition(":")
    where = {"host": host, "port": int(port), "user": "benchmark", "catalog": catalog, "schema": schema}
    with contextlib.closing(client.dbapi.connect(**where)) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        rows = cursor.fetchall()
        stats = cursor.stats
        seconds, processors = (stats[name] / 1000 for name in ("elapsedTimeMillis", "cpuTimeMillis"))
        return Answer(seconds, processors, stats["physicalInputBytes"] / 1e6, rows)


def table(figures: Figures) -> Iterator[str]:
    """The figures as a Markdown table."""
    yield f"| join with days on Trino {VERSION} | side | runs (s) | median (s) | of the time | MB read |"
    yield "|---|---|---|---|---|---|"
    for question, values in figures.seconds.items():
        whole = statistics.median(values[HIVE])
        for side, runs in values.items():
            median = statistics.median(runs)
            shown = ", ".join(f"{seconds:.2f}" for seconds in runs)
            read = figures.megabytes[question][side]
            yield f"| {question} | {side} | {shown} | {median:.3f} | {median / whole:.2f} | {read:.1f} |"
