"""Restores to a savepoint, which are rollbacks of every later instant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from table_format.codecs.avro_file import read_avro_record


@dataclass(slots=True)
class RestoreMetadata:
    """What a restore did.

    Attributes:
        start_time: its instant.
        commits: times of the instants that it took back.
    """

    start_time: str
    commits: list[str] = field(default_factory=list)

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> RestoreMetadata:
        """Read a result.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """

        def build(record: dict[str, Any]) -> RestoreMetadata:
            times = list(record["instantsToRollback"])
            for rollbacks in (record.get("hoodieRestoreMetadata") or {}).values():
                times += [time for rollback in rollbacks if rollback for time in rollback["commitsRollback"]]
            return cls(record["startRestoreTime"], sorted(set(times)))

        return read_avro_record(data, path, build)


@dataclass(slots=True)
class RestorePlan:
    """What a restore is to do.

    Attributes:
        savepoint: the instant that the table goes back to; None where the plan does not name it.
    """

    savepoint: str | None = None

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> RestorePlan:
        """Read a requested restore.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """
        return read_avro_record(data, path, lambda record: cls(record.get("savepointToRestoreTimestamp")))
