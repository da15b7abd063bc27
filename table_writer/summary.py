"""Summary of a write, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from table_format.actions.commit import WriteStat
from table_writer.files.file_change import EncodedWork
from table_writer.plan.operations import Operation

_DELETES: Final = (Operation.DELETE.value, Operation.DELETE_PARTITION.value)


@dataclass(frozen=True)
class WriteSummary:
    """Result of a write.

    Attributes:
        table: name of the table.
        operation: e.g. `upsert`.
        instant: of the commit.
        rows_inserted: rows with new keys.
        rows_updated: rows whose values were replaced.
        rows_deleted: rows that were deleted, without those of replaced file groups.
        files_written: new base files.
        groups_replaced: file groups taken out of the table by an overwrite or a deletion of partitions.
        bytes_written: size of the new base files.
        seconds: from start to end.
        partitions: partitions with new files.
        files_spliced: new files that were made by row-group surgery.
        bytes_encoded: of column chunks that were encoded, compressed; of all new files.
        bytes_copied: of column chunks that were copied from the previous files.
        chunks_encoded: column chunks that were encoded, the file name of each row group among them.
        groups_touched: changed row groups; all of them in files that were rewritten whole.
        replayed: whether nothing was written, since the batch is committed already, by `instant`.
    """

    table: str
    operation: str
    instant: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_written: int = 0
    groups_replaced: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    partitions: int = 0
    files_spliced: int = 0
    bytes_encoded: int = 0
    bytes_copied: int = 0
    chunks_encoded: int = 0
    groups_touched: int = 0
    replayed: bool = False

    @classmethod
    def of(
        cls,
        table: str,
        operation: str,
        instant: str,
        stats: Iterable[WriteStat],
        *,
        replaced: int,
        seconds: float,
        works: Iterable[EncodedWork] = (),
    ) -> WriteSummary:
        """Add up write stats, and the work on each file."""
        stats = list(stats)
        work = EncodedWork.total(works)
        return cls(
            table=table,
            operation=operation,
            instant=instant,
            rows_inserted=sum(stat.num_inserts for stat in stats),
            rows_updated=sum(stat.num_update_writes for stat in stats),
            rows_deleted=sum(stat.num_deletes for stat in stats),
            files_written=len(stats),
            groups_replaced=replaced,
            bytes_written=sum(stat.file_size_in_bytes for stat in stats),
            seconds=seconds,
            partitions=len({stat.partition_path for stat in stats}),
            files_spliced=work.spliced,
            bytes_encoded=work.bytes_encoded,
            bytes_copied=work.bytes_copied,
            chunks_encoded=work.chunks_encoded,
            groups_touched=work.groups_touched,
        )

    def __str__(self) -> str:
        if self.replayed:
            return f"{self._title()}: nothing written, instant {self.instant} holds this batch"
        return (
            f"{self._title()}, instant {self.instant}: {counted(self.rows_inserted, 'row')} inserted, "
            f"{self.rows_updated:,} updated, {self.rows_deleted:,} deleted; {self._files()}, "
            f"{self.bytes_written / 1e6:,.1f} MB{self._surgery()}, {self.seconds:.1f} s"
        )

    def _title(self) -> str:
        return f"{self.operation} {'from' if self.operation in _DELETES else 'into'} {self.table}"

    def _files(self) -> str:
        replaced = f"{counted(self.groups_replaced, 'file group')} replaced, " if self.groups_replaced else ""
        return replaced + counted(self.files_written, "file")

    def _surgery(self) -> str:
        if not self.files_spliced:
            return ""
        return (
            f" ({self.bytes_encoded / 1e6:,.1f} MB of it encoded, {self.chunks_encoded:,} column chunks in "
            f"{self.groups_touched:,} row groups)"
        )

    def __rich__(self) -> Table:
        """The summary as a table for the terminal."""
        table = Table(title=f"{self._title()}, instant {self.instant}", title_justify="left")
        table.add_column("rows inserted", justify="right")
        table.add_column("updated", justify="right")
        table.add_column("deleted", justify="right")
        table.add_column("files", justify="right")
        table.add_column("MB", justify="right")
        table.add_column("seconds", justify="right")
        cells = [f"{count:,}" for count in (self.rows_inserted, self.rows_updated, self.rows_deleted)]
        cells += [f"{self.files_written:,}", f"{self.bytes_written / 1e6:,.1f}", f"{self.seconds:.1f}"]
        if self.files_spliced:
            for name, cell in (
                ("MB encoded", f"{self.bytes_encoded / 1e6:,.1f}"),
                ("column chunks", f"{self.chunks_encoded:,}"),
                ("row groups", f"{self.groups_touched:,}"),
            ):
                table.add_column(name, justify="right")
                cells.append(cell)
        if self.groups_replaced:
            table.add_column("file groups replaced", justify="right")
            cells.append(f"{self.groups_replaced:,}")
        table.add_row(*cells)
        return table


def counted(number: int, noun: str) -> str:
    """A number of things, as text: `1 file`, `1,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
