"""Folders and files that a service has no rights to, or that are of another kind."""

import errno
import io
import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.catalog import Catalog
from hudi_catalog.trino.serve import TrinoSettings, running_trino
from table_format.errors import StorageError, TableNotFoundError, UnusablePathError
from table_format.storage import Storage
from tests.support.hive_client import Asking, RefusedError
from tests.support.served_folders import T, keys


@pytest.fixture
def warehouse(built: Path, tmp_path: Path) -> Path:
    """The table `trips`."""
    shutil.copytree(built, tmp_path / "lake/trips")
    return tmp_path / "lake"


def denied(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse the listing of a folder, also where the tests' user may list everything."""
    scandir = os.scandir

    def scan(path: Any = ".") -> Any:
        if os.path.normpath(path) == str(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)


def test_a_warehouse_without_rights_is_not_ready(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_trino(TrinoSettings(str(warehouse))) as serving:
        denied(monkeypatch, warehouse)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{serving.http_port}/ready", timeout=10)
        with refused.value as answer:
            assert answer.code == 503
            problem = json.loads(answer.read())["checks"]["warehouse"]
        assert problem.startswith(f"{warehouse}: [Errno 13] Permission denied")
    with pytest.raises(UnusablePathError, match="Permission denied"), running_trino(TrinoSettings(str(warehouse))):
        pass


def test_a_warehouse_that_cannot_be_listed_is_named(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied(monkeypatch, warehouse)
    with pytest.raises(UnusablePathError, match=f"^{warehouse}: .*Permission denied"):
        Catalog(str(warehouse)).tables()


def test_a_warehouse_that_is_a_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a")
    with pytest.raises(TableNotFoundError, match=r"rows.csv is a file, and not a folder with tables"):
        Catalog(str(tmp_path / "rows.csv")).tables()


def properties_are_a_folder(table: Path) -> None:
    (table / ".hoodie/hoodie.properties").unlink()
    (table / ".hoodie/hoodie.properties").mkdir()


def a_link_leads_outside(table: Path) -> None:
    shutil.move(table, table.parents[1] / "outside")
    table.symlink_to(table.parents[1] / "outside")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (properties_are_a_folder, "properties: a folder is where a regular file belongs"),
        (a_link_leads_outside, "a symbolic link leads to "),
    ],
)
def test_a_table_that_stays_unreadable_is_not_asked_for_again(
    warehouse: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(warehouse / "trips")
    with running_trino(TrinoSettings(str(warehouse))) as serving:
        with pytest.raises(T.TrinoThriftServiceException, match=message) as refused:
            keys(serving.port, "trips")
        assert not refused.value.retryable


@pytest.mark.parametrize(
    ("number", "retryable"),
    [(errno.EACCES, False), (errno.EPERM, False), (errno.EIO, True), (errno.ESTALE, True), (errno.ETIMEDOUT, True)],
)
def test_only_what_may_pass_is_asked_for_again(
    warehouse: Path, number: int, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Storage, path: str) -> io.BytesIO:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(Storage, "_opened", fail)
    with pytest.raises(RefusedError, match=os.strerror(number)) as refused:
        Asking(warehouse).pin()
    assert refused.value.retryable == retryable


def test_which_paths_are_refused_for_good(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "fifo")
    for path in ("file/below", "folder", "circle", "fifo", "nul\0", "long" * 100):
        with pytest.raises(UnusablePathError):
            storage.read(path)
    with pytest.raises(StorageError) as caught:
        storage.read("nothing")
    assert not isinstance(caught.value, UnusablePathError)
