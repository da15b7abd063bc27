"""What a write did, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from table_format.actions.commit import WriteStat


@dataclass(frozen=True)
class WriteSummary:
    """What a write did.

    Attributes:
        table: name of the table.
        operation: e.g. `upsert`.
        instant: of the commit.
        rows_inserted: rows with new keys.
        rows_updated: rows whose values were replaced.
        rows_deleted: rows that went; not those of replaced file groups.
        files_written: new base files.
        groups_replaced: file groups taken out of the table by an overwrite or a deletion of partitions.
        bytes_written: their size.
        seconds: from start to end.
        partitions: partitions with new files.
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

    @classmethod
    def of(
        cls, table: str, operation: str, instant: str, stats: Iterable[WriteStat], *, replaced: int, seconds: float
    ) -> WriteSummary:
        """Add up write stats."""
        stats = list(stats)
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
        )

    def __str__(self) -> str:
        return (
            f"{self.operation} into {self.table}, instant {self.instant}: {self.rows_inserted:,} rows inserted, "
            f"{self.rows_updated:,} updated, {self.rows_deleted:,} deleted; {self.files_written:,} files, "
            f"{self.bytes_written / 1e6:,.1f} MB, {self.seconds:.1f} s"
        )

    def __rich__(self) -> Table:
        """The summary as a table for the terminal."""
        table = Table(title=f"{self.operation} into {self.table}, instant {self.instant}", title_justify="left")
        table.add_column("rows inserted", justify="right")
        table.add_column("updated", justify="right")
        table.add_column("deleted", justify="right")
        table.add_column("files", justify="right")
        table.add_column("MB", justify="right")
        table.add_column("seconds", justify="right")
        cells = [f"{count:,}" for count in (self.rows_inserted, self.rows_updated, self.rows_deleted)]
        cells += [f"{self.files_written:,}", f"{self.bytes_written / 1e6:,.1f}", f"{self.seconds:.1f}"]
        if self.groups_replaced:
            table.add_column("file groups replaced", justify="right")
            cells.append(f"{self.groups_replaced:,}")
        table.add_row(*cells)
        return table
