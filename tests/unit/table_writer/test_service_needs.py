"""Warnings of tables that wait for a service: when, and how often."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

import hudi_catalog
import table_writer.after_commit as needs
from table_format.table.client import TableClient
from table_writer.commit.transaction import WriteTransaction

OFF = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def table(path: Path, **options: str) -> hudi_catalog.Table:
    return hudi_catalog.create_table(
        path, "id bigint, p string", record_key="id", partition_by="p", buckets=1, options=options
    )


def write(path: Path, options: dict[str, str], partitions: int = 1) -> None:
    hudi_catalog.open_table(path, options=options).upsert([{"id": 1, "p": str(n)} for n in range(partitions)])


@pytest.mark.slow
def test_services_that_are_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    table(path)
    for _ in range(23):
        write(path, OFF)
    texts = [record.getMessage() for record in caplog.records]
    assert [f"{path}: 7 writes on the active timeline" in text for text in texts] == [True, False]
    assert "cleaning is off, and 21 writes came since the last one" in texts[1]
    assert all(f"run `hudi-catalog maintain {path}`" in text for text in texts)


def test_clustering_that_nobody_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, apart = (
        tmp_path / "t",
        {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "2"},
    )
    table(path)
    for number in range(8):
        write(path, apart)
        assert len(caplog.records) == (number > 4)
    assert caplog.records[0].getMessage() == (
        f"{path}: clustering is left to maintenance, and 5 writes came since the last one: "
        f"run `hudi-catalog maintain {path}`"
    )


def test_dead_writers(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table(path)
    transaction = WriteTransaction.begin(TableClient.open(str(path)), "commit", "UPSERT")
    never = {"hoodie.clean.failed.writes.policy": "NEVER"}
    write(path, {})
    assert caplog.records == []
    monkeypatch.setattr(needs, "_DAY_MS", 1)
    write(path, {})
    write(path, never)
    write(path, never)
    first, second = (record.getMessage() for record in caplog.records)
    assert "has been pending for" in first
    assert f"not rolled back (1 pending, the oldest {transaction.instant})" in second
    transaction.abort()


def test_small_files(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(needs, "_FILES", 3)
    path: Any = tmp_path / "t"
    table(path)
    write(path, {}, 2)
    assert caplog.records == []
    write(path, {}, 3)
    assert f"on average: see `hudi-catalog stats {path}`" in caplog.text
    write(path, {}, 3)
    assert len(caplog.records) == 1


def test_more_buckets_than_the_rows_fill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "_FILES", 8)
    columns, rows = "id bigint, p string", [{"id": number, "p": str(number % 2)} for number in range(200)]
    for name, partition in (("divided", "p"), ("whole", "")):
        table = hudi_catalog.create_table(tmp_path / name, columns, record_key="id", partition_by=partition, buckets=16)
        for _ in range(2):
            table.upsert(rows, {"hoodie.parquet.max.file.size": "10000"})
    divided, whole = (record.getMessage() for record in caplog.records)
    text = (
        r"a write of 32 files of .* KiB on average: hoodie.bucket.index.num.buckets=16 divides each partition into so "
    )
    assert re.search(text + r"many; [4-7] would fit files of 9.8 KiB .hoodie.parquet.max.file.size.$", divided)
    assert "hoodie.bucket.index.num.buckets=16 divides the table into so many" in whole
    indexed = hudi_catalog.create_table(
        tmp_path / "indexed", columns, record_key="id", partition_by="p", index="RECORD_INDEX"
    )
    monkeypatch.setattr(needs, "_FILES", 2)
    indexed.upsert(rows)
    assert caplog.records[-1].getMessage().endswith(f"see `hudi-catalog stats {tmp_path}/indexed`")
