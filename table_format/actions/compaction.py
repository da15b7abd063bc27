"""Compaction plans: which file slices a compaction is to merge."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from table_format.codecs.avro_file import read_avro_record


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
class CompactionPlan:
    """What a requested compaction, or log compaction, announces."""

    operations: list[CompactionOperation] = field(default_factory=list)

    @property
    def file_groups(self) -> Iterable[tuple[str, str]]:
        """(partition path, file id) of the file groups to be compacted."""
        return ((operation.partition, operation.file_id) for operation in self.operations)

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> CompactionPlan:
        """Read a plan; plans of the first version hold whole paths, of which the names are kept.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """

        def build(record: dict[str, Any]) -> CompactionPlan:
            return cls([_operation(operation) for operation in record.get("operations") or []])

        return read_avro_record(data, path, build)


def _operation(record: dict[str, Any]) -> CompactionOperation:
    base = record.get("dataFilePath")
    return CompactionOperation(
        partition=record.get("partitionPath") or "",
        file_id=record["fileId"],
        base_instant=record["baseInstantTime"],
        base_file=posixpath.basename(base) if base else None,
        log_files=[posixpath.basename(path) for path in record.get("deltaFilePaths") or []],
    )
