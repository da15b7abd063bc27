import datetime as dt
import os

import pytest

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.instant import State
from table_format.storage import Storage
from table_format.timeline.timeline import load_timeline
from tests.support.golden_tables import NAMES, facts, instants, lay_out, taken_back


def _timeline(folder, *names):
    os.makedirs(folder / ".hoodie", exist_ok=True)
    for name in names:
        (folder / ".hoodie" / name).write_bytes(b"")
    return load_timeline(Storage(str(folder)))


@pytest.mark.parametrize("name", NAMES)
def test_timelines_of_apache(name, tmp_path):
    timeline = load_timeline(Storage(lay_out(name, tmp_path)))
    instants = [[i.time, i.comparable_action, i.state.name] for i in timeline.instants]
    assert instants == facts(name)["timeline"]
    for instant in timeline.writes:
        metadata = timeline.commit_metadata(instant)
        assert metadata.operation_type != "UNKNOWN"
        assert all(stat.path.endswith(stat.file_name) for stat in metadata.stats())


def test_the_highest_state_counts(tmp_path):
    timeline = _timeline(tmp_path, "1.commit.requested", "1.inflight", "1.commit", "2.commit.requested", "2.inflight")
    assert [(i.time, i.state) for i in timeline.instants] == [("1", State.COMPLETED), ("2", State.INFLIGHT)]
    assert [i.time for i in timeline.pending] == ["2"]
    assert timeline.last_completed_write().time == "1"
    assert timeline.last_instant_time == "2"


def test_a_compaction_and_its_commit_are_one(tmp_path):
    timeline = _timeline(tmp_path, "1.compaction.requested", "1.compaction.inflight", "1.commit")
    assert [(i.action, i.state) for i in timeline.instants] == [("commit", State.COMPLETED)]


def test_a_savepoint_stands_beside_its_commit(tmp_path):
    timeline = _timeline(tmp_path, "1.commit", "1.savepoint.inflight", "1.savepoint")
    assert [i.action for i in timeline.instants] == ["commit", "savepoint"]
    assert timeline.find("1", "savepoint").state is State.COMPLETED


def test_committed_means_completed_or_archived(tmp_path):
    timeline = _timeline(tmp_path, "3.commit", "5.commit.requested", "5.inflight", "7.clean", "8.commit")
    assert timeline.is_committed("3")
    assert timeline.is_committed("1"), "older than the timeline, so archived"
    assert not timeline.is_committed("5"), "pending"
    assert not timeline.is_committed("4"), "unknown, and not older than the timeline"
    assert not timeline.is_committed("7"), "cleans write no data files"
    assert not timeline.is_committed("9")


def test_writes_between_a_savepoint_and_the_next_write_were_archived(tmp_path):
    timeline = _timeline(tmp_path, "3.commit", "3.savepoint", "7.rollback", "8.commit", "9.commit.requested")
    assert timeline.is_committed("3")
    assert timeline.is_committed("5"), "archived beyond the savepoint"
    assert timeline.is_committed("2")
    assert not timeline.is_committed("85")
    assert not timeline.is_committed("9")
    alone = _timeline(tmp_path / "alone", "3.commit", "3.savepoint")
    assert alone.is_committed("2")
    assert not alone.is_committed("5")


def test_nothing_is_archived_past_a_pending_write(tmp_path):
    timeline = _timeline(tmp_path, "2.commit.requested", "2.inflight", "3.commit")
    assert timeline.is_committed("1")
    assert not timeline.is_committed("2")


def test_an_empty_timeline_commits_nothing(tmp_path):
    timeline = _timeline(tmp_path)
    assert not timeline.is_committed("1")
    assert timeline.last_completed_write() is None
    assert timeline.last_instant_time is None


def test_last_write_as_of(tmp_path):
    timeline = _timeline(tmp_path, "3.commit", "5.replacecommit", "7.clean")
    assert timeline.last_completed_write("6").time == "5"
    assert timeline.last_completed_write("4").time == "3"
    assert timeline.last_completed_write("2") is None


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("v6_0150__bkt_rollback", 1),
        ("v6_1200__bkt_rollback", 1),
        ("v6_0150__bkt_restore", 2),
        ("v6_1200__bkt_restore", 2),
    ],
)
def test_what_rollbacks_and_restores_took_back(name, count, tmp_path):
    timeline = load_timeline(Storage(lay_out(name, tmp_path)))
    times = taken_back(name)
    assert len(times) == count
    assert timeline.rolled_back == set(times)
    assert not any(timeline.is_committed(time) for time in times)


