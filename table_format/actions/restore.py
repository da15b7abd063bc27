"""Results of restores to a savepoint, which are rollbacks of every later instant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from table_format.avro_file import read_avro_record


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
