"""Fixtures of tests of the record index: a table with an empty one."""

import os
from pathlib import Path

import pytest

from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support.index_writes import make


@pytest.fixture(autouse=True)
def quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "t"))


@pytest.fixture
def client(storage: Storage) -> TableClient:
    """Of a table with an empty record index of three file groups."""
    return make(storage)
