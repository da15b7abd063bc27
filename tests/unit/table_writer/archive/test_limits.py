"""What keeps instants from being archived."""

import pytest

from table_format.errors import OptionError
from table_format.instant import Action, Instant, State
from table_writer.archive.archive import archive
from table_writer.services.clean import clean
from table_writer.timeline.instants import instant_path
from tests.support.archived_tables import SHORT
from tests.support.toy_table import begin, make, overwrite, upsert

BY_HAND = {**SHORT, "hoodie.archive.automatic": "false"}


def grow(client, commits=8, options=None):
    for number in range(commits):
        upsert(client, {("p=a", 0): {"k": number}}, {**BY_HAND, **(options or {})})
    return [write.time for write in client.timeline().writes]


def archived(client, options=None):
    """How many writes a run archives."""
    before = {write.time for write in client.timeline().writes}
    archive(client, {**SHORT, **(options or {})})
    return len(before - {write.time for write in client.timeline().writes})


@pytest.mark.slow
def test_the_numbers(client):
    grow(client, 8)
    assert archived(client, {"hoodie.keep.min.commits": "7", "hoodie.keep.max.commits": "8"}) == 0
    assert archived(client, {"hoodie.keep.min.commits": "6", "hoodie.keep.max.commits": "7"}) == 2
    assert archived(client) == 4


@pytest.mark.parametrize(("least", "most"), [("5", "5"), ("6", "5"), ("0", "5"), ("x", "5")])
def test_wrong_numbers(client, least, most):
    with pytest.raises(OptionError, match=r"hoodie\.keep\.m"):
        archive(client, {"hoodie.keep.min.commits": least, "hoodie.keep.max.commits": most})


@pytest.mark.slow
def test_what_cleaning_retains_stays_with_the_write_before(client):
    grow(client, 9)
    assert archived(client, {"hoodie.clean.commits.retained": "9"}) == 0
    assert archived(client, {"hoodie.clean.commits.retained": "5"}) == 3
    hours = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "5"}
    assert archived(client, hours) == 0
    versions = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}
    assert archived(client, versions) == 4


@pytest.mark.slow
def test_what_a_pending_write_may_read_stays(client):
    grow(client, 4)
    with begin(client, BY_HAND):
        times = [write.time for write in client.timeline().writes]
        for number in range(5):
            upsert(client, {("p=b", 1): {"k": number}}, {**BY_HAND, "hoodie.clean.automatic": "false"})
        archived(client)
        assert client.timeline().writes[0].time in times


@pytest.mark.slow
def test_a_savepoint_that_died_half_way_keeps_nothing(client, storage):
    times = grow(client, 30)
    storage.create(instant_path(Instant(times[0], Action.SAVEPOINT, State.INFLIGHT)), b"")
    report = archive(client, SHORT)
    assert times[0] in report.instants
    assert report.metadata_instants


@pytest.mark.slow
def test_savepoints_stay_with_all_that_follows(client, storage):
    times = grow(client, 8)
    storage.create(instant_path(Instant(times[2], Action.SAVEPOINT, State.COMPLETED)), b"")
    assert archived(client) == 2
    storage.delete(instant_path(Instant(times[2], Action.SAVEPOINT, State.COMPLETED)))
    assert archived(client) == 4


def test_nothing_before_the_metadata_table_is_compacted(client):
    grow(client, 8, {"hoodie.metadata.compact.max.delta.commits": "1000", "hoodie.clean.automatic": "false"})
    assert archived(client) == 0
    upsert(client, {("p=a", 0): {"k": 9}}, BY_HAND)
    assert archived(client)


def test_a_table_without_metadata_table(storage):
    client = make(storage, {"hoodie.metadata.enable": "false"})
    grow(client, 8, {"hoodie.metadata.enable": "false"})
    assert archived(client) == 6


@pytest.mark.slow
def test_replacecommits_stay_until_what_they_replaced_is_cleaned(client):
    options = {**BY_HAND, "hoodie.clean.automatic": "false"}
    upsert(client, {("p=a", 0): {"k": 0}}, options)
    upsert(client, {("p=b", 0): {"k": 0}}, options)
    overwrite(client, {("p=a", 0): {"k": 1}}, options)
    for number in range(6):
        upsert(client, {("p=b", 0): {"k": number}}, options)
    assert archived(client) == 2
    clean(client, {"hoodie.clean.commits.retained": "1"})
    assert archived(client)
    assert not [write for write in client.timeline().writes if write.action == Action.REPLACECOMMIT]


@pytest.mark.slow
def test_nothing_past_the_last_clean_where_that_is_asked_for(client):
    grow(client, 5)
    grow(client, 5, {"hoodie.clean.automatic": "false"})
    blocked = {"hoodie.archive.block.on.latest.clean.ectr": "true"}
    assert archived(client, blocked) == 4
    assert archived(client) == 4
