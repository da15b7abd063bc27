"""Measure, print, and with `--write` put the tables into `docs/benchmarks.md`."""

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import (
    hive,
    indexes,
    local_writing,
    million,
    peers,
    planning,
    record_index,
    surgery,
    sync,
    trino,
    writing,
)
from benchmarks.writing import Job

PAGE = Path(__file__).parents[1] / "docs/benchmarks.md"
WHAT = [
    "writing",
    "local_writing",
    "planning",
    "million",
    "peers",
    "trino",
    "hive",
    "sync",
    "record_index",
    "surgery",
    "indexes",
]
START, END = "<!-- measured: start -->", "<!-- measured: end -->"


def machine() -> str:
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{os.cpu_count()} cores ({cpu}), {memory} GiB, {platform.system()}, Python {platform.python_version()}"


def writing_table(jobs: list[Job]) -> str:
    lines = [
        "| job | side | runs (s) | median (s) | times as fast | data files (MB) |",
        "|---|---|---|---|---|---|",
    ]
    for job in jobs:
        rival = next(j for j in jobs if j.name == job.name and j.side == "Apache Hudi")
        ratio = f"{rival.median / job.median:.1f}" if job is not rival else "1"
        runs = ", ".join(f"{s:.2f}" for s in job.seconds)
        lines.append(f"| {job.name} | {job.side} | {runs} | {job.median:.2f} | {ratio} | {job.bytes / 1e6:.1f} |")
    return "\n".join(lines)


def planning_table(figures: dict[str, Any]) -> str:
    lines = ["| filter | cold (s) | held open (ms) | files kept |", "|---|---|---|---|"]
    for name, where in planning.FILTERS.items():
        cold, warm, kept = figures["cold"][name], figures["warm"][name] * 1000, figures["kept"][name]
        lines.append(f"| {name}: `{where}` | {cold:.2f} | {warm:.1f} | {kept} |")
    return "\n".join([*lines, "", f"Peak memory of the process: {figures['peak_mib']} MiB."])


def measured(what: str, folder: Path, repeats: int) -> tuple[str, str]:
    """Heading and table of one benchmark."""
    match what:
        case "local_writing":
            return "Writing without Spark", "\n".join(local_writing.table(*local_writing.measure(folder, repeats)))
        case "planning":
            return "Planning", planning_table(planning.run(folder))
        case "million":
            return f"{million.FILES:,} files", million.table(million.run(folder))
        case "peers":
            found = peers.measure(folder, repeats)
            return f"Planning beside others, {peers.FILES:,} files", "\n".join(peers.table(found))
        case "trino":
            return f"Trino, {trino.shipments.FILES} files", "\n".join(trino.table(trino.run(folder, repeats)))
        case "hive":
            return f"Hive, {hive.shipments.FILES} files", "\n".join(hive.table(hive.run(folder, repeats)))
        case "sync":
            return f"Sync, {sync.PARTITIONS:,} partitions", "\n".join(sync.table(sync.run(folder, repeats)))
        case "record_index":
            return "Record index", "\n".join(record_index.table(record_index.run(folder, repeats)))
        case "surgery":
            return "Row-group surgery", "\n".join(surgery.table(surgery.run(folder, repeats)))
        case "indexes":
            return "Indexes", "\n".join(indexes.table(indexes.run(folder, repeats)))
        case _:
            return "Writing", writing_table(writing.measure(folder, repeats))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what",
        nargs="*",
        default=WHAT,
        help=", ".join(WHAT),
    )
    parser.add_argument("--repeats", type=int, default=3, help="counted runs of each job")
    parser.add_argument("--folder", type=Path, help="where tables are kept; a temporary folder otherwise")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        parts = [f"Machine: {machine()}."]
        for name in WHAT:
            if name in given.what:
                heading, table = measured(name, folder, given.repeats)
                parts += [f"### {heading}", table]
    text = "\n\n".join(parts)
    print(text)
    if given.write:
        page = PAGE.read_text()
        before, rest = page.split(START)
        PAGE.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
