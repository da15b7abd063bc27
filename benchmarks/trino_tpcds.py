"""TPC-DS' 99 questions on Trino: our connector over Hudi tables beside Trino's hive connector over plain Parquet.

The hive connector reads the same rows twice: unpartitioned, in the order of the generator, and by the months that our
tables are partitioned by. Every question must give the same rows on all sides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import tpcds
from benchmarks.served import Turns
from benchmarks.trino import make_catalog, serving
from benchmarks.trino_star import Answer, ask
from tools.engines.process import free_port
from tools.engines.statements import run_statement
from tools.engines.trino import VERSION, TrinoServer

SCALE = "1"
CONNECTOR, PLAIN, MONTHS = "our connector", "hive connector, plain Parquet", "hive connector, Parquet by months"
SIDES = {CONNECTOR: "lake.tpcds", PLAIN: "hive.plain", MONTHS: "hive.months"}


@dataclass
class Figures:
    """What was measured, by question and side.

    Attributes:
        seconds: of each counted run.
        processors: seconds of Trino's tasks in the last one.
        megabytes: that Trino read of files in the last one.
        kept: bytes of the fact tables' files, all and planned for our connector.
        days: questions that filter the dimension of days.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    processors: dict[str, dict[str, float]] = field(default_factory=dict)
    megabytes: dict[str, dict[str, float]] = field(default_factory=dict)
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)


@contextlib.contextmanager
def sides(folder: Path, scale: str) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Trino's address, the service's query log, and the questions; tables are made where they are not there yet."""
    made = tpcds.generate(folder, scale)
    tpcds.build(folder / "warehouse", made)
    tpcds.plain(folder / "plain", made, partitioned=False)
    tpcds.plain(folder / "months", made, partitioned=True)
    port, log = free_port(), folder / "tpcds.jsonl"
    log.unlink(missing_ok=True)
    server = TrinoServer(folder / "server", metastore=folder / "tpcds-metastore")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        stack.enter_context(serving(folder / "warehouse", port, log))
        make_catalog(server.uri, "lake", port)
        for schema in ("plain", "months"):
            run_statement(server.uri, f"CREATE SCHEMA IF NOT EXISTS hive.{schema}")
            for name in tpcds.tables(made):
                _register(server.uri, schema, name, folder / schema / name)
        yield server.uri, log, tpcds.questions(made, "trino")


def _register(uri: str, schema: str, name: str, files: Path) -> None:
    columns = [f"{column} {kind}" for column, kind, *_ in run_statement(uri, f"DESCRIBE lake.tpcds.{name}")]
    layout = [f"external_location = '{files.as_uri()}'", "format = 'PARQUET'"]
    by_month = name in tpcds.FACTS and schema == "months"
    if by_month:
        layout.append(f"partitioned_by = ARRAY['{tpcds.MONTH}']")
    run_statement(uri, f"DROP TABLE IF EXISTS hive.{schema}.{name}")
    run_statement(uri, f"CREATE TABLE hive.{schema}.{name} ({', '.join(columns)}) WITH ({', '.join(layout)})")
    if by_month:
        run_statement(uri, f"CALL hive.system.sync_partition_metadata('{schema}', '{name}', 'FULL')")
    run_statement(uri, f"ANALYZE hive.{schema}.{name}")


def run(folder: Path, repeats: int, scale: str = SCALE) -> Figures:
    """Measure all of it; sides take turns.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with sides(folder, scale) as (uri, log, questions):
        planned = tpcds.Planned(log)
        figures.days = {name for name, sql in questions.items() if tpcds.filters_days(sql)}
        for question, sql in questions.items():
            last: dict[str, Answer] = {}
            turns = Turns(partial(_ask, uri, sql, last), {side: [] for side in SIDES})
            turns.take(1, counted=False)
            turns.take(repeats)
            figures.seconds[question] = turns.seconds
            figures.megabytes[question] = {side: answer.megabytes for side, answer in last.items()}
            figures.processors[question] = {side: answer.processors for side, answer in last.items()}
            figures.kept[question] = planned.next()
            tpcds.show(question, turns.rows or [], turns.seconds)
    return figures


def _ask(uri: str, sql: str, last: dict[str, Answer], side: str) -> tuple[float, list[Any]]:
    """A side's answer, which is its last one then."""
    last[side] = ask(uri, sql, *SIDES[side].split("."))
    return last[side].seconds, last[side].rows


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown."""
    yield (
        f"| TPC-DS on Trino {VERSION} | side | seconds in all | of the time | median of the quotients | processors (s) "
        "| of their time | MB read |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for group, names in (("all", set(figures.seconds)), ("joined to filtered days", figures.days)):
        for side, total, share, quotient in tpcds.compared(figures.seconds, names, PLAIN):
            read, processors, plain = (
                sum(values[name][one] for name in names)
                for values, one in (
                    (figures.megabytes, side),
                    (figures.processors, side),
                    (figures.processors, PLAIN),
                )
            )
            cells = (
                f"{total:.1f} | {share:.2f} | {quotient:.2f} | {processors:.1f} | {processors / plain:.2f} | {read:.0f}"
            )
            yield f"| {len(names)} questions, {group} | {side} | {cells} |"
    yield from ("", tpcds.kept_share(figures.kept, figures.days))
