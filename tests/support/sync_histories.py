"""Random histories of a table and of its entries in a metastore, and what the entries must say in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.metastore import HivePartition, HiveTable, Metastore
from hudi_catalog.metastore.sync_options import SyncOptions
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import KilledError

PARTITIONS = ["a", "b=1", "c d", "100%", "é"]
COLUMNS = {"n": (pa.int32(), pa.int64(), "int", "bigint"), "t": (pa.string(), pa.string(), "string", "string")}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.database.name": "db",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.reconcile.schema": "true",
    "hoodie.bucket.index.num.buckets": "1",
}
SOME = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)
WRITES = st.tuples(st.sampled_from(["upsert", "upsert", "insert_overwrite", "insert_overwrite_table"]), SOME)
STEPS = st.one_of(
    WRITES,
    WRITES,
    st.tuples(st.just("delete_partition"), SOME),
    st.tuples(st.just("add column"), st.sampled_from(list(COLUMNS))),
    st.tuples(st.just("promote"), st.just("n")),
    st.tuples(st.sampled_from(["sync", "sync", "dry run"]), st.none()),
    st.tuples(st.just("killed sync"), st.integers(0, 12)),
    st.tuples(st.just("drop partition"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("misplace partition"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("drop table"), st.none()),
)
HISTORIES = st.lists(STEPS, min_size=2, max_size=8)
Kill = Callable[[int], "Metastore"]


@dataclass
class History:
    """A table, what it must hold, and a metastore.

    Args:
        folder: of the table.
        store: the metastore.
        dying: gives the same metastore, which dies at a step.
        form: of the entry.
        hive_style: of the partition paths.
    """

    folder: str
    store: Metastore
    dying: Kill
    form: str
    hive_style: bool
    live: set[str] = field(default_factory=set)
    columns: dict[str, int] = field(default_factory=dict)
    database: str = "db"

    def __post_init__(self) -> None:
        options = {**OPTIONS, "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower()}
        self.table = LocalTable.create(self.folder, self.rows(["a"]).schema, options)
        self.write("upsert", ["a"])

    def rows(self, partitions: list[str]) -> pa.Table:
        """A row for each partition."""
        count = len(partitions)
        made = pa.table({"k": pa.array(partitions), "p": pa.array(partitions), "x": pa.array([0.5] * count)})
        for name, version in self.columns.items():
            kind: Any = COLUMNS[name][version]
            made = made.append_column(name, pa.array([None] * count, kind))
        return made

    def path(self, partition: str) -> str:
        return f"p={partition}" if self.hive_style else partition

    def write(self, operation: str, partitions: list[str]) -> None:
        if operation == "delete_partition":
            self.table.write(operation, partitions=[self.path(one) for one in partitions if one in self.live])
            self.live -= set(partitions)
            return
        self.table.write(operation, self.rows(partitions))
        self.live = (set() if operation == "insert_overwrite_table" else self.live) | set(partitions)

    def step(self, what: str, of: Any) -> None:
        if what in {"add column", "promote"}:
            version = int(what == "promote")
            if (of in self.columns) == bool(version) and not (version and self.form == "apache"):
                self.columns[of] = version
                self.write("upsert", ["a"])
        elif what in {"sync", "dry run"}:
            self.sync(self.store, dry_run=what == "dry run")
        elif what == "killed sync":
            with contextlib.suppress(KilledError):
                self.sync(self.dying(of))
        elif what in {"drop partition", "misplace partition", "drop table"}:
            self.meddle(what, of)
        elif what != "delete_partition" or self.live & set(of):
            self.write(what, of)

    def meddle(self, what: str, of: Any) -> None:
        """Outside changes to the entry."""
        entry = self.store.table(self.database, "t")
        if entry is None:
            return
        if what == "drop table":
            self.store.drop_table(self.database, "t")
        elif entry.partition_columns and what == "drop partition":
            self.store.drop_partitions(entry, [(of,)])
        elif entry.partition_columns:
            self.store.put_partitions(entry, [HivePartition((of,), f"{entry.location}/elsewhere")])

    def sync(self, store: Metastore, *, dry_run: bool = False) -> tuple[Any, ...]:
        options = SyncOptions(database=self.database)
        return sync_to_hive(Table.open(self.folder), store, options, format=self.form, dry_run=dry_run).changes

    def check(self) -> None:
        """The entry says what the history made of the table."""
        self.write("upsert", ["a"])  # what somebody misplaced is put right with the next commit
        self.sync(self.store)
        entry = self.store.table(self.database, "t")
        assert entry is not None
        assert types_of(entry) == self.types()
        partitions = self.store.partitions(entry) if entry.partition_columns else []
        wanted = {(one,): f"{entry.location}/{self.path(one)}" for one in self.live}
        assert {one.values: one.location for one in partitions} == (wanted if self.form == "apache" else {})
        assert all(one.columns in (None, entry.columns) for one in partitions)
        instant = Table.open(self.folder).snapshot().instant
        assert entry.parameters["last_commit_time_sync"] == instant
        assert self.sync(self.store) == ()

    def types(self) -> Mapping[str, str]:
        added = {name: COLUMNS[name][2 + version] for name, version in self.columns.items()}
        return {"k": "string", "p": "string", "x": "double", **added}


def types_of(entry: HiveTable) -> dict[str, str]:
    """An entry's columns without Hudi's own."""
    columns = (*entry.columns, *entry.partition_columns)
    return {column.name: column.type for column in columns if not column.name.startswith("_hoodie")}