def test_rolled_back_is_not_archived(tmp_path):
    """The failed write was the table's first: it is older than the timeline, yet never counted."""
    name = "v6_0150__bkt_rollback"
    base = lay_out(name, tmp_path)
    [failed], [saved] = taken_back(name), instants(name, "savepoint")
    before = max(time for time in instants(name, "commit") if time < failed)
    for entry in sorted(os.listdir(f"{base}/.hoodie")):
        if entry[:1].isdigit() and (entry < failed or entry.startswith(f"{saved}.savepoint")):
            os.unlink(f"{base}/.hoodie/{entry}")
    timeline = load_timeline(Storage(base))
    assert timeline.first_instant.time > failed
    assert timeline.is_committed(before)
    assert not timeline.is_committed(failed)


def test_an_empty_rollback_says_nothing(tmp_path):
    assert _timeline(tmp_path, "3.commit", "4.rollback").rolled_back == frozenset()


def test_a_damaged_rollback_is_named(tmp_path):
    timeline = _timeline(tmp_path, "3.commit", "4.rollback")
    (tmp_path / ".hoodie" / "4.rollback").write_bytes(b"Obj\x01\x02")
    with pytest.raises(CorruptFileError, match=r"\.hoodie/4\.rollback: at byte"):
        timeline.is_committed("1")


def test_savepoints_hold_their_files(tmp_path):
    name = "v6_0150__bkt_rollback"
    timeline = load_timeline(Storage(lay_out(name, tmp_path)))
    [saved] = instants(name, "savepoint")
    savepoint = timeline.savepoint_metadata(timeline.find(saved, "savepoint"))
    assert sorted(savepoint.files) == [""]
    assert sorted(name.rsplit("_", 1)[1] for name in savepoint.files[""]) == [f"{saved}.parquet"] * 4


def test_the_newer_layout_is_refused_by_name(tmp_path):
    with pytest.raises(UnsupportedTableError, match=r"20261121080703928_20261121080703999\.commit"):
        _timeline(tmp_path, "20261121080703928_20261121080703999.commit")


def _layout_2(folder, *names):
    os.makedirs(folder / "t", exist_ok=True)
    for name in names:
        (folder / "t" / name).write_bytes(b"")
    return load_timeline(Storage(str(folder)), "t", 2, "UTC")


def test_completion_times_of_layout_2(tmp_path):
    timeline = _layout_2(tmp_path, "3_5.deltacommit", "3.deltacommit.requested", "3.deltacommit.inflight", "4.inflight")
    assert [(i.time, i.state, i.completion_time) for i in timeline.instants] == [
        ("3", State.COMPLETED, "5"),
        ("4", State.INFLIGHT, None),
    ]
    assert timeline.completion_time("3") == "5"
    assert timeline.completion_time("4") is None
    assert timeline.path(timeline.completed[0]) == "t/3_5.deltacommit"


def test_instants_that_an_upgrade_left_completed_when_their_file_changed(tmp_path):
    _layout_2(tmp_path, "3.commit")
    os.utime(tmp_path / "t/3.commit", ns=(0, 1_800_000_000_123_000_000))
    timeline = _layout_2(tmp_path)
    assert timeline.completion_time("3") == "20270115080000123"
    assert timeline.path(timeline.completed[0]) == "t/3.commit"


def test_instants_that_an_upgrade_left_count_where_a_copy_lost_their_files_times(tmp_path):
    first, slow, second, last = "20260101000000000", "20260101000000001", "20260102000000000", "20260104000000000"
    _layout_2(tmp_path, f"{first}.deltacommit", f"{second}.deltacommit")
    for time, day in ((first, 3), (second, 5)):
        moment = dt.datetime(2026, 1, day, tzinfo=dt.UTC).timestamp()
        os.utime(tmp_path / f"t/{time}.deltacommit", (moment, moment))

    def known(*names):
        timeline = _layout_2(tmp_path, *names)
        return [timeline.completion_time(time) for time in (first, second)]

    assert known() == ["20260103000000000", "20260105000000000"]
    # one that began before the upgrade, and completed after it
    assert known(f"{slow}_20260106000000000.replacecommit") == ["20260103000000000", "20260105000000000"]
    assert known(f"{last}_20260107000000000.commit") == ["20260103000000000", second]


def test_plans_of_layout_2(tmp_path):
    timeline = _layout_2(
        tmp_path, "1.compaction.requested", "2.clustering.requested", "3.clustering.requested", "3_4.replacecommit"
    )
    assert [i.time for i in timeline.pending_compactions] == ["1"]
    assert [(i.time, i.action) for i in timeline.pending] == [("1", "compaction"), ("2", "clustering")]
    assert [i.time for i in timeline.writes] == ["3"]
