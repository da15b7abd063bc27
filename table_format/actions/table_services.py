"""Plans and results of table services: clean, compaction, clustering."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from table_format.actions.avro_schemas import CLEAN_METADATA, CLEANER_PLAN, REQUESTED_REPLACE
from table_format.codecs.avro_file import AvroContent, read_avro_record, write_avro_file
from table_format.instant import Instant, State

#: Key of the times of savepoints in the extra metadata of a clean's plan and result, since Apache Hudi 0.15.0.
_SAVEPOINTS: Final = "savepointed_timestamps"


@dataclass(slots=True)
class CleanerPlan(AvroContent):
    """Requested clean: the files to delete.

    Attributes:
        policy: `KEEP_LATEST_COMMITS`, `KEEP_LATEST_BY_HOURS` or `KEEP_LATEST_FILE_VERSIONS`.
        files: paths relative to the table's base folder, by partition path (absolute in the file, as Apache has them).
        earliest_instant: the oldest instant that readers may still ask for, if the policy has one.
        last_completed_commit: the newest completed write when the plan was made.
        partitions_to_delete: partitions that are deleted with all their files.
        savepoints: times of the savepoints whose files were kept (Apache's `savepointed_timestamps`): once one of them
            is deleted, the next clean has to look at the partitions that it held files of.
    """

    policy: str
    files: dict[str, list[str]] = field(default_factory=dict)
    earliest_instant: Instant | None = None
    last_completed_commit: str = ""
    partitions_to_delete: list[str] = field(default_factory=list)
    savepoints: list[str] = field(default_factory=list)

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
            "extraMetadata": _extra(self.savepoints),
        }
        return write_avro_file(CLEANER_PLAN, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
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
            savepoints=_savepoints(record),
        )


@dataclass(slots=True)
class CleanPartition:
    """Names of the files that a clean deleted in one partition."""

    policy: str
    patterns: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    partition_deleted: bool = False


@dataclass(slots=True)
class CleanMetadata(AvroContent):
    """Result of a clean.

    Attributes:
        start_time: its instant.
        millis: how long it took.
        earliest_commit_to_retain: see `CleanerPlan.earliest_instant`; empty without one.
        partitions: by partition path.
        savepoints: see `CleanerPlan.savepoints`.
    """

    start_time: str
    millis: int
    earliest_commit_to_retain: str = ""
    last_completed_commit: str = ""
    partitions: dict[str, CleanPartition] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)

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
            "extraMetadata": _extra(self.savepoints),
        }
        return write_avro_file(CLEAN_METADATA, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From a `HoodieCleanMetadata` record."""
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
            savepoints=_savepoints(record),
        )


def _extra(savepoints: Iterable[str]) -> dict[str, str]:
    text = ",".join(savepoints)
    return {_SAVEPOINTS: text} if text else {}


def _savepoints(record: Mapping[str, Any]) -> list[str]:
    text = (record.get("extraMetadata") or {}).get(_SAVEPOINTS) or ""
    return [time.strip() for time in text.split(",") if time.strip()]


@dataclass(slots=True)
class CompactionOperation:
    """One file slice to merge.

    Attributes:
        base_instant: of the slice.
        base_file: name of its base file; None if it has only logs.
        log_files: names of its log files.
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None = None
    log_files: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CompactionPlan(AvroContent):
    """Requested compaction or log compaction: the file slices to merge, by file names (version 1 has whole paths)."""

    operations: list[CompactionOperation] = field(default_factory=list)

    @property
    def file_groups(self) -> Iterable[tuple[str, str]]:
        """(partition path, file id) of the file groups to be compacted."""
        return ((operation.partition, operation.file_id) for operation in self.operations)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        return cls([_operation(operation) for operation in record.get("operations") or []])


def _operation(record: dict[str, Any]) -> CompactionOperation:
    base = record.get("dataFilePath")
    return CompactionOperation(
        partition=record.get("partitionPath") or "",
        file_id=record["fileId"],
        base_instant=record["baseInstantTime"],
        base_file=posixpath.basename(base) if base else None,
        log_files=[posixpath.basename(path) for path in record.get("deltaFilePaths") or []],
    )


@dataclass(slots=True)
class ClusteringSlice:
    """One file slice that a clustering takes as its input; names without folders."""

    partition: str
    file_id: str
    base_file: str | None = None
    log_files: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ClusteringPlan:
    """Requested clustering: the file slices to rewrite. Readers use these slices until it completes.

    Attributes:
        groups: slices that are rewritten together.
        strategy: class name of the execution strategy.
        preserves_times: rows keep the commit time at which they were written.
        outputs: of each group, the number of file groups into which its rows go.
        parameters: of the strategy, by Apache's option keys.
        extra: metadata of the request.
    """

    groups: list[list[ClusteringSlice]] = field(default_factory=list)
    strategy: str | None = None
    preserves_times: bool = True
    outputs: list[int] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def file_groups(self) -> list[tuple[str, str]]:
        """(partition path, file id) of all input file groups."""
        return [(piece.partition, piece.file_id) for group in self.groups for piece in group]

    def to_avro(self, full_uri: Callable[[str], str]) -> bytes:
        """The content of a requested replacecommit, as Apache writes it.

        Args:
            full_uri: the URI of a path in the table.
        """

        def piece(part: ClusteringSlice) -> dict[str, Any]:
            return {
                "dataFilePath": full_uri(posixpath.join(part.partition, part.base_file)) if part.base_file else "",
                "deltaFilePaths": [full_uri(posixpath.join(part.partition, name)) for name in part.log_files],
                "fileId": part.file_id,
                "partitionPath": part.partition,
                "bootstrapFilePath": "",
                "version": 1,
            }

        groups = [
            {"slices": list(map(piece, group)), "metrics": {}, "numOutputFileGroups": outputs, "version": 1}
            for group, outputs in zip(self.groups, self.outputs, strict=True)
        ]
        plan = {
            "inputGroups": groups,
            "strategy": {"strategyClassName": self.strategy, "strategyParams": self.parameters, "version": 1},
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": self.preserves_times,
        }
        record = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": self.extra, "version": 1}
        return write_avro_file(REQUESTED_REPLACE, [record])

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> ClusteringPlan | None:
        """Read a requested replacecommit or clustering; None for one that plans no clustering, such as an overwrite.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """

        def build(record: dict[str, Any]) -> ClusteringPlan | None:
            plan = record.get("clusteringPlan")
            if plan is None:
                return None
            groups = plan.get("inputGroups") or []
            return cls(
                groups=[[_slice(piece) for piece in group.get("slices") or []] for group in groups],
                strategy=(plan.get("strategy") or {}).get("strategyClassName"),
                preserves_times=plan.get("preserveHoodieMetadata") is not False,
                outputs=[group.get("numOutputFileGroups") or 1 for group in groups],
                parameters=dict((plan.get("strategy") or {}).get("strategyParams") or {}),
                extra=dict(record.get("extraMetadata") or {}),
            )

        return read_avro_record(data, path, build) if data else None


def _slice(record: dict[str, Any]) -> ClusteringSlice:
    base = record.get("dataFilePath")
    return ClusteringSlice(
        partition=record.get("partitionPath") or "",
        file_id=record["fileId"],
        base_file=posixpath.basename(base) if base else None,
        log_files=[posixpath.basename(path) for path in record.get("deltaFilePaths") or []],
    )
