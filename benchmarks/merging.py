"""MERGE of a hundredth of TPC-H lineitem: beside Apache's SQL on Spark 3.5, and without Spark beside delta-rs.

`python -m benchmarks.merging FOLDER local` measures the latter, `… FOLDER spark NUMBER` one of the former's jobs.
"""

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import hudi_catalog
from benchmarks import lineitem
from benchmarks.local_sides import Side, changed, copied, create, fresh, rows_of, running
from benchmarks.rival import RIVAL, apache_session
from benchmarks.writing import spark_session
from table_writer.execution.local import LocalExecutor

OURS, DELTA, APACHE = "hudi-catalog", "delta-rs", f"Apache Hudi {RIVAL}"
BASE, FIRST = "merge-base", "merge-first"
UPSERT = "update or insert all, by key"
JOIN = "update two columns, one from both rows"
DELETE = "the same, and delete some"
ON = " AND ".join(f"t.{name} = s.{name}" for name in lineitem.KEY)
_UPDATE = "WHEN MATCHED THEN UPDATE SET l_comment = s.l_comment, l_linestatus = concat(t.l_linestatus, 's')"
#: The clauses by job; both Spark sides take them as they are.
CLAUSES = {
    UPSERT: "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    JOIN: _UPDATE,
    DELETE: f"WHEN MATCHED AND s.l_quantity < 3 THEN DELETE {_UPDATE}",
}


@dataclass
class Job:
    """Seconds of each counted run of one job on one side."""

    place: str
    name: str
    side: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.wall)


