import io
import json

import fastavro
import pytest

from table_format.actions.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    REQUESTED_REPLACE,
    RESTORE_METADATA,
    RESTORE_PLAN,
    ROLLBACK_METADATA,
    ROLLBACK_PLAN,
    SAVEPOINT_METADATA,
)
from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.actions.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from table_format.actions.rollback import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
)
from table_format.actions.table_services import CleanerPlan, CleanMetadata, CleanPartition
from table_format.codecs.avro_file import read_avro_file, write_avro_file
from table_format.errors import CorruptFileError
from table_format.instant import Instant, State
from table_writer.timeline.instants import RequestedReplaceMetadata
from tests.support.golden_tables import NAMES, facts, instants, taken_back, timeline_files

# (file name ending, our schema, our class)
KINDS = {
    ".clean.requested": (CLEANER_PLAN, CleanerPlan),
    ".clean": (CLEAN_METADATA, CleanMetadata),
    ".rollback.requested": (ROLLBACK_PLAN, RollbackPlan),
    ".rollback": (ROLLBACK_METADATA, RollbackMetadata),
    ".restore.requested": (RESTORE_PLAN, RestorePlan),
    ".restore": (RESTORE_METADATA, RestoreMetadata),
    ".savepoint": (SAVEPOINT_METADATA, SavepointMetadata),
    ".replacecommit.requested": (REQUESTED_REPLACE, RequestedReplaceMetadata),
}


def _apache_files(ending):
    return [(p, d) for name in NAMES for p, d in timeline_files(name, ending) if p.endswith(ending) and d]


def _fields(schema, seen=None):
    """Names and types of a schema, without the details in which releases differ."""
    seen = {} if seen is None else seen
    if isinstance(schema, list):
        return [_fields(branch, seen) for branch in schema]
    if isinstance(schema, str):
        return seen.get(schema.rsplit(".", 1)[-1], schema)
    kind = schema["type"]
    if kind == "record":
        fields = {field["name"]: _fields(field["type"], seen) for field in schema["fields"]}
        seen[schema["name"].rsplit(".", 1)[-1]] = fields
        return fields
    if kind in ("array", "map"):
        return {kind: _fields(schema.get("items", schema.get("values")), seen)}
    return _fields(kind, seen)


@pytest.mark.parametrize("ending", KINDS)
def test_schemas_are_those_that_apache_0_15_writes(ending):
    schema, _ = KINDS[ending]
    files = [(path, data) for path, data in _apache_files(ending) if path.startswith("v6_0150")]
    assert files
    for _, data in files:
        theirs = fastavro.reader(io.BytesIO(data)).writer_schema
        assert _fields(schema) == _fields(theirs)
        assert f"{schema['namespace']}.{schema['name']}" == theirs["name"]


@pytest.mark.parametrize("ending", KINDS)
def test_what_apache_wrote_is_read_and_kept(ending):
    _, kind = KINDS[ending]
    files = _apache_files(ending)
    assert any(path.startswith("v6_1200") for path, _ in files)
    for path, data in files:
        read = kind.from_avro(data, path)
        if ending != ".replacecommit.requested":
            assert kind.from_avro(read.to_avro(), path) == read


