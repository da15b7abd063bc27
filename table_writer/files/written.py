"""A base file that a task wrote, as it goes to the driver: write stat, column statistics, work, record index delta."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_writer.metadata.index_deltas import DeltaFile


@dataclass(frozen=True, slots=True)
class EncodedWork:
    """How much of a file was encoded, and how much copied from the version before.

    Attributes:
        bytes_encoded: of column chunks that were encoded, compressed.
        bytes_copied: of column chunks that were copied.
        chunks_encoded: how many were encoded; the file name of each row group, a hundred bytes, is among them.
        groups_touched: row groups that took or lost a row, or went; of a file that was written as a whole, all.
        spliced: files that were made by row-group surgery.
    """

    bytes_encoded: int = 0
    bytes_copied: int = 0
    chunks_encoded: int = 0
    groups_touched: int = 0
    spliced: int = 0

    @classmethod
    def total(cls, works: Iterable[EncodedWork]) -> EncodedWork:
        """The sum."""
        rows = [dataclasses.astuple(work) for work in (cls(), *works)]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True)
class WrittenFile:
    """One new base file.

    Attributes:
        stat: for the commit.
        statistics: of its columns, as a table of the metadata table's exchange schema; None without them.
        work: how it was made.
        index_deltas: what its task changed in the record index; on one file of the task.
        inserted: record keys that are new in the file; for the task alone, they do not go to the driver.
        deleted: record keys that the file no longer holds; for the task alone.
    """

    stat: WriteStat
    statistics: pa.Table | None
    work: EncodedWork = EncodedWork()
    index_deltas: tuple[DeltaFile, ...] = ()
    inserted: Any = field(default=None, compare=False)
    deleted: Any = field(default=None, compare=False)
