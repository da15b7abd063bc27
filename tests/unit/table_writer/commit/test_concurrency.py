import json
import random
import threading

import pytest

from table_format.errors import ConflictError, OptionError, TransactionError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit import conflicts
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import RequestedReplaceMetadata
from tests.support import toy_table
from tests.support.toy_table import SCHEMA_JSON, assert_tidy, begin, rows_of, upsert, write_files

OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "400",
}
FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}}
FIRST_ROWS = {("p=a", "k1"): 1, ("p=a", "k2"): 2}


class Writer:
    """One of several: begins, writes, and publishes when told."""

    def __init__(self, storage, changes, action="commit", schema=SCHEMA_JSON, replaced=None):
        self.tx = begin(TableClient.open(Storage(storage.uri)), OCC, action)
        self.tx.mark_inflight()
        self.stats, self.columns = write_files(self.tx, changes, fresh=action == "replacecommit")
        self.schema, self.replaced = schema, replaced

    def commit(self):
        return self.tx.commit(self.stats, schema_json=self.schema, column_stats=self.columns, replaced=self.replaced)


def group(client, place):
    return toy_table.current_files(client)[place][0]


def test_different_buckets_both_succeed(client, storage):
    upsert(client, FIRST, OCC)
    one = Writer(storage, {("p=a", 0): {"k1": 10}})
    two = Writer(storage, {("p=a", 1): {"k2": 20}})
    two.commit()
    one.commit()
    assert rows_of(storage.uri) == {("p=a", "k1"): 10, ("p=a", "k2"): 20}
    assert_tidy(storage.uri)


def test_the_same_bucket_conflicts_and_leaves_nothing(client, storage):
    upsert(client, FIRST, OCC)
    one = Writer(storage, {("p=a", 0): {"k1": 10}, ("p=new", 0): {"k8": 8}})
    two = Writer(storage, {("p=a", 0): {"k1": 20}})
    two.commit()
    with pytest.raises(ConflictError, match=r"changed the same file groups.*p=a: 0.*try again"):
        one.commit()
    assert rows_of(storage.uri) == {("p=a", "k1"): 20, ("p=a", "k2"): 2}
    assert_tidy(storage.uri)
    upsert(client, {("p=a", 0): {"k1": 30}}, OCC)
    assert rows_of(storage.uri) == {("p=a", "k1"): 30, ("p=a", "k2"): 2}


def test_the_same_new_bucket_conflicts(client, storage):
    one = Writer(storage, {("p=a", 0): {"k1": 1}})
    two = Writer(storage, {("p=a", 0): {"k1": 2}})
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert rows_of(storage.uri) == {("p=a", "k1"): 1}
    assert_tidy(storage.uri)


def test_without_bucket_index_new_file_groups_do_not_conflict():
    from table_format.actions.commit import CommitMetadata, WriteStat

    stats = {"p": [WriteStat(file_id="00000001-aaaa-0", partition_path="p")]}
    assert conflicts.touched_slots(CommitMetadata(stats), bucketed=False) == {("p", "00000001-aaaa-0")}
    assert conflicts.touched_slots(CommitMetadata(stats), bucketed=True) == {("p", 1)}


def test_a_write_that_began_before_and_ends_within_conflicts(client, storage):
    """It has the older instant, and was pending when the other one began."""
    upsert(client, FIRST, OCC)
    older = Writer(storage, {("p=a", 0): {"k1": 10}})
    upsert(client, {("p=a", 1): {"k2": 20}}, OCC)  # so that the newest completed write is newer than the older one
    newer = Writer(storage, {("p=a", 0): {"k1": 20}})
    older.commit()
    with pytest.raises(ConflictError):
        newer.commit()
    assert rows_of(storage.uri)["p=a", "k1"] == 10
    assert_tidy(storage.uri)


def test_writes_before_the_beginning_do_not_conflict(client, storage):
    upsert(client, FIRST, OCC)
    upsert(client, {("p=a", 0): {"k1": 10}}, OCC)
    upsert(client, {("p=a", 0): {"k1": 11}}, OCC)
    assert rows_of(storage.uri)["p=a", "k1"] == 11


def test_an_overwrite_conflicts_with_an_update_of_what_it_replaces(client, storage):
    upsert(client, FIRST, OCC)
    replaced = {"p=a": [group(client, ("p=a", 0)), group(client, ("p=a", 1))]}
    overwriting = Writer(storage, {("p=a", 0): {"k7": 7}}, "replacecommit", replaced=replaced)
    update = Writer(storage, {("p=a", 1): {"k2": 20}})
    overwriting.commit()
    with pytest.raises(ConflictError):
        update.commit()
    assert rows_of(storage.uri) == {("p=a", "k7"): 7}
    assert_tidy(storage.uri)


