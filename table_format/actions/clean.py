"""Cleaner plans and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from table_format.actions.avro_schemas import CLEAN_METADATA, CLEANER_PLAN
from table_format.codecs.avro_file import read_avro_record, write_avro_file
from table_format.instant import Instant, State


@dataclass(slots=True)
class CleanerPlan:
    """What a clean is to delete.

    Attributes:
        policy: `KEEP_LATEST_COMMITS`, `KEEP_LATEST_BY_HOURS` or `KEEP_LATEST_FILE_VERSIONS`.
        files: paths relative to the table's base folder, by partition path (absolute in the file, as Apache has them).
        earliest_instant: the oldest instant that readers may still ask for, if the policy has one.
        last_completed_commit: the newest completed write when the plan was made.
        partitions_to_delete: partitions whose every file goes.
    """

    policy: str
    files: dict[str, list[str]] = field(default_factory=dict)
    earliest_instant: Instant | None = None
    last_completed_commit: str = ""
    partitions_to_delete: list[str] = field(default_factory=list)

    def to_avro(self) -> bytes:
        """The content of the requested and the inflight file."""
        earliest = self.earliest_instant
        record = {
            "earliestInstantToRetain": earliest
            and {"timestamp": earliest.time, "action": earliest.action, "state": earliest.state.name},
            "lastCompletedCommitTimestamp": self.last_completed_commit,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {
                partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
                for partition, paths in self.files.items()
            },
            "partitionsToBeDeleted": self.partitions_to_delete,
            "extraMetadata": {},
        }
        return write_avro_file(CLEANER_PLAN, [record])

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> CleanerPlan:
        """Read a plan.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """

        def build(record: dict[str, Any]) -> CleanerPlan:
            earliest = record.get("earliestInstantToRetain")
            return cls(
                policy=record["policy"],
                files={
                    partition: [entry["filePath"] for entry in entries]
                    for partition, entries in (record.get("filePathsToBeDeletedPerPartition") or {}).items()
                },
                earliest_instant=earliest
                and Instant(earliest["timestamp"], earliest["action"], State[earliest["state"].upper()]),
                last_completed_commit=record.get("lastCompletedCommitTimestamp") or "",
                partitions_to_delete=list(record.get("partitionsToBeDeleted") or []),
            )

        return read_avro_record(data, path, build)


@dataclass(slots=True)
class CleanPartition:
    """What a clean deleted in one partition: file names."""

    policy: str
    patterns: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    partition_deleted: bool = False


@dataclass(slots=True)
class CleanMetadata:
    """What a clean did.

    Attributes:
        start_time: its instant.
        millis: how long it took.
        earliest_commit_to_retain: see `CleanerPlan.earliest_instant`; empty without one.
        partitions: by partition path.
    """

    start_time: str
    millis: int
    earliest_commit_to_retain: str = ""
    last_completed_commit: str = ""
    partitions: dict[str, CleanPartition] = field(default_factory=dict)

    @property
    def total_files_deleted(self) -> int:
        """Files deleted in all partitions."""
        return sum(len(partition.deleted) for partition in self.partitions.values())

    def to_avro(self) -> bytes:
        """The content of the completed file."""
        record = {
            "startCleanTime": self.start_time,
            "timeTakenInMillis": self.millis,
            "totalFilesDeleted": self.total_files_deleted,
            "earliestCommitToRetain": self.earliest_commit_to_retain,
            "lastCompletedCommitTimestamp": self.last_completed_commit,
            "partitionMetadata": {
                path: {
                    "partitionPath": path,
                    "policy": part.policy,
                    "deletePathPatterns": part.patterns,
                    "successDeleteFiles": part.deleted,
                    "failedDeleteFiles": part.failed,
                    # Apache 0.15 unboxes it: never null
                    "isPartitionDeleted": part.partition_deleted,
                }
                for path, part in self.partitions.items()
            },
            "version": 2,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": {},
        }
        return write_avro_file(CLEAN_METADATA, [record])

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> CleanMetadata:
        """Read a result.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """
        return read_avro_record(data, path, cls.of)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> CleanMetadata:
        """From a `HoodieCleanMetadata` record; raises KeyError or TypeError for one of another shape."""
        return cls(
            start_time=record["startCleanTime"],
            millis=record["timeTakenInMillis"],
            earliest_commit_to_retain=record["earliestCommitToRetain"],
            last_completed_commit=record.get("lastCompletedCommitTimestamp") or "",
            partitions={
                partition: CleanPartition(
                    policy=values["policy"],
                    patterns=list(values["deletePathPatterns"]),
                    deleted=list(values["successDeleteFiles"]),
                    failed=list(values["failedDeleteFiles"]),
                    partition_deleted=bool(values.get("isPartitionDeleted")),
                )
                for partition, values in record["partitionMetadata"].items()
            },
        )
