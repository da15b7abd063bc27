"""Tables by name, splits, options."""

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from catalog import Catalog, Table
from catalog.snapshots.scan_options import ScanOptions
from pushdown import UnknownColumnError
from table_format.errors import OptionError, TableNotFoundError
from tests.unit.conftest import GoldenTable


@pytest.fixture
def warehouse(golden: Callable[[str], GoldenTable], tmp_path: Any) -> str:
    source = golden("v6_0150__bkt_restore").path
    for place in ("sales.db/orders", "sales.db/items", "web/2024/clicks", "lonely", "deep/a/b/c/d/e"):
        shutil.copytree(source, tmp_path / place)
    os.makedirs(tmp_path / "empty/.hoodie")
    os.makedirs(tmp_path / "broken/.hoodie")
    (tmp_path / "broken/.hoodie/hoodie.properties").write_text("hoodie.table.name=x\nhoodie.table.checksum=1\n")
    return str(tmp_path)


def test_tables_are_found_and_named(warehouse: str) -> None:
    entries = Catalog(warehouse).tables()
    assert [entry.name for entry in entries] == ["broken", "lonely", "sales.items", "sales.orders", "web.2024.clicks"]
    assert "checksum" in (entries[0].problem or "")
    assert entries[1].config is not None


def test_a_newest_commit_that_is_cut_is_found_where_it_is_asked_for(warehouse: str) -> None:
    timeline = f"{warehouse}/lonely/.hoodie"
    newest = max(name for name in os.listdir(timeline) if name.endswith(".commit"))
    os.truncate(f"{timeline}/{newest}", 40)
    assert [entry.problem for entry in Catalog(warehouse).tables()][1:] == [None] * 4
    problems = {entry.name: entry.problem for entry in Catalog(warehouse).tables(newest=True) if entry.config}
    assert f"{newest}: at byte 40: " in (problems.pop("lonely") or "")
    assert set(problems.values()) == {None}


@pytest.mark.parametrize("name", ["sales.orders", "sales.db/orders", "orders", "web.2024.clicks", "lonely"])
def test_load(warehouse: str, name: str) -> None:
    assert Catalog(warehouse).load(name).name == "bkt_restore"


def test_a_full_name_in_a_usual_place_lists_no_warehouse(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(f"{warehouse}/lonely", f"{warehouse}/sales/orders")
    shutil.copytree(f"{warehouse}/lonely", f"{warehouse}/web/orders")
    with pytest.raises(TableNotFoundError, match=r"sales/orders.* are all called sales\.orders"):
        Catalog(warehouse).load("sales.orders")
    monkeypatch.setattr(Catalog, "tables", None)
    for name, path in (("sales.items", "sales.db/items"), ("web.orders", "web/orders")):
        assert Catalog(warehouse).load(name).client.storage.uri == f"{warehouse}/{path}"


def test_load_of_nothing_and_of_too_much(warehouse: str) -> None:
    with pytest.raises(TableNotFoundError, match="no table nothing"):
        Catalog(warehouse).load("nothing")
    shutil.copytree(f"{warehouse}/lonely", f"{warehouse}/web/orders")
    with pytest.raises(TableNotFoundError, match="are all called"):
        Catalog(warehouse).load("orders")
    with pytest.raises(TableNotFoundError):
        Catalog(warehouse).load("../" + os.path.basename(warehouse))


def test_splits_come_in_bounded_batches(golden: Callable[[str], GoldenTable]) -> None:
    splits = golden("v6_0150__bkt_hive").open().scan().plan().splits
    batches = list(splits.batches(4))
    assert [len(batch) for batch in batches] == [4, 4, 4, 3]
    assert [split for batch in batches for split in batch] == list(splits)
    assert splits[0] == batches[0][0]
    assert splits[-1] == batches[-1][-1]
    assert len(splits) == splits.to_arrow().num_rows == 15
    with pytest.raises(IndexError):
        splits[15]
    assert all(split.fully_matching for split in splits)
    assert splits[0].partition_values == {"part": None}


def test_a_table_stays_at_its_state_until_refreshed(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_evolve")
    last = max(name for name in os.listdir(f"{path}/.hoodie") if name.endswith(".commit"))
    os.rename(f"{path}/.hoodie/{last}", f"{path}/hidden")
    table = Table.open(path)
    before = table.scan().to_arrow()
    os.rename(f"{path}/hidden", f"{path}/.hoodie/{last}")
    assert table.scan().to_arrow().equals(before)
    after = table.refresh().scan().to_arrow()
    assert table.snapshot().instant == last.removesuffix(".commit")
    assert not after.equals(before)


def test_columns_that_are_not_there(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    with pytest.raises(UnknownColumnError):
        table.scan(columns=["nothing"])
    with pytest.raises(UnknownColumnError):
        table.scan(columns=["id", "id"])
    with pytest.raises(UnknownColumnError):
        table.scan("nothing = 1")


def test_projection_keeps_order_and_hides_filter_columns(golden: Callable[[str], GoldenTable]) -> None:
    rows = golden("v6_0150__bkt_hive").open().scan("part = 'eu'", columns=["ts", "id"]).to_arrow()
    assert rows.column_names == ["ts", "id"]
    assert rows.num_rows > 0
    empty = golden("v6_0150__bkt_hive").open().scan("part = 'nowhere'", columns=["ts", "id"]).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema.equals(rows.schema)


def test_partition_columns_that_files_leave_out(copied: Callable[..., str]) -> None:
    import pyarrow.parquet as pq

    path = copied("v6_0150__bkt_hive", {"hoodie.datasource.write.drop.partition.columns": "true"}, metadata_table=False)
    wanted = Table.open(path).scan().to_arrow()
    for split in Table.open(path).scan().plan().splits:
        name = split.path.removeprefix("file:")
        pq.write_table(pq.read_table(name, partitioning=None).drop_columns(["part"]), name)
    table = Table.open(path)
    assert table.scan().to_arrow().sort_by("id").equals(wanted.sort_by("id"))
    assert table.scan("part IS NULL").to_arrow().num_rows == wanted["part"].null_count > 0
    assert table.scan("part = 'eu'").to_arrow().num_rows == wanted["part"].to_pylist().count("eu")


def test_scan_options() -> None:
    assert ScanOptions.parse(None) == ScanOptions()
    parsed = ScanOptions.parse({"hoodie.hash.index.bucket.num": "7", "hoodie.datasource.write.indexkey.field": "a, b"})
    assert parsed.bucket_count == 7
    assert parsed.bucket_hash_fields == ("a", "b")
    for bad in ({"hoodie.bucket.index.num.buckets": "0"}, {"hoodie.catalog.scan.threads": "x"}, {"other": "1"}):
        with pytest.raises(OptionError):
            ScanOptions.parse(bad)
