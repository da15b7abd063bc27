"""Samples of whole buckets."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_catalog
from hudi_catalog import OptionError
from table_format.keys.java_hash import list_hash_one
from tests.unit.conftest import GoldenTable

COUNT = "hoodie.bucket.index.num.buckets"


def made(path: Path, buckets: int, rows: int = 400) -> hudi_catalog.Table:
    columns = {"id": pa.array(range(rows)), "part": pa.array(["a", "b"] * (rows // 2)), "v": pa.array(range(rows))}
    table = hudi_catalog.create_table(
        path, "id bigint, part string, v bigint", record_key="id", partition_by="part", buckets=buckets
    )
    table.insert(pa.table(columns))
    return table


def hashed_below(rows: int, buckets: int, of: int) -> list[int]:
    """The keys of a sample by the rule of Apache's hash."""
    return [key for key in range(rows) if (list_hash_one([str(key)]) & 0x7FFFFFFF) % of < buckets]


@pytest.mark.parametrize("sample", ["1/1", "1/2", "1/4", "3/4", "2/8", "8/8", " 5 / 8 "])
def test_a_sample_holds_the_rows_whose_hash_says_so(tmp_path: Path, sample: str) -> None:
    table = made(tmp_path / "t", 8)
    buckets, of = map(int, sample.split("/"))
    scan = table.scan(columns=["id"], sample=sample)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == hashed_below(400, buckets, of)
    assert scan.count() == len(hashed_below(400, buckets, of))
    stage = scan.plan().stages[0]
    assert (stage.name, stage.pruned, stage.files_out * of) == ("sample", True, stage.files_in * buckets)
    assert scan.plan().files_total == 16


def test_a_sample_is_the_same_whatever_the_number_of_buckets(tmp_path: Path) -> None:
    """So that samples of two tables can be joined, and a resize by a multiple changes none."""
    samples = [
        sorted(made(tmp_path / str(buckets), buckets).scan(columns=["id"], sample="1/4").to_arrow()["id"].to_pylist())
        for buckets in (4, 8, 16)
    ]
    assert samples[0] == samples[1] == samples[2] == hashed_below(400, 1, 4)


def test_a_sample_goes_with_filters_ranges_and_single_partitions(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 4)
    first = table.history()[-1].instant
    keys = [key for key in hashed_below(400, 1, 2) if key % 2 == 0 and key > 100]
    fresh = hudi_catalog.open_table(tmp_path / "t")
    assert sorted(fresh.scan("part = 'a' AND id > 100", ["id"], sample="1/2").to_arrow()["id"].to_pylist()) == keys
    table.upsert(pa.table({"id": [7, 8, 9, 10], "part": ["b", "a", "b", "a"], "v": [0, 0, 0, 0]}))
    changed = table.scan(columns=["id"], incremental=(first, None), sample="1/2").to_arrow()["id"].to_pylist()
    assert sorted(changed) == [key for key in hashed_below(400, 1, 2) if key in {7, 8, 9, 10}]
    assert "sample                       8        4          4  1 of every 2 buckets: 2 of 4" in table.explain(
        sample="1/2"
    )


@pytest.mark.parametrize(
    "text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b", "0.1", "1/4%", "\u0661/\u0664", "9" * 12]
)
def test_a_text_that_is_no_sample(tmp_path: Path, text: str) -> None:
    table = made(tmp_path / "t", 4, 4)
    with pytest.raises(OptionError, match="write k/n, such as 3/64"):
        table.scan(sample=text)


def test_a_denominator_that_does_not_divide_the_count(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 12, 4)
    with pytest.raises(OptionError, match="5 does not divide the table's 12 buckets; give one of 1, 2, 3, 4, 6, 12 "):
        table.scan(sample="1/5").plan()
    with pytest.raises(OptionError, match="24 does not divide"):
        table.scan(sample="1/24").count()


def test_tables_without_certain_buckets(tmp_path: Path, golden: Callable[[str], GoldenTable]) -> None:
    plain = golden("v6_0150__bkt_np_types").open()
    with pytest.raises(OptionError, match=r"count is not in hoodie\.properties; give the scan hoodie\.bucket"):
        plain.scan(sample="1/2").plan()
    with pytest.raises(OptionError, match=r"needs a table of simple buckets: key .* contradicts"):
        plain.scan(sample="1/2", options={COUNT: "64"}).plan()
    sampled = plain.scan(sample="1/2", options={COUNT: "4"})
    names = pc.utf8_slice_codeunits(sampled.to_arrow()["_hoodie_file_name"], 0, 8)
    assert {int(name) % 2 for name in names.to_pylist()} == {0}
    with pytest.raises(OptionError, match="no simple bucket index"):
        golden("v6_0150__bloom_replace").open().scan(sample="1/2", options={COUNT: "4"}).plan()
    indexed = hudi_catalog.create_table(tmp_path / "i", "id bigint", record_key="id", index="RECORD_INDEX")
    indexed.insert(pa.table({"id": [1]}))
    with pytest.raises(OptionError, match="the table's index is RECORD_INDEX"):
        indexed.scan(sample="1/2").to_arrow()