@pytest.mark.parametrize("ending", KINDS)
def test_damage_is_refused(ending):
    _, kind = KINDS[ending]
    path, data = _apache_files(ending)[0]
    for cut in (1, 4, 20, len(data) // 2, len(data) - 17, len(data) - 1):
        with pytest.raises(CorruptFileError, match=rf"{path}: at byte \d+"):
            kind.from_avro(data[:cut], path)
    with pytest.raises(CorruptFileError):
        kind.from_avro(data[:-3] + b"\x00\x00\x00", path)
    other = write_avro_file({"type": "record", "name": "x", "fields": [{"name": "y", "type": "int"}]}, [{"y": 1}])
    if ending != ".replacecommit.requested":
        with pytest.raises(CorruptFileError, match="unknown shape"):
            kind.from_avro(other, path)


def test_records_are_written_without_compression():
    reader = fastavro.reader(io.BytesIO(RequestedReplaceMetadata().to_avro()))
    assert reader.metadata.get("avro.codec", "null") == "null"
    assert list(reader) == [{"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}]


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", write_avro_file({"type": "array", "items": "int"}, [[1]])],
    ids=["empty", "parquet", "array"],  # an Avro file's random sync marker must not be in a test's name
)
def test_other_files_are_no_records(data):
    with pytest.raises(CorruptFileError):
        read_avro_file(data, "p")


def test_a_clean_of_apache():
    """Plan and result name the same files, which are gone."""
    name = "v6_0150__bkt_hive"
    for path, data in timeline_files(name, ".clean.requested"):
        plan = CleanerPlan.from_avro(data, path)
        result = CleanMetadata.from_avro(dict(timeline_files(name, ".clean"))[path.removesuffix(".requested")], path)
        planned = {p: sorted(file.rsplit("/", 1)[1] for file in files) for p, files in plan.files.items()}
        assert {p: sorted(part.deleted) for p, part in result.partitions.items() if part.deleted} == planned
        assert result.earliest_commit_to_retain == plan.earliest_instant.time
        assert result.last_completed_commit == plan.last_completed_commit
        left = facts(name)["files"]
        assert not any(f"{p}/{file}" in left for p, files in planned.items() for file in files)


def test_plans_and_results_of_ours():
    plan = CleanerPlan("KEEP_LATEST_COMMITS", {"p": ["/t/p/a"]}, Instant("3", "commit", State.COMPLETED), "5", ["q"])
    assert CleanerPlan.from_avro(plan.to_avro(), "p") == plan
    clean = CleanMetadata("7", 12, "3", "5", {"p": CleanPartition("KEEP_LATEST_COMMITS", ["a"], ["a"], [], True)})
    assert CleanMetadata.from_avro(clean.to_avro(), "p") == clean
    [record] = read_avro_file(CleanMetadata("7", 1, partitions={"": CleanPartition("X")}).to_avro(), "p")
    assert record["partitionMetadata"][""]["isPartitionDeleted"] is False, "Apache 0.15 unboxes it"
    rollback = RollbackPlan("5", "commit", [RollbackRequest("p", ["/t/p/a"])])
    assert RollbackPlan.from_avro(rollback.to_avro(), "p") == rollback
    result = RollbackMetadata("6", 3, [("5", "commit")], {"p": RollbackPartition(["/t/p/a"], [], {"l": 1}, {})})
    assert RollbackMetadata.from_avro(result.to_avro(), "p") == result


def test_restores():
    name = "v6_0150__bkt_restore"
    [(path, data)] = [(p, d) for p, d in timeline_files(name, ".restore") if p.endswith(".restore")]
    restore = RestoreMetadata.from_avro(data, path)
    assert [restore.start_time] == instants(name, "restore")
    assert sorted(restore.commits) == sorted(taken_back(name))
    assert len(restore.commits) == 2


def test_clustering_is_told_from_overwriting():
    for name, clustering in (("cluster", True), ("bloom_replace", False)):
        for writer in ("v6_0150", "v6_1200"):
            for path, data in timeline_files(f"{writer}__{name}", ".replacecommit.requested"):
                request = RequestedReplaceMetadata.from_avro(data, path)
                assert request.is_clustering is clustering
                assert len(request.clustered) == (2 if clustering else 0)
    assert RequestedReplaceMetadata.from_avro(b"", "p") == RequestedReplaceMetadata()


@pytest.mark.parametrize("name", NAMES)
def test_commits_of_apache_are_kept_word_for_word(name):
    files = [(p, d) for p, d in timeline_files(name, "commit") if p.endswith("commit") and d]
    assert files
    for path, data in files:
        theirs = json.loads(data)
        read = CommitMetadata.from_json(data, path)
        ours = json.loads(read.to_json())
        for stats in [s for part in theirs["partitionToWriteStats"].values() for s in part]:
            our_stat = next(s for p in ours["partitionToWriteStats"].values() for s in p if s["path"] == stats["path"])
            assert stats.items() <= our_stat.items()
        keys = ("extraMetadata", "operationType", "compacted", "partitionToReplaceFileIds")
        assert {k: ours.get(k) for k in keys} == {k: theirs.get(k) for k in keys}
        sizes = facts(name)["files"]
        for stat in read.stats():
            assert sizes.get(stat.path, stat.file_size_in_bytes) == stat.file_size_in_bytes


def test_the_smallest_commit_is_read():
    data = b'{"partitionToWriteStats": {"": [{"fileId": "a-0", "path": "a-0_0-0-0_1.parquet", "numWrites": 4}]}}'
    [stat] = CommitMetadata.from_json(data, "p").stats()
    assert stat == WriteStat(file_id="a-0", path="a-0_0-0-0_1.parquet", num_writes=4)
    assert stat.prev_commit == "null"
    assert CommitMetadata.from_json(b"", "p") == CommitMetadata()


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b'{"compacted": tru', 14),
        ('{"operationType": "é", }'.encode(), 24),
        (b'{"a": "\xff"}', 7),
        (b"[]", 0),
        (b"7", 0),
        (b'{"partitionToWriteStats": {"p": [7]}}', 0),
        (b'{"partitionToWriteStats": {"p": [{"fileId": 7}]}}', 0),
        (b'{"partitionToWriteStats": {"p": [{"numWrites": "7"}]}}', 0),
        (b'{"extraMetadata": {"schema": 5}}', 0),
        (b'{"partitionToReplaceFileIds": {"p": "abc"}}', 0),
        (b'{"partitionToReplaceFileIds": {"p": [1]}}', 0),
        (b'{"a": ' + b"1" * 5000 + b"}", 0),
        (b"[" * 100_000, 0),
    ],
)
def test_damaged_commits_name_file_and_place(data, offset):
    with pytest.raises(CorruptFileError, match=r"^\.hoodie/1\.commit: at byte") as caught:
        CommitMetadata.from_json(data, ".hoodie/1.commit")
    assert caught.value.offset == offset
