import pytest

from table_format.errors import CorruptFileError
from table_writer.timeline.markers import Marker, create_marker, delete_markers, has_markers, read_markers

TIME = "20261121080056817"


def test_direct_markers_have_hudis_names(storage):
    create_marker(storage, TIME, "p=a", "145a-0_0-1-2_20261121080056817.parquet", "CREATE")
    create_marker(storage, TIME, "p=a", "145a-0_0-1-2_20261121080056817.parquet", "CREATE")
    create_marker(storage, TIME, "", "246b-0_1-1-2_20261121080056817.parquet", "MERGE")
    create_marker(storage, TIME, "2026/11/21", "357c-0_1-1-2_20261121080056817.parquet", "MERGE")
    path = f".hoodie/.temp/{TIME}/p=a/145a-0_0-1-2_20261121080056817.parquet.marker.CREATE"
    assert storage.read(path) == b""
    assert read_markers(storage, TIME) == [
        Marker("", "246b-0_1-1-2_20261121080056817.parquet", "MERGE"),
        Marker("2026/11/21", "357c-0_1-1-2_20261121080056817.parquet", "MERGE"),
        Marker("p=a", "145a-0_0-1-2_20261121080056817.parquet", "CREATE"),
    ]
    delete_markers(storage, TIME)
    assert not has_markers(storage, TIME)
    assert read_markers(storage, TIME) == []


def test_markers_of_the_timeline_server(storage):
    folder = f".hoodie/.temp/{TIME}"
    storage.create(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.create(f"{folder}/MARKERS0", b"p=a/x_0-0-0_1.parquet.marker.CREATE\ny_0-0-0_1.parquet.marker.MERGE\n")
    storage.create(f"{folder}/MARKERS13", "日/z_0-0-0_1.parquet.marker.CREATE\n".encode())
    assert read_markers(storage, TIME) == [
        Marker("", "y_0-0-0_1.parquet", "MERGE"),
        Marker("p=a", "x_0-0-0_1.parquet", "CREATE"),
        Marker("日", "z_0-0-0_1.parquet", "CREATE"),
    ]


def test_a_line_that_is_no_marker(storage):
    storage.create(f".hoodie/.temp/{TIME}/MARKERS0", b"p=a/x.parquet")
    with pytest.raises(CorruptFileError, match="is not a marker"):
        read_markers(storage, TIME)


def test_a_list_that_is_torn_within_a_letter(storage):
    storage.create(f".hoodie/.temp/{TIME}/MARKERS0", "日".encode()[:-1])
    with pytest.raises(CorruptFileError, match="MARKERS0: at byte 0: not UTF-8"):
        read_markers(storage, TIME)