def by_spark(folder: Path, repeats: int, names: Sequence[str] = tuple(CLAUSES)) -> list[Job]:
    """Both sides in turn, each time on a copy of one table, after one uncounted round on a smaller one."""
    rows = rows_of(lineitem.source(folder / "data"))
    for name, share in ((BASE, rows), (FIRST, rows.slice(0, len(rows) // 20))):
        if not (folder / name).exists():
            create(folder / name, rows.schema, LocalExecutor()).bulk_insert(share)
    changes = lineitem.corrections(folder / "data")
    corrected = pq.read_table(changes)
    jobs = {(name, side): Job("Spark", name, side) for name in names for side in (OURS, APACHE)}
    with spark_session() as spark, apache_session(folder) as apache:
        spark.read.parquet(str(changes)).createOrReplaceTempView("changes")
        apache.sql(f"CREATE TEMPORARY VIEW changes USING parquet OPTIONS (path '{changes}')")

        def ours(path: Path, clauses: str) -> Callable[[], object]:
            text = f"MERGE INTO hudi_catalog.`{path}` t USING changes s ON {ON} {clauses}"
            return lambda: hudi_catalog.sql(spark, text)

        def theirs(path: Path, clauses: str) -> Callable[[], object]:
            name = path.name.replace("-", "_")
            apache.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
            return lambda: apache.sql(f"MERGE INTO {name} t USING changes s ON {ON} {clauses}")

        for attempt in range(repeats + 1):
            paths = []
            for number, ((name, side), job) in enumerate(jobs.items()):
                # Apache's session remembers files by path, so each run has its own folder
                paths.append(copied(folder / (BASE if attempt else FIRST), folder / f"merge-{attempt}-{number}"))
                work = (ours if side == OURS else theirs)(paths[-1], CLAUSES[name])
                started = time.perf_counter()
                work()
                seconds = time.perf_counter() - started
                if attempt:
                    job.wall.append(seconds)
                print(f"{side:18} {name:60} {seconds:6.2f} s{'' if attempt else '  (not counted)'}", flush=True)
            before = rows if attempt else rows.slice(0, len(rows) // 20)
            for path, (name, side) in zip(paths, jobs, strict=True):
                count, right = hudi_catalog.open_table(path).scan().count(), rows_after(name, before, corrected)
                if count != right and side == OURS:
                    raise AssertionError(f"{name}: {count:,} rows are left, not {right:,}")
                if count != right:
                    print(f"{side:18} {name:60} left {count:,} rows, not {right:,}", flush=True)
                shutil.rmtree(path)
    return list(jobs.values())


def rows_after(name: str, before: pa.Table, changes: pa.Table) -> int:
    """How many rows a job leaves."""
    matched = changes.select([*lineitem.KEY, "l_quantity"]).join(
        before.select(lineitem.KEY), lineitem.KEY, join_type="left semi"
    )
    if name == UPSERT:
        return len(before) + len(changes) - len(matched)
    return len(before) - (pc.sum(pc.less(matched["l_quantity"], 3)).as_py() if name == DELETE else 0)


class Ours:
    """`Table.merge` by this process."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._base, self._copy = folder / BASE, folder / "merge-local"
        self._changes = changed(rows, ["l_comment"])
        if not self._base.exists():
            create(self._base, rows.schema, LocalExecutor()).bulk_insert(rows)

    def job(self, name: str, batch: pa.Table) -> tuple[Path, Callable[[], object]]:  # noqa: ARG002 - of the protocol
        merge = hudi_catalog.open_table(copied(self._base, self._copy)).merge(self._changes, lineitem.KEY)
        if name == UPSERT:
            merge.when_matched_update_all().when_not_matched_insert_all()
        else:
            if name == DELETE:
                merge.when_matched_delete("source.l_quantity < 3")
            values = {"l_comment": "source.l_comment", "l_linestatus": "concat(target.l_linestatus, 's')"}
            merge.when_matched_update(values)
        return self._copy, merge.execute


class Delta:
    """delta-rs's merge."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._base, self._copy = folder / "merge-delta-base", folder / "merge-delta"
        self._changes = changed(rows, ["l_comment"])
        if not self._base.exists():
            write_deltalake(str(fresh(self._base)), rows)

    def job(self, name: str, batch: pa.Table) -> tuple[Path, Callable[[], object]]:  # noqa: ARG002 - of the protocol
        table = DeltaTable(str(copied(self._base, self._copy)))
        merge = table.merge(self._changes, ON, source_alias="s", target_alias="t")
        if name == UPSERT:
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
        else:
            if name == DELETE:
                merge = merge.when_matched_delete("s.l_quantity < 3")
            merge = merge.when_matched_update(
                {"l_comment": "s.l_comment", "l_linestatus": "concat(t.l_linestatus, 's')"}
            )
        return self._copy, merge.execute


def locally(folder: Path, repeats: int) -> list[Job]:
    """Both sides in turn, each in a process of its own with the rows in memory, after one uncounted round."""
    lineitem.source(folder / "data")
    kinds: dict[str, type[Side]] = {OURS: Ours, DELTA: Delta}
    jobs = {(name, side): Job("one process", name, side) for name in CLAUSES for side in kinds}
    with running(Ours, folder) as ours, running(Delta, folder) as delta:
        for attempt in range(repeats + 1):
            for (name, side), job in jobs.items():
                wall, cpu, _ = (ours if side == OURS else delta)(name)
                print(f"{side:18} {name:60} {wall:6.2f} s, {cpu:5.2f} of processors", flush=True)
                if attempt:
                    job.wall.append(wall)
                    job.cpu.append(cpu)
    return list(jobs.values())


def measure(folder: Path, repeats: int) -> list[Job]:
    """Both halves."""
    return [*by_spark(folder, min(repeats, 2)), *locally(folder, repeats)]


def table(jobs: list[Job]) -> Iterator[str]:
    """The rows of a Markdown table."""
    yield "| by | merge of 1 % of 2,000,296 rows | side | runs (s) | median (s) | times ours | processors (s) |"
    yield "|---|---|---|---|---|---|---|"
    for job in jobs:
        own = next(one for one in jobs if (one.place, one.name, one.side) == (job.place, job.name, OURS))
        runs = ", ".join(f"{seconds:.2f}" for seconds in job.wall)
        cpu = f"{statistics.median(job.cpu):.2f}" if job.cpu else "-"
        ratio = f"{job.median / own.median:.2f}"
        yield f"| {job.place} | {job.name} | {job.side} | {runs} | {job.median:.2f} | {ratio} | {cpu} |"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    chosen = [[*CLAUSES][int(number)] for number in sys.argv[3:]]
    print("\n".join(table(by_spark(place, 1, chosen) if sys.argv[2] == "spark" else locally(place, 5))))
