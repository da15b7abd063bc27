"""Different spellings of locations."""

import pytest

from hudi_catalog.metastore.locations import Locations, normal_uri
from table_format.errors import OptionError


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/a/b/", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a//b", "file:///a/b"),
        ("file://localhost/a", "file:///a"),
        ("/", "file:///"),
        ("s3://bucket/a//b/", "s3://bucket/a//b"),
        ("s3a://bucket", "s3a://bucket"),
        ("hdfs://name:8020/a b%25", "hdfs://name:8020/a b%25"),
        ("file:/a b%25/c?d#e", "file:///a b%25/c?d#e"),
    ],
)
def test_normal_uris(uri: str, expected: str) -> None:
    assert normal_uri(uri) == expected


@pytest.mark.parametrize(
    ("pairs", "uri", "expected"),
    [
        ("", "/data/t", "file:///data/t"),
        ("/data=local:///", "/data/t", "local:///t"),
        ("file:///=local:///", "/data/t", "local:///data/t"),
        ("file:///data=local:///x/", "file:/data/p=1/t", "local:///x/p=1/t"),
        ("/data=local:///", "/data", "local://"),
        ("/data=local:///", "/database/t", "file:///database/t"),
        ("/a=s3://one,/a/b=s3://two/c", "/a/b/t", "s3://two/c/t"),
        ("s3a://b=s3://b", "s3a://b/t", "s3://b/t"),
        ("/w/day=1=local:///d", "/w/day=1/t", "local:///d/t"),
    ],
)
def test_the_longest_prefix_counts(pairs: str, uri: str, expected: str) -> None:
    locations = Locations.parse(pairs)
    assert locations.to_engine(uri) == expected
    assert Locations.parse(locations.to_text()) == locations


@pytest.mark.parametrize("text", ["/data", "/data=relative", "=local:///"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="write ours=theirs"):
        Locations.parse(text)
