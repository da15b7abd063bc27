"""Metadata tables that commits would not be seen in, and indexings of Apache's that failed and stay pending."""

import logging
import shutil
from pathlib import Path

import pytest

from hudi_catalog import HudiError
from hudi_catalog.table import Table, create_table, open_table

SMALL = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create_table(tmp_path / "t", "k string, v int", record_key="k", buckets=1)
    made.upsert([{"k": "a", "v": 1}])
    return made


def in_another_layout(folder: Path) -> None:
    """The metadata table as Apache 1.2.0's CREATE INDEX makes it without hoodie.write.table.version."""
    properties = folder / ".hoodie/metadata/.hoodie/hoodie.properties"
    text = properties.read_text().replace("table.version=6", "table.version=9")
    properties.write_text(text.replace("layout.version=1", "layout.version=2"))


@pytest.mark.parametrize("change", ["upsert", "bootstrap_index", "build_index"])
def test_a_metadata_table_in_another_layout_is_taken_out_of_use(
    table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    in_another_layout(tmp_path / "t")
    with caplog.at_level(logging.WARNING):
        if change == "upsert":
            open_table(tmp_path / "t").upsert([{"k": "b", "v": 2}])
        elif change == "bootstrap_index":
            open_table(tmp_path / "t").bootstrap_index()
        else:
            open_table(tmp_path / "t").build_index("bloom_filters")
    assert "is taken out of use: its timeline has layout 2, and the table's has 1" in caplog.text
    changed = open_table(tmp_path / "t")
    assert changed.scan().count() == (2 if change == "upsert" else 1)
    properties = (tmp_path / "t/.hoodie/hoodie.properties").read_text()
    listed = next(line for line in properties.splitlines() if line.startswith("hoodie.table.metadata.partitions="))
    built = {"upsert": "", "bootstrap_index": "files,record_index", "build_index": "bloom_filters,files"}[change]
    assert listed == f"hoodie.table.metadata.partitions={built}"
    assert (tmp_path / "t/.hoodie/metadata").exists() == bool(built)
    changed.upsert([{"k": "a", "v": 3}])
    assert open_table(tmp_path / "t").scan("k = 'a'").to_arrow()["v"].to_pylist() == [3]


@pytest.mark.slow
@pytest.mark.parametrize("building", [False, True])
def test_an_indexing_that_failed_blocks_nothing(table: Table, tmp_path: Path, building: bool) -> None:
    """Apache 1.2.0's CREATE INDEX leaves it, and lists no index as being built; a live indexer's is waited for."""
    folder = tmp_path / "t/.hoodie"
    first = table.history()[0].instant
    for state in ("requested", "inflight"):
        shutil.copy(folder / f"{first}.commit.requested", folder / f"{int(first) + 1}.indexing.{state}")
    if building:
        with (folder / "hoodie.properties").open("a") as properties:
            properties.write("hoodie.table.metadata.partitions.inflight=expr_index_x\n")
    for number in range(20):
        open_table(tmp_path / "t").upsert([{"k": "a", "v": number}], SMALL)
    compacted = [*folder.glob("metadata/.hoodie/*.commit")]
    archived = [*folder.glob("archived/*")]
    assert (bool(compacted), bool(archived)) == (not building, not building)
    if not building:
        assert open_table(tmp_path / "t").bootstrap_index(wait_seconds=0).keys == 1
        last = [one.instant for one in table.history() if one.action == "commit"][-1]
        assert open_table(tmp_path / "t").verify_index().verified_to == last


def test_other_indexes_are_not_dropped(table: Table, tmp_path: Path) -> None:
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    listed = "hoodie.table.metadata.partitions="
    properties.write_text(properties.read_text().replace(listed, f"{listed}expr_index_x,"))
    for index, message in {"expr_index_x": "an index of Apache Hudi's", "files": "no index 'files'"}.items():
        with pytest.raises(HudiError, match=message):
            open_table(tmp_path / "t").drop_index(index)
