"""Rules for bucket counts by partition."""

import json
from pathlib import Path

import pytest

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.partition_bucket_counts import load_bucket_counts, parse_bucket_counts
from table_format.storage import Storage


def stored(expressions: str, default: int = 8, rule: str = "regex") -> bytes:
    told = {"expressions": expressions, "defaultBucketNumber": default, "rule": rule, "version": 1, "instant": "0"}
    return json.dumps(told).encode()


def test_the_first_rule_that_is_found_counts() -> None:
    counts = parse_bucket_counts(stored(r"\d{4}-(06-(01|17|18)|11-(01|10|11)), 256 ; dt=2024,16;"), "x")
    assert counts.count("dt=2024-06-17") == 256
    assert counts.count("dt=2024-06-16") == 16
    assert counts.count("dt=2023-01-01") == 8
    assert counts.count("") == 8


def test_digits_are_those_of_ascii() -> None:
    assert parse_bucket_counts(stored(r"^\d$,2"), "x").count("٣") == 8


@pytest.mark.parametrize(
    "expression",
    ["(?i)a", r"\p{Lu}", "[a&&[b]]", "(?=a)", "(?<y>a)", r"\Qa\E", r"\h", "a&b", "[a[b]]", "(a", "*", r"\1"],
)
def test_expressions_that_java_may_read_in_another_way(expression: str) -> None:
    with pytest.raises(UnsupportedTableError, match="Java"):
        parse_bucket_counts(stored(f"{expression},2"), "x")


@pytest.mark.parametrize(
    "data", [b"", b"{}", stored("a"), stored("a,b"), stored("a{1,2},3"), stored("a,0"), stored("a,1", 0), b"null"]
)
def test_rules_that_are_none(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        parse_bucket_counts(data, "x")


def test_other_kinds_of_rules() -> None:
    with pytest.raises(UnsupportedTableError, match="hash"):
        parse_bucket_counts(stored("a,1", rule="hash"), "x")


def test_all_versions_are_read(tmp_path: Path) -> None:
    base = tmp_path / ".hoodie/.bucket_index/partition_bucket_index_meta"
    storage = Storage(str(tmp_path))
    assert load_bucket_counts(storage) == []
    (base / "configs").mkdir(parents=True)
    (base / "archive").mkdir()
    (base / "configs/20240101000000000.hashing_config").write_bytes(stored("a,2"))
    (base / "archive/00000000000000.hashing_config").write_bytes(stored("a,4"))
    found = {version.instant: version.count("a") for version in load_bucket_counts(storage)}
    assert found == {"20240101000000000": 2, "00000000000000": 4}


def test_a_folder_without_rules(tmp_path: Path) -> None:
    base = tmp_path / ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    base.mkdir(parents=True)
    (base / "x").write_bytes(b"")
    with pytest.raises(CorruptFileError):
        load_bucket_counts(Storage(str(tmp_path)))
