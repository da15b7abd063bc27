"""A full disk: one clear error, nothing left of the write, and a table that can still be written."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from table_format.errors import NoSpaceError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.rollback import free_space, rollback_failed_writes, surely_dead_writes
from table_writer.commit.transaction import WriteTransaction
from table_writer.timeline import heartbeat
from tests.support import toy_table
from tests.support.full_disk import QuotaStorage, limited_to, small_file_system
from tests.support.toy_table import assert_tidy, rows_of, upsert

FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}}
LARGE = {(part, 0): {f"{part}{n}": n * n * 7919 for n in range(6000)} for part in ("p=a", "p=b")}
OPTIONS = {"hoodie.clean.commits.retained": "1", "hoodie.metadata.compact.max.delta.commits": "3"}
DEATH = """
import os, sys
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.unit.table_writer.commit import test_full_disk
from tests.support import toy_table
tx = toy_table.begin(TableClient.open(Storage(sys.argv[1])))
tx.mark_inflight()
toy_table.write_files(tx, test_full_disk.LARGE)
os._exit(0)
"""


def data_files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*.parquet")}


def make(place: Path) -> QuotaStorage:
    storage = QuotaStorage(str(place))
    client = toy_table.make(storage)
    upsert(client, FIRST, OPTIONS)
    upsert(client, {("p=a", 0): {"k1": 10}}, OPTIONS)
    return storage


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_step(tmp_path: Path) -> None:
    template = make(tmp_path / "template")
    before, files = rows_of(template.uri), data_files(tmp_path / "template")
    full = template.used()
    refused = 0
    for more in itertools.count(0, 5):
        place = Path(shutil.copytree(tmp_path / "template", tmp_path / f"{more}"))
        storage = QuotaStorage(str(place))
        error = attempt(storage, full + more)
        if error is None:
            break
        refused += 1
        assert "no space left" in str(error)
        assert rows_of(storage.uri) == before
        assert data_files(place) == files, f"{more} pages: the failed write left files"
        with limited_to(full + 200):
            upsert(TableClient.open(storage), {("p=a", 1): {"k2": 20}}, OPTIONS)
        assert rows_of(storage.uri)["p=a", "k2"] == 20
        assert_tidy(storage.uri)
        shutil.rmtree(place)
    assert refused > 10


def attempt(storage: Storage, pages: int) -> NoSpaceError | None:
    try:
        with limited_to(pages):
            upsert(TableClient.open(storage), LARGE, OPTIONS)
    except NoSpaceError as error:
        return error
    return None


@pytest.mark.slow
def test_files_of_a_dead_writer_make_room_for_its_rollback(tmp_path: Path) -> None:
    """Without a page to spare: not even the lock's file fits before they are gone."""
    storage = make(tmp_path / "t")
    before = rows_of(storage.uri)
    subprocess.run([sys.executable, "-c", DEATH, storage.uri], check=True)
    with limited_to(storage.used()):
        upsert(TableClient.open(storage), {("p=a", 1): {"k2": 20}}, OPTIONS)
    assert rows_of(storage.uri) == before | {("p=a", "k2"): 20}
    assert_tidy(storage.uri)


def test_a_write_that_completes_just_before_its_writer_dies_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was pending when the timeline was loaded, and its writer is dead when that is looked up."""
    storage = make(tmp_path / "t")
    client = TableClient.open(storage)
    before = rows_of(storage.uri)
    write = toy_table.begin(client)
    write.mark_inflight()
    stats, columns = toy_table.write_files(write, {("p=a", 1): {"k2": 20}})

    def complete_and_die(_: Storage, instant: str) -> bool:
        assert instant == write.instant
        write.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns)
        return True

    monkeypatch.setattr(heartbeat, "is_known_dead", complete_and_die)
    monkeypatch.setattr(WriteTransaction, "_tidy", lambda _: None)  # its markers are left
    free_space(client, surely_dead_writes(client))
    assert rows_of(storage.uri) == before | {("p=a", "k2"): 20}


@pytest.mark.slow
def test_a_rollback_by_hand_frees_space_before_it_plans(tmp_path: Path) -> None:
    storage = make(tmp_path / "t")
    subprocess.run([sys.executable, "-c", DEATH, storage.uri], check=True)
    with limited_to(storage.used() + 1):  # the lock's
        assert len(rollback_failed_writes(TableClient.open(storage))) == 1
    assert_tidy(storage.uri)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_real_file_system_that_is_full(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "1m") as folder:
        if folder is None:
            pytest.skip("no file system can be mounted here; the other tests have a quota instead")
        place = folder / "t"
        client = toy_table.make(Storage(str(place)))
        upsert(client, FIRST, OPTIONS)
        files = data_files(place)
        large = {("p=a", bucket): {f"{bucket}-{n:012}": n * 7919 for n in range(60_000)} for bucket in (0, 1)}
        for _ in range(3):
            with pytest.raises(NoSpaceError, match=r"parquet: no space left"):
                upsert(client, large, OPTIONS)
            assert data_files(place) == files
        (folder / "ballast").write_bytes(b"x" * 100_000)
        with pytest.raises(OSError, match="No space left"):
            (folder / "more").write_bytes(b"x" * 2_000_000)
        with pytest.raises(NoSpaceError, match="no space left"):
            upsert(client, {("p=a", 0): {"k1": 3}}, OPTIONS)
        assert rows_of(str(place)) == {("p=a", "k1"): 1, ("p=a", "k2"): 2}
        (folder / "more").unlink()
        upsert(client, {("p=a", 0): {"k1": 4}}, OPTIONS)
        assert rows_of(str(place)) == {("p=a", "k1"): 4, ("p=a", "k2"): 2}
        assert_tidy(str(place))
