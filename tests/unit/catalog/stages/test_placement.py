"""Which tables a join may trust to have equal keys in equal buckets."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog.snapshots.scan_options import ScanOptions
from catalog.stages.placement import KeyPlacement, key_placement
from hudi_catalog import create_table, open_table
from pushdown.verdict import CannotPrune

TWO = "a string, b int, c string, t timestamp, x double"


def placed(path: Path, **arguments: Any) -> KeyPlacement | CannotPrune:
    create_table(path, TWO, **arguments)
    return key_placement(open_table(path).snapshot(), ScanOptions())


def hashed(*fields: str) -> dict[str, str]:
    return {"hoodie.bucket.index.hash.field": ",".join(fields)}


@pytest.mark.parametrize(
    ("key", "options", "fields", "texts", "separators"),
    [
        ("a", {}, ("a",), ("a",), ":"),
        ("b", {}, ("b",), (), ":"),
        (["a", "b"], {}, ("a", "b"), ("a",), ":,"),
        (["a", "b"], hashed("a"), ("a",), ("a",), ":,"),
        (["b", "a"], {}, ("b", "a"), ("a",), ":,"),
    ],
)
def test_placements(
    tmp_path: Path, key: Any, options: dict[str, str], fields: tuple[str, ...], texts: tuple[str, ...], separators: str
) -> None:
    placement = placed(tmp_path / "t", record_key=key, buckets=4, options=options)
    assert isinstance(placement, KeyPlacement)
    assert (placement.fields, placement.texts, placement.separators) == (fields, texts, separators)
    assert placement.buckets.count == 4


@pytest.mark.parametrize(
    ("key", "options", "reason"),
    [
        ("t", {}, "equal values of t"),
        ("x", {}, "equal values of x"),
        (["a", "x"], {}, "equal values of x"),
        (["a", "c"], hashed("a"), "a comma in it changes the bucket"),
        ("a", {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"}, "differ"),
    ],
)
def test_reasons(tmp_path: Path, key: Any, options: dict[str, str], reason: str) -> None:
    verdict = placed(tmp_path / "t", record_key=key, buckets=4, options=options)
    assert isinstance(verdict, CannotPrune)
    assert reason in verdict.reason


def test_tables_of_other_indexes(tmp_path: Path) -> None:
    verdict = placed(tmp_path / "t", record_key="a", index="RECORD_INDEX")
    assert verdict == CannotPrune("the table's index is RECORD_INDEX")


def test_equal_values_are_in_equal_buckets_of_tables_with_keys_of_one_and_of_two_fields(tmp_path: Path) -> None:
    texts = [f"key {number}" for number in range(200)]
    buckets = []
    for name, key in (("one", "a"), ("two", ["a", "b"])):
        made = create_table(tmp_path / name, "a string, b int", record_key=key, buckets=8, options=hashed("a"))
        made.bulk_insert(pa.table({"a": texts, "b": pa.array([*range(200)], pa.int32())}))
        table = open_table(tmp_path / name)
        assert isinstance(key_placement(table.snapshot(), ScanOptions()), KeyPlacement)
        rows = table.scan().to_arrow().to_pylist()
        buckets.append({row["a"]: int(row["_hoodie_file_name"][:8]) for row in rows})
    assert buckets[0] == buckets[1]
    assert len(set(buckets[0].values())) == 8
