"""Rounds of writers at the same time: threads, processes, SIGKILL, a full disk; and the rows that must result."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from table_format.errors import HudiError, NoSpaceError
from table_format.instant import Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.whole import with_archive
from table_writer import write_job
from table_writer.commit.transaction import WriteTransaction
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.services.clean import clean
from tests.support.local_writes import EXECUTORS, LocalTable
from tests.support.reading import current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
PARTITIONS = ("a", "b")
KEYS = [f"k{number}" for number in range(8)]
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.catalog.write.retries": "8",
    # more than a round writes: when their files changed is noted after each round
    "hoodie.keep.min.commits": "13",
    "hoodie.keep.max.commits": "14",
}
KINDS = (
    {"hoodie.bucket.index.num.buckets": "1"},
    {"hoodie.bucket.index.num.buckets": "3"},
    {"hoodie.bucket.index.num.buckets": "1", "hoodie.catalog.bucket.max.file.size": "1"},
    {"hoodie.index.type": "RECORD_INDEX"},
)
WRITES = ("upsert", "upsert", "upsert", "delete", "insert_overwrite", "delete_partition")
Rows = dict[str, int]


def partition_of(key: str) -> str:
    return PARTITIONS[int(key[1:]) % len(PARTITIONS)]


class QuotaStorage(Storage):
    """A disk with room for so many more files; each data file that is deleted makes room for two."""

    room = 0

    def _take(self, path: str) -> None:
        if QuotaStorage.room <= 0:
            raise NoSpaceError(f"{path}: no space left: {os.strerror(errno.ENOSPC)}")
        QuotaStorage.room -= 1


def _limited(name: str) -> Any:
    plain = getattr(Storage, name)

    @functools.wraps(plain)
    def call(self: QuotaStorage, path: str, *args: Any, **kwargs: Any) -> Any:
        self._take(path)
        return plain(self, path, *args, **kwargs)

    return call


def _delete(self: QuotaStorage, path: str, *, missing_ok: bool = True) -> None:
    if path.endswith(".parquet") and self.exists(path):
        QuotaStorage.room += 2
    Storage.delete(self, path, missing_ok=missing_ok)


for _name in ("create", "overwrite", "open_output"):
    setattr(QuotaStorage, _name, _limited(_name))
QuotaStorage.delete = _delete  # type: ignore[method-assign]


@dataclass(frozen=True)
class Task:
    """What one writer does, one after the other.

    Attributes:
        name: unique among all rounds of a table.
        place: of the table.
        options: of its writes.
        writes: operation and rows; rows of partition drops hold one key of the partition.
        room: files that the disk takes; None for any number.
    """

    name: str
    place: str
    options: dict[str, str]
    writes: tuple[tuple[str, Rows], ...]
    room: int | None = None

    @property
    def log(self) -> Path:
        return Path(self.place).with_suffix(".log") / self.name


class _Log:
    """One line an event; what was written before a SIGKILL is there."""

    def __init__(self, task: Task) -> None:
        self._file = os.open(task.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def put(self, **event: Any) -> None:
        os.write(self._file, json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


_CURRENT = threading.local()


class LoggedTransaction(WriteTransaction):
    """Notes the instant of each attempt as soon as it has begun, which is before it can complete."""

    @classmethod
    def begin(cls, *args: Any, **kwargs: Any) -> WriteTransaction:
        transaction = super().begin(*args, **kwargs)
        log = getattr(_CURRENT, "log", None)
        if log is not None:  # not in a write of other tests: this class stays in place of the other one
            log.put(number=_CURRENT.number, attempt=transaction.instant)
        return transaction


def carry_out(task: Task) -> None:
    """Do a writer's work, its writes by the executors in turn, and record the result of each."""
    executors = itertools.cycle(EXECUTORS)
    write_job.WriteTransaction = LoggedTransaction  # type: ignore[misc]
    log = _CURRENT.log = _Log(task)
    kind = Storage if task.room is None else QuotaStorage
    QuotaStorage.room = task.room or 0
    for number, (operation, rows) in enumerate(task.writes):
        _CURRENT.number = number
        log.put(number=number, operation=operation, rows=rows)
        try:
            client = TableClient.open(kind(task.place))
            if operation == "clean":
                clean(client, task.options)
            elif operation == "index":
                bootstrap_index(client, task.options, wait_seconds=1)
            else:
                _write(LocalTable(client, task.options, next(executors)), operation, rows)
            log.put(number=number, ok=True)
        except Exception as error:
            log.put(number=number, error=type(error).__name__, text=str(error), ours=isinstance(error, HudiError))
    _CURRENT.log = None
    log.close()


