"""Looking up current files by partition."""

from pathlib import Path

import pytest

from table_format.actions.commit import CommitMetadata
from table_format.config.table_config import create_table_config
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.slots.partition_files import PartitionFiles
from tests.support.history_files import write_history

REPLACED = CommitMetadata(partition_to_replace_file_ids={"p": ["a-0"]}).to_json()


@pytest.fixture
def client(tmp_path: Path) -> TableClient:
    """A table of version 8 that archived 10 and 20 while a savepoint kept 05; the savepoint is deleted since."""
    storage = Storage(str(tmp_path))
    values = {"hoodie.table.name": "t", "hoodie.table.version": "8", "hoodie.timeline.layout.version": "2"}
    create_table_config(storage, {**values, "hoodie.table.type": "COPY_ON_WRITE"})
    for name in ("05_06.commit", "40_41.commit"):
        storage.overwrite(f".hoodie/timeline/{name}", b"")
    contents = {"20": ("replacecommit", REPLACED)}
    write_history(storage, ".hoodie/timeline/history", [("10", "11"), ("20", "25")], contents=contents)
    storage.overwrite("p/.hoodie_partition_metadata", b"")
    for name in ("a-0_0-0-0_05.parquet", "d-0_0-0-0_10.parquet", "f-0_0-0-0_40.parquet"):
        storage.overwrite(f"p/{name}", b"x")
    return TableClient.open(storage)


def test_file_groups_that_an_archived_write_replaced_are_left_out(client: TableClient) -> None:
    files = PartitionFiles(client, client.timeline())
    assert files.of(["p"])["file_id"].to_pylist() == ["d-0", "f-0"], "a-0 was replaced by 20"
    assert files.of()["file_id"].to_pylist() == ["d-0", "f-0"]
