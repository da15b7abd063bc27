"""TPC-DS: rows and questions as DuckDB's generator makes them, and Hudi tables of these rows by our writer.

The generator is a package of its own, bound to a release of DuckDB; it is installed into the benchmark's folder, and
neither it nor its questions are part of the product.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

import hudi_catalog
from benchmarks.served import Tail

RELEASE = "1.5.5"
SCHEMA = "tpcds"
CORRECTED = 32
"""One row in so many is inserted without a value first, and corrected by an upsert."""
_GENERATE = """
import json, pathlib, sys
import duckdb, duckdb_extension_tpcds
folder, scale = pathlib.Path(sys.argv[1]), sys.argv[2]
extension = next(pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("*.duckdb_extension"))
connection = duckdb.connect(config={"threads": 2})
connection.execute(f"LOAD '{extension}'")
connection.execute(f"CALL dsdgen(sf={scale})")
for (name,) in connection.execute("SHOW TABLES").fetchall():
    connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT PARQUET)")
questions = {f"Q{number}": text for number, text in connection.execute("FROM tpcds_queries()").fetchall()}
(folder / "questions.json").write_text(json.dumps(questions))
"""


@dataclass(frozen=True)
class Facts:
    """How a table of facts is laid out.

    Attributes:
        key: record key fields.
        day: the column whose month is the partition.
        changed: the column that corrections change.
    """

    key: str
    day: str
    changed: str


FACTS = {
    "store_sales": Facts("ss_item_sk,ss_ticket_number", "ss_sold_date_sk", "ss_net_profit"),
    "store_returns": Facts("sr_item_sk,sr_ticket_number", "sr_returned_date_sk", "sr_net_loss"),
    "catalog_sales": Facts("cs_item_sk,cs_order_number", "cs_sold_date_sk", "cs_net_profit"),
    "catalog_returns": Facts("cr_item_sk,cr_order_number", "cr_returned_date_sk", "cr_net_loss"),
    "web_sales": Facts("ws_item_sk,ws_order_number", "ws_sold_date_sk", "ws_net_profit"),
    "web_returns": Facts("wr_item_sk,wr_order_number", "wr_returned_date_sk", "wr_net_loss"),
    "inventory": Facts("inv_date_sk,inv_item_sk,inv_warehouse_sk", "inv_date_sk", "inv_quantity_on_hand"),
}
MONTH = "month"
"""Partition column of the facts; the questions know nothing of it."""


def generate(folder: Path, scale: str) -> Path:
    """A folder of the 24 tables as Parquet, and of `questions.json`; made where it is not there yet.

    Raises:
        subprocess.CalledProcessError: the generator cannot be installed, or failed.
    """
    made = folder / f"tpcds-{scale}"
    if (made / "questions.json").exists():
        return made
    made.mkdir(parents=True, exist_ok=True)
    packages = folder / "generator"
    if not packages.exists():
        wanted = [f"duckdb=={RELEASE}", f"duckdb-extension-tpcds=={RELEASE}"]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", packages, *wanted], check=True)
    environment = {"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", _GENERATE, str(made), scale], check=True, env=environment)
    return made


def tables(made: Path) -> list[str]:
    """Names of the tables of a generated folder."""
    return sorted(file.stem for file in made.glob("*.parquet"))


def questions(made: Path, dialect: str) -> dict[str, str]:
    """The 99 questions in the SQL of an engine, by name."""
    texts: dict[str, str] = json.loads((made / "questions.json").read_text())
    return {name: _of_dialect(text, dialect) for name, text in texts.items()}


def filters_days(text: str) -> bool:
    """Whether a question filters the dimension of days by a constant."""
    columns = "year|moy|qoy|date|dom|dow|month_seq|week_seq|quarter_name"
    return re.search(rf"\bd_({columns})\b[^,;]{{0,9}}?\s*([<>=(]|between|in)\s", text, re.IGNORECASE) is not None


def _of_dialect(text: str, dialect: str) -> str:
    """DuckDB compares days with texts, adds numbers to them, and sorts by what is selected under another name."""

    def typed(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Literal) and node.is_string and re.fullmatch(r"\d{4}-\d\d-\d\d", node.this):
            return node if isinstance(node.parent, exp.Cast) else exp.cast(node.copy(), "date")
        if isinstance(node, exp.Add) and isinstance(node.this, exp.Column) and node.this.name == "d_date":
            return exp.DateAdd(this=node.this.copy(), expression=node.expression.copy(), unit=exp.var("DAY"))
        return node

    tree = sqlglot.parse_one(text, read="duckdb").transform(typed)
    named = {one.this: one.alias for one in tree.selects if isinstance(one, exp.Alias) and one.find(exp.Grouping)}
    for key in tree.args["order"].expressions if tree.args.get("order") else ():
        for part in list(key.find_all(exp.Add)):
            if part in named:
                part.replace(exp.column(named[part]))
    return tree.sql(dialect=dialect)


def rows(made: Path, name: str) -> pa.Table:
    """The rows of a table; facts also have the month of their day, null where they have no day."""
    table = pq.read_table(made / f"{name}.parquet")
    if name not in FACTS:
        return table
    days = pq.read_table(made / "date_dim.parquet", columns=["d_date_sk", "d_date"])
    place = pc.index_in(pc.cast(table[FACTS[name].day], pa.int64()), pc.cast(days["d_date_sk"], pa.int64()))
    month = pc.strftime(pc.cast(days["d_date"], pa.timestamp("s")), format="%Y-%m")
    return table.append_column(MONTH, pc.take(month, place))


def build(warehouse: Path, made: Path) -> None:
    """All tables as Hudi tables, where they are not there yet: facts by months, after an insert and a correction."""
    for name in tables(made):
        target, partial = warehouse / SCHEMA / name, warehouse / f"{name}.part"
        if target.exists():
            continue
        shutil.rmtree(partial, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(partial, name, rows(made, name))
        partial.rename(target)


def _write(path: Path, name: str, whole: pa.Table) -> None:
    if name not in FACTS:
        table = hudi_catalog.create_table(path, whole, record_key=whole.column_names[0], buckets=1, name=name)
        table.insert(whole)
        return
    layout = FACTS[name]
    table = hudi_catalog.create_table(path, whole, record_key=layout.key, partition_by=MONTH, buckets=1, name=name)
    at = whole.column_names.index(layout.changed)
    late = pa.array([number % CORRECTED == 0 for number in range(whole.num_rows)])
    wrong = pc.if_else(late, pa.scalar(None, whole.field(at).type), whole[layout.changed])
    table.insert(whole.set_column(at, whole.field(at), wrong))
    table.upsert(whole.filter(late))


def plain(folder: Path, made: Path, partitioned: bool) -> None:
    """The same rows as plain Parquet, a folder a table; facts by months, or in one file in the generator's order."""
    with duckdb.connect() as connection:
        for name in tables(made):
            target = folder / name
            if target.exists():
                continue
            target.mkdir(parents=True)
            source = rows(made, name)
            connection.register("source", source)
            if partitioned and name in FACTS:
                layout = f"(FORMAT PARQUET, PARTITION_BY ({MONTH}))"
                connection.execute(f"COPY source TO '{target}' {layout}")
            else:
                connection.execute(f"COPY source TO '{target}/0.parquet' (FORMAT PARQUET)")