def _write(table: LocalTable, operation: str, rows: Rows) -> None:
    if operation == "delete_partition":
        table.write(operation, partitions=sorted({partition_of(key) for key in rows}))
        return
    values = [{"id": key, "p": partition_of(key), "v": value} for key, value in rows.items()]
    table.write(operation, pa.Table.from_pylist(values, SCHEMA))


def _run_in_child(tasks: list[Task]) -> None:
    os.fsync = lambda _: None  # type: ignore[assignment]
    threads = [threading.Thread(target=carry_out, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Soak:
    """One table in a life of many rounds.

    Attributes:
        place: of the table.
        dice: decides everything.
        kinds: how often each outcome was met.
    """

    place: Path
    dice: random.Random
    kinds: Counter[str] = field(default_factory=Counter)
    _rounds: int = 0
    _value: int = 0
    _moments: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.options = OPTIONS | self.dice.choice(KINDS)
        self.options["hoodie.clean.commits.retained"] = str(self.dice.choice((1, 2, 10)))
        if self.dice.random() < 0.2 and "hoodie.index.type" not in self.options:
            self.options["hoodie.metadata.enable"] = "false"
        LocalTable.create(str(self.place), SCHEMA, self.options)
        self.place.with_suffix(".log").mkdir()
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload([__name__])

    def round(self) -> None:
        """Some writers at once; then the table must hold what they say."""
        self._rounds += 1
        dice = self.dice
        children = [
            self._processes.Process(
                target=_run_in_child, args=([self._task(f"{n}") for n in range(dice.choice((1, 2)))],)
            )
            for _ in range(dice.choice((1, 1, 2)))
        ]
        threads = [
            threading.Thread(target=carry_out, args=(self._task("t", may_be_full=False),))
            for _ in range(dice.choice((0, 1, 2)))
        ]
        for one in (*children, *threads):
            one.start()
        doomed = [child for child in children if dice.random() < 0.5]
        for child in doomed:
            time.sleep(dice.uniform(0, 0.4))
            child.kill()
        for one in (*children, *threads):
            one.join(timeout=300)
        assert not any(one.is_alive() for one in (*children, *threads)), "a writer hangs"
        self.check()

    def _task(self, name: str, *, may_be_full: bool = True) -> Task:
        writes: list[tuple[str, Rows]] = []
        for _ in range(self.dice.choice((1, 1, 2))):
            kind = self.dice.random()
            if kind < 0.08:
                writes.append(("clean", {}))
                continue
            if kind < 0.12 and "hoodie.index.type" in self.options:
                writes.append(("index", {}))
                continue
            operation = self.dice.choice(WRITES)
            keys = self.dice.sample(KEYS, self.dice.choice((1, 2, 5)))
            self._value += 1
            writes.append((operation, dict.fromkeys(keys, self._value)))
        room = self.dice.randrange(60) if may_be_full and self.dice.random() < 0.25 else None
        self._tasks = getattr(self, "_tasks", 0) + 1
        return Task(f"{self._tasks}-{name}", str(self.place), self.options, tuple(writes), room)

    def check(self) -> None:
        """Compare the table with a dictionary of what the writers say."""
        client = TableClient.open(Storage(str(self.place)))
        timeline = with_archive(client.timeline())
        published = {instant.time: instant for instant in timeline.writes}
        applied: list[tuple[Instant, str, Rows]] = []
        claimed: set[str] = set()
        for path in sorted(self.place.with_suffix(".log").iterdir()):
            for write in _writes(path):
                done = [time for time in write.attempts if time in published]
                assert len(done) <= 1, f"{path}: {write} was done twice: {done}"
                assert not (write.outcome == "ok" and write.attempts and not done), f"{path}: {write} is lost"
                assert not (write.outcome not in ("ok", "") and done), f"{path}: {write} failed, and is in the table"
                claimed.update(done)
                applied += [(published[time], write.operation, write.rows) for time in done]
        assert claimed == published.keys(), f"nobody wrote {published.keys() - claimed}"
        folder = self.place / timeline.folder
        moments = self._moments
        moments |= {name: os.stat(folder / name).st_mtime_ns for name in os.listdir(folder)}
        applied.sort(key=lambda one: (moments[one[0].file_name], one[0].time))
        state: dict[str, tuple[int, int]] = {}
        for instant, operation, rows in applied:
            begun = moments[instant.at(State.REQUESTED).file_name]
            _apply(state, operation, rows, begun, moments[instant.file_name])
        expected = {key: value for key, (value, _) in state.items()}
        stored = current_rows(client).to_pylist()
        assert len({row["id"] for row in stored}) == len(stored)
        assert {row["id"]: row["v"] for row in stored} == expected

    def finish(self) -> None:
        """One more writer, undisturbed; it finds the table in order and leaves it so."""
        task = Task("last", str(self.place), self.options, (("upsert", {"k0": 1_000_000}),))
        carry_out(task)
        self.check()
        client = TableClient.open(Storage(str(self.place)))
        assert [str(instant) for instant in client.timeline().pending] == []
        remains = [
            entry.path
            for folder in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.catalog/writes")
            for entry in client.storage.list(folder, recursive=True)
        ]
        assert remains == []
        whole = with_archive(client.timeline())
        self.kinds["archived"] = len(whole.writes) - len(client.timeline().writes)
        counted = {stat.path for write in whole.writes for stat in whole.commit_metadata(write).stats()}
        data = {entry.path for entry in client.storage.list("", recursive=True) if entry.path.endswith(".parquet")}
        assert data <= counted
        for path in self.place.with_suffix(".log").iterdir():
            for write in _writes(path):
                self.kinds[write.outcome or "killed"] += 1


@dataclass
class _Write:
    operation: str
    rows: Rows
    attempts: list[str] = field(default_factory=list)
    outcome: str = ""


def _writes(path: Path) -> list[_Write]:
    writes: dict[int, _Write] = {}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        number = event["number"]
        if "operation" in event:
            writes[number] = _Write(event["operation"], event["rows"])
        elif "attempt" in event:
            writes[number].attempts.append(event["attempt"])
        elif "ok" in event:
            writes[number].outcome = "ok"
        else:
            assert event["error"] in ALLOWED.get(writes[number].operation, KNOWN), f"{path}: {event}"
            writes[number].outcome = event["error"]
    return list(writes.values())


KNOWN = ("ConflictError", "NoSpaceError")
# a build of the index waits for writes that do not end, or finds that another build has ended
ALLOWED = {"index": (*KNOWN, "TransactionError", "RecordIndexError")}


def _apply(state: dict[str, tuple[int, int]], operation: str, rows: Rows, begun: int, published: int) -> None:
    """Writes take effect when they are published; deletes of keys that are not there when they begin have none.

    So a row that came in between stays: it would have been a conflict had the delete found the key.
    """
    if operation == "delete":
        for key in rows:
            if key in state and state[key][1] <= begun:
                del state[key]
        return
    if operation in ("insert_overwrite", "delete_partition"):
        gone = {partition_of(key) for key in rows}
        for key in [key for key in state if partition_of(key) in gone]:
            del state[key]
    if operation != "delete_partition":
        state.update({key: (value, published) for key, value in rows.items()})
