import datetime as dt
import time

import pytest

from table_format.errors import OptionError, TransactionError
from table_format.instant import (
    Instant,
    State,
    next_instant_time,
    parse_as_of,
    parse_instant_file_name,
)

NOON = dt.datetime(2026, 11, 21, 12, 0, 0, 123_999, tzinfo=dt.UTC)


@pytest.fixture
def tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        ("20261121080407220.commit.requested", "commit", State.REQUESTED),
        ("20261121080407220.inflight", "commit", State.INFLIGHT),
        ("20261121080407220.commit", "commit", State.COMPLETED),
        ("20261121080407220.deltacommit.inflight", "deltacommit", State.INFLIGHT),
        ("20261121080407220.replacecommit.requested", "replacecommit", State.REQUESTED),
        ("20261121080407220.clean", "clean", State.COMPLETED),
        ("20261121080407220.rollback.inflight", "rollback", State.INFLIGHT),
        ("20261121080407220.savepoint.inflight", "savepoint", State.INFLIGHT),
        ("20261121080407220.compaction.requested", "compaction", State.REQUESTED),
        ("20261121080407220001.commit", "commit", State.COMPLETED),
    ],
)
def test_file_names_both_ways(name, action, state):
    instant = parse_instant_file_name(name)
    assert (instant.action, instant.state) == (action, state)
    assert instant.file_name == name


def test_a_completed_compaction_is_a_commit():
    assert Instant("1", "compaction", State.COMPLETED).file_name == "1.commit"
    assert Instant("1", "compaction", State.INFLIGHT).comparable_action == "commit"


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        "archived",
        ".1.commit.crc",
        "1.commit.crc",
        "1.unknown",
        "1.commit\n",
        "1_2.commit.requested",
        "1_2.inflight",
        "1_2_3.commit",
        "_2.commit",
        "٣.commit",
        "1.commit.done",
        ".temp",
        "1.",
    ],
)
def test_other_files_are_no_instants(name):
    assert parse_instant_file_name(name) is None


def test_now_in_utc_and_in_the_local_zone(tokyo):
    assert next_instant_time(None, "UTC", NOON) == "20261121120000123"
    assert next_instant_time(None, "LOCAL", NOON) == "20261121210000123"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("20261121120000122", "20261121120000123"),
        ("20261121120000123", "20261121120000124"),
        ("20261231235959999", "20270101000000000"),
        ("20261121120000123001", "20261121120000124"),  # a table service of the metadata table
        ("20270101000000", "20270101000001000"),  # times of old releases end with the second
        ("99990000000000000", "99990000000000001"),  # no calendar time
        ("00000000000000010", "20261121120000123"),
    ],
)
def test_times_only_rise(last, expected):
    assert next_instant_time(last, "UTC", NOON) == expected
    assert expected > last


def test_a_clock_that_goes_back_still_rises():
    last = None
    for step in (0, 5, -3_600_000, 1, 0, 0, -1):
        moment = next_instant_time(last, "UTC", NOON + dt.timedelta(milliseconds=step))
        assert last is None or moment > last
        last = moment


def test_nothing_follows_the_last_time():
    with pytest.raises(TransactionError):
        next_instant_time("9" * 17, "UTC", NOON)


def test_early_years_keep_four_digits():
    assert next_instant_time(None, "UTC", dt.datetime(7, 1, 2, tzinfo=dt.UTC)) == "00070102000000000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20261121080407220", "20261121080407220"),
        ("20261121080407", "20261121080407999"),
        (" 2026-11-21 ", "20261121000000000"),
        ("2026-11-21T08:04:07", "20261121080407000"),
        ("2026-11-21 08:04:07.220", "20261121080407220"),
        ("2026-11-21T08:04:07Z", "20261121170407000"),
        ("2026-11-21T08:04:07+08:00", "20261121090407000"),
    ],
)
def test_as_of(text, expected, tokyo):
    assert parse_as_of(text, "LOCAL") == expected


def test_as_of_with_an_offset_in_a_utc_table(tokyo):
    assert parse_as_of("2026-11-21T08:04:07+09:00", "UTC") == "20261120230407000"


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026", "2026112108040", "0001-01-01T00:00:00+14:00", "٢٠٢٦١١٢١٠٨٠٤٠٧"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(OptionError):
        parse_as_of(text, "UTC")


def test_completed_instants_of_layout_2_carry_their_completion():
    instant = parse_instant_file_name("20261121083050957_20261121083054501.deltacommit")
    assert instant == Instant("20261121083050957", "deltacommit", State.COMPLETED)
    assert instant.completion_time == "20261121083054501"
    assert instant.file_name == "20261121083050957_20261121083054501.deltacommit"


def test_clusterings_of_layout_2_complete_as_replacecommits():
    pending = parse_instant_file_name("20261121082354531.clustering.requested")
    assert (pending.action, pending.comparable_action) == ("clustering", "replacecommit")
    assert Instant("1", "clustering", State.COMPLETED, "2").file_name == "1_2.replacecommit"
