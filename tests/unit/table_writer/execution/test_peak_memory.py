"""The peak Arrow memory of writes of ten times the limit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from table_writer.execution.local import LocalExecutor
from table_writer.writer import TableWriter
from tests.support.reading import current_rows

LIMIT = 16 << 20
ROWS = 500
PARTS = 10 * LIMIT // (ROWS * 4096) + 1
OPTIONS = {"hoodie.catalog.write.progress": "false", "hoodie.table.name": "t", "hoodie.clean.automatic": "false"}
#: Arguments of each table, and how many of its parts are written a second time.
TABLES: dict[str, tuple[dict[str, Any], int]] = {
    "buckets": ({"buckets": 4}, PARTS),
    "record index": ({"index": "RECORD_INDEX"}, PARTS),
    "one bucket": ({"buckets": 1}, PARTS // 8),
}
OPERATIONS = ["bulk_insert", "upsert"]


def parts(count: int, version: int) -> Iterator[pa.Table]:
    """Tables of wide rows, with keys that no other part has."""
    for number in range(count):
        draw = np.random.default_rng(number)
        ids = draw.permutation(ROWS).astype(np.int64) * PARTS + number
        texts = pa.array([f"{n:016x}" * 256 for n in draw.integers(0, 1 << 60, ROWS)])
        yield pa.table({"id": ids, "v": np.full(ROWS, version), "t": texts})


@pytest.mark.slow
def test_arrow_memory_is_at_most_one_and_a_half_times_the_limit(tmp_path: Path) -> None:
    # a pool's peak is that of its process since it began
    arguments = [sys.executable, "-m", __name__, str(tmp_path)]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    peaks = [json.loads(line) for line in output.splitlines()]
    assert len(peaks) == len(TABLES) * len(OPERATIONS)
    for name, operation, peak in peaks:
        assert 0 < peak <= 1.5 * LIMIT, f"{operation} of {name}: {peak / LIMIT:.2f} times the limit"
    for name, (_, again) in TABLES.items():
        rows = current_rows(TableWriter.open(tmp_path / name).client).sort_by("id")
        ids = pa.array(range(ROWS * PARTS))
        assert rows["id"].combine_chunks().equals(ids), name
        assert rows["v"].to_numpy().tolist() == (np.arange(len(ids)) % PARTS < again).tolist(), name


def main(folder: Path) -> None:
    """Write each table, and print the process's peak after each operation."""
    executor = LocalExecutor(2, memory=LIMIT)
    for name, (arguments, again) in TABLES.items():
        path = folder / name
        table = TableWriter.create(path, None, record_key="id", options=OPTIONS, executor=executor, **arguments)
        for version, (operation, count) in enumerate(zip(OPERATIONS, (PARTS, again), strict=True)):
            getattr(table, operation)(parts(count, version))
            # a write's buffers are jemalloc's, those around it are not
            peak = sum(pool.max_memory() for pool in (pa.jemalloc_memory_pool(), pa.default_memory_pool()))
            sys.stdout.write(json.dumps([name, operation, peak]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
