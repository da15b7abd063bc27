"""Rows of splits as Trino gets them, against the rows of a scan."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.rows import RowServer
from hudi_catalog.trino.types import columns_of
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.trino_served import Pinned, expected_rows, rows_of, splits_of
from tests.unit.conftest import GoldenTable

Golden = Callable[[str], GoldenTable]
TRUNCATED = TrinoOptions.parse({"hoodie.catalog.trino.type.timestamp": "truncate"})


@pytest.mark.parametrize("name", [*NAMES, *NEWER_NAMES])
@pytest.mark.slow
def test_splits_have_the_rows_of_a_scan(golden: Golden, name: str) -> None:
    table = golden(name).open()
    snapshot = table.snapshot()
    server = RowServer(Pinned(snapshot), TRUNCATED)
    columns = columns_of(snapshot.schema, TRUNCATED.types)
    names = [column.name for column in columns]
    rows: list[Any] = []
    for split in splits_of(table, snapshot):
        whole = rows_of(server, split, names)
        assert repr(rows_of(server, split, names, 700)) == repr(whole)  # NaN differs from itself
        assert rows_of(server, split, []) == [()] * len(whole)
        assert repr(rows_of(server, split, names[-1:], 300)) == repr([row[-1:] for row in whole])
        rows += whole
    expected = expected_rows(table.scan().to_arrow(), columns)
    assert Counter(map(repr, rows)) == Counter(map(repr, expected))
    assert rows
