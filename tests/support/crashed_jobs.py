"""Whole write jobs whose writer dies, or loses its storage, at one of its changes to files.

A fresh reader must see all of the write or nothing of it, an error must mean nothing, and the next writer, with another
executor, goes on and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.execution.executor import Executor
from tests.support.faults import Faults, FaultyStorage, Frozen, InjectedError
from tests.support.indexed_rows import COMMIT_TIME, INDEX, OPTIONS, SCHEMA, Rows, Step, apply, by_our_index, in_files
from tests.support.local_writes import LocalTable
from tests.support.toy_table import assert_tidy, rows_of

#: a fault's kind, and whether it strikes before or after the change
FAULTS = [("freeze", "before"), ("error", "before"), ("error", "after")]
KEYS = ["a", "b", "k:1", "x,y", "é", "日本", "𝄞", "AaAa", "BBBB", "AaBB"]
FIRST: Rows = {key: (("p", "q=1", "s")[n % 3], n) for n, key in enumerate(KEYS[:8])}
_MAINTAINED = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.datasource.write.payload.class": COMMIT_TIME,
    "hoodie.catalog.write.surgery": "always",
}
_BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", **_MAINTAINED}
_INDEXED = {**INDEX, "hoodie.copyonwrite.insert.split.size": "3", **_MAINTAINED}


@dataclass(frozen=True)
class Job:
    """A write, and the table that it changes.

    Attributes:
        name: of the job.
        options: of the table and its writes.
        history: writes before it.
        change: the write that meets the fault.
    """

    name: str
    options: Mapping[str, str]
    history: tuple[Step, ...]
    change: Step

    def write(self, storage: Storage, step: Step, executor: str | Executor) -> None:
        table = LocalTable(TableClient.open(storage), step.all_options(self.options), executor)
        rows = None if step.operation == "delete_partition" else step.batch
        table.write(step.operation, rows, partitions=step.partitions)


def _again(value: int, *keys: str) -> Rows:
    """New values of records, in their partitions."""
    return {key: (FIRST[key][0], value) for key in keys}


_INSERT = Step("upsert", FIRST, {})
_UPDATE = Step("upsert", _again(10, "a", "b"), {})
_DELETE = Step("delete", _again(0, "a", "b"), {})
JOBS = [
    Job(
        "upsert by buckets",
        _BUCKETS,
        (_INSERT, _UPDATE),
        Step("upsert", _again(20, "a", "k:1") | {"new": ("t", 20)}, {}),
    ),
    Job("overwrite", _BUCKETS, (_INSERT, _UPDATE), Step("insert_overwrite", _again(20, "a", "x,y"), {})),
    Job("delete partition", _BUCKETS, (_INSERT, _UPDATE), Step("delete_partition", {}, {}, ("p",))),
    # updates, inserts, moves and brings back
    Job(
        "upsert by record index",
        _INDEXED,
        (_INSERT, _DELETE),
        Step(
            "upsert",
            {key: ("p", 20 + n) for n, key in enumerate(KEYS)},
            {"hoodie.record.index.update.partition.path": "true"},
        ),
    ),
]


def publishes(step: str) -> bool:
    """Whether a change, as `Faults.log` has it, is of a timeline: what a reader or another writer goes by."""
    folder, _, name = step.split(" ", 1)[1].rpartition("/")
    return folder in (".hoodie", ".hoodie/metadata/.hoodie") and not name.startswith("lock")


@dataclass
class CrashSite:
    """A table as it is before a job, of which each attempt gets a copy.

    Args:
        job: the job.
        folder: an empty folder.
    """

    job: Job
    folder: Path
    before: Rows = field(default_factory=dict)

    def __post_init__(self) -> None:
        LocalTable.create(str(self._template), SCHEMA, {**OPTIONS, **self.job.options})
        for step in self.job.history:
            self.job.write(Storage(str(self._template)), step, "threads")
            self.before = apply(self.before, step, event_time=False)
        self.after = apply(self.before, self.job.change, event_time=False)
        self._check(self._template, self.before)

    @property
    def _template(self) -> Path:
        return self.folder / "template"

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Path]:
        spot = Path(shutil.copytree(self._template, self.folder / "copy"))
        try:
            yield spot
        finally:
            FaultyStorage.faults = Faults()
            shutil.rmtree(spot)

    def changes(self, executor: str | Executor) -> list[str]:
        """The changes of an undisturbed run, those of other processes left out."""
        with self._copy() as spot:
            FaultyStorage.faults = Faults()
            self.job.write(FaultyStorage(str(spot)), self.job.change, executor)
            steps = FaultyStorage.faults.log
            self._check(spot, self.after)
        return steps

    def fail(self, at: int, fault: tuple[str, str], executor: str | Executor, next_executor: str = "threads") -> None:
        """Let the job meet a fault at a change, and another writer go on.

        Args:
            at: number of the change, from 1 on.
            fault: one of `FAULTS`.
            executor: runs the job.
            next_executor: runs the next writer's.
        """
        how, when = fault
        with self._copy() as spot:
            commits = _commits(spot)
            faults = FaultyStorage.faults = Faults(at, when, how)
            raised = False
            try:
                self.job.write(FaultyStorage(str(spot)), self.job.change, executor)
            except (InjectedError, Frozen):
                raised = True
            FaultyStorage.faults = Faults()
            try:
                assert len(faults.log) >= at, "the job ended before the fault"
                assert raised or how == "error", "the writer lived on"
                committed = _commits(spot) > commits
                assert how == "freeze" or committed is not raised, "an error must mean that nothing was written"
                rows = self.after if committed else self.before
                self._check(spot, rows)
                partition = rows["é"][0]
                later = Step("upsert", {"é": (partition, 50), "later": ("q=1", 50)}, {})
                self.job.write(Storage(str(spot)), later, next_executor)
                self._check(spot, apply(rows, later, event_time=False))
                assert_tidy(str(spot))
            except BaseException as error:
                error.add_note(f"{self.job.name}: {how} {when} change {at}: {faults.log[at - 1 : at]}")
                raise

    def _check(self, spot: Path, rows: Rows) -> None:
        """Files, metadata table and record index hold the rows, and nothing else."""
        stored, places = in_files(spot)
        assert stored == rows
        assert rows_of(str(spot)) == {(partition, key): value for key, (partition, value) in rows.items()}
        if self.job.options is _INDEXED:
            assert by_our_index(spot, [*KEYS, "later", "never"]) == places


def _commits(spot: Path) -> int:
    return len(TableClient.open(Storage(str(spot))).timeline().writes)
