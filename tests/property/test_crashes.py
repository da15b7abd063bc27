"""A writer dies, or loses its storage for a moment, at the changes it makes to files: by the commit protocol alone.

Whatever the step: a fresh reader sees all of the write or nothing of it, and the next writer goes on and leaves nothing
behind.
"""

import contextlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from table_format.errors import TableExistsError, TableNotFoundError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.restore import restore_table, rollback_write
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.services.clean import clean
from tests.property.profile import STRIDE
from tests.support import toy_table
from tests.support.crashed_jobs import FAULTS, publishes
from tests.support.faults import Faults, FaultyStorage, Frozen, InjectedError

CLEANING = {"hoodie.cleaner.commits.retained": "1"}
COMPACTING = {**CLEANING, "hoodie.metadata.compact.max.delta.commits": "3"}
SEVERAL_WRITERS = {
    **COMPACTING,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.client.num_retries": "0",
}
#: the dead writer's heartbeat is as young as the test; this makes it old
IMPATIENT = {
    **SEVERAL_WRITERS,
    "hoodie.client.heartbeat.interval_in_ms": "1",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}
FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}, ("p=b", 0): {"k3": 3}}
SECOND = {("p=a", 0): {"k1": 10, "k4": 4}}
THIRD = {("p=a", 0): {"k1": 100}, ("p=c", 1): {"k5": 5}}
NEXT = {("p=b", 1): {"next": 99}, ("p=a", 0): {"k1": 1000}}


@dataclass(frozen=True)
class Scenario:
    """What stands before, and what is done to it.

    Attributes:
        name: of the scenario.
        prepare: makes the table.
        act: what meets the fault.
        options: of the next writer.
        repeats: whether it publishes by the code of another scenario, or has nobody to catch an error; each of its
            changes meets one kind of fault then, instead of all.
    """

    name: str
    prepare: Callable[[Storage], object]
    act: Callable[[Storage], object]
    options: dict[str, str]
    repeats: bool = False


def _two_commits(storage: Storage) -> None:
    client = toy_table.make(storage)
    toy_table.upsert(client, FIRST, CLEANING)
    toy_table.upsert(client, SECOND, CLEANING)


def _dead(step: str) -> Callable[[Storage], None]:
    """A table whose last writer died before its first change of a path that holds `step`."""

    def prepare(storage: Storage) -> None:
        _two_commits(storage)
        faulty = FaultyStorage(storage.uri)
        FaultyStorage.faults = Faults()
        with contextlib.suppress(Frozen):
            tx = toy_table.begin(TableClient.open(faulty), COMPACTING)
            tx.mark_inflight()
            stats, columns = toy_table.write_files(tx, THIRD)
            before = FaultyStorage.faults.count
            if step == "data":
                FaultyStorage.faults = Faults(at=1, how="freeze")
            elif step == "metadata":
                FaultyStorage.faults = Faults(at=7, how="freeze")
            else:
                FaultyStorage.faults = Faults(at=1000, how="freeze")
                create = FaultyStorage.create

                def stop_at_publication(self: Storage, path: str, data: bytes) -> None:
                    if path.endswith(f"{tx.instant}.commit"):
                        raise Frozen
                    create(self, path, data)

                FaultyStorage.create = stop_at_publication  # type: ignore[method-assign]
                try:
                    _commit_frozen(tx, stats, columns)
                finally:
                    FaultyStorage.create = create  # type: ignore[method-assign]
            assert before
            _commit_frozen(tx, stats, columns)
        FaultyStorage.faults = Faults()

    return prepare


def _commit_frozen(tx, stats, columns) -> None:
    tx._abort_because = lambda error: None  # the process has died
    tx.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns)


def _open(storage: Storage) -> TableClient:
    return TableClient.open(storage)


def _uncleaned(storage: Storage) -> None:
    client = toy_table.make(storage)
    keep = {"hoodie.clean.automatic": "false"}
    toy_table.upsert(client, FIRST, keep)
    toy_table.upsert(client, SECOND, keep)
    toy_table.overwrite(client, {("p=b", 0): {"k3": 33}}, keep)
    toy_table.upsert(client, THIRD, keep)
    toy_table.upsert(client, {("p=c", 1): {"k5": 55}}, keep)


def _restored(storage: Storage) -> None:
    client = _open(storage)
    restore_table(client, client.timeline().writes[0].time, COMPACTING)


def _newest_rolled_back(storage: Storage) -> None:
    client = _open(storage)
    rollback_write(client, client.timeline().writes[-1].time, COMPACTING)


def _dead_while_restoring(storage: Storage) -> None:
    """A table whose restore died after it took effect, and before it removed any instant."""
    _uncleaned(storage)
    faulty = FaultyStorage(storage.uri)
    create = FaultyStorage.create

    def stop_in_effect(self: Storage, path: str, data: bytes) -> None:
        create(self, path, data)
        if path.endswith(".restore.inflight"):
            raise Frozen

    FaultyStorage.create = stop_in_effect  # type: ignore[method-assign]
    try:
        with contextlib.suppress(Frozen):
            _restored(faulty)
    finally:
        FaultyStorage.create = create  # type: ignore[method-assign]


def _retried(changes) -> Callable[[Storage], object]:
    return lambda storage: toy_table.upsert(_open(storage), changes, COMPACTING, retried=True)


