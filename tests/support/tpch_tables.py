"""TPC-H as bucketed Hudi tables of our own writer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.local_writes import LocalTable


@dataclass(frozen=True)
class Layout:
    """Layout of a table in the warehouse."""

    key: str
    hashed: str
    buckets: int
    partition: str = ""


LAYOUTS = {
    "lineitem": Layout("l_orderkey,l_linenumber", "l_orderkey", 8, "l_shipmode"),
    "orders": Layout("o_orderkey", "o_orderkey", 8, "o_orderstatus"),
    "customer": Layout("c_custkey", "c_custkey", 4, "c_mktsegment"),
    "part": Layout("p_partkey", "p_partkey", 8),
    "partsupp": Layout("ps_partkey,ps_suppkey", "ps_partkey", 8),
    "supplier": Layout("s_suppkey", "s_suppkey", 2),
    "nation": Layout("n_nationkey", "n_nationkey", 1),
    "region": Layout("r_regionkey", "r_regionkey", 1),
}


def generate(folder: Path, scale: str) -> dict[str, pa.Table]:
    """The eight tables, as the generator of the specification makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "lineitem.parquet").exists():
        generator = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(generator), "parquet", "-s", scale, f"--output-dir={folder}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet")) for name in LAYOUTS}


def _plain(table: pa.Table) -> pa.Table:
    """The same rows without view types, which nothing downstream needs to know."""
    types = {pa.string_view(): pa.string()}
    fields = [pa.field(field.name, types.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def options(name: str, layout: Layout) -> dict[str, str]:
    """Apache Hudi's options that such a table is written with."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": layout.key,
        "hoodie.datasource.write.partitionpath.field": layout.partition,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(layout.buckets),
        "hoodie.bucket.index.hash.field": layout.hashed,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.clean.automatic": "false",
    }


def write(warehouse: Path, name: str, rows: pa.Table, layout: Layout, **more: str) -> LocalTable:
    """A new table of the warehouse with these rows."""
    folder = warehouse / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    table = LocalTable.create(str(folder), rows.schema, {**options(name, layout), **more})
    table.write("insert", rows)
    return table


def build(warehouse: Path, generated: Path, scale: str = "0.1") -> None:
    """All eight tables in a warehouse's folder."""
    for name, rows in generate(generated, scale).items():
        write(warehouse, name, rows, LAYOUTS[name])
