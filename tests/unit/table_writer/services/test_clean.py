import contextlib
import dataclasses
import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest

from table_format.actions.restore import SavepointMetadata
from table_format.actions.table_services import CleanerPlan, CleanMetadata
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import ArgumentError, LockError
from table_format.instant import Action, Instant, State
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import latest_base_files, list_data_files, replaced_file_groups
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.restore import restore_table
from table_writer.services import clean as clean_service
from table_writer.services import clean_plan
from table_writer.services.clean import CleanReport, clean, policy_options
from table_writer.services.clean_plan import find_horizon, list_files, plan_clean
from table_writer.services.savepoint import create_savepoint, delete_savepoint
from table_writer.timeline.instants import request
from table_writer.timeline.options import CleaningPolicy, CleanOptions
from tests.support import golden_tables, toy_table
from tests.support.faults import Faults, FaultyStorage, Frozen
from tests.support.toy_table import assert_tidy, begin, overwrite, rows_of, upsert

KEEP_ALL = {"hoodie.clean.automatic": "false"}
NOW = dt.datetime.now(dt.UTC)

CLEANS = [
    (name, path.rsplit("/", 1)[-1].split(".")[0])
    for name in golden_tables.NAMES
    for path, _ in golden_tables.timeline_files(name, ".clean")
    if path.endswith(".clean") and "archive" not in name  # there the writes that the clean counted are archived
]


def test_there_are_golden_cleans():
    assert len(CLEANS) >= 10
    assert {name.partition("__")[0] for name, _ in CLEANS} == {"v6_0150", "v6_1200"}


@pytest.mark.parametrize(("name", "time"), CLEANS)
def test_plans_equal_apaches(name, time, tmp_path):
    client = TableClient.open(golden_tables.lay_out(name, str(tmp_path)))
    now = client.timeline()
    then = Timeline(now.storage, tuple(i for i in now.instants if i.time < time))
    [(_, content)] = golden_tables.timeline_files(name, f"{time}.clean.requested")
    theirs = CleanerPlan.from_avro(content, time)
    written = {(s.partition_path, s.file_name) for i in then.writes for s in then.commit_metadata(i).stats()}
    planned = {(p, path.rsplit("/", 1)[-1]) for p, paths in theirs.files.items() for path in paths}
    cleaned = {
        (partition, file)
        for i in then.completed
        if i.action == Action.CLEAN
        for partition, part in CleanMetadata.from_avro(then.read(i), i.file_name).partitions.items()
        for file in part.patterns
    }
    rows = sorted((written | planned) - cleaned)
    files = pa.table({"partition": [p for p, _ in rows], "file_name": [n for _, n in rows]})
    retained = sum(1 for write in then.writes if write.time >= theirs.earliest_instant.time)
    options = CleanOptions(commits=retained)
    horizon = find_horizon(then, options, "UTC", NOW, dict)
    ours = plan_clean(then, files, replaced_file_groups(then), horizon=horizon, options=options)
    assert {p: sorted(x.rsplit("/", 1)[-1] for x in paths) for p, paths in ours.files.items()} == {
        p: sorted(x.rsplit("/", 1)[-1] for x in paths) for p, paths in theirs.files.items()
    }
    assert ours.earliest_instant == theirs.earliest_instant
    assert (ours.policy, ours.last_completed_commit) == (theirs.policy, theirs.last_completed_commit)


def versions(client) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for row in list_data_files(client.storage).to_pylist():
        key = (row["partition"], row["file_name"].split("_")[0][:8])
        counts[key] = counts.get(key, 0) + 1
    return counts


def history(client, times=5, options=KEEP_ALL):
    for value in range(times):
        upsert(client, {("p=a", 0): {"k1": value}}, options)


