"""Writers of ours that die, live or clean beside Apache Hudi: each cleans up after the other, and no row is lost."""

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_writer.executor import SparkExecutor
from table_format.errors import ConflictError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.execution.executor import Executor
from table_writer.services.clean import clean
from tests.support.apache_hudi_client import VERSIONS, ApacheHudi
from tests.support.faults import Faults, FaultyStorage, Frozen, overtaken
from tests.support.indexed_rows import COMMIT_TIME, SCHEMA, Rows, Step, in_files
from tests.support.local_writes import LocalTable
from tests.support.toy_table import assert_tidy

pytestmark = [pytest.mark.engine]
TABLE = {
    "hoodie.table.name": "crashes",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.payload.class": COMMIT_TIME,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.clean.automatic": "false",
}
OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
CLEANING = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
FIRST = {f"k{n}": ("ab"[n % 2], n) for n in range(40)}
SECOND = {f"k{n}": ("ab"[n % 2], 100 + n) for n in range(0, 40, 3)} | {"new": ("c", 1)}
THIRD = {f"k{n}": ("ab"[n % 2], 200 + n) for n in range(0, 40, 5)} | {"newer": ("c", 2)}


@pytest.fixture
def executor_of(request: pytest.FixtureRequest) -> Callable[[str], str | Executor]:
    """An executor by name: `spark` is that of a real session, the others are of `EXECUTORS`."""
    return lambda name: SparkExecutor(request.getfixturevalue("spark")) if name == "spark" else name


def upsert(storage: Storage, rows: Rows, options: Mapping[str, str] = {}, executor: str | Executor = "threads") -> None:
    LocalTable(TableClient.open(storage), {**TABLE, **options}, executor).write("upsert", batch(rows))


def ours(path: Path) -> Rows:
    return in_files(path)[0]


