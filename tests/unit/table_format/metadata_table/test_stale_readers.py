"""Readers of an older state of the table, after the record index was compacted, cleaned, rebuilt or resized."""

from collections.abc import Callable
from pathlib import Path

import pytest

from table_format.errors import MissingFileError
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index import RecordIndex
from table_format.table.client import TableClient
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.resize import resize
from tests.support.indexed_tables import RECORD_INDEX, make, rows
from tests.support.local_writes import LocalTable

OPTIONS = {**RECORD_INDEX, "hoodie.metadata.compact.max.delta.commits": "2"}
ROWS = rows(0, 30)
KEYS = ROWS["id"].combine_chunks()
PRIVATE = {"hoodie.catalog.record.index.hash": "xxhash64"}
GROUPS = {"hoodie.catalog.record.index.growth": "groups"}


def indexed(folder: Path, options: dict[str, str]) -> tuple[LocalTable, TableClient]:
    """A table with `KEYS`, and a client of this moment."""
    local = make(folder, OPTIONS | options)
    local.write("upsert", ROWS)
    return local, TableClient.open(local.client.storage)


def write_more(local: LocalTable) -> None:
    """Enough for two compactions, so that older files are cleaned."""
    for number in range(8):
        local.write("upsert", rows(100 + 2 * number, 102 + 2 * number))


def spread(local: LocalTable) -> None:
    resize(local.client, 5)


def rebuild(local: LocalTable) -> None:
    bootstrap_index(local.client, {})


@pytest.mark.parametrize("options", [{}, PRIVATE])
@pytest.mark.parametrize("later", [write_more, spread, rebuild])
@pytest.mark.slow
def test_what_is_gone_is_an_error_and_no_missing_keys(
    later: Callable[[LocalTable], None], options: dict[str, str], tmp_path: Path
) -> None:
    local, client = indexed(tmp_path, options)
    table = MetadataTable.open(client, client.timeline())
    assert table is not None
    later(local)
    with pytest.raises(MissingFileError, match="read the table again"):
        table.record_locations(KEYS)
    with pytest.raises(MissingFileError, match="read the table again"):
        table.count_record_keys(1000)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, PRIVATE])
@pytest.mark.parametrize("growth", [{}, GROUPS])
def test_properties_of_before_do_not_tell_where_keys_are(
    growth: dict[str, str], options: dict[str, str], tmp_path: Path
) -> None:
    local, client = indexed(tmp_path, options)
    resize(local.client, 5, options=growth)
    local.write("delete", ROWS)
    local.write("upsert", ROWS)
    table = MetadataTable.open(client, client.timeline())
    assert table is not None
    locations = table.record_locations(KEYS)
    assert locations is not None
    assert locations.num_rows == len(KEYS)
    assert RecordIndex.open(client).get_record_locations(KEYS).num_rows == len(KEYS)
