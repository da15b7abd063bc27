"""Tables of Apache Hudi's writers: the splits hold every row once, and a filter excludes no matching row."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import Table
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.hive_client import Asking, read, tree
from tests.unit.conftest import GoldenTable

KEY = "_hoodie_record_key"


def rows_of(splits: Any) -> int:
    return sum(pq.ParquetFile(split.path.removeprefix("file:")).metadata.num_rows for split in splits)


@pytest.mark.parametrize("name", [*NAMES, *NEWER_NAMES])
def test_every_row_is_in_one_split(name: str, golden: Callable[[str], GoldenTable]) -> None:
    table = golden(name)
    folder = Path(table.path)
    answer = Asking(folder.parent).splits(folder.name)
    assert len({split.path for split in answer.splits}) == len(answer.splits)
    expected = table.rows_of_base_files if table.rows_of_base_files is not None else len(table.rows)
    assert rows_of(answer.splits) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("nometa")][::3])
def test_rows_of_a_key_are_kept(name: str, golden: Callable[[str], GoldenTable]) -> None:
    folder = Path(golden(name).path)
    asking = Asking(folder.parent)
    stored = read(asking.splits(folder.name).splits, [KEY])[KEY].to_pylist()
    for key, count in list(Counter(stored).items())[::7]:
        kept = asking.splits(folder.name, filter=tree("OPEqual", KEY, "string", key))
        assert read(kept.splits, [KEY])[KEY].to_pylist().count(key) == count
        assert kept.filesKept <= kept.filesTotal == len(Table.open(str(folder)).snapshot().live_rows)
