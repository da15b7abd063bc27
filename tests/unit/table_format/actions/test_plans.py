"""Compaction and clustering plans, as Apache wrote them."""

import pytest

from table_format.actions.table_services import ClusteringPlan, CompactionOperation, CompactionPlan
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import CorruptFileError
from table_writer.timeline.instants import RequestedReplaceMetadata
from tests.support.golden_tables import NEW_NAMES, facts, timeline_files

RELEASES = ["v6_0150", "v8_1020", "v9_1200"]


def _requested(name, action):
    return [(path, data) for path, data in timeline_files(name, f".{action}.requested") if path.endswith("requested")]


@pytest.mark.parametrize("name", [name for name in NEW_NAMES if name.endswith("mor_pending")])
def test_compaction_plans(name):
    [(path, data)] = _requested(name, "compaction")
    plan = CompactionPlan.from_avro(data, path)
    known = {(partition, file_id): rest for partition, file_id, *rest in facts(name)["slices"]}
    assert sorted(plan.file_groups) == sorted(known)
    for operation in plan.operations:
        instant, base, logs = known[operation.partition, operation.file_id]
        assert (operation.base_instant, operation.base_file) == (instant, base)
        assert operation.log_files == logs[: len(operation.log_files)]
        assert 0 < len(operation.log_files) < len(logs), "later logs are not part of the plan"


def test_operations_of_logs_only_and_with_whole_paths():
    schema = {
        "type": "record",
        "name": "HoodieCompactionPlan",
        "fields": [
            {
                "name": "operations",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieCompactionOperation",
                        "fields": [
                            {"name": "baseInstantTime", "type": "string"},
                            {"name": "deltaFilePaths", "type": {"type": "array", "items": "string"}},
                            {"name": "dataFilePath", "type": ["null", "string"]},
                            {"name": "fileId", "type": "string"},
                            {"name": "partitionPath", "type": "string"},
                        ],
                    },
                },
            }
        ],
    }
    operation = {
        "baseInstantTime": "3",
        "deltaFilePaths": ["file:/t/p/.a-0_3.log.1_0-0-0"],
        "dataFilePath": None,
        "fileId": "a-0",
        "partitionPath": "p",
    }
    data = write_avro_file(schema, [{"operations": [operation]}])
    [planned] = CompactionPlan.from_avro(data, "x").operations
    assert planned == CompactionOperation("p", "a-0", "3", None, [".a-0_3.log.1_0-0-0"])


@pytest.mark.parametrize("release", RELEASES)
def test_clustering_plans(release):
    name = f"{release}__overwritten"
    requested = [*_requested(name, "replacecommit"), *_requested(name, "clustering")]
    plans = [ClusteringPlan.from_avro(data, path) for path, data in requested]
    [plan] = [plan for plan in plans if plan]
    assert len(plans) == 3, "two overwrites, which plan no clustering"
    known = {(partition, file_id): rest for partition, file_id, *rest in facts(name)["slices"]}
    assert plan.file_groups
    for group in plan.groups:
        for piece in group:
            _, base, logs = known[piece.partition, piece.file_id]
            assert (piece.base_file, sorted(piece.log_files)) == (base, sorted(logs)), "newest first in plans"
    assert plan.strategy
    assert plan.strategy.endswith("ExecutionStrategy")


@pytest.mark.parametrize("release", RELEASES)
def test_both_readers_of_requested_clusterings_agree(release):
    name = f"{release}__overwritten"
    for path, data in [*_requested(name, "replacecommit"), *_requested(name, "clustering")]:
        plan = ClusteringPlan.from_avro(data, path)
        assert RequestedReplaceMetadata.from_avro(data, path).clustered == (plan.file_groups if plan else [])


def test_damaged_plans():
    assert ClusteringPlan.from_avro(b"", "x") is None
    for read in (ClusteringPlan.from_avro, CompactionPlan.from_avro):
        with pytest.raises(CorruptFileError, match="x"):
            read(b"Obj\x01damaged", "x")
