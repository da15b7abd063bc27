"""Consistent hashing against nodes and look-ups of Apache Hudi's own classes (0.15.0 and 1.2.0)."""

import hashlib
import json
import uuid
from pathlib import Path

import numpy as np
import pytest

from table_format.errors import CorruptFileError
from table_format.keys.bucket_index import BucketHashRule, HashRing, hash_on_ring, hash_parts, load_rings, parse_ring
from table_format.storage import Storage

PARTITION = "dt=2024-01-01/r=é"
LARGEST = 2**31 - 1


def default_ring(partition: str, nodes: int) -> HashRing:
    """The ring that a partition begins with.

    Args:
        partition: its path.
        nodes: how many buckets the table begins with (`hoodie.bucket.index.num.buckets`).
    """
    step = -(-LARGEST // nodes)
    ends = [min(step * (i + 1), LARGEST) for i in range(nodes)]
    starts = [0, *ends[:-1]]
    return HashRing.of_nodes((end, _name_uuid(partition, start, end)) for start, end in zip(starts, ends, strict=True))


def _name_uuid(partition: str, start: int, end: int) -> str:
    name = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode()
    # Java's nameUUIDFromBytes has no namespace, which uuid.uuid3 would put in front.
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


@pytest.mark.parametrize(
    ("partition", "count", "first", "prefixes"),
    [
        ("", 1, 2147483647, ("360d2334-1249-37e5-9698-814cf4b62672",) * 2),
        ("", 4, 536870912, ("b5caa668-8489-3828-b3e6-8368d70a09fd", "7c2dbe75-c634-38fe-9ef9-a0c6e848e712")),
        ("", 7, 306783379, ("a9fea709-4863-31d2-8b80-532fd1fd80c0", "46f2a429-a482-3082-bca5-c7bac45cd9e1")),
        (PARTITION, 4, 536870912, ("d4ea01ea-b7e5-3fd3-ad39-b5d94820d511", "1abf882e-64b1-3a16-9f5b-2eb877d1ca69")),
        (PARTITION, 7, 306783379, ("94d41ebc-79e5-3427-87f5-012fa8c63c45", "03b36dce-1fec-3c1e-b90f-b92be622c278")),
    ],
)
def test_the_ring_that_a_partition_begins_with(
    partition: str, count: int, first: int, prefixes: tuple[str, str]
) -> None:
    ring = default_ring(partition, count)
    assert len(ring.values) == count
    assert ring.values[0] == first
    assert ring.values[-1] == 2**31 - 1
    assert (ring.prefixes[0], ring.prefixes[-1]) == prefixes


@pytest.mark.parametrize(
    ("key", "fields", "old", "new"),
    [
        ("k1", "a", 306783379, 306783379),
        ("42", "a", 613566758, 613566758),
        ("", "a", 306783379, 306783379),
        ("Grüße 😀", "id", 1533916895, 1533916895),
        ("id:5", "id", 613566758, 1227133516),
        ("id:5", "a", 306783379, 1227133516),
        ("a:1,b:x", "a,b", 920350137, 920350137),
        ("a:1,b:x", "a", 1227133516, 1227133516),
        ("a:1,b:x", "id", 306783379, 1840700274),
        ("a:1,b:__null__", "a,b", 1533916895, 1533916895),
        ("a:__empty__,b:y", "a,b", 920350137, 920350137),
        ("2014-10-22 13:50:42", "id", 306783379, 1840700274),
    ],
)
def test_look_ups_of_both_generations(key: str, fields: str, old: int, new: int) -> None:
    ring = default_ring("", 7)
    for rule, value in ((BucketHashRule.SPLIT, old), (BucketHashRule.NAMED, new)):
        hashed = hash_on_ring(hash_parts(key, fields.split(","), rule))
        assert ring.nodes_of(np.array([hashed])).tolist() == [ring.values.tolist().index(value)]


def test_values_beyond_the_last_node_fall_into_the_first() -> None:
    ring = HashRing.of_nodes([(20, "b"), (10, "a")])
    values = np.array([0, 10, 11, 20, 21, 2**31 - 1])
    assert [ring.prefixes[node] for node in ring.nodes_of(values)] == ["a", "a", "b", "b", "a", "a"]
    assert ring.nodes_of(np.array([], np.int64)).tolist() == []


def stored(partition: str, nodes: list[tuple[int, str]], **changes: object) -> bytes:
    header = {
        "version": 0,
        "partitionPath": partition,
        "instant": "00000000000000",
        "numBuckets": len(nodes),
        "seqNo": 0,
    }
    listed = [{"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"} for value, prefix in nodes]
    return json.dumps(header | {"nodes": listed} | changes).encode()


def test_all_versions_of_a_ring_are_read(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie/.bucket_index/consistent_hashing_metadata/dt=1"
    folder.mkdir(parents=True)
    (folder / "00000000000000.hashing_meta").write_bytes(stored("dt=1", [(2**31 - 1, "x")]))
    (folder / "20240101000000000.hashing_meta").write_bytes(stored("dt=1", [(2**30, "y"), (2**31 - 1, "x")]))
    (folder / "20240101000000000.commit").write_bytes(b"")
    (folder / "20240102000000000.hashing_meta.tmp.123").write_bytes(b"half")
    storage = Storage(str(tmp_path))
    assert [ring.prefixes for ring in load_rings(storage, "dt=1")] == [("x",), ("y", "x")]
    assert load_rings(storage, "dt=2") == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"nodes": [1]}',
        stored("", []),
        stored("", [(-1, "x")]),
        stored("", [(1, "x")], version=1),
        stored("", [(1, "x")]).replace(b"NORMAL", b"DELETE"),
    ],
)
def test_what_is_not_understood_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="meta"):
        parse_ring(data, "x.hashing_meta")
