"""Planning over a table of 100,000 files and 20 indexed columns that exists in its metadata table only."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

FILES = 100_000
PARTITIONS = 100
COLUMNS = 20
INSTANT = "20260101000000000"
ROWS = 1_000
FILTERS = {
    "one column": "c00 BETWEEN 1000000 AND 1009999",
    "two columns": "c00 > 500000000 AND c01 < 1000.5",
    "partition and text": "day = 17 AND c02 = 'v00000000123456'",
    "or, three columns": "c00 = 5000000 OR c01 < 10 OR c03 IS NULL",
}
KINDS = (pa.int64(), pa.float64(), pa.string(), pa.date32())


def build(path: Path) -> None:
    """Make the table: properties, one commit, and the metadata table by this project's own writer."""
    from table_format.actions.commit import CommitMetadata
    from table_format.avro_schema import schema_text
    from table_format.instant import Action, Instant, State
    from table_format.meta_client import TableClient
    from table_format.metadata_table.creation import create_metadata_table
    from table_format.storage import Storage
    from table_format.table_config import create_table_config

    storage = Storage(str(path))
    create_table_config(
        storage,
        {
            "hoodie.table.name": "wide",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.recordkey.fields": "c00",
            "hoodie.table.partition.fields": "day",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.timeline.timezone": "UTC",
        },
    )
    schema = pa.schema([("day", pa.int32()), *((f"c{i:02d}", KINDS[i % 4]) for i in range(COLUMNS))])
    for state in State:
        instant = Instant(INSTANT, Action.COMMIT, state)
        metadata = CommitMetadata(operation_type="BULK_INSERT", extra_metadata={"schema": schema_text(schema, "wide")})
        content = metadata.to_json() if state is State.COMPLETED else b""
        storage.create(f".hoodie/{instant.file_name}", content)
    names, partitions = file_names()
    files = pa.table({"partition": partitions, "file_name": names, "size": pa.array(np.full(FILES, 1 << 20))})
    create_metadata_table(TableClient.open(storage), files=files, column_stats=statistics(names, partitions))


def file_names() -> tuple[pa.Array, pa.Array]:
    """Names of base files, and their partitions."""
    random = np.random.default_rng(0).integers(0, 1 << 32, (FILES, 4))
    ids = [f"{a:08x}-{b & 0xFFFF:04x}-4{c & 0xFFF:03x}-8{d & 0xFFF:03x}-{a:08x}{b >> 16:04x}" for a, b, c, d in random]
    names = pa.array([f"{name}-0_{n}-0-0_{INSTANT}.parquet" for n, name in enumerate(ids)])
    return names, pa.array([f"day={n % PARTITIONS}" for n in range(FILES)])


def statistics(names: pa.Array, partitions: pa.Array) -> pa.Table:
    """A range for each file and column: file n holds the n-th thousand of values."""
    from table_format.avro_encode import encode_union
    from table_format.avro_schema_tree import parse
    from table_format.metadata_table.record_schema import SCHEMA
    from table_format.metadata_table.stats import STATS_SCHEMA

    stats = dict(parse(SCHEMA).fields)["ColumnStatsMetadata"].branches[1]
    union = dict(stats.fields)["minValue"]
    pieces = []
    for i in range(COLUMNS):
        kind = KINDS[i % 4]
        branch = {"int64": 3, "double": 5, "string": 7, "date32[day]": 8}[str(kind)]
        low, high = bounds(np.arange(FILES) * ROWS, kind), bounds(np.arange(FILES) * ROWS + ROWS - 1, kind)
        columns = {
            "partition": partitions,
            "file_name": names,
            "column": pa.array([f"c{i:02d}"] * FILES),
            "type": pa.array([str(kind)] * FILES),
            "min": encode_union(union, branch, low),
            "max": encode_union(union, branch, high),
        }
        counts = {"value_count": ROWS, "null_count": i % 3, "total_size": 4096, "total_uncompressed_size": 8192}
        columns |= {name: pa.array(np.full(FILES, value, np.int64)) for name, value in counts.items()}
        pieces.append(pa.table(columns, schema=STATS_SCHEMA))
    return pa.concat_tables(pieces)


def bounds(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.array([f"v{n:014d}" for n in numbers])
    if pa.types.is_date32(kind):
        return pa.array((numbers // 50_000).astype(np.int32)).cast(kind)
    return pa.array(numbers.astype(np.float64) if pa.types.is_floating(kind) else numbers)


def measure(path: Path) -> dict[str, object]:
    """In a fresh process: each filter cold (a newly opened table), then held open; peak memory of it all."""
    started = time.perf_counter()
    from catalog import Table

    imported = time.perf_counter() - started
    cold, warm, kept = {}, {}, {}
    for name, where in FILTERS.items():
        started = time.perf_counter()
        table = Table.open(str(path))
        plan = table.scan(where).plan()
        kept[name] = len(plan.splits)
        cold[name] = time.perf_counter() - started
        times = []
        for _ in range(5):
            started = time.perf_counter()
            len(table.scan(where).plan().splits)
            times.append(time.perf_counter() - started)
        warm[name] = sorted(times)[2]
    return {"import": imported, "cold": cold, "warm": warm, "kept": kept, "peak_mib": peak_mib()}


def peak_mib() -> int:
    """Peak memory of this process; the rusage figure would hold the parent's from before the exec too."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) >> 10


def run(folder: Path) -> dict[str, object]:
    """Build the table once, then measure in a process of its own."""
    path = folder / "wide"
    if not path.exists():
        started = time.perf_counter()
        build(path)
        print(f"metadata table of {FILES:,} files and {COLUMNS} columns built in {time.perf_counter() - started:.1f} s")
    command = [sys.executable, "-m", "benchmarks.planning", str(path)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
