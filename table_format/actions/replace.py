"""Requested replacecommits: empty for overwrites, a plan for clustering."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from table_format.actions.avro_schemas import REQUESTED_REPLACE
from table_format.codecs.avro_file import read_avro_record, write_avro_file


@dataclass(slots=True)
class RequestedReplaceMetadata:
    """What a replacecommit announces.

    Attributes:
        operation: e.g. `CLUSTER`; None for overwrites.
        clustered: (partition path, file id) of the file groups that a clustering plan takes as its input.
    """

    operation: str | None = None
    clustered: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_clustering(self) -> bool:
        """Whether this is a table service's plan rather than somebody's write."""
        return self.operation == "CLUSTER" or bool(self.clustered)

    def to_avro(self) -> bytes:
        """The content of the requested file of an overwrite: a record of nulls, as Apache writes it."""
        return write_avro_file(REQUESTED_REPLACE, [{"version": None}])

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> RequestedReplaceMetadata:
        """Read a requested file; an empty one announces nothing.

        Raises:
            CorruptFileError: the file is damaged.
        """

        def build(record: dict[str, Any]) -> RequestedReplaceMetadata:
            plan = record.get("clusteringPlan") or {}
            slices = [s for group in plan.get("inputGroups") or [] for s in group.get("slices") or []]
            return cls(
                operation=record.get("operationType"),
                clustered=[(s.get("partitionPath") or "", s.get("fileId") or "") for s in slices],
            )

        return read_avro_record(data, path, build) if data else cls()
