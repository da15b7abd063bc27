"""Planning over a table of 100,000 files and 20 indexed columns that exists in its metadata table only."""

import json
import subprocess
import sys
import time
from pathlib import Path

FILES = 100_000
PARTITIONS = 100
COLUMNS = 20
FILTERS = {
    "one column": "c00 BETWEEN 1000000 AND 1009999",
    "two columns": "c00 > 500000000 AND c01 < 1000.5",
    "partition and text": "day = 17 AND c02 = 'v00000000123456'",
    "or, three columns": "c00 = 5000000 OR c01 < 10 OR c03 IS NULL",
}


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
    """Build the table once, then measure in a separate process."""
    path = folder / "wide"
    if not path.exists():
        from benchmarks.synthetic import Shape, build

        started = time.perf_counter()
        build(path, Shape(FILES, COLUMNS, PARTITIONS))
        print(f"metadata table of {FILES:,} files and {COLUMNS} columns built in {time.perf_counter() - started:.1f} s")
    command = [sys.executable, "-m", "benchmarks.planning", str(path)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