def test_by_commits_every_kept_state_stays_readable(client, storage):
    upsert(client, {("p=a", 0): {"k1": -1}, ("p=b", 1): {"k2": 2}}, KEEP_ALL)
    history(client, 5)
    report = clean(client, {"hoodie.cleaner.commits.retained": "2"})
    assert report.files == 3
    assert versions(client) == {("p=a", "00000000"): 3, ("p=b", "00000001"): 1}
    timeline = client.timeline()
    for write in timeline.writes[-2:]:
        slices = latest_base_files(list_data_files(storage), timeline, as_of=write.time)
        assert slices.num_rows == 2
    assert report.earliest == timeline.writes[-2].time
    cleaned = next(i for i in timeline.instants if i.action == "clean")
    for state in (State.REQUESTED, State.INFLIGHT):
        plan = CleanerPlan.from_avro(timeline.read(cleaned.at(state)), "plan")
        assert all(path.startswith(storage.full_uri("p=a/")) for path in plan.files["p=a"])
    assert clean(client, {"hoodie.cleaner.commits.retained": "2"}) == CleanReport()
    assert_tidy(storage.uri)


def test_a_dry_run_says_what_a_clean_deletes_and_changes_nothing(client, storage):
    history(client, 5)
    before = {entry.path: storage.read(entry.path) for entry in storage.list("", recursive=True) if not entry.is_dir}
    sizes = {e.path: e.size for e in storage.list("p=a") if e.path.endswith(".parquet")}
    planned = clean(client, {"hoodie.clean.commits.retained": "2"}, dry_run=True)
    after = {entry.path: storage.read(entry.path) for entry in storage.list("", recursive=True) if not entry.is_dir}
    assert after == before
    done = clean(client, {"hoodie.clean.commits.retained": "2"})
    assert dataclasses.replace(done, instants=()) == planned
    left = {e.path for e in storage.list("p=a")}
    assert (done.files, done.partitions) == (2, 1)
    assert done.bytes == sum(size for path, size in sizes.items() if path not in left) > 0


def test_a_dry_run_counts_an_interrupted_clean_once(client, storage):
    history(client, 5)
    options = {"hoodie.clean.commits.retained": "1"}
    planned = clean(client, options, dry_run=True)
    FaultyStorage.faults = Faults(4, "before", "freeze")
    with contextlib.suppress(Frozen):
        clean(TableClient.open(FaultyStorage(storage.uri)), options)
    FaultyStorage.faults = Faults()
    [pending] = client.timeline().pending
    assert clean(client, options, dry_run=True) == dataclasses.replace(planned, instants=(pending.time,))
    done = clean(client, options)
    assert (done.instants, done.files) == ((pending.time,), planned.files)
    assert_tidy(storage.uri)


def plan_as_apache(client, partition):
    """A partition whose rows are deleted, and a clean that Apache planned to delete it as a whole."""
    files = [place for (path, _), place in toy_table.current_files(client).items() if path == partition]
    with begin(client, KEEP_ALL, "replacecommit") as tx:
        tx.mark_inflight()
        tx.commit([], schema_json=toy_table.SCHEMA_JSON, replaced={partition: [file_id for file_id, _, _ in files]})
    paths = {partition: [client.storage.full_uri(path) for _, _, path in files]}
    plan = CleanerPlan("KEEP_LATEST_COMMITS", paths, partitions_to_delete=["", partition])
    return request(client, Action.CLEAN, plan.to_avro())


def listed_partitions(client):
    timeline = client.timeline()
    table = MetadataTable.open(client, timeline)
    return set(list_data_files(client.storage)["partition"].to_pylist()) if table is None else {*table.all_partitions()}


def test_partitions_that_apache_planned_to_delete_are_deleted(client, storage):
    upsert(client, {("p=a", 0): {"k": 1}, ("p=b", 0): {"l": 1}}, KEEP_ALL)
    planned = plan_as_apache(client, "p=b")
    assert clean(client).instants == (planned.time,)
    assert not storage.exists("p=b/.hoodie_partition_metadata")
    assert listed_partitions(client) == {"p=a"}
    timeline = client.timeline()
    done = CleanMetadata.from_avro(timeline.read(planned.at(State.COMPLETED)), "x")
    assert {path: part.partition_deleted for path, part in done.partitions.items()} == {"p=b": True}
    upsert(client, {("p=b", 0): {"l": 2}}, KEEP_ALL)
    assert rows_of(storage.uri) == {("p=a", "k"): 1, ("p=b", "l"): 2}
    assert_tidy(storage.uri)


