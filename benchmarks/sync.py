"""Syncs of a table of 10,000 partitions to real Hive Metastores, by Apache Hudi's input formats.

The handler's entries have no partitions, and cost the same however many the table has.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.committed import commit_file
from catalog.table import Table
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import APACHE, SyncOptions
from table_format.codecs.avro_schema import schema_text
from table_format.storage import Storage
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.column_statistics import concat_statistics
from tools.engines.hive.older_metastore import Hive3Metastore
from tools.engines.hive.server import HiveMetastore
from tools.engines.metastore import MetastoreServer

PARTITIONS = 10_000
NAME = "readings"
METASTORES: dict[str, Callable[[Path], Any]] = {
    "2.3.10": MetastoreServer,
    "3.1.3": Hive3Metastore,
    "4.0.1": HiveMetastore,
}
_SCHEMA = pa.schema(
    [
        pa.field("sensor", pa.int64()),
        pa.field("day", pa.string()),
        *(pa.field(f"value_{number}", pa.float64()) for number in range(14)),
    ]
)


@dataclass
class Syncs:
    """Seconds of the first sync, and of each that found nothing to do."""

    first: float
    unchanged: list[float]


def build(folder: Path) -> Path:
    """Write the table where it is not there yet: one row a partition; its folder."""
    path = folder / "partitions" / NAME
    if path.exists():
        return path
    properties = {
        "hoodie.table.name": NAME,
        "hoodie.table.recordkey.fields": "sensor",
        "hoodie.table.partition.fields": "day",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.table.timeline.timezone": "UTC",
    }
    client = create_table(Storage(str(path)), properties)
    with WriteTransaction.begin(client, "commit", "BULK_INSERT") as transaction:
        transaction.mark_inflight()
        written = []
        for number in range(PARTITIONS):
            day = f"d{number:05}"
            row = pa.Table.from_pylist([{"sensor": number, "day": day}], _SCHEMA)
            written.append(commit_file(transaction, row, pa.array([str(number)]), number, day))
        columns = concat_statistics(columns for _, columns in written)
        transaction.commit([stat for stat, _ in written], schema_json=schema_text(_SCHEMA, NAME), column_stats=columns)
    return path


def run(folder: Path, repeats: int) -> dict[str, Syncs]:
    """Measure each metastore.

    Raises:
        RuntimeError: a sync did not make the partitions, or a second one found more to do.
    """
    table = Table.open(str(build(folder)))
    syncs = {}
    for release, start in METASTORES.items():
        place = folder / "metastores" / release
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        server = start(place)
        try:
            syncs[release] = measured(table, server.uri, repeats)
        finally:
            server.stop()
    return syncs


def measured(table: Table, uri: str, repeats: int) -> Syncs:
    store = open_metastore(uri, options={"hoodie.catalog.metastore.timeout.seconds": "120"})
    store.schemas()  # the metastore's first answer comes late
    begin = time.perf_counter()
    made = sync_to_hive(table, store, SyncOptions(database="lake"), format=APACHE)
    first = time.perf_counter() - begin
    if sum(change.what.startswith("partition ") for change in made.changes) != PARTITIONS:
        raise RuntimeError(f"{uri}: not all partitions were made")
    unchanged = []
    for _ in range(repeats):
        begin = time.perf_counter()
        if sync_to_hive(table, store, SyncOptions(database="lake")).changes:
            raise RuntimeError(f"{uri}: the second sync found more to do")
        unchanged.append(time.perf_counter() - begin)
    return Syncs(first, unchanged)


def table(figures: dict[str, Syncs]) -> Iterator[str]:
    """The figures as a Markdown table."""
    yield "| metastore | first sync (s) | nothing changed (s), median |"
    yield "|---|---|---|"
    for release, syncs in figures.items():
        yield f"| {release} | {syncs.first:.1f} | {statistics.median(syncs.unchanged):.2f} |"