def test_a_schema_that_another_writer_changed_is_not_taken_back(client, storage):
    upsert(client, FIRST, OCC)
    schema = json.loads(SCHEMA_JSON)
    schema["fields"].append({"name": "w", "type": ["null", "long"], "default": None})
    wider = json.dumps(schema)
    renamed = json.dumps(json.loads(SCHEMA_JSON) | {"name": "other"}, indent=2)
    one = Writer(storage, {("p=a", 0): {"k1": 10}})
    harmless = Writer(storage, {("p=c", 1): {"k2": 20}}, schema=renamed)
    two = Writer(storage, {("p=a", 1): {"k2": 20}}, schema=wider)
    three = Writer(storage, {("p=b", 0): {"k3": 3}}, schema=wider)
    harmless.commit()
    two.commit()
    three.commit()
    with pytest.raises(ConflictError, match="changed the table's schema"):
        one.commit()
    assert_tidy(storage.uri)
    assert client.table_schema_json() == wider


def test_file_groups_being_clustered_are_not_changed(client, storage):
    upsert(client, FIRST)
    plan = RequestedReplaceMetadata().to_avro()
    assert not RequestedReplaceMetadata.from_avro(plan, "plan").is_clustering
    from table_format.actions.avro_schemas import REQUESTED_REPLACE
    from table_format.codecs.avro_file import write_avro_file

    part = {"fileId": group(client, ("p=a", 0)), "partitionPath": "p=a", "version": 1}
    clustering = {"inputGroups": [{"slices": [part], "version": 1}], "version": 1}
    record = {"operationType": "CLUSTER", "clusteringPlan": clustering, "version": 1}
    storage.create(".hoodie/20990101000000000.replacecommit.requested", write_avro_file(REQUESTED_REPLACE, [record]))
    with pytest.raises(TransactionError, match=r"20990101000000000.*planned before this write began") as raised:
        upsert(client, {("p=a", 0): {"k1": 10}})
    assert not isinstance(raised.value, ConflictError), "trying again is of no use"
    upsert(client, {("p=a", 1): {"k2": 20}})
    assert rows_of(storage.uri) == {("p=a", "k1"): 1, ("p=a", "k2"): 20}
    assert [i.action for i in client.timeline().pending] == ["replacecommit"]  # a plan is not a failed write


def test_a_live_writer_is_not_rolled_back_under_lazy(client, storage):
    live = Writer(storage, {("p=a", 0): {"k1": 1}})
    assert storage.exists(f".hoodie/.heartbeat/{live.tx.instant}")
    upsert(client, {("p=a", 1): {"k2": 2}}, OCC)
    live.commit()
    assert rows_of(storage.uri) == FIRST_ROWS
    assert_tidy(storage.uri)


def test_a_dead_writer_is_rolled_back_under_lazy(client, storage):
    dead = Writer(storage, {("p=a", 0): {"k1": 1}})
    dead.tx._heartbeat.silence()
    upsert(client, {("p=a", 1): {"k2": 2}}, OCC)
    assert rows_of(storage.uri) == {("p=a", "k2"): 2}
    assert_tidy(storage.uri)


def test_heartbeats(storage):
    beat = heartbeat.Heartbeat(storage, "20260101000000000", 10)
    assert heartbeat.is_expired(storage, "20260101000000000", 10, 2) is None
    beat.start()
    path = ".hoodie/.heartbeat/20260101000000000"
    first = storage.entry(path).mtime_ms
    for _ in range(1000):
        if storage.entry(path).mtime_ms > first:
            break
        threading.Event().wait(0.005)
    assert storage.entry(path).mtime_ms > first
    assert not heartbeat.is_expired(storage, "20260101000000000", 60_000, 2)
    beat.stop()
    assert not storage.exists(path)


def test_eager_clearing_up_is_refused_among_several_writers(client):
    with pytest.raises(OptionError, match="give LAZY"):
        begin(client, {**OCC, "hoodie.cleaner.policy.failed.writes": "EAGER"})


@pytest.mark.slow
def test_a_crowd_of_writers(client, storage):
    """Each thread raises counters in random buckets; those that succeed are counted."""
    places = [(f"p={p}", bucket) for p in "ab" for bucket in (0, 1)]
    done: list[tuple[tuple[str, int], str]] = []
    failures: list[BaseException] = []
    options = {**OCC, "hoodie.cleaner.commits.retained": "2", "hoodie.metadata.compact.max.delta.commits": "4"}

    def work(number: int) -> None:
        dice = random.Random(number)
        for turn in range(4):
            place = dice.choice(places)
            key = f"{number}-{turn}"
            try:
                upsert(TableClient.open(Storage(storage.uri)), {place: {key: turn}}, options)
                done.append((place, key))
            except ConflictError:
                pass
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {(place[0], key) for place, key in done} == set(rows_of(storage.uri))
    assert len(done) >= 4
    assert_tidy(storage.uri)
