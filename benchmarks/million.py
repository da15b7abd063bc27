"""A table of 1,000,000 files and five indexed columns: opening, loading, planning, refreshing, the memory, services.

The table exists in its metadata table only. Everything is measured in a separate process.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.planning import peak_mib

FILES, COLUMNS, PARTITIONS = 1_000_000, 5, 1_000
COMMITS, CHANGED, ADDED = 7, 50, 50
PROCESSES = 5
#: Commands that look at the whole table, each in a process of its own.
SERVICES = ("stats", "maintain --dry-run")
NAME = "million"
ONE_COLUMN = "c00 BETWEEN 1000000 AND 1009999"
FILTER = (
    "c00 > 5000000 AND c01 < 900000000.5 AND c02 < 'v00000900000000' AND c03 > DATE '1971-01-01' "
    "AND c04 BETWEEN 100000000 AND 100900000"
)


def plan_cold(path: Path) -> float:
    """Seconds from opening the table to a plan by a range of one column; the product is imported already."""
    from catalog import Table
    from pushdown import parse_sql

    parse_sql(ONE_COLUMN)
    return timed(lambda: len(Table.open(str(path)).scan(ONE_COLUMN).plan().splits))[1]


def measure(path: Path) -> dict[str, Any]:
    """The figures, in seconds, bytes and MiB. Every run adds commits to the table."""
    from catalog import Table

    before = memory()
    table = Table.open(str(path))
    snapshot, *listing = clocked(table.snapshot)
    listed = memory()
    loads = {
        f"{name} ({kind})": clocked(lambda name=name, kind=kind: snapshot.indexed_column(name, kind))[1:]  # type: ignore[misc]
        for name, kind in zip(snapshot.schema.names, snapshot.schema.types, strict=True)
        if name.startswith("c")
    }
    loaded = memory()
    files = len(snapshot)
    of_one = [timed(lambda: len(table.scan(ONE_COLUMN).plan().splits))[1] for _ in range(9)]
    plans = [timed(lambda: len(table.scan(FILTER).plan().splits)) for _ in range(8)]
    figures: dict[str, Any] = {
        "files": files,
        "kept": plans[0][0],
        "listing": listing,
        "loads": loads,
        "warm_one": median(of_one[2:]),
        "first_plan": plans[0][1],
        "warm_plan": median(seconds for _, seconds in plans[1:]),
        "bytes_per_file": (listed - before) / files,
        "bytes_per_file_and_column": (loaded - listed) / files / COLUMNS,
    }
    figures |= refreshing(path, table)
    return figures | {"peak_mib": peak_mib()}


def refreshing(path: Path, table: Any) -> dict[str, float]:
    """Medians over some commits, each by a separate process as a writer is."""
    refreshes: list[float] = []
    first: list[float] = []
    second: list[float] = []
    start = time.time_ns()
    for number in range(COMMITS):
        command = [sys.executable, "-m", "benchmarks.million", str(path), "commit", str(start + number)]
        subprocess.run(command, check=True)
        refreshes.append(timed(table.refresh)[1])
        for plans in (first, second):
            plans.append(timed(lambda: len(table.scan(FILTER).plan().splits))[1])
    return {
        "refresh": median(refreshes),
        "first_plan_after": median(first),
        "second_plan_after": median(second),
        "worst_plan_after": max(first),
    }


def add_commit(path: Path, number: int) -> None:
    """New versions of some files, and some new files."""
    import numpy as np

    from benchmarks.synthetic import Shape, commit, file_names
    from table_format.instant import next_instant_time

    shape = Shape(FILES, COLUMNS, PARTITIONS)
    names, partitions = file_names(Shape(10_000, COLUMNS, PARTITIONS))
    rows = np.random.default_rng(number).integers(0, len(names), CHANGED).tolist()
    changed = [(str(partitions[row]), str(names[row]).split("_", 1)[0]) for row in rows]
    made = [(f"day={n}", f"{number & 0xFFFFFFFF:08x}-0000-4000-8000-{n:012x}-0") for n in range(ADDED)]
    commit(path, next_instant_time(None, "UTC"), [*dict.fromkeys(changed), *made], shape)


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """What a job gives, and how long it takes."""
    result, seconds, _ = clocked(job)
    return result, seconds


def clocked(job: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a job gives, how long it takes, and for how long it keeps processors busy."""
    started, busy = time.perf_counter(), time.process_time()
    result = job()
    return result, time.perf_counter() - started, time.process_time() - busy


