"""Which files Trino opens itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hudi_catalog.trino.connector.scans import table_root
from table_format.storage import Storage


@pytest.mark.parametrize(
    ("uri", "stores", "expected"),
    [
        ("/data/t", [], ("file:///data/t", True)),
        ("file:///data/t", ["s3"], ("file:///data/t", True)),
        ("/data/t#1", [], ("file:///data/t#1", False)),
        ("s3://lake/t", [], ("s3://lake/t", False)),
        ("s3://lake/t", ["s3", "s3a"], ("s3://lake/t", True)),
        ("s3a://lake/t", ["s3", "s3a"], ("s3a://lake/t", True)),
        ("s3://lake/t?", ["s3", "s3a"], ("s3://lake/t?", False)),
        ("/data/s3://lake/t", ["s3"], ("/data/s3://lake/t", False)),
    ],
)
def test_the_folder_as_trino_spells_it(uri: str, stores: list[str], expected: tuple[str, bool]) -> None:
    snapshot: Any = SimpleNamespace(client=SimpleNamespace(storage=Storage("/")))
    snapshot.client.storage.uri = uri
    assert table_root(snapshot, stores) == expected
