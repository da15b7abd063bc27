"""Fixtures of tests of the commit protocol: a table without rows, see `toy_table`."""

import os

import pytest

from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support import toy_table


@pytest.fixture(autouse=True)
def quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def storage(tmp_path) -> Storage:
    return Storage(str(tmp_path / "toy"))


@pytest.fixture
def client(storage: Storage) -> TableClient:
    return toy_table.make(storage)
