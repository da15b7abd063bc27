"""Apache Hudi reads base files of the metadata table in which our compactions copied data blocks, and goes on there."""

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table
from table_format.hfile.reader import HFileReader
from table_writer.encoding import hfile, metadata_records
from table_writer.encoding.merged_hfile import BlockwiseHFile
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.local_writes import LocalTable

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.index.type": "BUCKET",
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
}
PARTITIONS = [f"p{number:02d}" for number in range(30)]


def rows(partitions: list[str], value: int) -> pa.Table:
    records = [{"id": f"{p}-{n}", "p": p, "v": value + n} for p in partitions for n in range(6)]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def copied_blocks(old: bytes, new: bytes) -> int:
    """Data blocks that two files have in common."""
    before, after = (
        {bytes(one.written[24:]) for one in BlockwiseHFile(data, HFileReader(data, "f")).blocks} for data in (old, new)
    )
    return len(before & after)


def base_files(path: Path, partition: str) -> list[bytes]:
    files = (path / ".hoodie/metadata" / partition).glob("*.hfile")
    return [file.read_bytes() for file in sorted(files, key=lambda file: file.name.rsplit("_", 1)[-1])]


def test_apache_reads_and_goes_on_with_copied_blocks(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with (
        mock.patch.object(hfile, "DEFAULT_BLOCK_SIZE", 700),
        mock.patch.object(metadata_records, "_LISTING_BLOCK", 150),
    ):
        local = LocalTable.create(
            str(path), SCHEMA, OPTIONS | {"hoodie.metadata.index.column.stats.file.group.count": "1"}
        )
        local.write("upsert", rows(PARTITIONS, 0))
        for number in range(1, 6):
            local.write("upsert", rows(PARTITIONS[number * 4 : number * 4 + 2], number * 100))
        local.write("delete_partition", None, partitions=["p07"])
        local.write("upsert", rows(["p99"], 900))
    for partition in ("files", "column_stats"):
        *_, before, newest = base_files(path, partition)
        assert copied_blocks(before, newest) > 3, partition
    # of the listing, entries fill blocks, so that the index names the next ones by keys that are not in the file
    listing = HFileReader(base_files(path, "files")[-1], "f")
    assert sum(key.endswith(b"\x00") for key in listing.block_index.first_keys) > 3
    expected = Table.open(str(path)).scan().to_arrow().sort_by("id").to_pylist()
    assert apache.read(path).select(["id", "p", "v"]).sort_by("id").to_pylist() == [
        {name: row[name] for name in ("id", "p", "v")} for row in expected
    ]
    for row in apache.validate_files(path):
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row
        assert row["fs_size"] == row["metadata_size"], row
    files = sorted({(row["_hoodie_partition_path"], row["_hoodie_file_name"]) for row in expected})
    statistics = apache.column_stats(path, ["id", "v"], files)
    for _, file in files:
        values = [row for row in expected if row["_hoodie_file_name"] == file]
        for column in ("id", "v"):
            own = sorted(row[column] for row in values)
            assert (statistics[column][file]["min"], statistics[column][file]["max"]) == (own[0], own[-1])
    # its compaction merges our blocks, and ours cannot copy its;
    # its clean removes the record of the partition that is gone
    apache.write(path, rows(["p03", "p98"], 5000), OPTIONS | {"hoodie.datasource.write.operation": "upsert"})
    local.client.reload()
    local.write("upsert", rows(["p05"], 6000))
    assert base_files(path, "files")
    rows_read = (
        Table.open(str(path)).scan("p IN ('p03', 'p05', 'p98', 'p99')").to_arrow().sort_by("id")["v"].to_pylist()
    )
    assert rows_read == [*range(5000, 5006), *range(6000, 6006), *range(5000, 5006), *range(900, 906)]
    assert apache.read(path).num_rows == Table.open(str(path)).scan().to_arrow().num_rows
