"""Statistics of columns that a sync gives to a metastore."""

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Table
from catalog.row_summary import SnapshotSummary
from hudi_catalog.metastore import thrift_metastore
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.hive_types import column_statistics
from hudi_catalog.metastore.metastore import HUDI_FORMAT, ColumnStatistics, HiveColumn, HivePartition, HiveTable
from hudi_catalog.metastore.metastore_options import MetastoreOptions
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
from table_format.errors import MetastoreError, OptionError
from tests.support.hive_server import HiveServer
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import MemoryMetastore
from tests.unit.hudi_catalog.metastore.conftest import rows
from tests.unit.hudi_catalog.metastore.test_hive_sync import Opened, held, options
from tests.unit.hudi_catalog.metastore.test_hive_sync_faults import kills

TRIPS = ("db", "trips")
ON = options(COLUMN_STATISTICS="true")
INSTANT = "hoodie.catalog.sync.column.statistics.instant"


def by_name(columns: list[ColumnStatistics]) -> dict[str, ColumnStatistics]:
    return {one.column: one for one in columns}


def test_those_of_the_table_for_the_handler(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    assert sync_to_hive(opened(), store).changes
    assert store.statistics == {}, "by option only"
    changed = [str(change) for change in sync_to_hive(opened(), store, ON).changes]
    instant = opened().snapshot().instant
    assert changed == [f"+ property {INSTANT} of db.trips: {instant}"]
    known = by_name(store.statistics[TRIPS, ()])
    assert known["k"] == ColumnStatistics("k", "bigint", 0, 29, 0, 29)
    assert known["day"] == ColumnStatistics("day", "string", 0, 3, length=4.0)
    assert known["x"] == ColumnStatistics("x", "double", 0, 29, -0.0, 7.25), "its values were counted in the files"
    assert sync_to_hive(opened(), store, ON).changes == ()
    written.write("upsert", rows(100, 5))
    sync_to_hive(opened(), store, ON)
    assert by_name(store.statistics[TRIPS, ()])["k"].high == 104
    sync_to_hive(opened(), store)
    assert INSTANT not in held(store).parameters
    assert store.accurate == set()


def test_those_of_each_partition(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store, ON, format="apache")
    known = {values: by_name(columns) for (_, values), columns in store.statistics.items()}
    assert {values: (one["k"].low, one["k"].high) for values, one in known.items()} == {
        ("d 0%",): (0, 27),
        ("d 1%",): (1, 28),
        ("d 2%",): (2, 29),
    }
    assert {tuple(one) for one in known.values()} == {("k", "x")}, "no partition column"
    written.write("delete_partition", partitions=["d 1%"])
    written.write("upsert", rows(100, 2))
    sync_to_hive(opened(), store, ON)
    assert {values: by_name(columns)["k"].high for (_, values), columns in store.statistics.items()} == {
        ("d 0%",): 27,
        ("d 1%",): 100,
        ("d 2%",): 101,
    }


def test_none_where_rows_are_not_counted(golden: Any, store: MemoryMetastore) -> None:
    known = {"k": {"nulls": 0.0, "distinct": 7.0, "low": 1.0, "high": 7.0}}
    for rows_, exact in ((7, False), (0, True), (None, False)):
        assert column_statistics([HiveColumn("k", "int")], SnapshotSummary(1, 10, rows_, exact, known)) == []
    sync_to_hive(golden("v8_1020__mor_log").open(), store, ON)
    assert (store.statistics, store.accurate) == ({}, set()), "log files add rows, or delete some"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["handler", "apache"])
def test_a_sync_that_dies_leaves_nothing_marked_for_good(
    written: LocalTable, opened: Opened, store: MemoryMetastore, form: str
) -> None:
    sync_to_hive(opened(), store, ON, format=form)
    written.write("upsert", rows(100, 5))
    table = opened()
    whole: MemoryMetastore | None = None
    for at, half_done, broken in kills(lambda one: sync_to_hive(table, one, ON, format=form), store):
        sync_to_hive(table, broken, ON, format=form)
        assert broken.accurate == set(), (at, half_done)
        whole = whole or broken
        assert (broken.statistics, broken.held) == (whole.statistics, whole.held), (at, half_done)
    assert whole is not None
    assert max(by_name(columns)["k"].high for columns in whole.statistics.values()) == 104