def test_a_partition_that_somebody_wrote_to_since_apache_planned_its_deletion_stays(client, storage):
    upsert(client, {("p=a", 0): {"k": 1}, ("p=b", 0): {"l": 1}}, KEEP_ALL)
    planned = plan_as_apache(client, "p=b")
    upsert(client, {("p=b", 0): {"l": 2}}, KEEP_ALL)
    assert clean(client).instants == (planned.time,)
    assert storage.exists("p=b/.hoodie_partition_metadata")
    assert rows_of(storage.uri) == {("p=a", "k"): 1, ("p=b", "l"): 2}
    assert_tidy(storage.uri)


def test_a_partition_that_apache_planned_to_delete_stays_beside_a_pending_write(client, storage):
    upsert(client, {("p=a", 0): {"k": 1}, ("p=b", 0): {"l": 1}}, KEEP_ALL)
    planned = plan_as_apache(client, "p=b")
    with begin(client, KEEP_ALL) as tx:
        tx.mark_inflight()
        assert clean(client).instants == (planned.time,)
        assert storage.exists("p=b/.hoodie_partition_metadata")
        stats, columns = toy_table.write_files(tx, {("p=b", 0): {"l": 2}})
        tx.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == {("p=a", "k"): 1, ("p=b", "l"): 2}
    assert_tidy(storage.uri)


def test_files_of_a_deleted_savepoint_are_cleaned_by_the_next_commit(client, storage):
    options = {"hoodie.clean.commits.retained": "1"}
    history(client, 2, options)
    saved = toy_table.current_files(client)["p=a", 0][2]
    time = client.timeline().writes[-1].time
    save(storage, time, saved)
    history(client, 4, options)
    assert storage.exists(saved)
    last = [instant for instant in client.timeline().completed if instant.action == Action.CLEAN][-1]
    for state in State:
        record = CleanMetadata if state is State.COMPLETED else CleanerPlan
        timeline = client.timeline()
        assert record.from_avro(timeline.read(last.at(state)), "x").savepoints == [time]
    for suffix in ("savepoint", "savepoint.inflight"):
        storage.delete(f".hoodie/{time}.{suffix}")
    upsert(client, {("p=b", 1): {"k": 1}}, options)
    assert not storage.exists(saved)
    assert_tidy(storage.uri)


def test_cleaning_after_several_commits(client):
    options = {"hoodie.clean.commits.retained": "1", "hoodie.clean.trigger.max.commits": "3"}
    history(client, 8, options)
    actions = [instant.action for instant in client.timeline().instants]
    assert [len(list(run)) for action, run in itertools.groupby(actions) if action == "commit"] == [3, 3, 2]


def test_one_policy_at_a_time():
    assert policy_options() == {}
    assert policy_options(hours=5)["hoodie.clean.policy"] == "KEEP_LATEST_BY_HOURS"
    with pytest.raises(ArgumentError, match="give one of them"):
        policy_options(commits=1, versions=2)


def test_by_versions(client, storage):
    history(client, 5)
    options = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "2"}
    assert clean(client, options).files == 3
    assert versions(client) == {("p=a", "00000000"): 2}
    assert rows_of(storage.uri) == {("p=a", "k1"): 4}
    assert_tidy(storage.uri)


def test_by_hours(client, storage):
    history(client, 4)
    options = {"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS", "hoodie.cleaner.hours.retained": "5"}
    assert clean(client, options) == CleanReport()
    assert clean(client, options, now=dt.datetime.now(dt.UTC) + dt.timedelta(hours=6)).files == 2
    assert versions(client) == {("p=a", "00000000"): 2}
    assert rows_of(storage.uri) == {("p=a", "k1"): 3}
    assert_tidy(storage.uri)


def test_automatic_after_each_commit(client, storage):
    history(client, 6, {"hoodie.cleaner.commits.retained": "1"})
    assert versions(client) == {("p=a", "00000000"): 2}
    assert [i.action for i in client.timeline().instants].count("clean") == 4
    assert_tidy(storage.uri)


def test_replaced_file_groups_go_when_no_kept_state_holds_them(client, storage):
    upsert(client, {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}}, KEEP_ALL)
    overwrite(client, {("p=a", 0): {"k1": 3}}, KEEP_ALL)
    one = {"hoodie.cleaner.commits.retained": "1"}
    assert (
        clean(client, one) == CleanReport()
    )  # the state before the overwrite is the newest one before the earliest kept
    upsert(client, {("p=b", 0): {"k3": 3}}, KEEP_ALL)
    assert clean(client, one).files == 2
    assert versions(client) == {("p=a", "00000000"): 1, ("p=b", "00000000"): 1}
    assert rows_of(storage.uri) == {("p=a", "k1"): 3, ("p=b", "k3"): 3}
    assert_tidy(storage.uri)


