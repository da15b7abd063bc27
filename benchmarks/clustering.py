"""Clustering lineitem by three columns, beside Apache Hudi's `run_clustering` along a Z-order curve.

Both sides cluster copies of one table, which was written in several inserts. Our figures are of a fresh session of this
process; Apache's are of one that is warm from opening the table. By default Apache builds its curve of the values, so
that the column of the largest numbers decides; on request it builds one of a sample.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import lineitem
from benchmarks.rival import RIVAL, apache_session
from hudi_catalog import create_table, open_table

COLUMNS = ["l_shipdate", "l_partkey", "l_suppkey"]
LAYOUTS = ["z-order", "hilbert", "linear"]
#: Of Apache's curve: `hoodie.layout.optimize.curve.build.method`.
BUILD_METHODS = ["direct", "sample"]
INSERTS = 8
#: What the questions of TPC-H that filter lineitem by itself ask of it; the others join it whole.
QUESTIONS = {
    "Q1": "l_shipdate <= DATE '1998-09-02'",
    "Q3": "l_shipdate > DATE '1995-03-15'",
    "Q6": "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "Q7": "l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'",
    "Q10": "l_returnflag = 'R'",
    "Q12": "l_shipmode IN ('MAIL', 'SHIP') AND l_receiptdate >= DATE '1994-01-01' "
    "AND l_receiptdate < DATE '1995-01-01'",
    "Q14": "l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    "Q15": "l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'",
    "Q19": "l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND l_quantity BETWEEN 1 AND 30",
    "Q20": "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'",
}
TARGET = 16 << 20
SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": str(TARGET)}


@dataclass
class Side:
    """One side's runs.

    Attributes:
        name: whose.
        seconds: of each run.
        files: of the last one.
        kept: share of the files that a range of 1 % keeps, by column.
        read: megabytes of the files that each of TPC-H's questions keeps.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    files: int = 0
    kept: dict[str, float] = field(default_factory=dict)
    read: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, path: Path) -> Iterator[Path]:
        """A run on a copy of the table."""
        started = time.perf_counter()
        yield path
        self.seconds.append(time.perf_counter() - started)
        self.look(path)

    def look(self, path: Path) -> None:
        table = open_table(path)
        self.files = table.files().num_rows
        self.kept = {one.column: one.kept for one in table.layout(COLUMNS)}
        for name, question in QUESTIONS.items():
            self.read[name] = sum(split.length for split in table.scan(question).plan().splits) / 1e6


def prepared(folder: Path, scale: str = lineitem.SCALE) -> Path:
    """The table before clustering, found by a record index."""
    path = folder / "lineitem_table"
    if path.exists():
        return path
    rows = pq.read_table(lineitem.source(folder, scale))
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in rows.schema]
    rows = rows.cast(pa.schema(fields))
    table = create_table(
        path,
        rows.schema,
        record_key=lineitem.KEY,
        index="RECORD_INDEX",
        name="lineitem",
        options={"hoodie.parquet.small.file.limit": "0"},
    )
    step = -(-rows.num_rows // INSERTS)
    for start in range(0, rows.num_rows, step):
        table.bulk_insert(rows.slice(start, step))
    return path


def run(folder: Path, repeats: int, scale: str = lineitem.SCALE) -> list[Side]:
    """Cluster copies of the table, in turns."""
    base = prepared(folder, scale)
    before = Side("before")
    before.look(base)
    ours = {layout: Side(f"hudi-catalog, {layout}") for layout in LAYOUTS}
    apache = {method: Side(f"Apache Hudi {RIVAL}, z-order, {method}") for method in BUILD_METHODS}
    with apache_session(folder) as session:
        settings = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false", **SIZE}
        for key, value in settings.items():
            session.sql(f"SET {key}={value}")
        for number in range(repeats):
            for layout, side in ours.items():
                with side.timed(shutil.copytree(base, folder / f"{layout}{number}")) as copy:
                    open_table(copy).cluster(COLUMNS, layout, options=SIZE)
            for method, side in apache.items():
                session.sql(f"SET hoodie.layout.optimize.curve.build.method={method}")
                with side.timed(shutil.copytree(base, folder / f"{method}{number}")) as copy:
                    order = f"order => '{','.join(COLUMNS)}', order_strategy => 'z-order'"
                    session.sql(f"CALL run_clustering(path => '{copy}', {order})")
    return [before, *ours.values(), *apache.values()]


def table(sides: list[Side]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| side | median (s) | files | {' | '.join(f'{name}: files kept by 1 %' for name in COLUMNS)} |"
    yield f"|---|---|---|{'---|' * len(COLUMNS)}"
    for side in sides:
        seconds = f"{statistics.median(side.seconds):.2f}" if side.seconds else "-"
        kept = " | ".join(f"{100 * side.kept[name]:.1f} %" if name in side.kept else "-" for name in COLUMNS)
        yield f"| {side.name} | {seconds} | {side.files} | {kept} |"
    yield ""
    yield f"| MB of lineitem that TPC-H keeps | {' | '.join(QUESTIONS)} |"
    yield f"|---|{'---|' * len(QUESTIONS)}"
    for side in sides:
        yield f"| {side.name} | {' | '.join(f'{side.read[name]:.1f}' for name in QUESTIONS)} |"
