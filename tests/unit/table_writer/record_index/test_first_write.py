"""The first write into a new table tells how many file groups its record index needs."""

from pathlib import Path

from table_format.metadata_table.record_index_layout import IndexLayout
from table_writer.record_index.verify import verify_index
from tests.unit.table_writer.record_index.test_writes import rows, table


def test_a_large_first_write_makes_room_in_the_index(tmp_path: Path) -> None:
    local = table(tmp_path)
    ten_entries_each = {"hoodie.metadata.record.index.max.filegroup.size": "480"}
    local.write("bulk_insert", rows(range(100)), ten_entries_each)
    layout = IndexLayout.of(local.client)
    assert layout is not None
    assert layout.count == 13  # with a third of the room to spare
    assert verify_index(local.client).is_right
    local.write("upsert", rows(range(90, 400), v=1), ten_entries_each)
    assert IndexLayout.of(local.client) == layout
    assert verify_index(local.client).is_right
