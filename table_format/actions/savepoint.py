"""Savepoints: instants whose files no table service may delete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from table_format.codecs.avro_file import read_avro_record


@dataclass(slots=True)
class SavepointMetadata:
    """What a savepoint holds.

    Attributes:
        saved_by: whoever made it.
        saved_at_ms: when, in milliseconds since the epoch.
        comments: free text.
        files: names of the data files that must stay, by partition path.
    """

    saved_by: str
    saved_at_ms: int
    comments: str
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> SavepointMetadata:
        """Read a completed savepoint.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """

        def build(record: dict[str, Any]) -> SavepointMetadata:
            return cls(
                saved_by=record["savepointedBy"],
                saved_at_ms=record["savepointedAt"],
                comments=record["comments"],
                files={
                    partition: list(values["savepointDataFile"])
                    for partition, values in record["partitionMetadata"].items()
                },
            )

        return read_avro_record(data, path, build)
