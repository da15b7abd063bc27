"""Incremental scans: of tables that Apache wrote, and of timelines in which writers overtake each other."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from catalog import Table
from catalog.rows.json_rows import json_lines
from catalog.snapshots.incremental import InstantRange, checkpoint_of, instant_range
from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.errors import OptionError, PendingWriteError, UnsupportedTableError
from table_format.instant import Instant, State
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from tests.support.catalog_tables import NEWER_NAMES
from tests.support.layout_2_tables import to_layout_2
from tests.unit.conftest import GoldenTable

NAMES = [
    "v6_0150__bkt_evolve",
    "v6_0150__bkt_hive",
    "v6_0150__bloom_replace",
    "v6_1200__cluster",
    "v6_0150__bkt_restore",
    "v6_0150__bkt_archive",  # ranges from the beginning reach into the archived timeline
]


def texts(rows: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def read(table: Table, begin: str, end: str | None = None, **arguments: Any) -> list[str]:
    rows = table.scan(incremental=(begin, end), **arguments).to_arrow()
    return texts(json.loads(line) for line in json_lines(rows))


@pytest.mark.parametrize("name", NAMES)
def test_a_range_up_to_now_holds_the_rows_with_its_commit_times(
    golden: Callable[[str], GoldenTable], name: str
) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    for begin in ["earliest", "000", *(write.time for write in table.snapshot().timeline.writes)]:
        wanted = [row for row in golden_table.rows if begin == "earliest" or row["_hoodie_commit_time"] > begin]
        assert read(table, begin) == texts(wanted)
        assert table.scan(incremental=(begin, None)).count() == len(wanted)


@pytest.mark.parametrize("name", [name for name in NEWER_NAMES if not name.endswith("nometa")])
@pytest.mark.slow
def test_ranges_of_merge_on_read_tables_and_of_layout_2(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    timeline = table.snapshot().timeline
    done = {write.time: timeline.completion_time(write.time) or write.time for write in timeline.writes}
    for begin in ["0", *done.values()]:
        wanted = [row for row in golden_table.rows if done.get(row["_hoodie_commit_time"], "1") > begin]
        assert read(table, begin) == texts(wanted)
    assert texts(golden_table.rows) == read(table, "earliest", max(done.values()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v6_0150__mor_pending", "v8_1020__mor_pending", "v9_1200__mor_pending"])
def test_states_of_the_past_have_the_log_blocks_of_then(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name).open()
    timeline = table.snapshot().timeline
    sizes = []
    for write in timeline.writes:
        then = [json.loads(line) for line in json_lines(table.scan(as_of=write.time).to_arrow())]
        assert max(row["_hoodie_commit_time"] for row in then) <= write.time
        done = timeline.completion_time(write.time) or write.time
        assert read(table, "earliest", done) == texts(then)
        sizes.append(len(then))
    deleted = sizes[1] - sizes[2]
    assert deleted == 7  # the third write is a delete


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v6_0150__bkt_evolve", "v6_1200__cluster"])
def test_a_range_in_the_past_holds_rows_as_they_stood_at_its_end(
    golden: Callable[[str], GoldenTable], name: str
) -> None:
    table = golden(name).open()
    times = [write.time for write in table.snapshot().timeline.writes]
    for last, end in enumerate(times):
        then = [json.loads(line) for line in json_lines(table.scan(as_of=end).to_arrow())]
        for begin in times[: last + 1]:
            assert read(table, begin, end) == texts(row for row in then if row["_hoodie_commit_time"] > begin)


def test_clustering_makes_no_row_appear_again(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_1200__cluster").open()
    writes = table.snapshot().timeline.writes
    before, clustering = next((a.time, b.time) for a, b in itertools.pairwise(writes) if b.action == "replacecommit")
    scan = table.scan(incremental=(before, clustering))
    assert scan.plan().stages[0].files_out > 0  # the files that it made are new
    assert scan.count() == 0


def test_files_that_the_range_did_not_touch_are_dropped(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    last = table.snapshot().timeline.writes[-1].time
    plan = table.scan("part = 'eu'", incremental=(last, None)).plan()
    assert len(plan) == 0
    assert plan.stages[0].name == "instant range"
    assert plan.stages[0].files_out == 0
    before = table.snapshot().timeline.writes[-2].time
    stages = table.scan("part = 'eu'", incremental=(before, None)).plan().stages
    assert 0 < stages[0].files_out < stages[0].files_in
    assert stages[1].files_out < stages[1].files_in  # partitions prune here too


@pytest.mark.parametrize(
    ("range_", "words"),
    [
        (("soon", None), "soon"),
        (("2026-11-21", "2026-11-20"), "before the beginning"),
        (("earliest", "2020-01-01"), "does not reach back"),
    ],
)
def test_ranges_that_cannot_be(golden: Callable[[str], GoldenTable], range_: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        golden("v6_0150__bkt_hive").open().scan(incremental=range_)


def test_it_goes_with_no_other_kind_of_query(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    with pytest.raises(OptionError, match="as_of"):
        table.scan(incremental=("earliest", None), as_of="2027-01-01")
    with pytest.raises(OptionError, match="query type"):
        table.scan(incremental=("earliest", None), query_type="read_optimized")
    with pytest.raises(OptionError, match="cdc"):
        table.scan(query_type="cdc")


def test_rows_without_meta_columns_do_not_tell_when_they_were_written(golden: Callable[[str], GoldenTable]) -> None:
    with pytest.raises(UnsupportedTableError, match=r"hoodie\.populate\.meta\.fields"):
        golden("v6_0150__nometa").open().scan(incremental=("earliest", None))


def test_a_state_that_was_cleaned_away_is_refused(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_archive").open()
    first = table.snapshot().timeline.writes[0].time
    with pytest.raises(OptionError, match="cleaned away"):
        table.scan(incremental=("earliest", first)).to_arrow()


# Timelines of layout 2. `slow` began first and completed last.
SLOW, QUICK, LAST = "20260101000000001", "20260101000000002", "20260101000000005"
DONE = {QUICK: "20260101000000003", SLOW: "20260101000000004", LAST: "20260101000000006"}
# Nothing tells when these completed: their instants decide.
UNKNOWN = ("20250101000000000", "20260101000000005001")


class Commits(Timeline):
    """Nothing but upserts: the slow one into f5 and f7, the last one into f3."""

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        touched = {SLOW: ["f5", "f7"], LAST: ["f3"]}.get(instant.time, [])
        return CommitMetadata(operation_type="UPSERT", partition_to_write_stats={"": [WriteStat(f) for f in touched]})


def overtaken(client: TableClient) -> Timeline:
    instants = tuple(Instant(time, "commit", State.COMPLETED, done) for time, done in sorted(DONE.items()))
    return Commits(client.storage, instants, layout=2)


@pytest.fixture
def client(golden: Callable[[str], GoldenTable]) -> TableClient:
    return golden("v6_0150__bkt_hive").open().client


def of(client: TableClient, begin: str, end: str | None = None) -> InstantRange:
    return instant_range(begin, end, client, overtaken(client))


def selected(span: InstantRange) -> set[str]:
    from pushdown import matches

    rows: Any = pa.table({"_hoodie_commit_time": [*sorted(DONE), *UNKNOWN]})
    return set(rows.filter(matches(span.predicate(), rows))["_hoodie_commit_time"].to_pylist())


def test_a_slow_writer_is_not_passed_over(client: TableClient) -> None:
    # whoever has read up to the quick writer's completion still gets the slow one's rows
    assert selected(of(client, DONE[QUICK])) == {SLOW, LAST, UNKNOWN[1]}
    assert selected(of(client, DONE[SLOW])) == {LAST, UNKNOWN[1]}
    assert selected(of(client, "earliest")) == {SLOW, QUICK, LAST, *UNKNOWN}
    assert selected(of(client, "20251231000000000")) == {SLOW, QUICK, LAST, UNKNOWN[1]}
    assert selected(of(client, DONE[LAST])) == set()


def test_the_end_is_the_state_at_which_writes_had_completed(client: TableClient) -> None:
    span = of(client, "earliest", DONE[QUICK])
    assert selected(span) == {QUICK, UNKNOWN[0]}
    assert [write.time for write in span.timeline.writes] == [QUICK]
    assert span.timeline.is_committed(QUICK)
    assert not span.timeline.is_committed(SLOW)
    assert [write.time for write in of(client, "earliest", DONE[SLOW]).timeline.writes] == [SLOW, QUICK]


def test_the_checkpoint_is_where_a_range_ended(client: TableClient) -> None:
    newest = max(DONE.values())
    assert of(client, "earliest").checkpoint == of(client, newest).checkpoint == newest
    assert of(client, "earliest", DONE[QUICK]).checkpoint == DONE[QUICK]
    assert of(client, DONE[QUICK], DONE[QUICK]).checkpoint == DONE[QUICK]
    assert checkpoint_of(overtaken(client)) == newest
    for layout in (1, 2):
        assert checkpoint_of(Timeline(client.storage, (), layout=layout)) == "0"
        assert instant_range("earliest", None, client, Timeline(client.storage, (), layout=layout)).checkpoint == "0"


def slices(**columns: Any) -> pa.Table:
    logs = pa.list_(pa.struct([("file_name", pa.string()), ("size", pa.int64())]))
    count = len(columns["instant"])
    made: dict[str, Any] = {name: pa.array(values, pa.string()) for name, values in columns.items() if name != "logs"}
    named = columns.get("logs", [[]] * count)
    made["logs"] = pa.array([[{"file_name": one, "size": 1} for one in of] for of in named], logs)
    return pa.table({"partition": pa.array([""] * count), "file_id": pa.array([f"f{i}" for i in range(count)]), **made})


def log(number: int, instant: str) -> str:
    return f".f{number}_{instant}.log.1_0-0-0"


def test_slices_that_may_hold_rows_of_a_range(client: TableClient) -> None:
    files = slices(
        instant=[SLOW, QUICK, LAST, QUICK, QUICK, QUICK, UNKNOWN[0], UNKNOWN[0]],
        file_name=["a", "b", "c", "d", "e", None, "g", "h"],
        # the name of the last one holds the instant of its base file, as before an upgrade to layout 2
        logs=[[], [], [], [log(3, LAST)], [log(4, QUICK)], [log(5, SLOW)], [], [log(7, UNKNOWN[0])]],
    )
    assert of(client, DONE[QUICK]).may_hold(files).tolist() == [True, False, True, True, False, True, False, True]
    assert of(client, DONE[LAST]).may_hold(files).tolist() == [False] * 8
    assert of(client, "earliest").may_hold(files).tolist() == [True] * 8


def test_a_table_without_writes_has_no_rows_in_any_range(client: TableClient) -> None:
    for layout in (1, 2):
        span = instant_range("earliest", None, client, Timeline(client.storage, (), layout=layout))
        assert span.may_hold(slices(instant=[], file_name=[], logs=[])).tolist() == []


def test_logs_of_layout_1_go_by_what_commits_touched(client: TableClient) -> None:
    timeline = client.timeline()
    names = [".f_0.log.1_0-0-0"]
    files = slices(instant=["0", "0"], file_name=["a", "b"], logs=[names, names])
    span = InstantRange("1", None, timeline, None, {}, frozenset(), frozenset({("", "f1")}))
    assert span.may_hold(files).tolist() == [False, True]
    unknown = InstantRange("1", None, timeline, None, {}, frozenset(), None)
    assert unknown.may_hold(files).tolist() == [True, True]


# Timelines of layout 1 in which a write that began first is still pending.
def with_hole(client: TableClient, pending: Instant) -> Timeline:
    instants = (Instant(SLOW, "commit", State.COMPLETED), pending, Instant(LAST, "commit", State.COMPLETED))
    return Commits(client.storage, instants, layout=1)


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit"])
def test_a_pending_write_of_the_range_is_not_passed_over(client: TableClient, action: str, state: State) -> None:
    timeline = with_hole(client, Instant(QUICK, action, state))
    for begin, end in (("earliest", None), (SLOW, None), (SLOW, "latest"), (SLOW, QUICK), ("earliest", "2027-01-01")):
        with pytest.raises(PendingWriteError, match=QUICK):
            instant_range(begin, end, client, timeline)
    for begin, end in ((QUICK, None), ("earliest", SLOW), (LAST, None)):
        instant_range(begin, end, client, timeline)


def test_a_range_may_end_before_a_pending_write(client: TableClient) -> None:
    timeline = with_hole(client, Instant(QUICK, "commit", State.INFLIGHT))
    blocked = instant_range("earliest", None, client, timeline, end_at_holes=True)
    assert (blocked.end, blocked.as_of) == (SLOW, SLOW)
    assert blocked.checkpoint == checkpoint_of(timeline) == SLOW
    assert instant_range(QUICK, None, client, timeline).checkpoint == LAST
    rows: Any = pa.table({"_hoodie_commit_time": [SLOW, QUICK, LAST]})
    from pushdown import matches

    assert rows.filter(matches(blocked.predicate(), rows))["_hoodie_commit_time"].to_pylist() == [SLOW]


def test_pending_services_and_the_newest_pending_write_leave_no_hole(client: TableClient) -> None:
    for pending in (Instant(QUICK, "compaction", State.REQUESTED), Instant(QUICK, "clean", State.INFLIGHT)):
        assert instant_range("earliest", None, client, with_hole(client, pending)).end is None
    newest = Commits(
        client.storage,
        (Instant(SLOW, "commit", State.COMPLETED), Instant(LAST, "commit", State.INFLIGHT)),
        layout=1,
    )
    assert instant_range("earliest", None, client, newest).end is None


@pytest.mark.parametrize("layout", [1, 2])
def test_a_reader_that_goes_on_at_its_checkpoint_misses_nothing(tmp_path: Path, layout: int) -> None:
    """A write completes between its scan and a look at the history, which is always the newest."""
    path = tmp_path / "t"
    writer = hudi_catalog.create_table(path, "id bigint", record_key="id", buckets=1)
    instants = [writer.insert([{"id": number}]).instant for number in range(3)]
    name = f".hoodie/{instants[2]}.commit"
    if layout == 2:
        done = to_layout_2(path, tmp_path / "u")
        path, name = tmp_path / "u", f".hoodie/timeline/{instants[2]}_{done[instants[2]]}.commit"
    (path / name).rename(tmp_path / "aside")
    held = Table.open(str(path))
    for begin in ("earliest", None):
        scan = held.scan() if begin is None else held.scan(incremental=(begin, None))
        assert sorted(scan.to_arrow()["id"].to_pylist()) == [0, 1]
    (tmp_path / "aside").rename(path / name)
    assert held.history()[-1].state == "COMPLETED"
    for begin in (scan.checkpoint, held.scan(incremental=("earliest", None)).checkpoint):
        assert begin == (instants[1] if layout == 1 else done[instants[1]])
        assert Table.open(str(path)).scan(incremental=(begin, None)).to_arrow()["id"].to_pylist() == [2]
    assert held.scan(as_of=instants[0]).checkpoint == (instants[0] if layout == 1 else None)