class Planned:
    """What a service's query log says of the fact tables' plans, question by question."""

    def __init__(self, log: Path) -> None:
        self._log = Tail(log)

    def next(self) -> tuple[int, int]:
        """Bytes of the fact tables' files, all and planned, since this was asked before."""
        records = [json.loads(line) for line in self._log.next().splitlines()]
        facts = [one for one in records if "bytes_out" in one and one["table"].rpartition(".")[2] in FACTS]
        return sum(one["bytes_in"] for one in facts), sum(one["bytes_out"] for one in facts)


def show(question: str, rows: Sequence[Any], seconds: Mapping[str, Sequence[float]]) -> None:
    """Say that a question is measured."""
    shown = ", ".join(f"{statistics.median(runs):.2f} s" for runs in seconds.values())
    print(f"{question}: {len(rows)} rows, {shown}", file=sys.stderr)


def compared(
    seconds: Mapping[str, Mapping[str, Sequence[float]]], names: Collection[str], base: str
) -> Iterator[tuple[str, float, float, float]]:
    """Each side of some questions: seconds in all, as a share of the base's, and the median of the quotients.

    Args:
        seconds: of the counted runs, by question and side.
        names: the questions.
        base: the side that the others are compared with.
    """
    medians = {name: {side: statistics.median(runs) for side, runs in seconds[name].items()} for name in names}
    whole = sum(by_side[base] for by_side in medians.values())
    for side in next(iter(medians.values()), {}):
        total = sum(by_side[side] for by_side in medians.values())
        yield side, total, total / whole, statistics.median(one[side] / one[base] for one in medians.values())


def kept_share(kept: Mapping[str, tuple[int, int]], names: Collection[str]) -> str:
    """A sentence on the bytes that plans of some questions kept."""
    every, planned = (sum(kept[name][at] for name in names) for at in (0, 1))
    return f"Of the fact tables' bytes in questions joined to filtered days, {planned / every:.1%} were kept."
