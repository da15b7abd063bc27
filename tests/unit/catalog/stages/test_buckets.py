"""The bucket stage against tables that Apache's bucket index wrote."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import Plan, StageResult, Table
from catalog.snapshots.scan_options import ScanOptions
from catalog.stages.bucket import HashRings, simple_buckets
from pushdown.verdict import CannotPrune
from table_format.keys.bucket_index import METADATA_FOLDER, HashRing, hash_on_ring
from table_format.storage import FileEntry, Storage
from tests.unit.conftest import GoldenTable


def bucket_stage(table: Table, condition: str, options: dict[str, str]) -> StageResult:
    return stage_of(table.scan(condition, options=options).plan())


def stage_of(plan: Plan) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == "bucket")


@pytest.mark.parametrize(
    "name",
    [
        "v6_0150__bkt_np_types",
        "v6_0150__bkt_complex1",
        "v6_0150__bkt_longkey",
        "v6_0150__bkt_hive",
        "v6_1200__bkt_urlenc",
    ],
)
def test_every_key_is_in_the_files_kept(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    whole = table.scan().to_arrow()
    for key, file_name in zip(whole["id"].to_pylist(), whole["_hoodie_file_name"].to_pylist(), strict=True):
        from pushdown import col

        plan = table.scan(col("id") == key, options=golden_table.scan_options).plan()
        assert stage_of(plan).pruned
        assert stage_of(plan).files_out < stage_of(plan).files_in or stage_of(plan).files_in == 0
        at = pc.index(plan.snapshot.files["file_name"], file_name).as_py()
        assert plan.dropped_by[at] == -1


@pytest.mark.parametrize(
    ("condition", "pruned"),
    [
        ("id = 'k00001'", True),
        ("id IN ('k00001', 'k00002') AND i > 5", True),
        ("id = 'k00001' OR id = 'k00002'", True),
        ("_hoodie_record_key = 'k00001'", True),
        ("id = 'k00001' OR i = 5", False),
        ("i = 5", False),
        ("id > 'k'", False),
        ("NOT (id = 'k00001')", False),
        ("id IS NULL", False),
    ],
)
def test_only_bound_keys_prune(golden: Callable[[str], GoldenTable], condition: str, pruned: bool) -> None:
    golden_table = golden("v6_0150__bkt_np_types")
    stage = bucket_stage(golden_table.open(), condition, golden_table.scan_options)
    assert stage.pruned or not pruned
    if not pruned:
        assert stage.files_out == stage.files_in


def test_a_key_that_contradicts_itself_keeps_nothing(golden: Callable[[str], GoldenTable]) -> None:
    golden_table = golden("v6_0150__bkt_np_types")
    plan = golden_table.open().scan("id = 'a' AND id = 'b'", options=golden_table.scan_options).plan()
    assert len(plan) == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "not in hoodie.properties"),
        ({"hoodie.bucket.index.num.buckets": "2"}, "there is a bucket"),
        ({"hoodie.bucket.index.num.buckets": "64"}, "contradicts"),
        ({"hoodie.hash.index.bucket.num": "64"}, "contradicts"),
        ({"hoodie.bucket.index.num.buckets": "4", "hoodie.bucket.index.hash.field": "ts"}, "not a record key field"),
    ],
)
def test_a_layout_that_does_not_fit_is_not_used(
    golden: Callable[[str], GoldenTable], options: dict[str, str], why: str
) -> None:
    stage = bucket_stage(golden("v6_0150__bkt_np_types").open(), "id = 'k00001'", options)
    assert not stage.pruned
    assert why in stage.reason


def test_other_indexes_have_no_buckets(golden: Callable[[str], GoldenTable]) -> None:
    stage = bucket_stage(
        golden("v6_0150__bloom_replace").open(), "id = 'k00001'", {"hoodie.bucket.index.num.buckets": "4"}
    )
    assert not stage.pruned
    assert "no simple bucket index" in stage.reason


def test_key_text_that_releases_write_differently_is_not_hashed(golden: Callable[[str], GoldenTable]) -> None:
    condition = "kl = 1 AND kd = DATE '2020-01-01' AND kt = TIMESTAMP '2020-01-01 00:00:00' AND kdec = 1 AND kb"
    golden_table = golden("v6_1200__bkt_keytypes")
    stage = bucket_stage(golden_table.open(), condition, golden_table.scan_options)
    assert not stage.pruned
    assert "differ" in stage.reason


def test_a_text_key_outside_the_hash_counts_where_commas_split_keys(golden: Callable[[str], GoldenTable]) -> None:
    old, new = golden("v6_0150__bkt_complex"), golden("v6_1200__bkt_complex")
    assert "comma" in bucket_stage(old.open(), "ka = 5", old.scan_options).reason
    assert bucket_stage(new.open(), "ka = 5", new.scan_options).pruned
    assert bucket_stage(old.open(), "_hoodie_record_key = 'ka:5,kb:x'", old.scan_options).pruned


def test_count_and_fields_come_from_the_properties(copied: Callable[..., str]) -> None:
    properties = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    table = Table.open(copied("v6_0150__bkt_np_types", properties))
    assert bucket_stage(table, "id = 'k00001'", {}).files_out == 1
    doubtful = bucket_stage(table, "id = 'k00001'", {"hoodie.bucket.index.num.buckets": "8"})
    assert not doubtful.pruned


#: As Apache 1.2.0's `CALL partition_bucket_index_manager` left it in a table whose other partitions kept their count.
RULES = """{
  "expressions" : "nowhere,5",
  "defaultBucketNumber" : 3,
  "rule" : "regex",
  "version" : 1,
  "instant" : "00000000000000"
}"""


@pytest.mark.parametrize("folder", ["configs", "archive"])
@pytest.mark.parametrize("rules", [RULES, "{}", None])
def test_partitions_with_counts_of_their_own_are_not_pruned(
    copied: Callable[..., str], folder: str, rules: str | None
) -> None:
    """A rescale leaves partitions as they are whose count it takes for unchanged; the rules do not tell which."""
    path = copied("v6_0150__bkt_hive")
    options = {"hoodie.bucket.index.num.buckets": "3"}
    assert bucket_stage(Table.open(path), "id = 'k00001'", options).pruned
    rules_folder = Path(path) / ".hoodie/.bucket_index/partition_bucket_index_meta" / folder
    rules_folder.mkdir(parents=True)
    if rules is not None:
        (rules_folder / "00000000000000.hashing_config").write_text(rules)
    stage = bucket_stage(Table.open(path), "id = 'k00001'", options)
    assert not stage.pruned
    assert "by the rules in .hoodie/.bucket_index/partition_bucket_index_meta" in stage.reason


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.int64(), True),
        (pa.float64(), True),
        (pa.decimal128(9, 2), True),
        (pa.timestamp("us", "UTC"), True),
        (pa.date32(), True),
        (pa.bool_(), True),
        (pa.string(), False),
        (pa.binary(), False),
    ],
)
def test_which_texts_may_hold_a_comma(kind: pa.DataType, plain: bool) -> None:
    from catalog.stages.named_keys import text_is_plain

    assert text_is_plain(kind) is plain


def test_the_folder_of_consistent_hashing_is_listed_once_for_a_state(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_table = golden("v6_0150__bkt_hive")
    snapshot = golden_table.open().snapshot()
    options = ScanOptions.parse(golden_table.scan_options)
    folders: list[str] = []
    listing = Storage.list

    def counted(storage: Storage, path: str = "", *, recursive: bool = False) -> list[FileEntry]:
        folders.append(path)
        return listing(storage, path, recursive=recursive)

    monkeypatch.setattr(Storage, "list", counted)
    for _ in range(2):
        assert not isinstance(simple_buckets(snapshot, options), CannotPrune)
    assert folders.count(METADATA_FOLDER) == 1


def test_groups_on_rings_are_kept_by_each_version_of_their_partition() -> None:
    chance = random.Random(5)
    prefixes = [f"{number:04x}-a" for number in range(12)]
    for _ in range(50):
        rings = [
            [
                HashRing.of_nodes(
                    (chance.randrange(2**29), prefix) for prefix in chance.sample(prefixes, chance.randint(1, 8))
                )
                for _ in range(chance.randint(0, 3))
            ]
            for _ in range(4)
        ]
        files = [(chance.randrange(4), chance.choice([*prefixes, "other"])) for _ in range(40)]
        partition_of = np.array([partition for partition, _ in files], np.int64)
        file_ids = pa.array([f"{prefix}-{chance.randrange(12)}" for _, prefix in files])
        rows = np.array(sorted(chance.sample(range(40), 25)), np.int64)
        parts = [(f"k{chance.randrange(10_000)}",) for _ in range(chance.randint(0, 3))]
        hashes = np.array([hash_on_ring(part) for part in parts], np.int64)
        expected = []
        for row in rows:
            partition, prefix = files[row]
            known = any(prefix in ring.prefixes for ring in rings[partition])
            wanted = {ring.prefixes[node] for ring in rings[partition] for node in ring.nodes_of(hashes)}
            expected.append(not known or prefix in wanted)
        assert HashRings.of_files(rings, partition_of, file_ids).may_hold(rows, parts).tolist() == expected