def test_a_new_definition_gets_them_again(opened: Opened, store: MemoryMetastore) -> None:
    """A metastore drops and recreates entries whose columns it does not alter, and statistics with them."""
    sync_to_hive(opened(), store, ON)
    before = dict(store.statistics)
    entry = held(store)
    store.drop_table(*TRIPS)
    wrong = tuple(HiveColumn(c.name, "int" if c.name == "k" else c.type) for c in entry.columns)
    store.put_table(HiveTable("db", "trips", wrong, entry.location, entry.format, entry.parameters))
    sync_to_hive(opened(), store, ON)
    assert store.statistics == before


def test_a_metastore_without_a_place_for_them(opened: Opened, metastore: FileMetastore) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.catalog\.sync\.column\.statistics: .* keeps no statistics"):
        sync_to_hive(opened(), metastore, ON)
    assert metastore.schemas() == []
    with pytest.raises(MetastoreError, match="are not kept here"):
        metastore.put_statistics(HiveTable("s", "t", (), "", HUDI_FORMAT, {}), {})


def test_only_what_changes_brings_them_with_conditional_syncs(
    written: LocalTable, opened: Opened, store: MemoryMetastore
) -> None:
    both = SyncOptions.parse(
        {"hoodie.catalog.sync.column.statistics": "true", "hoodie.datasource.meta_sync.condition.sync": "true"}
    )
    sync_to_hive(opened(), store)
    assert sync_to_hive(opened(), store, both).changes, "they were never recorded"
    written.write("upsert", rows(100, 5))
    assert sync_to_hive(opened(), store, both).changes == ()


BOUNDS = st.floats(-1e18, 1e18) | st.integers(-(2**62), 2**62).map(float)


@given(BOUNDS, BOUNDS, st.sampled_from(["bigint", "double", "decimal(38,4)", "decimal(20,0)"]), st.integers(1, 1000))
def test_bounds_hold_the_values(one: float, other: float, kind: str, number: int) -> None:
    low, high = sorted((one, other))
    known = {"nulls": 0.5, "distinct": number, "low": low, "high": high}
    summary = SnapshotSummary(1, 1, 500, exact=True, columns={"a": known})
    (column,) = column_statistics([HiveColumn("a", kind)], summary)
    assert column.low is not None
    assert column.high is not None
    assert Decimal(column.low) <= Decimal(low) <= Decimal(high) <= Decimal(column.high)
    assert (column.nulls, column.distinct) == (250, min(number, 499))


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("timestamp", {"low": 1.0, "high": 2.0}),
        ("boolean", {}),
        ("array<int>", {}),
        ("decimal(38,0)", {"low": -1e35, "high": 2.0}),
        ("bigint", {"low": 1.0}),
        ("string", {}),
    ],
)
def test_columns_that_get_none(kind: str, known: dict[str, float]) -> None:
    everything = {"nulls": 0.0, "distinct": 2.0, **known}
    summary = SnapshotSummary(1, 1, 5, exact=True, columns={"a": everything})
    assert column_statistics([HiveColumn("a", kind)], summary) == []
    everything.pop("nulls")
    assert column_statistics([HiveColumn("a", kind)], summary) == []


@pytest.fixture
def server() -> Iterator[HiveServer]:
    started = HiveServer()
    started.handler.databases.add("s")
    yield started
    started.close()


@pytest.fixture
def thrift(server: HiveServer) -> Iterator[ThriftMetastore]:
    opened = ThriftMetastore([("127.0.0.1", server.port)], MetastoreOptions(timeout=2.0))
    yield opened
    opened.close()