SCENARIOS = [
    Scenario("create", lambda storage: None, toy_table.make, CLEANING),
    Scenario("first commit", toy_table.make, _retried(FIRST), COMPACTING, repeats=True),
    Scenario("upsert, clean, compact", _two_commits, _retried(THIRD), COMPACTING),
    Scenario(
        "overwrite",
        _two_commits,
        lambda s: toy_table.overwrite(_open(s), {("p=a", 1): {"k6": 6}}, CLEANING),
        CLEANING,
        repeats=True,
    ),
    Scenario("empty commit", _two_commits, lambda s: toy_table.upsert(_open(s), {}, CLEANING), CLEANING, repeats=True),
    Scenario("clean", _uncleaned, lambda s: clean(_open(s), CLEANING), COMPACTING),
    Scenario("restore", _uncleaned, _restored, COMPACTING),
    Scenario("rollback of a commit", _uncleaned, _newest_rolled_back, COMPACTING, repeats=True),
    *(
        Scenario(name, prepare, lambda s: rollback_failed_writes(_open(s)), COMPACTING, repeats=True)
        for name, prepare in (
            ("end of a restore", _dead_while_restoring),
            *((f"rollback of a death at {step}", _dead(step)) for step in ("data", "metadata", "publication")),
        )
    ),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # the machine does not die in these tests
    FaultyStorage.faults = Faults()
    yield tmp_path
    FaultyStorage.faults = Faults()


def _chosen(steps: list[str], turn: int, *, repeats: bool = False) -> list[int]:
    """The numbers of the changes that publish, and of a share of the others: each is in one of `STRIDE` turns."""
    return [at for at, step in enumerate(steps, 1) if (publishes(step) and not repeats) or at % STRIDE == turn % STRIDE]


@pytest.mark.parametrize("fault", FAULTS, ids="-".join)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_fault_at_any_change_leaves_all_or_nothing(scenario: Scenario, fault: tuple[str, str], place: Path) -> None:
    how, when = fault
    template = place / "template"
    scenario.prepare(Storage(str(template)))
    before = _rows(template)
    whole = _copy(template, place / "whole")
    FaultyStorage.faults = Faults()
    scenario.act(FaultyStorage(str(whole)))
    steps = FaultyStorage.faults.log
    after = _rows(whole)
    for at in _chosen(steps, FAULTS.index(fault), repeats=scenario.repeats):
        spot = _copy(template, place / f"{at}")
        try:
            FaultyStorage.faults = Faults(at, when, how)
            raised = _act(scenario, spot)
            FaultyStorage.faults = Faults()
            rows = _rows(spot)
            assert rows in (before, after)
            if how == "error" and scenario.name != "create" and before != after:
                assert rows == (before if raised else after), "an error must mean that nothing was written"
            _go_on(scenario, spot, rows)
        except BaseException as error:
            error.add_note(f"{scenario.name}: {how} {when} change {at}: {steps[at - 1]}")
            raise
        shutil.rmtree(spot)


def _write_and_die(spot: str, at: int) -> None:
    os.fsync = lambda fd: None  # type: ignore[assignment]
    FaultyStorage.faults = Faults(at, "before", "kill")
    toy_table.upsert(_open(FaultyStorage(spot)), THIRD, SEVERAL_WRITERS, retried=True)
    if at == 0:
        Path(spot, "steps").write_text("\n".join(FaultyStorage.faults.log))


def test_sigkill_at_any_change_among_several_writers(place: Path) -> None:
    """A process really dies, with the lock in its hand and its heartbeat still young."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])

    def run(spot: Path, at: int) -> int | None:
        child = processes.Process(target=_write_and_die, args=(str(spot), at))
        child.start()
        child.join()
        return child.exitcode

    template = place / "template"
    _two_commits(Storage(str(template)))
    before = _rows(template)
    whole = _copy(template, place / "whole")
    assert run(whole, 0) == 0
    steps = (whole / "steps").read_text().splitlines()
    after = _rows(whole)
    assert len(steps) > 30
    dying = Scenario("SIGKILL", _two_commits, toy_table.make, IMPATIENT)
    locks = 0
    for at in _chosen(steps, 0):
        spot = _copy(template, place / f"{at}")
        assert run(spot, at) == -signal.SIGKILL
        locks += (spot / ".hoodie/lock").exists()
        rows = _rows(spot)
        assert rows in (before, after)
        try:
            _go_on(dying, spot, rows)
        except BaseException as error:
            error.add_note(f"killed before change {at}: {steps[at - 1]}")
            raise
        shutil.rmtree(spot)
    assert locks > 6, "many of the changes happen under the lock"


def _act(scenario: Scenario, spot: Path) -> bool:
    try:
        scenario.act(FaultyStorage(str(spot)))
    except (InjectedError, Frozen):
        return True
    return False


def _go_on(scenario: Scenario, spot: Path, rows: toy_table.Rows | None) -> None:
    """The next writer, undisturbed."""
    storage = Storage(str(spot))
    if rows is None:
        toy_table.make(storage)
    elif scenario.name == "create":
        with pytest.raises(TableExistsError):
            toy_table.make(storage)
    toy_table.upsert(_open(storage), NEXT, scenario.options)
    assert _rows(spot) == (rows or {}) | {("p=b", "next"): 99, ("p=a", "k1"): 1000}
    toy_table.assert_tidy(str(spot))
    assert _open(storage).config.metadata_partitions == ("column_stats", "files")


def _rows(spot: Path) -> toy_table.Rows | None:
    try:
        return toy_table.rows_of(str(spot))
    except TableNotFoundError:
        return None


def _copy(template: Path, spot: Path) -> Path:
    if template.exists():
        shutil.copytree(template, spot)
    return spot