def test_replaced_file_groups_by_versions(client, storage):
    upsert(client, {("p=a", 0): {"k1": 1}}, KEEP_ALL)
    overwrite(client, {("p=a", 0): {"k1": 3}}, KEEP_ALL)
    assert clean(client, {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}).files == 1
    assert rows_of(storage.uri) == {("p=a", "k1"): 3}


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(CleaningPolicy))
def test_what_a_pending_write_may_read_stays(client, storage, policy):
    history(client, 3)
    live = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.policy": policy.value,
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.cleaner.fileversions.retained": "1",
        "hoodie.cleaner.hours.retained": "0",
    }
    writer = begin(client, live)
    writer.mark_inflight()
    read = toy_table.current_files(client)["p=a", 0][2]
    for value in range(4):
        upsert(client, {("p=a", 0): {"k1": 10 + value}}, live)
    assert storage.exists(read)
    writer.abort()
    upsert(client, {("p=a", 0): {"k1": 20}}, live)
    assert not storage.exists(read)
    assert_tidy(storage.uri)


def test_what_a_savepoint_holds_stays(client, storage):
    history(client, 3)
    path = toy_table.current_files(client)["p=a", 0][2]
    save(storage, client.timeline().writes[-1].time, path)
    history(client, 4, {"hoodie.cleaner.commits.retained": "1"})
    assert storage.exists(path)
    assert versions(client) == {("p=a", "00000000"): 3}


def save(storage, time, path):
    """Put a savepoint of one file on the timeline, as Apache's tools do."""
    files = {"partitionPath": "p=a", "savepointDataFile": [path.split("/")[1]]}
    schema = {
        "type": "record",
        "name": "HoodieSavepointMetadata",
        "fields": [
            {"name": "savepointedBy", "type": "string"},
            {"name": "savepointedAt", "type": "long"},
            {"name": "comments", "type": "string"},
            {
                "name": "partitionMetadata",
                "type": {
                    "type": "map",
                    "values": {
                        "type": "record",
                        "name": "P",
                        "fields": [
                            {"name": "partitionPath", "type": "string"},
                            {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}},
                        ],
                    },
                },
            },
        ],
    }
    record = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": {"p=a": files}}
    content = write_avro_file(schema, [record])
    assert SavepointMetadata.from_avro(content, "x").files == {"p=a": [path.split("/")[1]]}
    storage.create(f".hoodie/{time}.savepoint.inflight", b"")
    storage.create(f".hoodie/{time}.savepoint", content)


@pytest.mark.slow
def test_incremental_cleaning_finds_what_full_cleaning_finds(tmp_path):
    dice = np.random.default_rng(7)
    steps = [(f"p={p}", int(b)) for p, b in zip(dice.choice(list("abc"), 14), dice.integers(0, 2, 14), strict=True)]
    left = []
    for mode in ("true", "false"):
        storage = Storage(str(tmp_path / mode))
        client = toy_table.make(storage)
        options = {"hoodie.cleaner.commits.retained": "2", "hoodie.cleaner.incremental.mode": mode}
        for turn, place in enumerate(steps):
            (overwrite if turn % 5 == 4 else upsert)(client, {place: {"k": turn}}, options)
            if turn == 2:
                saved = create_savepoint(client).instant
            elif turn == 6:
                restore_table(client, client.timeline().writes[-2].time, options)
            elif turn == 9:
                delete_savepoint(client, saved)
        left.append((versions(client), [i.action for i in client.timeline().instants]))
        assert_tidy(storage.uri)
    assert left[0] == left[1]


def test_cleans_after_a_restore_look_at_all_partitions_once(client, monkeypatch):
    options = {"hoodie.clean.commits.retained": "1"}
    upsert(client, {("p=a", 0): {"k": 1}, ("p=b", 0): {"k": 1}}, options)
    history(client, 3, options)
    restore_table(client, client.timeline().writes[-2].time, options)
    looked = []
    monkeypatch.setattr(clean_plan, "list_files", lambda *args: looked.append(args[2]) or list_files(*args))
    history(client, 4, options)
    assert None in looked
    assert looked[-2:] == [["p=a"], ["p=a"]]


