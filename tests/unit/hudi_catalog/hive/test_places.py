import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.hive.planning import LocationResolver
from hudi_catalog.metastore.locations import Locations
from table_format.errors import TableNotFoundError


@pytest.mark.parametrize(
    ("warehouse", "location", "path"),
    [
        ("file:/w", "file:/w/db/t", "db/t"),
        ("file:/w", "file:///w/db/t/", "db/t"),
        ("/w/", "FILE:///w//db/t", "db/t"),
        ("file:/w", "file:///w", ""),
        ("file:/", "file:/t", "t"),
        ("file:/w", "file:/w/a b%20c/ä+", "a b%20c/ä+"),
        ("s3://b", "s3a://b/t", "t"),
        ("s3://b/lake", "S3N://b/lake/db/t", "db/t"),
        ("s3a://b/lake/", "s3://b/lake/t", "t"),
        ("hdfs://nn:8020/w", "hdfs://nn:8020/w/t", "t"),
    ],
)
def test_spellings_of_a_place(warehouse: str, location: str, path: str) -> None:
    assert LocationResolver(warehouse, Locations()).path(location) == path


@pytest.mark.parametrize(
    ("warehouse", "location"),
    [
        ("file:/w", "file:/wx/t"),
        ("file:/w", "file:/"),
        ("file:/w", "hdfs://nn/w/t"),
        ("file:/w", "file:/w/../t"),
        ("s3://b/lake", "s3://b/lake/../other/t"),
        ("s3://b/lake", "s3://b/lake/./t"),
        ("s3://b/lake", "s3://B/lake/t"),
        ("s3://b/lake", "s3://b/Lake/t"),
        ("s3://b/lake", "s3x://b/lake/t"),
        ("hdfs://nn:8020/w", "hdfs://other:8020/w/t"),
        ("file:/w", "file:/w/t/.hoodie/metadata"),
        ("file:/w", "file:/w/.t"),
        ("file:/w", ""),
    ],
)
def test_what_is_no_table_of_the_warehouse(warehouse: str, location: str) -> None:
    with pytest.raises(TableNotFoundError):
        LocationResolver(warehouse, Locations()).path(location)


def test_names_that_hive_has_for_our_places() -> None:
    locations = Locations.parse("file:///data=hdfs://nn:8020/lake,s3://b=local:///,file:///data/x=file:///y")
    places = LocationResolver("file:///data", locations)
    assert places.path("hdfs://nn:8020/lake/db/t") == "db/t"
    assert places.path("file:/y/t") == "x/t"
    assert places.path("file:/data/t") == "t"
    assert LocationResolver("s3://b/lake", locations).path("local:///lake/t") == "t"


@given(st.lists(st.text("ab%:./ #é\\", min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_place_is_inside_or_refused(parts: list[str]) -> None:
    places = LocationResolver("file:/w/x", Locations())
    location = "file:/w/x/" + "/".join(parts)
    try:
        path = places.path(location)
    except TableNotFoundError:
        return
    assert not {".", ".."} & set(path.split("/"))
    assert path == "/".join(part for part in "/".join(parts).split("/") if part)
