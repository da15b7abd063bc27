"""Symbolic links that lead out of a warehouse are refused by its services, unless that is allowed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.catalog import Catalog
from hudi_catalog.hive.planning import TableFolders
from hudi_catalog.server.options import OUTSIDE_LINKS
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.serve import TrinoSettings, running_trino
from table_format.errors import StorageError
from table_format.storage import Storage
from tests.support.hive_client import Asking, RefusedError
from tests.support.served_folders import keys, listed, refusal


@pytest.fixture
def warehouse(built: Path, tmp_path: Path) -> Path:
    """The tables `trips` and `good`, with `outside` beside the warehouse."""
    for name in ("lake/trips", "lake/good", "outside"):
        shutil.copytree(built, tmp_path / name)
    return tmp_path / "lake"


def moved(path: Path, target: Path) -> None:
    """A link in the place of a file or folder that now lies elsewhere."""
    shutil.move(path, target)
    path.symlink_to(target)


def the_table(lake: Path) -> None:
    shutil.rmtree(lake / "trips")
    (lake / "trips").symlink_to(lake.parent / "outside")


def a_partition(lake: Path) -> None:
    moved(lake / "trips/a", lake.parent / "a")


def a_base_file(lake: Path) -> None:
    place = next((lake / "trips/a").glob("*.parquet"))
    moved(place, lake.parent / place.name)


def the_properties(lake: Path) -> None:
    moved(lake / "trips/.hoodie/hoodie.properties", lake.parent / "properties")


PLACES = pytest.mark.parametrize("place", [the_table, a_partition, a_base_file, the_properties])


@PLACES
def test_what_lies_outside_is_refused_and_the_rest_is_served(warehouse: Path, place: Callable[[Path], None]) -> None:
    place(warehouse)
    with running_trino(TrinoSettings(str(warehouse))) as serving:
        assert "a symbolic link leads to " in refusal(serving.port, "trips")
        assert "good" in listed(serving.port)
        assert keys(serving.port, "good") == list(range(20))
    with running_trino(TrinoSettings(str(warehouse), options={OUTSIDE_LINKS: "true"})) as serving:
        assert keys(serving.port, "trips") == list(range(20))


def test_engines_are_given_no_path_of_a_fifo(warehouse: Path) -> None:
    """Their readers would wait for ever."""
    place = next((warehouse / "trips/a").glob("*.parquet"))
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(RefusedError, match=rf"{place}: a FIFO is where a regular file belongs"):
        Asking(warehouse).splits()


@PLACES
def test_hive_is_given_no_path_that_leads_outside(warehouse: Path, place: Callable[[Path], None]) -> None:
    place(warehouse)
    asking = Asking(warehouse)
    asking.tables.warehouse.within = asking.tables.warehouse.storage.base
    with pytest.raises(RefusedError, match=r"a symbolic link leads to .* outside of .*/lake"):
        asking.splits()
    assert len(asking.splits("good").splits) > 0


@PLACES
def test_links_inside_and_to_the_warehouse_itself_are_followed(
    warehouse: Path, tmp_path: Path, place: Callable[[Path], None]
) -> None:
    inside = warehouse / ".elsewhere/lake"
    inside.parent.mkdir()
    for name in ("trips", "good"):
        shutil.move(warehouse / name, inside / name)
    shutil.copytree(inside / "trips", inside.parent / "outside")
    (warehouse / "trips").symlink_to(inside / "trips")
    place(inside)  # moves things to `.elsewhere`, which is inside
    (tmp_path / "link").symlink_to(warehouse)
    with running_trino(TrinoSettings(str(tmp_path / "link"))) as serving:
        assert keys(serving.port, "trips") == list(range(20))


def test_a_warehouse_whose_link_is_turned_is_followed(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse, tmp_path / "newer")
    (tmp_path / "link").symlink_to(warehouse)
    storage = Storage(f"{tmp_path}/link", within=f"{tmp_path}/link")
    assert storage.read("trips/.hoodie/hoodie.properties")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "newer")
    assert storage.read("trips/.hoodie/hoodie.properties")
    assert storage.sub("trips").read(".hoodie/hoodie.properties")
    a_partition(tmp_path / "newer")
    for refused in (storage.sub("trips/a").list, lambda: storage.list("trips/a")):
        with pytest.raises(StorageError, match="a symbolic link leads to "):
            refused()


def test_tables_of_programs_follow_links_unless_told_otherwise(warehouse: Path) -> None:
    the_table(warehouse)
    assert [entry.problem for entry in Catalog(str(warehouse)).tables()] == [None, None]
    strict = Catalog(str(warehouse), outside_links=False)
    good, trips = strict.tables()
    assert good.problem is None
    assert "a symbolic link leads to " in str(trips.problem)
    with pytest.raises(StorageError, match="a symbolic link leads to "):
        strict.load("trips")
    for tables in (WarehouseTables(strict), TableFolders(strict)):
        with pytest.raises(StorageError, match="a symbolic link leads to "):
            tables.newest("trips")
