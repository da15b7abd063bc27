"""Clustering plans: which file groups a clustering is to rewrite into new ones."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any

from table_format.codecs.avro_file import read_avro_record


@dataclass(slots=True)
class ClusteringSlice:
    """One file slice that a clustering takes as its input; names without folders."""

    partition: str
    file_id: str
    base_file: str | None = None
    log_files: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ClusteringPlan:
    """What a requested clustering announces; until it completes, readers go on reading its input.

    Attributes:
        groups: slices that are rewritten together.
        strategy: class name of the execution strategy.
        preserves_times: rows keep the commit time at which they were written.
    """

    groups: list[list[ClusteringSlice]] = field(default_factory=list)
    strategy: str | None = None
    preserves_times: bool = True

    @property
    def file_groups(self) -> list[tuple[str, str]]:
        """(partition path, file id) of all input file groups."""
        return [(piece.partition, piece.file_id) for group in self.groups for piece in group]

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
