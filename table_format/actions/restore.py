"""Plans and results of restores, and savepoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from table_format.actions.avro_schemas import RESTORE_METADATA, RESTORE_PLAN, SAVEPOINT_METADATA
from table_format.actions.rollback import RollbackMetadata
from table_format.codecs.avro_file import AvroContent, write_avro_file

_PLAN_VERSION: Final = 2


@dataclass(slots=True)
class RestoreMetadata(AvroContent):
    """Result of a restore, which rolls back every instant after a savepoint.

    Attributes:
        start_time: its instant.
        commits: times of the instants that it rolled back.
        millis: how long it took.
        rollbacks: what each of them left, newest instant first.
    """

    start_time: str
    commits: list[str] = field(default_factory=list)
    millis: int = 0
    rollbacks: list[RollbackMetadata] = field(default_factory=list)

    @classmethod
    def of_rollbacks(cls, start_time: str, millis: int, rollbacks: list[RollbackMetadata]) -> Self:
        """The result of a restore that consisted of these rollbacks."""
        times = {time for rollback in rollbacks for time in rollback.commits}
        return cls(start_time, sorted(times), millis, rollbacks)

    def to_avro(self) -> bytes:
        """The content of the completed file."""
        instants = [instant for rollback in self.rollbacks for instant in rollback.instants]
        record = {
            "startRestoreTime": self.start_time,
            "timeTakenInMillis": self.millis,
            "instantsToRollback": [time for time, _ in instants],
            "hoodieRestoreMetadata": {one.commits[0]: [one.to_record()] for one in self.rollbacks},
            "version": 1,
            "restoreInstantInfo": [{"commitTime": time, "action": action} for time, action in instants],
        }
        return write_avro_file(RESTORE_METADATA, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        parts = [part for of in (record.get("hoodieRestoreMetadata") or {}).values() for part in of if part]
        rollbacks = [RollbackMetadata.of(part) for part in parts]
        times = {*record["instantsToRollback"], *(time for rollback in rollbacks for time in rollback.commits)}
        rollbacks.sort(key=lambda rollback: rollback.commits, reverse=True)
        return cls(record["startRestoreTime"], sorted(times), int(record.get("timeTakenInMillis") or 0), rollbacks)


@dataclass(slots=True)
class RestorePlan(AvroContent):
    """Requested restore.

    Attributes:
        savepoint: instant to which the table is restored; None if the plan does not name it.
        instants: (time, action) of what it rolls back, newest first.
    """

    savepoint: str | None = None
    instants: list[tuple[str, str]] = field(default_factory=list)

    def to_avro(self) -> bytes:
        """The content of the requested file."""
        record = {
            "instantsToRollback": [{"commitTime": time, "action": action} for time, action in self.instants],
            "version": _PLAN_VERSION,
            "savepointToRestoreTimestamp": self.savepoint,
        }
        return write_avro_file(RESTORE_PLAN, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        infos = record["instantsToRollback"]
        return cls(record.get("savepointToRestoreTimestamp"), [(info["commitTime"], info["action"]) for info in infos])


@dataclass(slots=True)
class SavepointMetadata(AvroContent):
    """A savepoint: table services may not delete its files.

    Attributes:
        saved_by: user who made it.
        saved_at_ms: creation time, in milliseconds since the epoch.
        comments: free text.
        files: names of the data files that must stay, by partition path.
    """

    saved_by: str
    saved_at_ms: int
    comments: str
    files: dict[str, list[str]] = field(default_factory=dict)

    def to_avro(self) -> bytes:
        """The content of the completed file."""
        record = {
            "savepointedBy": self.saved_by,
            "savepointedAt": self.saved_at_ms,
            "comments": self.comments,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": names}
                for partition, names in self.files.items()
            },
            "version": 1,
        }
        return write_avro_file(SAVEPOINT_METADATA, [record])

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record."""
        return cls(
            saved_by=record["savepointedBy"],
            saved_at_ms=record["savepointedAt"],
            comments=record["comments"],
            files={
                partition: list(values["savepointDataFile"])
                for partition, values in record["partitionMetadata"].items()
            },
        )
