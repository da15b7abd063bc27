"""Partition paths that the file system does not accept."""

from pathlib import Path

import pyarrow as pa
import pytest

from table_format.errors import RecordError
from table_writer.record_index.verify import verify_index
from tests.support.local_writes import LocalTable
from tests.support.reading import current_paths, current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
}
BUCKETS = {"hoodie.bucket.index.num.buckets": "2"}
KINDS = {
    "buckets": BUCKETS,
    "record index": {"hoodie.index.type": "RECORD_INDEX"},
    "index by partition": {"hoodie.index.type": "RECORD_LEVEL_INDEX"},
    "buckets and index by partition": BUCKETS | {"hoodie.metadata.record.level.index.enable": "true"},
}


def table(folder: Path, kind: str) -> LocalTable:
    return LocalTable.create(str(folder / "t"), SCHEMA, OPTIONS | KINDS[kind])


def rows(*partitions: str) -> pa.Table:
    records = [{"id": f"k{number}", "p": p, "v": number} for number, p in enumerate(partitions)]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet*"))


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite"])
@pytest.mark.parametrize("long", ["n" * 300, "/".join(["n" * 200] * 25)], ids=["name", "path"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_path_that_is_too_long_is_refused_by_name(tmp_path: Path, kind: str, long: str, operation: str) -> None:
    local = table(tmp_path, kind)
    local.write("upsert", rows("a", "b"))
    before = files(tmp_path)
    with pytest.raises(RecordError, match=r"partition path 'nn.*: partition by a shorter value"):
        local.write(operation, rows("a", "b", long))
    assert files(tmp_path) == before
    assert local.client.timeline().pending == ()
    assert len(current_paths(local.client)) == 2
    # what is there is as it was
    local.write("upsert", rows("a", "b", "c"))
    assert current_rows(local.client).num_rows == 3


@pytest.mark.parametrize("kind", KINDS)
def test_keys_to_delete_may_lie_anywhere(tmp_path: Path, kind: str) -> None:
    local = table(tmp_path, kind)
    local.write("upsert", rows("a"))
    assert local.write("delete", rows("a", "n" * 300)).rows_deleted == 1


@pytest.mark.parametrize("kind", ["index by partition", "buckets and index by partition"])
def test_an_index_by_partition_names_its_files_after_partitions(tmp_path: Path, kind: str) -> None:
    local = table(tmp_path, kind)
    local.write("upsert", rows("p" * 170))
    with pytest.raises(RecordError, match=r"'p+…' gives files of the record index names of 27\d bytes"):
        local.write("upsert", rows("a", "p" * 200))
    # each colon becomes three characters
    with pytest.raises(RecordError, match=r"':+' gives files of the record index"):
        local.write("upsert", rows("a", ":" * 70))
    assert current_rows(local.client).num_rows == 1
    assert verify_index(local.client).is_right