def theirs(apache: ApacheHudi, path: Path) -> Rows:
    table = apache.read(path)
    rows = {row["id"]: (row["p"], row["v"]) for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


def batch(rows: Rows) -> pa.Table:
    return Step("upsert", rows, {}).batch


def assert_valid(apache: ApacheHudi, path: Path) -> None:
    for row in apache.validate_files(path):
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row
        assert row["fs_size"] == row["metadata_size"], row


def stray_files(path: Path) -> set[str]:
    client = TableClient.open(Storage(str(path)))
    timeline = client.timeline()
    counted = {s.path for i in timeline.writes for s in timeline.commit_metadata(i).stats()}
    return {e.path for e in client.storage.list("", recursive=True) if e.path.endswith(".parquet")} - counted


def make(path: Path) -> Storage:
    table = LocalTable.create(str(path), SCHEMA, TABLE)
    table.write("upsert", batch(FIRST))
    return table.client.storage


def changes_of(path: Path, act: Callable[[Storage], Any]) -> list[str]:
    """The changes to files that a writer makes, done to a copy."""
    copy = Path(shutil.copytree(path, path.with_name(f"{path.name}-copy")))
    faults = FaultyStorage.faults = Faults()
    act(FaultyStorage(str(copy)))
    shutil.rmtree(copy)
    return faults.log


def die(path: Path, act: Callable[[Storage], Any], at: int) -> str:
    """Let a writer of ours die before its n-th change; 0 counts from the end."""
    if at <= 0:
        at += len(changes_of(path, act))
    FaultyStorage.faults = Faults(at, "before", "freeze")
    with contextlib.suppress(Frozen):
        act(FaultyStorage(str(path)))
    step = FaultyStorage.faults.log[at - 1]
    FaultyStorage.faults = Faults()
    return step


def publication(path: Path, act: Callable[[Storage], Any], suffix: str) -> int:
    """The number of the change that publishes."""
    return next(
        n for n, s in enumerate(changes_of(path, act), 1) if s.endswith(suffix) and s.startswith("create .hoodie/2")
    )


def die_at_publication(path: Path) -> None:
    """A writer dies with everything written but the commit."""

    def change(storage: Storage) -> None:
        upsert(storage, SECOND, executor="files")

    die(path, change, publication(path, change, ".commit"))


def goes_on(apache: ApacheHudi, path: Path) -> None:
    """Apache does not see what the dead writer left, and clears it up with its next write; then we write again."""
    assert ours(path) == theirs(apache, path) == FIRST
    apache.write(path, batch(THIRD), TABLE)
    assert ours(path) == theirs(apache, path) == FIRST | THIRD
    assert not stray_files(path)
    assert_valid(apache, path)
    upsert(Storage(str(path)), SECOND)
    assert not TableClient.open(Storage(str(path))).timeline().pending
    assert ours(path) == theirs(apache, path) == FIRST | THIRD | SECOND
    assert_valid(apache, path)


@pytest.mark.parametrize(("executor", "before_publication"), [("spark", 0), ("files", 2), ("threads", 9)])
def test_apache_clears_up_after_our_dead_writer(
    apache: ApacheHudi,
    executor_of: Callable[[str], str | Executor],
    tmp_path: Path,
    executor: str,
    before_publication: int,
) -> None:
    path = tmp_path / "t"
    make(path)

    def change(storage: Storage) -> None:
        upsert(storage, SECOND, executor=executor_of(executor))

    die(path, change, publication(path, change, ".commit") - before_publication)
    assert TableClient.open(Storage(str(path))).timeline().pending
    goes_on(apache, path)


def test_apache_goes_on_after_our_rollback_and_our_clean(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    storage = make(path)
    die_at_publication(path)
    assert rollback_failed_writes(TableClient.open(storage))
    assert_tidy(str(path))
    assert ours(path) == theirs(apache, path) == FIRST
    assert_valid(apache, path)
    upsert(storage, SECOND)
    upsert(storage, THIRD)
    assert clean(TableClient.open(storage), CLEANING).files
    assert_tidy(str(path))
    assert ours(path) == theirs(apache, path) == FIRST | SECOND | THIRD
    assert_valid(apache, path)
    apache.write(path, batch(FIRST), TABLE | CLEANING)
    assert ours(path) == theirs(apache, path) == FIRST | {"new": ("c", 1), "newer": ("c", 2)}
    assert_valid(apache, path)
    upsert(storage, SECOND, CLEANING)
    assert ours(path) == theirs(apache, path)
    assert_valid(apache, path)


@pytest.mark.parametrize("from_the_end", [0, -3, -6])
def test_apache_finishes_our_rollback(apache: ApacheHudi, tmp_path: Path, from_the_end: int) -> None:
    path = tmp_path / "t"
    make(path)
    die_at_publication(path)
    die(path, lambda s: rollback_failed_writes(TableClient.open(s)), from_the_end)
    goes_on(apache, path)


def test_apache_finishes_our_clean(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    storage = make(path)
    upsert(storage, SECOND)
    upsert(storage, THIRD)
    die(path, lambda s: clean(TableClient.open(s), CLEANING), 4)
    assert [i.action for i in TableClient.open(storage).timeline().pending] == ["clean"]
    assert theirs(apache, path) == FIRST | SECOND | THIRD
    apache.write(path, batch(FIRST), TABLE | CLEANING)
    assert not TableClient.open(storage).timeline().pending
    assert ours(path) == theirs(apache, path) == FIRST | {"new": ("c", 1), "newer": ("c", 2)}
    assert_valid(apache, path)


@pytest.mark.in_turns(2)
def test_apache_and_a_live_writer_of_ours(
    apache: ApacheHudi,
    executor_of: Callable[[str], str | Executor],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Both under optimistic concurrency control, in different partitions; then in the same one."""
    path = tmp_path / "t"
    executor = executor_of("spark" if apache.version == VERSIONS[0] else "threads")
    storage = make(path)
    overtaken(monkeypatch, lambda: apache.write(path, batch({"theirs": ("y", 2)}), TABLE | OCC))
    upsert(storage, {"ours": ("m", 1)}, OCC, executor)
    both = FIRST | {"theirs": ("y", 2), "ours": ("m", 1)}
    assert ours(path) == theirs(apache, path) == both
    assert_tidy(str(path))
    overtaken(monkeypatch, lambda: apache.write(path, batch({"ours": ("m", 4)}), TABLE | OCC))
    with pytest.raises(ConflictError, match="changed the same file groups"):
        upsert(storage, {"ours": ("m", 3)}, OCC | {"hoodie.catalog.write.retries": "0"}, executor)
    assert ours(path) == theirs(apache, path) == both | {"ours": ("m", 4)}
    assert_tidy(str(path))
    assert_valid(apache, path)