def test_uncommitted_and_foreign_files_are_no_business_of_cleaning(client, storage):
    history(client, 3)
    storage.create("p=a/00000000-0000-0000-0000-000000000000-0_0-0-0_19990101000000000.parquet", b"")
    storage.create("p=a/notes.txt", b"")
    timeline = client.timeline()
    pending = Timeline(
        storage, tuple(i if i.time < timeline.writes[2].time else i.at(State.INFLIGHT) for i in timeline.instants)
    )
    options = CleanOptions(commits=1)
    horizon = find_horizon(pending, options, "UTC", NOW, dict)
    assert horizon.earliest == timeline.writes[1]
    files = list_data_files(storage)
    assert (
        plan_clean(pending, files, replaced_file_groups(pending), horizon=horizon, options=options) is None
    )  # two versions are committed, and the older one is the newest before the earliest


def test_a_plan_cut_off_is_dropped(client, storage):
    history(client, 3)
    storage.create(".hoodie/20260101000000000.clean.requested", b"")
    clean(client, {"hoodie.cleaner.commits.retained": "1"})
    assert versions(client) == {("p=a", "00000000"): 2}
    assert_tidy(storage.uri)


def test_a_plan_of_apache_with_whole_paths_is_finished(client, storage):
    history(client, 3)
    doomed = sorted(e.path for e in storage.list("p=a") if e.path.endswith(".parquet"))
    oldest = min(doomed, key=lambda path: path.split("_")[-1])
    last = client.timeline().writes[-1]
    plan = CleanerPlan("KEEP_LATEST_COMMITS", {"p=a": [f"hdfs://elsewhere/{oldest}"]}, last, last.time)
    instant = Instant("20990101000000000", Action.CLEAN, State.REQUESTED)
    storage.create(f".hoodie/{instant.file_name}", plan.to_avro())
    upsert(client, {})
    assert not storage.exists(oldest)
    assert_tidy(storage.uri)


def test_many_files(client, storage):
    """The plan is made by columns; order of the listing does not matter."""
    groups, count = 500, 6
    upsert(client, {}, KEEP_ALL)
    times = [f"202601010000{n:05d}" for n in range(count)]
    timeline = Timeline(storage, tuple(Instant(time, "commit", State.COMPLETED) for time in times))
    names = [f"{g:08d}-0000-0000-0000-000000000000-0_0-0-0_{t}.parquet" for g in range(groups) for t in times]
    shuffled = [names[i] for i in np.random.default_rng(1).permutation(len(names))]
    files = pa.table({"partition": ["p"] * len(names), "file_name": shuffled})
    options = CleanOptions(commits=2)
    horizon = find_horizon(timeline, options, "UTC", NOW, dict)
    none = pa.table({c: pa.array([], pa.string()) for c in ("partition", "file_id", "replaced_at")})
    plan = plan_clean(timeline, files, none, horizon=horizon, options=options)
    kept = set(names) - {path.split("/")[1] for path in plan.files["p"]}
    assert {name.split("_")[-1][:17] for name in kept} == set(times[-3:])
    assert len(kept) == 3 * groups


def test_a_clean_that_lost_the_lock_deletes_nothing(client, storage, monkeypatch):
    """As after a pause of its machine: others break the lock, and the state is restored whose files the plan names."""
    for value in range(4):
        upsert(client, {("p=a", 0): {"k1": value}}, KEEP_ALL)
    second = client.timeline().writes[1].time
    plan_table = clean_service.plan_table

    def paused(*values, **named):
        plan = plan_table(*values, **named)
        storage.delete(".hoodie/lock")
        restore_table(TableClient.open(storage), second)
        return plan

    monkeypatch.setattr(clean_service, "plan_table", paused)
    with pytest.raises(LockError, match="broke this lock"):
        clean(client, {"hoodie.clean.commits.retained": "1"})
    assert rows_of(storage.uri) == {("p=a", "k1"): 1}
    assert_tidy(storage.uri)