COLUMNS = [
    ColumnStatistics("a", "bigint", 1, 5, -3, 2**40),
    ColumnStatistics("b", "string", 0, 7, length=2.5),
    ColumnStatistics("c", "decimal(10,2)", 0, 7, Decimal("-1.29"), Decimal("300.00")),
    ColumnStatistics("d", "date", 0, 7, -200_000, 3),
    ColumnStatistics("e", "double", 0, 7, -math.inf, 0.5),
]
TABLE = HiveTable("s", "t", tuple(HiveColumn(c.column, c.type) for c in COLUMNS), "file:///t", HUDI_FORMAT, {})


def test_thrift_has_them_as_hives_analyze_records_them(server: HiveServer, thrift: ThriftMetastore) -> None:
    thrift.put_table(TABLE)
    thrift.put_statistics(TABLE, {(): COLUMNS})
    held = server.handler.statistics["s", "t", None]
    assert {name: one.colType for name, one in held.items()} == {c.column: c.type for c in COLUMNS}
    long = held["a"].statsData.longStats
    assert (long.lowValue, long.highValue, long.numNulls, long.numDVs) == (-3, 2**40, 1, 5)
    text = held["b"].statsData.stringStats
    assert (text.maxColLen, text.avgColLen, text.numDVs) == (3, 2.5, 7)
    exact = held["c"].statsData.decimalStats
    assert (int.from_bytes(exact.lowValue.unscaled, "big", signed=True), exact.lowValue.scale) == (-129, 2)
    assert (int.from_bytes(exact.highValue.unscaled, "big", signed=True), exact.highValue.scale) == (30000, 2)
    assert held["d"].statsData.dateStats.lowValue.daysSinceEpoch == -200_000
    assert held["e"].statsData.doubleStats.highValue == 0.5
    entry = thrift.table("s", "t")
    assert entry is not None
    assert "COLUMN_STATS_ACCURATE" not in entry.parameters, "the metastore marks them"
    assert server.handler.marked == [None]


def test_thrift_has_those_of_partitions_in_batches(
    server: HiveServer, thrift: ThriftMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thrift_metastore, "_MEASURED_AT_ONCE", 2)
    table = HiveTable("s", "t", TABLE.columns, "file:///t", HUDI_FORMAT, {}, (HiveColumn("p", "string"),))
    thrift.put_table(table)
    values = ["a/b", "c", "d=", "e"]
    thrift.put_partitions(table, [HivePartition((one,), f"file:///t/{one}") for one in values])
    measured = {(one,): [] if one == "e" else COLUMNS[:1] for one in [*values, "dropped meanwhile"]}
    thrift.put_statistics(table, measured)
    assert sorted(filter(None, server.handler.marked)) == ["p=a%2Fb", "p=c", "p=d%3D"]
    assert server.handler.calls.count("set_aggr_stats_for") == 2
    parts = server.handler.partitions["s", "t"].values()
    assert not any("COLUMN_STATS_ACCURATE" in one.parameters for one in parts)
    with pytest.raises(MetastoreError, match=r"set_aggr_stats_for s\.gone"):
        thrift.put_statistics(HiveTable("s", "gone", (), "", HUDI_FORMAT, {}), {(): COLUMNS})


def test_dates_before_1582_have_their_days(tmp_path: Path, store: MemoryMetastore) -> None:
    days = [dt.date(1, 1, 1), None, dt.date(1500, 3, 1)]
    values = pa.table({"id": [1, 2, 3], "born": pa.array(days, pa.date32())})
    made = {"hoodie.table.name": "old", "hoodie.datasource.write.recordkey.field": "id"}
    LocalTable.create(str(tmp_path / "old"), values.schema, made).write("insert", values)
    sync_to_hive(Table.open(str(tmp_path / "old")), store, ON)
    born = by_name(store.statistics[("default", "old"), ()])["born"]
    assert (born.nulls, born.low, born.high) == (1, -719_162, (dt.date(1500, 3, 1) - dt.date(1970, 1, 1)).days)
