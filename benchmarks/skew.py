"""A skewed load: upserts of new keys whose hash field has few frequent values, into buckets of several file groups.

Beside it the same into buckets of one file group each. `python -m benchmarks.skew FOLDER ROWS` measures another number
of rows than the 20 million.
"""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from hudi_catalog import create_table

ROWS, BATCHES, BUCKETS = 20_000_000, 10, 8
TARGET = 8 << 20
#: Of the customers' distribution.
EXPONENT, CUSTOMERS = 1.2, 1_000_000
SEVERAL, ONE = "several file groups a bucket", "one file group a bucket"
SIDES = {SEVERAL: {"hoodie.catalog.bucket.max.file.size": str(TARGET)}, ONE: {}}
SCHEMA = pa.schema([("customer", pa.int64()), ("call", pa.int64()), ("seconds", pa.int32()), ("charge", pa.float64())])


@dataclass
class Load:
    """One side.

    Attributes:
        name: of the side.
        seconds: of the clock, batch by batch.
        cpu: seconds of processors.
        sizes: bytes of the files of the newest state.
        rows: of the table at the end.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    rows: int = 0


def batch(number: int, rows: int) -> pa.Table:
    """Calls of customers; no call is in two batches."""
    chance = np.random.default_rng(number)
    customers = np.minimum(chance.zipf(EXPONENT, rows), CUSTOMERS)
    calls = chance.permutation(rows) + number * rows
    seconds = chance.integers(1, 3600, rows, dtype=np.int32)
    return pa.table([customers, calls, seconds, seconds * 0.0125], schema=SCHEMA)


def measure(folder: Path, rows: int = ROWS) -> list[Load]:
    """Each side's load, by turns batch by batch."""
    loads = [Load(name) for name in SIDES]
    tables = []
    for number, options in enumerate(SIDES.values()):
        path = folder / f"skew-{number}"
        shutil.rmtree(path, ignore_errors=True)
        chosen = {"hoodie.bucket.index.hash.field": "customer", "hoodie.catalog.write.progress": "false", **options}
        key = ["customer", "call"]
        tables.append(create_table(path, SCHEMA, record_key=key, buckets=BUCKETS, options=chosen))
    for number in range(BATCHES):
        made = batch(number, rows // BATCHES)
        for load, table in zip(loads, tables, strict=True):
            started, cpu = time.perf_counter(), time.process_time()
            table.upsert(made)
            load.seconds.append(time.perf_counter() - started)
            load.cpu.append(time.process_time() - cpu)
            print(f"{load.name:32} batch {number + 1:3} {load.seconds[-1]:8.2f} s {load.cpu[-1]:8.2f} s", flush=True)
    for load, table in zip(loads, tables, strict=True):
        load.sizes = table.files()["bytes"].to_pylist()
        load.rows = table.scan().count()
    return loads


def table(loads: Sequence[Load]) -> Iterator[str]:
    """A Markdown table."""
    names = ["side", "rows", "batches (s)", "last by second", "by processors"]
    names += ["files", "largest by target", "median by target"]
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for load in loads:
        runs = ", ".join(f"{seconds:.2f}" for seconds in load.seconds)
        ratios = [f"{values[-1] / values[1]:.2f}" for values in (load.seconds, load.cpu)]
        sizes = [f"{value / TARGET:.2f}" for value in (max(load.sizes), float(np.median(load.sizes)))]
        cells = [load.name, f"{load.rows:,}", runs, *ratios, str(len(load.sizes)), *sizes]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(table(measure(Path(sys.argv[1]), int(sys.argv[2])))))
