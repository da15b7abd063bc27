"""Measure, print, and with `--write` put the tables into `docs/benchmarks.md`."""

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import (
    clustering,
    file_indexes,
    growth,
    hive,
    hive_selective,
    hive_tpcds,
    indexes,
    joins,
    lifetime,
    local_writing,
    merging,
    million,
    peers,
    planning,
    record_index,
    resizing,
    skew,
    spark_joins,
    spark_reading,
    spark_writing,
    surgery,
    surgery_grid,
    sync,
    trino,
    trino_star,
    trino_tpcds,
    writing,
)
from benchmarks.writing import Job

PAGE = Path(__file__).parents[1] / "docs/benchmarks.md"
WHAT = [
    "writing",
    "spark_writing",
    "spark_reading",
    "spark_joins",
    "local_writing",
    "merging",
    "joins",
    "planning",
    "million",
    "peers",
    "trino",
    "trino_star",
    "trino_tpcds",
    "hive",
    "hive_selective",
    "hive_tpcds",
    "sync",
    "record_index",
    "surgery",
    "surgery_grid",
    "indexes",
    "file_indexes",
    "clustering",
    "growth",
    "lifetime",
    "resizing",
    "skew",
]
LONG = ["clustering", "growth", "hive_selective", "hive_tpcds", "lifetime", "skew", "surgery_grid", "trino_tpcds"]
"""Run only when they are named."""
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
        cold, warm, files = figures["cold"][name], figures["warm"][name] * 1000, figures["kept"][name]
        lines.append(f"| {name}: `{where}` | {cold:.2f} | {warm:.1f} | {files} |")
    return "\n".join([*lines, "", f"Peak memory of the process: {figures['peak_mib']} MiB."])


def measured(what: str, folder: Path, repeats: int) -> tuple[str, str]:
    """Heading and table of one benchmark."""
    match what:
        case "local_writing":
            return "Writing without Spark", "\n".join(local_writing.table(*local_writing.measure(folder, repeats)))
        case "merging":
            return "Merges", "\n".join(merging.table(merging.measure(folder, repeats)))
        case "joins":
            return "Joins without Spark", "\n".join(joins.table(joins.measure(folder, repeats)))
        case "spark_reading":
            return "Reading by Spark", "\n".join(spark_reading.table(*spark_reading.measure(folder, repeats)))
        case "spark_joins":
            return "Joins by Spark", "\n".join(spark_joins.table(spark_joins.measure(folder, repeats)))
        case "spark_writing":
            return "Writing beside Spark", "\n".join(spark_writing.table(*spark_writing.measure(folder, repeats)))
        case "clustering":
            return "Clustering", "\n".join(clustering.table(clustering.run(folder, repeats)))
        case "resizing":
            return "Resizing", "\n".join(resizing.table(resizing.run(folder, repeats)))
        case "skew":
            return "A skewed load", "\n".join(skew.table(skew.measure(folder)))
        case "growth":
            return "Growth", "\n".join(growth.table(*growth.run(folder, repeats)))
        case "lifetime":
            return f"{lifetime.COMMITS:,} commits", "\n".join(lifetime.table(lifetime.run(folder)))
        case "planning":
            return "Planning", planning_table(planning.run(folder))
        case "million":
            return f"{million.FILES:,} files", million.table(million.run(folder))
        case "peers":
            answers = peers.measure(folder, repeats)
            return f"Planning beside others, {peers.FILES:,} files", "\n".join(peers.table(answers))
        case "trino":
            return f"Trino, {trino.shipments.FILES} files", "\n".join(trino.table(trino.run(folder, repeats)))
        case "trino_star":
            return "Trino, joins with a dimension", "\n".join(trino_star.table(trino_star.run(folder, repeats)))
        case "trino_tpcds":
            heading = f"Trino, TPC-DS at scale factor {trino_tpcds.SCALE}"
            return heading, "\n".join(trino_tpcds.table(trino_tpcds.run(folder, repeats)))
        case "hive_tpcds":
            heading = f"Hive, TPC-DS at scale factor {hive_tpcds.SCALE}"
            return heading, "\n".join(hive_tpcds.table(hive_tpcds.run(folder, repeats)))
        case "hive_selective":
            return "Hive, large files", "\n".join(hive_selective.table(hive_selective.run(folder, repeats)))
        case "hive":
            return f"Hive, {hive.shipments.FILES} files", "\n".join(hive.table(hive.run(folder, repeats)))
        case "sync":
            return f"Sync, {sync.PARTITIONS:,} partitions", "\n".join(sync.table(sync.run(folder, repeats)))
        case "record_index":
            return "Record index", "\n".join(record_index.table(record_index.run(folder, repeats)))
        case "surgery":
            return "Row-group surgery", "\n".join(surgery.table(surgery.run(folder, repeats)))
        case "surgery_grid":
            return "Row-group surgery by width and size", "\n".join(surgery_grid.table(surgery_grid.run(repeats)))
        case "file_indexes":
            return "Indexes of files", file_indexes.report(file_indexes.measure(folder))
        case "indexes":
            return "Indexes", "\n".join(indexes.table(indexes.run(folder, repeats)))
        case _:
            return "Writing", writing_table(writing.measure(folder, repeats))


def with_sections(page: str, machine_line: str, sections: dict[str, str]) -> str:
    """The page with some sections of its results replaced; others stay, and new ones come last.

    Args:
        page: text of `docs/benchmarks.md`.
        machine_line: what the sections were measured on; each says so where it differs from the page's.
        sections: tables by heading.
    """
    before, rest = page.split(START)
    results, after = rest.split(END)
    head, *parts = results.split("\n### ")
    present = {heading: text for heading, _, text in (part.partition("\n") for part in parts)}
    present |= {heading: f"\n{table}\n" for heading, table in sections.items()}
    head = head if len(sections) < len(present) else f"\n\n{machine_line}\n"
    body = "".join(f"\n### {heading}\n{text}" for heading, text in present.items())
    return f"{before}{START}{head}{body}\n{END}{after}".replace("\n\n\n", "\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what",
        nargs="*",
        default=[name for name in WHAT if name not in LONG],
        help=", ".join(WHAT),
    )
    parser.add_argument("--repeats", type=int, default=3, help="counted runs of each job")
    parser.add_argument("--folder", type=Path, help="where tables are kept; a temporary folder otherwise")
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/benchmarks.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        chosen = [name for name in WHAT if name in arguments.what]
        sections = dict(measured(name, folder, arguments.repeats) for name in chosen)
    machine_line = f"Machine: {machine()}."
    print("\n\n".join([machine_line, *(f"### {heading}\n\n{table}" for heading, table in sections.items())]))
    if arguments.write:
        PAGE.write_text(with_sections(PAGE.read_text(), machine_line, sections))


if __name__ == "__main__":
    main()
