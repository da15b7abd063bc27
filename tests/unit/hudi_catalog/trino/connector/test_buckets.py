"""Which tables' buckets Trino learns of, and why not those of others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from catalog import Table
from catalog.snapshots.scan_options import ScanOptions
from hudi_catalog.trino.connector.buckets import announced_buckets
from hudi_catalog.trino.connector.types import connector_columns
from tests.support.tpch_tables import Layout, write

DAYS = [dt.date(1969, 12, 31) + dt.timedelta(days=one) for one in range(40)]
ROWS = pa.table(
    {
        "Id": pa.array(range(40), pa.int64()),
        "narrow": pa.array(range(40), pa.int32()),
        "day": pa.array(DAYS, pa.date32()),
        "text": [f"k{one}" for one in range(40)],
        "number": pa.array([one / 4 for one in range(40)], pa.float64()),
    }
)


def buckets(path: str | Path, *, plain_texts: bool = False) -> dict[str, Any]:
    snapshot = Table.open(str(path)).scan().plan().snapshot
    columns = connector_columns(snapshot.schema, "t")
    return announced_buckets(snapshot, columns, ScanOptions(), plain_texts=plain_texts)


def set_count(path: Path, count: int) -> None:
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("num.buckets=4", f"num.buckets={count}"))


@pytest.mark.parametrize(
    ("key", "hashed", "columns"),
    [
        ("Id", "Id", ["id"]),
        ("day", "day", ["day"]),
        ("day,Id,narrow", "narrow,day", ["day", "narrow"]),
    ],
)
def test_keys_whose_hash_is_certain(tmp_path: Path, key: str, hashed: str, columns: list[str]) -> None:
    write(tmp_path, "t", ROWS, Layout(key, hashed, 4))
    assert buckets(tmp_path / "t") == {"count": 4, "columns": columns}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("text", "a colon in text"),
        ("number", "the text of number, a double"),
        ("Id,text", "the text of text, a string"),
    ],
)
def test_keys_whose_hash_is_not(tmp_path: Path, key: str, reason: str) -> None:
    write(tmp_path, "t", ROWS, Layout(key, key, 4))
    assert reason in buckets(tmp_path / "t")["reason"]
    promised = buckets(tmp_path / "t", plain_texts=True)
    assert (promised == {"count": 4, "columns": ["text"]}) == (key == "text")


@pytest.fixture
def unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits do not say how many buckets they were written with, as those of Apache."""
    monkeypatch.setattr("table_format.table.bucket_counts._recorded_count", lambda _: None)


def test_a_count_that_a_commit_contradicts(tmp_path: Path) -> None:
    write(tmp_path, "t", ROWS, Layout("Id", "Id", 4))
    set_count(tmp_path / "t", 2)
    assert "was written with 4 buckets" in buckets(tmp_path / "t")["reason"]


@pytest.mark.parametrize(("count", "reason"), [(2, "there is a bucket 3"), (8, "bucket")])
@pytest.mark.usefixtures("unrecorded")
def test_a_count_that_files_contradict(tmp_path: Path, count: int, reason: str) -> None:
    write(tmp_path, "t", ROWS, Layout("Id", "Id", 4))
    set_count(tmp_path / "t", count)
    assert reason in buckets(tmp_path / "t")["reason"]


@pytest.mark.usefixtures("unrecorded")
def test_a_file_whose_bounds_are_of_another_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics show what the footers of a few files do not."""
    write(tmp_path, "t", ROWS, Layout("Id", "Id", 4))
    set_count(tmp_path / "t", 8)
    monkeypatch.setattr("catalog.stages.bucket._contradiction", lambda *_, **_options: None)
    assert "which is of another bucket" in buckets(tmp_path / "t")["reason"]


RECORDED = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


def test_tables_of_apache_say_no_count(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_np_types")
    assert "not in hoodie.properties" in buckets(path, plain_texts=True)["reason"]
    with (Path(path) / ".hoodie/hoodie.properties").open("a") as stream:
        stream.write("".join(f"{key}={value}\n" for key, value in RECORDED.items()))
    assert buckets(path, plain_texts=True) == {"count": 4, "columns": ["id"]}
    # one complex key field: releases differ in its form
    assert "COMPLEX" in buckets(copied("v6_0150__bkt_complex1", RECORDED), plain_texts=True)["reason"]


def test_other_layouts(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_hive", RECORDED)
    (Path(path) / ".hoodie/.bucket_index/partition_bucket_index_meta/configs").mkdir(parents=True)
    assert "differ between partitions" in buckets(path, plain_texts=True)["reason"]
    path = copied("v6_0150__bkt_np_types", RECORDED)
    (Path(path) / ".hoodie/.bucket_index/consistent_hashing_metadata/p").mkdir(parents=True)
    assert "consistent hashing" in buckets(path, plain_texts=True)["reason"]
    assert "index" in buckets(copied("v6_0150__bloom_replace"), plain_texts=True)["reason"]


def test_counts_by_partition_are_not_announced(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(
        tmp_path / "t",
        "id bigint, p string",
        record_key="id",
        partition_by="p",
        buckets=2,
        options={"hoodie.bucket.index.partition.expressions": "a,4"},
    )
    table.insert([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}])
    assert buckets(tmp_path / "t")["reason"] == "bucket counts differ between partitions"
