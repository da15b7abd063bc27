"""Plans and results of rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from table_format.actions.avro_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from table_format.codecs.avro_file import AvroContent, write_avro_file


@dataclass(slots=True)
class RollbackRequest:
    """Files of one partition that a rollback deletes (absolute paths, as Apache has them)."""

    partition: str
    files: list[str]
    file_id: str = ""
    latest_base_instant: str = ""


@dataclass(slots=True)
class RollbackPlan(AvroContent):
    """Requested rollback: the failed instant's time and action, and the files to delete."""

    instant: str
    action: str
    requests: list[RollbackRequest] = field(default_factory=list)

    def to_avro(self) -> bytes:
        """The content of the requested file."""
        record = {
            "instantToRollback": {"commitTime": self.instant, "action": self.action},
            "RollbackRequests": [
                {
                    "partitionPath": request.partition,
                    "fileId": request.file_id,
                    "latestBaseInstant": request.latest_base_instant,
                    "filesToBeDeleted": request.files,
                    "logBlocksToBeDeleted": {},
                }
                for request in self.requests
            ],
            "version": 1,
        }
        return write_avro_file(ROLLBACK_PLAN, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        return cls(
            instant=record["instantToRollback"]["commitTime"],
            action=record["instantToRollback"]["action"],
            requests=[
                RollbackRequest(
                    partition=request["partitionPath"],
                    files=list(request["filesToBeDeleted"]),
                    file_id=request.get("fileId") or "",
                    latest_base_instant=request.get("latestBaseInstant") or "",
                )
                for request in record.get("RollbackRequests") or []
            ],
        )


@dataclass(slots=True)
class RollbackPartition:
    """Files of one partition that a rollback deleted, and those that it failed to delete."""

    deleted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rollback_log_files: dict[str, int] = field(default_factory=dict)
    failed_log_files: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RollbackMetadata(AvroContent):
    """Result of a rollback.

    Attributes:
        start_time: its instant.
        millis: how long it took.
        instants: (time, action) of what was rolled back.
        partitions: by partition path.
    """

    start_time: str
    millis: int
    instants: list[tuple[str, str]]
    partitions: dict[str, RollbackPartition] = field(default_factory=dict)

    @property
    def commits(self) -> list[str]:
        """The times of the instants rolled back."""
        return [time for time, _ in self.instants]

    def to_avro(self) -> bytes:
        """The content of the completed file."""
        return write_avro_file(ROLLBACK_METADATA, [self.to_record()])

    def to_record(self) -> dict[str, Any]:
        """The record to encode; those of a restore hold several."""
        return {
            "startRollbackTime": self.start_time,
            "timeTakenInMillis": self.millis,
            "totalFilesDeleted": sum(len(partition.deleted) for partition in self.partitions.values()),
            "commitsRollback": self.commits,
            "partitionMetadata": {
                path: {
                    "partitionPath": path,
                    "successDeleteFiles": part.deleted,
                    "failedDeleteFiles": part.failed,
                    # empty maps, not null: Apache's metadata table code walks them
                    "rollbackLogFiles": part.rollback_log_files,
                    "logFilesFromFailedCommit": part.failed_log_files,
                }
                for path, part in self.partitions.items()
            },
            "version": 1,
            "instantsRollback": [{"commitTime": time, "action": action} for time, action in self.instants],
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        infos = record.get("instantsRollback") or []
        return cls(
            start_time=record["startRollbackTime"],
            millis=record["timeTakenInMillis"],
            instants=[(info["commitTime"], info["action"]) for info in infos]
            or [(time, "commit") for time in record["commitsRollback"]],
            partitions={
                partition: RollbackPartition(
                    deleted=list(values["successDeleteFiles"]),
                    failed=list(values["failedDeleteFiles"]),
                    rollback_log_files=dict(values.get("rollbackLogFiles") or {}),
                    failed_log_files=dict(values.get("logFilesFromFailedCommit") or {}),
                )
                for partition, values in record["partitionMetadata"].items()
            },
        )
