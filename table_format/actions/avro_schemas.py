"""Avro schemas of the timeline's plans and results (namespace `org.apache.hudi.avro.model`).

Readers and writers share them, so plans that only a writer encodes are in this folder too.
"""

from __future__ import annotations

from typing import Any, Final

_NAMESPACE: Final = "org.apache.hudi.avro.model"
_STRING_ARRAY: Final = {"type": "array", "items": "string"}
_VERSION: Final = {"name": "version", "type": ["int", "null"], "default": 1}
Schema = dict[str, Any]


def _record(name: str, *fields: Schema) -> Schema:
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": list(fields)}


def _field(name: str, kind: Any) -> Schema:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None}


def _map(values: Any) -> Schema:
    return {"type": "map", "values": values}


_INSTANT_INFO: Final = _record("HoodieInstantInfo", _field("commitTime", "string"), _field("action", "string"))

CLEANER_PLAN: Final = _record(
    "HoodieCleanerPlan",
    _optional(
        "earliestInstantToRetain",
        _record(
            "HoodieActionInstant", _field("timestamp", "string"), _field("action", "string"), _field("state", "string")
        ),
    ),
    {"name": "lastCompletedCommitTimestamp", "type": "string", "default": ""},
    _field("policy", "string"),
    _optional("filesToBeDeletedPerPartition", _map(_STRING_ARRAY)),
    _VERSION,
    _optional(
        "filePathsToBeDeletedPerPartition",
        _map(
            {
                "type": "array",
                "items": _record(
                    "HoodieCleanFileInfo", _optional("filePath", "string"), _optional("isBootstrapBaseFile", "boolean")
                ),
            }
        ),
    ),
    _optional("partitionsToBeDeleted", _STRING_ARRAY),
    _optional("extraMetadata", _map("string")),
)

_CLEAN_PARTITION: Final = _record(
    "HoodieCleanPartitionMetadata",
    _field("partitionPath", "string"),
    _field("policy", "string"),
    _field("deletePathPatterns", _STRING_ARRAY),
    _field("successDeleteFiles", _STRING_ARRAY),
    _field("failedDeleteFiles", _STRING_ARRAY),
    _optional("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = _record(
    "HoodieCleanMetadata",
    _field("startCleanTime", "string"),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("earliestCommitToRetain", "string"),
    {"name": "lastCompletedCommitTimestamp", "type": "string", "default": ""},
    _field("partitionMetadata", _map(_CLEAN_PARTITION)),
    _VERSION,
    _optional("bootstrapPartitionMetadata", _map(f"{_NAMESPACE}.HoodieCleanPartitionMetadata")),
    _optional("extraMetadata", _map("string")),
)

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT_INFO),
    _optional(
        "RollbackRequests",
        {
            "type": "array",
            "items": _record(
                "HoodieRollbackRequest",
                _field("partitionPath", "string"),
                _optional("fileId", "string"),
                _optional("latestBaseInstant", "string"),
                {"name": "filesToBeDeleted", "type": _STRING_ARRAY, "default": []},
                _optional("logBlocksToBeDeleted", _map("long")),
            ),
        },
    ),
    _VERSION,
)

ROLLBACK_METADATA: Final = _record(
    "HoodieRollbackMetadata",
    _field("startRollbackTime", "string"),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("commitsRollback", _STRING_ARRAY),
    _field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                _field("partitionPath", "string"),
                _field("successDeleteFiles", _STRING_ARRAY),
                _field("failedDeleteFiles", _STRING_ARRAY),
                _optional("rollbackLogFiles", _map("long")),
                _optional("logFilesFromFailedCommit", _map("long")),
            )
        ),
    ),
    _VERSION,
    {"name": "instantsRollback", "type": {"type": "array", "items": _INSTANT_INFO}, "default": []},
)

RESTORE_PLAN: Final = _record(
    "HoodieRestorePlan",
    {"name": "instantsToRollback", "type": {"type": "array", "items": _INSTANT_INFO}, "default": []},
    {"name": "version", "type": ["int", "null"], "default": 2},
    _optional("savepointToRestoreTimestamp", "string"),
)

RESTORE_METADATA: Final = _record(
    "HoodieRestoreMetadata",
    _field("startRestoreTime", "string"),
    _field("timeTakenInMillis", "long"),
    _field("instantsToRollback", _STRING_ARRAY),
    _field("hoodieRestoreMetadata", _map({"type": "array", "items": ["null", ROLLBACK_METADATA]})),
    _VERSION,
    {
        "name": "restoreInstantInfo",
        "type": {"type": "array", "items": f"{_NAMESPACE}.HoodieInstantInfo"},
        "default": [],
    },
)

SAVEPOINT_METADATA: Final = _record(
    "HoodieSavepointMetadata",
    _field("savepointedBy", "string"),
    _field("savepointedAt", "long"),
    _field("comments", "string"),
    _field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieSavepointPartitionMetadata",
                _field("partitionPath", "string"),
                _field("savepointDataFile", _STRING_ARRAY),
            )
        ),
    ),
    _VERSION,
)

_SLICE_INFO: Final = _record(
    "HoodieSliceInfo",
    _optional("dataFilePath", "string"),
    _optional("deltaFilePaths", _STRING_ARRAY),
    _field("fileId", ["null", "string"]),
    _optional("partitionPath", "string"),
    _optional("bootstrapFilePath", "string"),
    _VERSION,
)

_CLUSTERING_PLAN: Final = _record(
    "HoodieClusteringPlan",
    _optional(
        "inputGroups",
        {
            "type": "array",
            "items": _record(
                "HoodieClusteringGroup",
                _optional("slices", {"type": "array", "items": _SLICE_INFO}),
                _optional("metrics", _map("double")),
                {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
                _optional("extraMetadata", _map("string")),
                _VERSION,
            ),
        },
    ),
    _optional(
        "strategy",
        _record(
            "HoodieClusteringStrategy",
            _optional("strategyClassName", "string"),
            _optional("strategyParams", _map("string")),
            _VERSION,
        ),
    ),
    _optional("extraMetadata", _map("string")),
    _VERSION,
    _optional("preserveHoodieMetadata", "boolean"),
)

REQUESTED_REPLACE: Final = _record(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", "string"),
    _optional("clusteringPlan", _CLUSTERING_PLAN),
    _optional("extraMetadata", _map("string")),
    _VERSION,
)

COMPACTION_PLAN: Final = _record(
    "HoodieCompactionPlan",
    _optional(
        "operations",
        {
            "type": "array",
            "items": _record(
                "HoodieCompactionOperation",
                _field("baseInstantTime", ["null", "string"]),
                _optional("deltaFilePaths", _STRING_ARRAY),
                _optional("dataFilePath", "string"),
                _field("fileId", ["null", "string"]),
                _optional("partitionPath", "string"),
                _optional("metrics", _map("double")),
                _optional("bootstrapFilePath", "string"),
            ),
        },
    ),
    _optional("extraMetadata", _map("string")),
    _VERSION,
    _optional(
        "strategy",
        _record(
            "HoodieCompactionStrategy",
            _optional("compactorClassName", "string"),
            _optional("strategyParams", _map("string")),
            _VERSION,
        ),
    ),
    {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
)
