"""Tables that are only read are refused for what they are, whatever else a write lacks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from hudi_catalog import open_table
from table_format.config.table_config import update_table_config
from table_format.errors import UnsupportedTableError
from table_format.table.client import TableClient

CALLS: dict[str, Callable[[Any, pa.Table], object]] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "insert": lambda table, rows: table.insert(rows),
    "delete": lambda table, _: table.delete("ts > 5"),
    "overwrite": lambda table, rows: table.insert_overwrite(rows),
    "drop": lambda table, _: table.delete_partitions(["*"]),
    "update": lambda table, _: table.update({"ts": "ts + 1"}),
    "merge": lambda table, rows: table.merge(rows, on="id").when_matched_update_all().execute(),
    "resize": lambda table, _: table.resize(8),
    "cluster": lambda table, _: table.cluster(["id"]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("v9_1200__bkt_hive", "tables of version 9 are read, not written"),
        ("v8_1020__mor_pending", "tables of version 8 are read, not written"),
        ("v6_0150__mor_log", "MERGE_ON_READ tables are read, not written"),
    ],
)
def test_every_write_is_refused_by_version_and_type(
    copied: Callable[..., str], name: str, reason: str, call: str
) -> None:
    table = open_table(copied(name))
    rows = table.scan(columns=[one for one in table.columns.names if not one.startswith("_hoodie")]).to_arrow()
    with pytest.raises(UnsupportedTableError, match=reason):
        CALLS[call](table, rows)


@pytest.mark.parametrize("call", CALLS)
def test_tables_with_change_data_are_refused(tmp_path: Path, call: str) -> None:
    """Queries of Apache's for changes would not see ours."""
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "ts": [1, 9]})
    hudi_catalog.create_table(path, rows, record_key="id", buckets=2).insert(rows)
    update_table_config(TableClient.open(path).storage, {"hoodie.table.cdc.enabled": "true"})
    instants = len(open_table(path).history())
    with pytest.raises(UnsupportedTableError, match=r"hoodie\.table\.cdc\.enabled=true.*Write to it by Apache Hudi"):
        CALLS[call](open_table(path), rows)
    assert open_table(path).scan().count() == 2
    assert len(open_table(path).history()) == instants


@pytest.mark.parametrize("call", ["upsert", "insert", "overwrite", "drop"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hoodie.table.recordkey.fields": None}, "without record keys"),
        ({"hoodie.populate.meta.fields": "false"}, "no meta columns"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "no partition columns"),
    ],
)
def test_no_option_is_asked_for_in_vain(tmp_path: Path, changes: dict[str, str | None], reason: str, call: str) -> None:
    """Spark SQL makes tables without record keys where it is given no primaryKey."""
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "ts": [1, 9]})
    hudi_catalog.create_table(path, rows.schema, record_key="id", ordering="ts", buckets=2)
    unknown = {"hoodie.bucket.index.num.buckets": None, "hoodie.compaction.payload.class": None}
    update_table_config(TableClient.open(path).storage, {**unknown, **changes})
    with pytest.raises(UnsupportedTableError, match=f"{reason} .*write it with Apache Hudi"):
        CALLS[call](open_table(path), rows)