def memory() -> int:
    """Bytes of this process that are in memory now, after what was let go of is given back."""
    import gc

    import pyarrow as pa

    gc.collect()
    pa.default_memory_pool().release_unused()
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


def run(folder: Path) -> dict[str, Any]:
    """Build the table once, then measure in a separate process."""
    path = folder / NAME
    if not path.exists():
        from benchmarks.synthetic import Shape, build

        _, seconds = timed(lambda: build(path, Shape(FILES, COLUMNS, PARTITIONS)))
        print(f"metadata table of {FILES:,} files and {COLUMNS} columns built in {seconds:.1f} s")
    command = [sys.executable, "-m", "benchmarks.million", str(path)]
    cold = [float(_output([*command, "cold"])) for _ in range(PROCESSES)]
    program = str(Path(sys.executable).with_name("hudi-catalog"))
    services = {words: [_seconds([program, *words.split(), str(path)]) for _ in range(PROCESSES)] for words in SERVICES}
    return {"cold": cold, "services": services, **json.loads(_output(command))}


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _seconds(command: list[str]) -> float:
    """How long a process takes, its start included."""
    return timed(lambda: _output(command))[1]


def in_seconds(elapsed: float, busy: float) -> str:
    return f"{elapsed:.2f} s ({busy:.2f} s of processors)"


def table(figures: dict[str, Any]) -> str:
    """The figures as a table in Markdown."""

    def each(runs: list[float]) -> str:
        return ", ".join(f"{seconds:.2f}" for seconds in runs) + " s"

    rows = [
        (f"open and plan by a range of one column, {PROCESSES} processes", each(figures["cold"])),
        *(
            (f"`hudi-catalog {words}`, {PROCESSES} processes, their start included", each(runs))
            for words, runs in figures["services"].items()
        ),
        ("list the files", in_seconds(*figures["listing"])),
        *((f"load the statistics of {name}", in_seconds(*times)) for name, times in figures["loads"].items()),
        ("plan by a range of one column, held open (median of 7)", f"{figures['warm_one'] * 1000:.1f} ms"),
        ("first plan over five columns", f"{figures['first_plan'] * 1000:.0f} ms"),
        ("the same again (median of 7)", f"{figures['warm_plan'] * 1000:.0f} ms"),
        (
            f"refresh after a commit of {CHANGED + ADDED} files (median of {COMMITS})",
            f"{figures['refresh'] * 1000:.1f} ms",
        ),
        (
            "first plan after a refresh (median; longest)",
            f"{figures['first_plan_after'] * 1000:.0f} ms; {figures['worst_plan_after'] * 1000:.0f} ms",
        ),
        ("second plan after a refresh (median)", f"{figures['second_plan_after'] * 1000:.0f} ms"),
        ("memory for each file", f"{figures['bytes_per_file']:.0f} bytes"),
        ("memory for each file and column", f"{figures['bytes_per_file_and_column']:.0f} bytes"),
        ("peak memory of the process", f"{figures['peak_mib']} MiB"),
    ]
    filter_line = f"Filter: `{FILTER}`, which keeps {figures['kept']} of {figures['files']:,} files."
    return "\n".join(
        ["| job | figure |", "|---|---|", *(f"| {job} | {figure} |" for job, figure in rows), "", filter_line]
    )


if __name__ == "__main__":
    if sys.argv[2:3] == ["commit"]:
        add_commit(Path(sys.argv[1]), int(sys.argv[3]))
    elif sys.argv[2:3] == ["cold"]:
        print(plan_cold(Path(sys.argv[1])))
    else:
        print(json.dumps(measure(Path(sys.argv[1]))))
