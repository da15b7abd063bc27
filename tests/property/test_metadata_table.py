"""Random histories of a data table, seen through the metadata table that they leave."""

import tempfile
from dataclasses import dataclass, field
from unittest import mock

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from table_format.config.table_config import create_table_config
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.encoding import hfile, metadata_records
from table_writer.metadata import index_compaction
from table_writer.metadata.compaction import MAX_DELTA_COMMITS_KEY
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.recovery import rollback_in_metadata_table
from table_writer.metadata.writer import update_metadata_table
from tests.support.golden_metadata import files, statistics

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "commit", "delete", "crash", "crash in the metadata table", "retry"]),
        st.lists(st.sampled_from(["", "a", "b/ü", "c d"]), min_size=0, max_size=3),
        st.integers(1, 4),
    ),
    max_size=9,
)

WAITING, AT_ONCE = {"_LARGE": 1, "_LOG_SHARE": 0}, {"_LARGE": 100_000}


@dataclass
class Model:
    """What the table holds: sizes by partition and file name."""

    client: TableClient
    number: int = 0
    files: dict[tuple[str, str], int] = field(default_factory=dict)
    partitions: set[str] = field(default_factory=set)

    def begin(self):
        self.number += 1
        time = f"20260101{self.number:09d}"
        self.client.storage.create(f".hoodie/{time}.commit.requested", b"")
        self.client.storage.create(f".hoodie/{time}.inflight", b"")
        return time

    def complete(self, time):
        self.client.storage.create(f".hoodie/{time}.commit", b"{}")

    def forget(self, time):
        for state in (".inflight", ".commit.requested"):
            self.client.storage.delete(f".hoodie/{time}{state}")

    def step(self, kind, partitions, limit):
        time = self.begin()
        rows = [(partition, f"{place}_{time}.parquet", self.number) for place, partition in enumerate(partitions)]
        stats = statistics(*((partition, name, "x", -size, size) for partition, name, size in rows))
        changes = {"files_added": files(*rows), "column_stats": stats}
        options = {MAX_DELTA_COMMITS_KEY: str(limit)}
        if kind == "delete":
            gone = sorted(self.files)[: len(partitions)]
            table = files(*((partition, name, 0) for partition, name in gone)).select(["partition", "file_name"])
            update_metadata_table(self.client, time, files_deleted=table, options=options)
            self.complete(time)
            self.files = {key: size for key, size in self.files.items() if key not in gone}
            return
        update_metadata_table(self.client, time, options=options, **changes)
        if kind == "retry":
            update_metadata_table(self.client, time, options=options, **changes)
        if kind == "crash":
            rollback = self.begin()
            update_metadata_table(self.client, rollback)
            rollback_in_metadata_table(self.client.storage, time, rollback)
            self.forget(time)
            self.complete(rollback)
        elif kind == "crash in the metadata table":
            self.client.storage.delete(f".hoodie/metadata/.hoodie/{time}.deltacommit")
            self.forget(time)
        else:
            self.complete(time)
            self.files |= {(partition, name): size for partition, name, size in rows}
            self.partitions |= set(partitions)


def new_table(folder, shards):
    storage = Storage(folder)
    values = {"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
    create_table_config(storage, {**values, "hoodie.table.type": "COPY_ON_WRITE"})
    model = Model(TableClient.open(storage))
    create_metadata_table(model.client, column_stats_shards=shards)
    return model


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(1, 3), st.sampled_from([1, 300, hfile.DEFAULT_BLOCK_SIZE]), st.booleans())
def test_the_metadata_table_holds_what_was_committed(steps, shards, block_size, waiting):
    # with small data blocks a compaction copies those into which no change falls; file groups of statistics wait for
    # more log blocks as large ones do
    with (
        mock.patch.multiple(index_compaction, **(WAITING if waiting else AT_ONCE)),
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(hfile, "DEFAULT_BLOCK_SIZE", block_size),
        mock.patch.object(metadata_records, "_LISTING_BLOCK", block_size),
    ):
        model = new_table(folder, shards)
        for step in steps:
            model.step(*step)
            table = MetadataTable.open(model.client, model.client.timeline())
            sizes = {(row["partition"], row["file_name"]): row["size"] for row in table.files().to_pylist()}
            assert sizes == model.files
            assert table.all_partitions() == sorted(model.partitions)
            bounds = table.column_stats("x", pa.int64()).to_pylist()
            known = {row["file_name"]: row["max"] for row in bounds}
            assert {name: known[name] for _, name in model.files} == {n: size for (_, n), size in model.files.items()}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_a_refreshed_table_is_the_one_that_is_opened_afresh(steps, shards, distance, waiting):
    with (
        mock.patch.multiple(index_compaction, **(WAITING if waiting else AT_ONCE)),
        tempfile.TemporaryDirectory() as folder,
    ):
        model = new_table(folder, shards)
        held = [MetadataTable.open(model.client, model.client.timeline())]
        stats = [held[0].column_stats("x", pa.int64())]
        for step in steps:
            model.step(*step)
            timeline = model.client.timeline()
            fresh, refreshed = MetadataTable.open(model.client, timeline), held[-1].refreshed(model.client, timeline)
            assert sorted(map(repr, refreshed.files().to_pylist())) == sorted(map(repr, fresh.files().to_pylist()))
            assert refreshed.all_partitions() == fresh.all_partitions()
            older = held[-min(distance, len(held))]
            added = refreshed.column_stats_since(older, "x", pa.int64())
            held.append(refreshed)
            stats.append(fresh.column_stats("x", pa.int64()))
            if added is None:
                continue
            before = by_name(stats[-1 - min(distance, len(held) - 1)])
            now = {name: row for name, row in by_name(stats[-1]).items() if before.get(name) != row}
            assert {name: row for name, row in by_name(added).items() if name in now} == now
            assert all(name in before for name in by_name(added).keys() - now.keys())


def by_name(table):
    return {row["file_name"]: row for row in table.to_pylist()}
