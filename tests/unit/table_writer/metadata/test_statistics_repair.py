"""Column statistics after a restore by Apache Hudi, which deletes them or leaves those of some files out."""

import logging

import pytest

from table_format.actions.restore import RestoreMetadata, RestorePlan
from table_format.instant import Action, State
from table_format.metadata_table.layout import COLUMN_STATS
from table_format.table.client import TableClient
from table_writer.commit.restore import restore_table
from table_writer.metadata.writer import remove_indexes
from table_writer.timeline.instants import ensure_state, request
from tests.support.toy_fixtures import client, quick_files, storage
from tests.support.toy_table import assert_tidy, begin, rows_of, upsert

__all__ = ["client", "quick_files", "storage"]
FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}, ("p=b", 0): {"k3": 3}}
SECOND = {("p=a", 0): {"k1": 10}}


def restored_by_apache(client: TableClient) -> None:
    """A restore that takes nothing back, as Apache 0.15.0 leaves it: not in the metadata table, without statistics."""
    target = client.timeline().writes[-1].time
    restore = request(client, Action.RESTORE, RestorePlan(target).to_avro())
    ensure_state(client.storage, restore.at(State.INFLIGHT), b"")
    content = RestoreMetadata.of_rollbacks(restore.time, 0, []).to_avro()
    ensure_state(client.storage, restore.at(State.COMPLETED), content)
    remove_indexes(client, [COLUMN_STATS])


def test_the_next_write_builds_them_again(client: TableClient, caplog: pytest.LogCaptureFixture) -> None:
    upsert(client, FIRST)
    restored_by_apache(client)
    assert client.reload().metadata_partitions == ("files",)
    with caplog.at_level(logging.WARNING):
        upsert(client, SECOND)
    assert "left column statistics out: they are built again from 3 files" in caplog.text
    assert client.reload().metadata_partitions == ("column_stats", "files")
    assert rows_of(client.storage.uri) == {("p=a", "k1"): 10, ("p=a", "k2"): 2, ("p=b", "k3"): 3}
    assert_tidy(client.storage.uri)


def test_who_turned_them_off_has_none(client: TableClient) -> None:
    upsert(client, FIRST)
    restored_by_apache(client)
    upsert(client, SECOND, {"hoodie.metadata.index.column.stats.enable": "false"})
    assert client.reload().metadata_partitions == ("files",)
    upsert(client, SECOND)
    assert client.reload().metadata_partitions == ("files",), "the write before this one went without"


def test_our_own_restores_leave_none_out(client: TableClient, caplog: pytest.LogCaptureFixture) -> None:
    upsert(client, FIRST)
    upsert(client, SECOND)
    restore_table(client, client.timeline().writes[0].time)
    with caplog.at_level(logging.WARNING):
        upsert(client, SECOND)
    assert "statistics" not in caplog.text
    assert client.reload().metadata_partitions == ("column_stats", "files")


def test_beside_a_pending_write_they_stay_away(client: TableClient) -> None:
    upsert(client, FIRST)
    with begin(client) as beside:
        beside.mark_inflight()
        restored_by_apache(client)
        upsert(client, SECOND)
    assert client.reload().metadata_partitions == ("files",)
    assert rows_of(client.storage.uri) == {("p=a", "k1"): 10, ("p=a", "k2"): 2, ("p=b", "k3"): 3}
